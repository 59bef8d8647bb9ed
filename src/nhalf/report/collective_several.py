"""One collective on several systems or groups of ranks: what it takes at each size, what runs it, who is ahead."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nhalf import units
from nhalf.collective import Op
from nhalf.report.collective import focus, spread, verdict
from nhalf.report.collective_document import body
from nhalf.report.document import envelope
from nhalf.report.page import Page
from nhalf.report.view import Brief
from nhalf.report.words import joined

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nhalf.report.canvas import Canvas
    from nhalf.report.collective_answer import Answer

Named = tuple[str, "Answer"]
_TIE = 1.05
_FEW = 3
_COLUMNS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Took:
    """What a collective takes at one size [s], and how that is known: `measured`, `planned`, or by the `law`."""

    time_s: float
    kind: str
    algorithm: str


def _took(found: Answer, size_bytes: float) -> _Took:
    """Return what one system takes: measured where it was, else planned, else by the fastest law."""
    measured = {row.size_bytes: row for row in found.rows if row.kind != "law"}
    at = next(each for each in found.choices if each.size_bytes == size_bytes)
    algorithm = at.algorithm or at.fastest
    if size_bytes in measured:
        return _Took(time_s=measured[size_bytes].time_s, kind=measured[size_bytes].kind, algorithm=algorithm)
    if at.plan is not None:
        return _Took(time_s=at.plan.time_s, kind="planned", algorithm=at.plan.path)
    if at.time_s is not None:
        return _Took(time_s=at.time_s, kind="law", algorithm=algorithm)
    return _Took(time_s=at.fastest_s, kind="law", algorithm=at.fastest)


def write(several: Sequence[Named], canvas: Canvas) -> None:
    """Write who is ahead at which sizes, every size, and the verdict of each system."""
    canvas.paragraph(f"\n{comparison(several)}")
    canvas.table(*_table(several, several[0][1].loaded.sizes_bytes))
    canvas.paragraph(
        "measured there; planned by the tuner's own constants; or by the fastest law of the links alone.", indent="  "
    )
    for system, found in several:
        canvas.listed(system, [verdict(found)], indent="  ")


def _table(several: Sequence[Named], sizes: Sequence[float]) -> tuple[list[str], list[list[str]]]:
    """Return what each system takes at some sizes, and how that is known where it was not measured."""
    barrier = several[0][1].question.op == Op.BARRIER
    rows = [
        [
            "-" if barrier else units.format_size(size, binary=True),
            *(cell for _, found in several for cell in _cells(_took(found, size))),
        ]
        for size in (sizes[:1] if barrier else sizes)
    ]
    return ["size", *(head for system, _ in several for head in (system, "<"))], rows


def _across(several: Sequence[Named], sizes: Sequence[float]) -> tuple[list[str], list[list[str]]]:
    """Return a line for each of many: its times, and how the last is known where it was not measured."""
    rows = []
    for name, found in several:
        took = [_took(found, size) for size in sizes]
        rows.append([name, *(units.format_time(each.time_s) for each in took), *_cells(took[-1])[1:]])
    return ["<", *(units.format_size(size, binary=True) for size in sizes), "<"], rows


def brief(several: Sequence[Named], *, next_command: str) -> Brief:
    """Return the first screen of several systems."""
    first, many = several[0][1], len(several) > _FEW
    sizes = spread(first.loaded.sizes_bytes, _COLUMNS if many else 9)
    ranks = {found.question.ranks for _, found in several}
    said = comparison(several)
    systems = joined(list(dict.fromkeys(found.loaded.system for _, found in several)))
    whose = f"{first.question.ranks} ranks" if len(ranks) == 1 else systems or "one link"
    return Brief(
        verdict=[said if said.count(", ") <= _FEW else _leads(several)],
        title=f"{first.question.op} on {whose}",
        table=(_across if many and first.question.op != Op.BARRIER else _table)(several, sizes),
        next_command=next_command,
        next_why="each algorithm",
    )


def _cells(took: _Took) -> list[str]:
    """Return the time, and how it is known where it was not measured."""
    return [units.format_time(took.time_s), "" if took.kind == "measured" else took.kind]


def _leads(several: Sequence[Named]) -> str:
    """Return at how many sizes each system is the fastest or within 5 % of it, where they take turns."""
    sizes = several[0][1].loaded.sizes_bytes
    least = {size: min(_took(found, size).time_s for _, found in several) for size in sizes}
    ahead = {
        system: sum(_took(found, size).time_s <= _TIE * least[size] for size in sizes) for system, found in several
    }
    told = joined([f"{system} at {count}" for system, count in ahead.items()])
    return f"Fastest, or within 5 % of it, of {len(sizes)} sizes: {told}."


def comparison(several: Sequence[Named]) -> str:
    """Return which system is ahead at which sizes, within 5 % none; of groups of one system the least and the most."""
    sizes = several[0][1].loaded.sizes_bytes
    if len({found.loaded.system for _, found in several}) == 1:
        size = focus(sizes)
        took = sorted((_took(found, size).time_s, name) for name, found in several)
        ends = [f"{units.format_time(time_s)} on {name}" for time_s, name in (took[0], took[-1])]
        said = "It" if several[0][1].question.op == Op.BARRIER else units.format_size(size, binary=True)
        return f"{said} takes {ends[0]}, {ends[1]}."
    runs: list[tuple[str, float]] = []
    for size in sizes:
        times = {system: _took(found, size).time_s for system, found in several}
        least = min(times.values())
        ahead = joined([system for system, time_s in times.items() if time_s <= _TIE * least])
        if not runs or runs[-1][0] != ahead:
            runs.append((ahead, size))
    if len(runs) == 1:
        return f"Fastest at every size: {runs[0][0]}."
    parts = [f"from {units.format_size(size, binary=True)} on {ahead}" for ahead, size in runs]
    return f"Fastest: {', '.join(parts)}."


def document(several: Sequence[Named]) -> dict[str, Any]:
    """Return the document of several systems: rows and crossovers of all with their system, and the answer of each."""
    bodies = [{"system": found.loaded.system or None, **body(found)} for _, found in several]
    groups = {(each["ranks"], each["nodes"]) for each in bodies}
    whose = ("system", "ranks", "nodes") if len(groups) > 1 else ("system",)
    shared = {
        key: [{**{name: each[name] for name in whose}, **row} for each in bodies for row in each[key]]
        for key in ("rows", "crossovers")
    }
    kept = [{key: value for key, value in each.items() if key not in shared} for each in bodies]
    return envelope("collective", {"verdict": comparison(several), **shared, "systems": kept})


def page(several: Sequence[Named], make: Callable[[Answer], Page]) -> Page:
    """Return the pages of all systems as one; `make` makes that of one."""
    pages = [(system, make(found)) for system, found in several]
    sections = [
        replace(
            section,
            key=f"{section.key}-{place}",
            title=f"{section.title}: {system}",
            figures=[replace(figure, key=f"{figure.key}-{place}") for figure in section.figures],
        )
        for place, (system, one) in enumerate(pages)
        for section in one.sections
    ]
    first = several[0][1].question
    return Page(
        title=f"{first.op} on {first.ranks} ranks of {joined([system for system, _ in several])}",
        verdict=[comparison(several), *(text for _, one in pages for text in one.verdict)],
        cards=[replace(card, label=f"{system}: {card.label}") for system, one in pages for card in one.cards],
        sections=sections,
        constants=[replace(each, path=f"{system}: {each.path}") for system, one in pages for each in one.constants],
        notes=list(dict.fromkeys(note for _, one in pages for note in one.notes)),
    )
