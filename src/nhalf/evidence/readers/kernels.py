"""Read the Markdown tables of kernel benchmarks (vLLM, SGLang, FlashInfer): one column or row per implementation.

Written from tables in pull requests and reports, not from one tool's source: columns go by their names, and what a
table does not say (unit, operation) is assumed only where its words allow it, with a note.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from nhalf.collective import Mode, Op
from nhalf.evidence.readers.columns import note, skip, timed
from nhalf.evidence.readers.markdown import PipeTable, column, pipe_tables
from nhalf.evidence.readers.numerals import NUMBER, TIME_UNITS, integer, size
from nhalf.evidence.readers.protocol import Format
from nhalf.evidence.table import Note, Point, Skipped, Table
from nhalf.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nhalf.evidence.readers.protocol import Line

_SIZE_COLUMN = r"^(?:(?:msg|message|tensor|input|data|buffer)[ _]?)?(?:size|bytes)(?:[ _(].*)?$|^payload$"
_NAME_COLUMN = r"^(?:operation|implementation|backend|kernel|method|provider|algorithm|name)$"
_UNIT = re.compile(r"[(\[_ ](ns|us|\u03bcs|ms|s|usec|msec)[)\]]?$")
_NO_TIME = re.compile(
    r"speed-?up|ratio|algbw|busbw|bandwidth|gb/?s|correct|error|diff|tokens|count|elements|dtype|shape|n_ctx|%|\bbest\b",
    re.IGNORECASE,
)
_CELL = re.compile(rf"~?({NUMBER})\s*+(ns|us|\u03bcs|ms|s)?(?:\s*+(?:\u00b1|\+/-|\(|x).*)?")
_HEADING_SIZE = re.compile(r"(?:size|payload)\s*[:=]\s*([\d.,]+ ?[KMG]?i?B)", re.IGNORECASE)
_RANKS = re.compile(
    r"(?:world[_ -]?size|tp(?:[_ -]?size)?|ranks|gpus|nranks|np)\s*[=:]\s*(\d+)|\b(\d+) (?:ranks|gpus)\b", re.IGNORECASE
)
_OPS: Final = (
    (r"all[-_ ]?reduce", Op.ALL_REDUCE),
    (r"all[-_ ]?gather", Op.ALL_GATHER),
    (r"reduce[-_ ]?scatter", Op.REDUCE_SCATTER),
    (r"all[-_ ]?to[-_ ]?all|\ba2a\b", Op.ALL_TO_ALL),
    (r"\bbroadcast\b", Op.BROADCAST),
)
_LIBRARIES = re.compile(r"nccl|msccl|custom|symm|quick|oneshot|one[-_ ]shot|twoshot|nvls", re.IGNORECASE)
_FUSED = re.compile(r"rms[-_ ]?norm|layer[-_ ]?norm", re.IGNORECASE)
_MANY: Final = 3  # sizes under headings of their own; from there on each implementation is a curve


@dataclass(slots=True, kw_only=True)
class _Curve:
    """The times of one implementation."""

    name: str
    words: str
    assumed_unit: bool = False
    one_size: bool = False
    points: list[Point] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    curves: list[_Curve] = []
    sized: list[tuple[float, PipeTable]] = []
    for pipe in pipe_tables(lines):
        if column(pipe.header, _SIZE_COLUMN) is not None:
            curves.extend(_by_column(pipe, source))
        elif (found := _HEADING_SIZE.search(pipe.heading)) and column(pipe.header, _NAME_COLUMN) is not None:
            bytes_ = size(found[1], binary=True)
            if bytes_:
                sized.append((bytes_, pipe))
    curves.extend(_by_row(sized, source))
    return [_table(curve, source) for curve in curves if curve.points or curve.skipped]


def _by_column(pipe: PipeTable, source: str) -> list[_Curve]:
    """Return a curve for each column of times of a table with a size column."""
    sizes = column(pipe.header, _SIZE_COLUMN) or 0
    columns = _time_columns(pipe, sizes)
    above = f"{pipe.heading} {' '.join(pipe.header)}"
    given = _stated_unit(pipe.heading)
    curves = []
    for index, name, unit in columns:
        curve = _Curve(name=name, words=above, assumed_unit=not (unit or given))
        for line, cells in pipe.rows:
            _take(curve, line, _size(cells[sizes], pipe.header[sizes]), cells[index], unit or given or "us", source)
        curves.append(curve)
    if curves:
        curves[0].skipped.extend(skip(line, source, "the row is cut") for line in pipe.cut)
    return curves


def _time_columns(pipe: PipeTable, sizes: int) -> list[tuple[int, str, str]]:
    """Return index, name and unit of the columns of times; those that state a unit win over those that do not."""
    found = []
    for index, name in enumerate(pipe.header):
        if index == sizes or _NO_TIME.search(name):
            continue
        unit = _UNIT.search(name)
        filled = [cells[index] for _, cells in pipe.rows if cells[index]]
        if filled and any(_CELL.fullmatch(cell) for cell in filled):
            found.append((index, _UNIT.sub("", name).strip() or name, unit[1] if unit else ""))
    stated = [entry for entry in found if entry[2]]
    return stated or found


def _by_row(sized: Sequence[tuple[float, PipeTable]], source: str) -> list[_Curve]:
    """Return the curves of tables whose size stands in the heading and whose rows are implementations."""
    many = len({bytes_ for bytes_, _ in sized}) >= _MANY
    curves: dict[str, _Curve] = {}
    for number, (bytes_, pipe) in enumerate(sized):
        names = column(pipe.header, _NAME_COLUMN) or 0
        times = _time_columns(pipe, names)
        if not times:
            continue
        index, _, unit = times[0]
        for line, cells in pipe.rows:
            words = f"{pipe.heading} {' '.join(each[names] for _, each in pipe.rows)}"
            key = cells[names] if many else f"table {number + 1}"
            curve = curves.setdefault(
                key, _Curve(name=key if many else "", words=words, assumed_unit=not unit, one_size=not many)
            )
            before = len(curve.points)
            _take(curve, line, bytes_, cells[index], unit or "us", source)
            if len(curve.points) > before:
                curve.listed.append(f"{cells[names]} {format_time(curve.points[-1].seconds)}")
    return list(curves.values())


def _take(curve: _Curve, line: Line, bytes_: float | None, cell: str, unit: str, source: str) -> None:
    found = _CELL.fullmatch(cell)
    point = timed(line, bytes_, found[1], TIME_UNITS[found[2] or unit]) if bytes_ and found else None
    if point is None:
        why = f"{curve.name}: {cell!r} is not a time" if bytes_ else "its size is no number above 0"
        curve.skipped.append(skip(line, source, why.removeprefix(": ")))
        return
    repeat = sum(1 for other in curve.points if other.size_bytes == point.size_bytes)

    curve.points.append(msgspec.structs.replace(point, repeat=repeat) if repeat else point)


def _size(cell: str, header: str) -> float | None:
    given = re.search(r"\(([KMG]?i?B)\)", header)
    if given and integer(cell) is not None:
        return size(f"{cell}{given[1]}", binary=True)
    return size(cell, binary=True)


def _stated_unit(heading: str) -> str:
    found = re.findall(r"(?:\bin |\()(us|\u03bcs|ms|ns|microseconds|milliseconds)\b", heading)
    return found[-1] if found else ""


def _table(curve: _Curve, source: str) -> Table:
    words = f"{curve.words} {curve.name}"
    op = next((op for pattern, op in _OPS if re.search(pattern, words, re.IGNORECASE)), None)
    assumed = op is None and bool(_LIBRARIES.search(words))
    op = Op.ALL_REDUCE if assumed else op
    fused = op is not None and bool(_FUSED.search(words))
    found = _RANKS.search(words)
    graph, eager = "graph" in curve.name.casefold(), "eager" in curve.name.casefold()
    return Table(
        file=source,
        tool="kernel benchmark",
        op=None if fused else op,
        test=f"{op}-rms-norm" if fused else "",
        ranks=int(found[1] or found[2]) if found else None,
        mode=Mode.GRAPH if graph else Mode.EAGER if eager else None,
        quantity="graph" if graph else "back_to_back",
        size_is="message",
        label=curve.name,
        points=tuple(curve.points),
        notes=tuple(_notes(curve, op, assumed=assumed, fused=fused)),
        skipped=tuple(curve.skipped),
    )


def _notes(curve: _Curve, op: Op | None, *, assumed: bool, fused: bool) -> Iterable[Note]:
    if curve.one_size:
        yield note("one-size", f"one size in a heading, several implementations: {'; '.join(curve.listed)}")
    else:
        yield note("one-implementation", f"column {curve.name!r}: one curve for each implementation")
    if curve.assumed_unit:
        yield note("unit-assumed", "microseconds are assumed: the table has no unit")
    if fused:
        yield note("fused", f"not a bare collective: {op} fused with a norm")
    if assumed:
        yield note("op-inferred", "the table does not name its operation: its libraries suggest an all-reduce")


READER = Format(
    name="kernels",
    words=("|",),
    signs=(
        (
            re.compile(
                r"^\s*\|?\s*(?:(?:msg|message|tensor|input)[ _]?)?(?:size|bytes)\b[^|\n]*\|.*\n\s*\|?[\s:|+-]*-{3}",
                re.IGNORECASE | re.MULTILINE,
            ),
            0.6,
        ),
        (
            re.compile(
                r"^\s*\|\s*(?:operation|implementation|backend)\s*\|.*\((?:us|ms)\)", re.IGNORECASE | re.MULTILINE
            ),
            0.6,
        ),
    ),
    parse=_parse,
)
