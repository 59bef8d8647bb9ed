"""Read the latency summary of mscclpp's decode benchmark: rounded sizes, exact through the number of contexts.

Written from logs, not from its source. kB and MB are 2^10 and 2^20 bytes; the times are of a captured graph.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from nhalf.collective import Mode, Op
from nhalf.evidence.readers.columns import note, skip, timed
from nhalf.evidence.readers.markdown import PipeTable, column, pipe_tables
from nhalf.evidence.readers.numerals import MICROSECOND, half_step, integer, size
from nhalf.evidence.readers.protocol import Format
from nhalf.evidence.table import Point, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.readers.protocol import Line

_SIZE = re.compile(r"([\d.,]+) ?([kKMG]?i?B)")
_SMALL = 1e-9  # relative


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    return [
        _table(pipe, source)
        for pipe in pipe_tables(lines)
        if column(pipe.header, r"n_ctx") is not None and column(pipe.header, r"latency") is not None
    ]


def _table(pipe: PipeTable, source: str) -> Table:
    contexts, sizes, times = (column(pipe.header, name) or 0 for name in ("n_ctx", "size", "latency"))
    per_context = _per_context([(cells[contexts], cells[sizes]) for _, cells in pipe.rows])
    points: list[Point] = []
    skipped = [skip(line, source, "the row is cut") for line in pipe.cut]
    for line, cells in pipe.rows:
        count = integer(cells[contexts])
        bytes_ = count * per_context if count and per_context else size(cells[sizes], binary=True)
        point = timed(line, float(bytes_), cells[times], MICROSECOND) if bytes_ else None
        if point is None:
            skipped.append(skip(line, source, "its size or its time is no number above 0"))
        else:
            points.append(point)
    exact = "exact bytes follow from n_ctx" if per_context else "exact bytes do not follow from n_ctx"
    return Table(
        file=source,
        tool="mscclpp",
        op=Op.ALL_REDUCE,
        mode=Mode.GRAPH,
        quantity="graph",
        size_is="message",
        points=tuple(points),
        notes=(note("size-rounded", f"the size text is rounded: {exact}; kB and MB here are 2^10 and 2^20 bytes"),),
        skipped=tuple(skipped),
    )


def _per_context(rows: Iterable[tuple[str, str]]) -> int | None:
    """Return the bytes of one context that all rounded sizes allow, the roundest in binary; None without any."""
    low, high = 0.0, math.inf
    for contexts, text in rows:
        count, found = integer(contexts), _SIZE.fullmatch(text)
        value, unit = size(text, binary=True), size(f"1{found[2]}", binary=True) if found else None
        if not count or not found or not value or not unit:
            continue
        half = half_step(found[1]) * unit
        low, high = max(low, (value - half) / count), min(high, (value + half) / count)
    if not 0.0 < low <= high * (1.0 + _SMALL) < math.inf:
        return None
    for step in (1 << power for power in range(30, -1, -1)):
        multiple = math.ceil(low / step - _SMALL) * step
        if multiple <= high * (1.0 + _SMALL):
            return multiple
    return None


READER = Format(
    name="mscclpp",
    words=("LATENCY SUMMARY", "n_ctx"),
    signs=((re.compile(r"\[LATENCY SUMMARY\]|\|\s*n_ctx\s*\|\s*size\s*\|\s*latency"), 1.0),),
    parse=_parse,
)
