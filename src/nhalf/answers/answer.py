"""An answer: what a command found, as an object that prints in a few lines and shows a table in a notebook."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any, Final

from nhalf.errors import InputError
from nhalf.report.view import Bars, rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.report.view import Brief, Said

_COLUMNS = 80
_COLOURS = ("#1f4e79", "#e07b39", "#b8c4cc", "#7a9e7e")
"""Colours of the stretches of a bar, in their order."""
_BLOCKS: Final = re.compile("[▏▎▍▌▋▊▉█]+")
"""A bar within a cell."""


class Answer:
    """The answer of a command.

    It prints as its verdict; `text` is the whole screen, `to_dict` the document that `--json` prints, and `table` the
    rows that `--csv` writes. `problem` says why nothing satisfies the question, and is empty where something does;
    `warnings` is what the command would tell on standard error. Other attributes are those of what was found (`found`).
    """

    def __init__(self, said: Said) -> None:
        self._said = said
        self._view = said.view
        self.problem = said.problem
        self.warnings = tuple(said.warnings)

    @property
    def found(self) -> Any:  # noqa: ANN401  what each command finds
        """Return what the command found, as the house's own object; None where there is none."""
        return self._view.found

    @property
    def verdict(self) -> str:
        """Return the answer in a sentence or two."""
        return _sentences(self._view.brief())

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `--json` prints."""
        return self._view.document()

    def table(self) -> list[dict[str, Any]]:
        """Return the rows that `--csv` writes, each by its keys."""
        return [dict(row) for row in rows_of(self.to_dict(), self._view.rows)]

    def frame(self) -> Any:  # noqa: ANN401  a polars.DataFrame, an optional dependency
        """Return the rows as a polars frame, without their nested parts.

        Raises
        ------
        InputError
            Polars is not installed.
        """
        from nhalf.report.sweep_file import polars

        plain = [{key: each for key, each in row.items() if not isinstance(each, dict | list)} for row in self.table()]
        return polars().DataFrame(plain, infer_schema_length=None)

    def plot(self) -> Any:  # noqa: ANN401  an altair.Chart, an optional dependency
        """Return the bars of the first screen as an Altair chart.

        Raises
        ------
        InputError
            Altair is not installed, or the answer has no bars.
        """
        bars = self._view.brief().bars
        if bars is None:
            raise InputError("this answer has no bars", where="plot()", do="take table() or frame()")
        try:
            import altair as alt
        except ImportError as error:
            do = "in the checkout: pip install '.[report]'"
            raise InputError("altair is not installed", where="plot()", do=do) from error
        names = list(bars.names) or ["value"]
        values = [
            {"row": next(iter(row), ""), "part": name, "value": part, "order": place}
            for row, parts in zip(bars.rows, bars.parts, strict=True)
            for place, (name, part) in enumerate(zip(names, parts, strict=False))
        ]
        chart = alt.Chart({"values": values}).mark_bar()
        return chart.encode(
            x=alt.X("value:Q", title=None), y=alt.Y("row:N", sort=None, title=None),
            color=alt.Color("part:N", sort=names, title=None, scale=alt.Scale(range=list(_COLOURS))),
            order="order:Q",
        )  # fmt: skip

    def text(self, *, columns: int = _COLUMNS, detail: bool = False) -> str:
        """Return the screen of the command, or everything with `detail`."""
        return self._said.text(columns=columns, detail=detail)

    def __repr__(self) -> str:
        """Return the verdict and the number with its range."""
        brief = self._view.brief()
        said = [_sentences(brief), brief.number]
        said += [self.problem] if said[0] not in self.problem else []
        return f"<{type(self).__name__}: {' '.join(each for each in said if each)}>"

    def _repr_html_(self) -> str:
        """Return the first screen as HTML: the verdict, the number, a table with bars, and what was assumed."""
        return html(self._view.brief())

    def __dir__(self) -> list[str]:
        """Return the names of the answer and of what was found."""
        own = [name for name in object.__dir__(self) if not name.startswith("__")]
        return sorted({*own, *(name for name in dir(self.found) if not name.startswith("_"))})

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  an attribute of what was found
        """Return an attribute of what was found."""
        found = None if name.startswith("_") else self._view.found
        if found is None or not hasattr(found, name):
            message = f"{type(self).__name__} has no attribute {name!r}"
            raise AttributeError(message)
        return getattr(found, name)


def _sentences(brief: Brief) -> str:
    """Return the verdict; of a screen that is one text, its first line."""
    return " ".join(each.partition("\n")[0] for each in brief.verdict)


def html(brief: Brief) -> str:
    """Return a first screen as HTML, every text of it escaped."""
    first, _, text = brief.verdict[0].partition("\n")
    parts = [f"<b>{escape(first)}</b>", *map(escape, [*brief.verdict[1:], brief.number, brief.title])]
    said = "<br>".join(part for part in parts if part)
    table = f"<pre>{escape(text.strip())}</pre>" if text else ""
    if brief.bars is not None:
        table = _bars(brief.bars)
    elif brief.table is not None:
        heads, rows = brief.table
        table = html_table(heads, [[_BLOCKS.sub(_blue, escape(cell)) for cell in row] for row in rows])
    if brief.savings:
        told = [f"{100 * each.share:.2g} %" for each in brief.savings]
        rows = [[each.name, share] for each, share in zip(brief.savings, told, strict=True)]
        notes = [each.note or ("" if each.told else "within the model's error") for each in brief.savings]
        table += f"<p>{escape(brief.asked)}</p>" + _bars(
            Bars(heads=["<change", "saves"], rows=rows, names=[], parts=[[each.share] for each in brief.savings],
                 remarks=notes)
        )  # fmt: skip
    below = [*brief.notes, *brief.closing, f"Assumed: {brief.assumed}." if brief.assumed else ""]
    told_below = "<br>".join(escape(each) for each in below if each)
    return f"<div><p>{said}</p>{table}<p>{told_below}</p></div>"


def _blue(found: re.Match[str]) -> str:
    return f'<span style="color:{_COLOURS[0]}">{found[0]}</span>'


def _bars(bars: Bars) -> str:
    """Return a table whose last column holds bars of stretches, with a legend above."""
    longest = max((sum(parts) for parts in bars.parts), default=1.0) or 1.0
    legend = "".join(
        f'<span style="color:{colour}">&#9632;</span> {escape(name)}&ensp;'
        for colour, name in zip(_COLOURS, bars.names, strict=False)
    )
    remarks = list(bars.remarks) or [""] * len(bars.rows)
    rows = []
    for row, parts, remark in zip(bars.rows, bars.parts, remarks, strict=True):
        stretches = "".join(
            f'<span style="display:inline-block;height:0.8em;width:{12 * part / longest:.3f}em;background:{colour}">'
            "</span>"
            for part, colour in zip(parts, _COLOURS, strict=False)
        )
        rows.append([*map(escape, row), f"{stretches} {escape(remark)}"])
    return html_table([*bars.heads, "<"], rows, above=legend)


def html_table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, above: str = "") -> str:
    """Return a table of cells that are HTML; heads of words begin with `<` and stand to the left."""
    if not rows:
        return ""
    sides = ["left" if head.startswith("<") else "right" for head in heads]

    def line(tag: str, cells: Sequence[str]) -> str:
        made = (
            f'<{tag} style="text-align:{side};white-space:nowrap">{cell}</{tag}>'
            for side, cell in zip(sides, cells, strict=True)
        )
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"{above}<table>{line('th', [escape(head.removeprefix('<')) for head in heads])}{body}</table>"
