"""One self-contained page of HTML: the answer card, the figures, the constants with their sources, the command.

A command's own module (`decode_page.py`, `collective_page.py`, `fit_page.py`) makes a `Page` from its answer; this one
only draws it. To give another command `-o`, make a `Page` in `<command>_page.py` from figures of `report.figures` and
pass a function that returns it to `export.write(path, make, command=...)`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.catalog import store
from nhalf.catalog.files import sources
from nhalf.printable import shown, shown_json
from nhalf.report.figures.figure import config, needed
from nhalf.report.view import percent
from nhalf.report.words import input_name, link_name
from nhalf.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nhalf.citation import Datum
    from nhalf.decide.levers import Lever
    from nhalf.loading import Default
    from nhalf.report.figures.figure import Figure
    from nhalf.scenario import Scenario
    from nhalf.system import System


MATTERS: Final = 0.01
"""A constant stands in the first table when one per cent of it moves the answer by at least 0.01 %."""
_KINDS: Final = ("assumed", "fitted", "derived", "measured", "datasheet", "given")


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """What a change would save, as a part [1] of the whole, with the words for it."""

    label: str
    share: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One number of the answer: what it is of, the number, what stands beside it, and what changes would save of it."""

    label: str
    number: str
    beside: tuple[str, ...] = ()
    meters: Sequence[Meter] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of text: heads, of which `<` marks text to the left, and rows."""

    heads: tuple[str, ...]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Lines to copy, such as a command, under a small title."""

    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page: figures that belong together, with what they say; `key` is its name for `-o NAME.svg`."""

    key: str
    title: str
    lead: str = ""
    figures: Sequence[Figure] = ()
    table: Table | None = None
    code: Sequence[Code] = ()
    expert: bool = False
    """Whether it is folded: what only some readers want."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A number that the answer rests on, and by how much (d ln answer / d ln number), where that is known."""

    path: str
    datum: Datum
    share: float | None = None


def constants(scenario: Scenario, shares: Mapping[str, float], system: str = "") -> list[Constant]:
    """Return the numbers that a scenario rests on; of several systems, each path with its `system`."""
    prefix = f"{system}: " if system else ""
    return [
        Constant(path=f"{prefix}{path}", datum=datum, share=shares.get(path))
        for path, datum in scenario.origins.items()
    ]


def meters(levers: Sequence[Lever], system: System) -> list[Meter]:
    """Return what a wider and a quicker link would save, and the best of the other changes."""
    link = link_name(system, "intra_node")
    links = [lever for lever in levers if lever.path.startswith("system.fabric")]
    others = sorted((lever for lever in levers if lever not in links), key=lambda lever: -lever.gain)
    return [
        Meter(label=lever.name.replace("in-node link", link), share=lever.gain, text=percent(lever.gain))
        for lever in (*links, *others[:1])
    ]


def notes(warnings: Sequence[str], defaults: Sequence[Default]) -> list[str]:
    """Return warnings and defaults in words."""
    return [*warnings, *(f"{each.flag} {each.value}: {each.reason}" for each in defaults)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """All that is shown: `verdict` in paragraphs, of which the first sentence is the answer; `workload` is of what."""

    title: str
    workload: str = ""
    verdict: Sequence[str]
    cards: Sequence[Card] = ()
    sections: Sequence[Section] = ()
    constants: Sequence[Constant] = ()
    notes: Sequence[str] = ()

    @property
    def figures(self) -> list[Figure]:
        """Return all figures."""
        return [figure for section in self.sections for figure in section.figures]


def html(page: Page, *, command: str, bundle: str) -> str:
    """Return the page; `bundle` is the JavaScript that draws (`export.bundle()`), `command` what the user typed.

    Raises
    ------
    InputError
        Jinja is not installed.
    """
    jinja: Any = needed("jinja2", "jinja2")
    loader = jinja.PackageLoader("nhalf", "report/templates")
    environment = jinja.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True,
                                    finalize=_printable)  # fmt: skip
    environment.filters |= {"prose": prose, "code": code}
    matter, others = _constants(page.constants)
    answer, after = _first_sentence(page.verdict[0]) if page.verdict else ("", "")
    rest = ("", after.strip())
    text: str = environment.get_template("page.html").render(
        page=page,
        answer=answer,
        more=[rest, *map(_first_sentence, page.verdict[1:])] if rest[1] else [*map(_first_sentence, page.verdict[1:])],
        command=command,
        bundle=bundle,
        drawings=_for_script({figure.key: _drawing(figure) for figure in page.figures}),
        tables={figure.key: _as_table(figure.rows) for figure in page.figures},
        matter=matter,
        rest=others,
        version=VERSION,
        catalog=store.catalog_version(),
    )
    return text


def _first_sentence(paragraph: str) -> tuple[str, str]:
    """Return the first sentence of a paragraph, which is set in bold, and the rest."""
    found = re.match(r".+?[.!](?= [\"A-Z0-9]|$)", paragraph)
    return (found[0], paragraph[found.end() :]) if found else (paragraph, "")


def _drawing(figure: Figure) -> dict[str, Any]:
    """Return what the page's script needs of a figure: its Vega specification and the rows of its table."""
    converter: Any = needed("vl_convert", "vl-convert-python")
    spec = {**figure.chart.to_dict(validate=False), "config": config(), "description": figure.text}
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    drawn = {"spec": converter.vegalite_to_vega(spec), "rows": list(figure.rows), "title": figure.title}
    return drawn if figure.moves is None else {**drawn, "grids": figure.moves["grids"]}


def _for_script(value: object) -> str:
    """Return a value as JSON that cannot end the script element it stands in."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=float)
    return shown_json(text).replace("<", "\\u003c")


def _printable(value: object) -> object:
    """Return what a template sets, texts without characters that hide or reorder others; markup is ours."""
    return shown(value) if type(value) is str else value


def _as_table(rows: Sequence[Mapping[str, object]]) -> Table:
    """Return the rows of a figure as a table of text: its alternative for readers who do not see it."""
    names: list[str] = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_cell(name, row.get(name, "")) for name in names] for row in rows]
    return Table(heads=tuple(_head(name) for name in names), rows=cells)


_UNITS: Final = {"_bytes_per_s": "bytes/s", "_bytes": "bytes", "_s": "s"}
"""The units that the last letters of a column name tell; `tokens_per_s...` is a plain number."""


def _unit(name: str) -> str:
    """Return the unit of a column, or nothing."""
    return next(
        (unit for end, unit in _UNITS.items() if name.endswith(end) and "per_s" not in name.removesuffix(end)), ""
    )


def _head(name: str) -> str:
    """Return the head of a column without the unit, which its cells carry."""
    unit = _unit(name)
    end = next((end for end, of in _UNITS.items() if of == unit), "") if unit else ""
    return name.removesuffix(end).replace("_", " ")


def _cell(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
    unit = _unit(name)
    return units.format_value(float(value), unit) if unit else units.format_number(float(f"{value:.4g}"))


def _constants(constants: Iterable[Constant]) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Return the constants that matter, assumed ones first, and the rest."""
    ordered = sorted(constants, key=lambda each: (_KINDS.index(each.datum.kind), -abs(each.share or 0.0), each.path))
    matter = [each for each in ordered if each.share is not None and abs(each.share) >= MATTERS]
    rest = [each for each in ordered if each not in matter]
    return [_shown(each) for each in matter], [_shown(each) for each in rest]


def _shown(constant: Constant) -> dict[str, str]:
    datum = constant.datum
    source = sources().get(datum.source)
    interval = ""
    if datum.low is not None and datum.high is not None:
        interval = " to ".join(units.format_value(end, datum.unit) for end in (datum.low, datum.high))
    return {
        "name": input_name(constant.path.rpartition(": ")[2]),
        "path": constant.path,
        "value": units.format_value(datum.value, datum.unit),
        "interval": interval,
        "kind": datum.kind,
        "source": source.title if source else datum.source,
        "url": source.url if source else "",
        "locator": datum.locator,
        "date": datum.date,
        "share": "" if constant.share is None else f"{constant.share:+.2f}",
    }


_FLAG: Final = re.compile(r"(?<!\S)[(\[{]*--?[A-Za-z]\S*")
_HYPHENED: Final = re.compile(r"\S*-\S*")
_UNIT: Final = re.compile(r"(?<=\d) (?=(?:%|[num]?s|[kMGT]?i?B(?:/s)?)(?!\w))")


def prose(text: str) -> Any:  # noqa: ANN401  markup of an extra
    """Return a text as markup in which no line ends inside a flag, or between a number and its unit."""
    return _kept(re.sub(_UNIT, "\u00a0", text), _FLAG)


def code(text: str) -> Any:  # noqa: ANN401  markup of an extra
    """Return lines to copy as markup in which no line ends inside a word."""
    return _kept(text, _HYPHENED)


def _kept(text: str, words: re.Pattern[str]) -> Any:  # noqa: ANN401  markup of an extra
    """Return a text as markup in which some words are kept whole."""
    markup: Any = needed("markupsafe", "jinja2")
    return markup.Markup(re.sub(words, r'<span class="whole">\g<0></span>', str(markup.escape(shown(text)))))
