"""Read all_reduce_bench.py of ml-engineering: only bandwidths, to two decimals, so small times are coarse.

Source, by description: stas00/ml-engineering, network/benchmarks/all_reduce_bench.py. GBps is 1e9 bytes; KiB is 2^10.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nhalf.evidence.readers.columns import note, rated, skip
from nhalf.evidence.readers.inference import known_op, ratio, settled
from nhalf.evidence.readers.markdown import PipeTable, column, pipe_tables
from nhalf.evidence.readers.numerals import NUMBER, size
from nhalf.evidence.readers.protocol import Format
from nhalf.evidence.table import Point, Skipped, Table
from nhalf.units import parse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.readers.protocol import Line

_TITLE = re.compile(r"average bandwidth of (\w+) (?:over|with) (\d+) ranks")
_CELL = re.compile(rf"({NUMBER}) ?([KMGT]?B(?:ps|/s))")


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    return [
        _table(each, source)
        for each in pipe_tables(lines)
        if column(each.header, "payload|size") is not None and column(each.header, "algbw") is not None
    ]


def _table(pipe: PipeTable, source: str) -> Table:
    title = _TITLE.search(pipe.heading)
    name, stated = (title[1], int(title[2])) if title else ("", None)
    sizes, algbw, busbw = (column(pipe.header, name) for name in ("payload|size", "algbw", "busbw"))
    points: list[Point] = []
    skipped = [skip(line, source, "the row is cut") for line in pipe.cut]
    pairs: list[tuple[str, str]] = []
    for line, cells in pipe.rows:
        bytes_ = size(cells[sizes or 0])
        rate = _CELL.fullmatch(cells[algbw or 0])
        point = rated(line, bytes_, bytes_, rate[1], _unit(rate[2])) if bytes_ and rate else None
        if point is None:
            skipped.append(skip(line, source, "its size or its bandwidth is no number above 0"))
            continue
        points.append(point)
        bus = _CELL.fullmatch(cells[busbw]) if busbw is not None else None
        if rate and bus:
            pairs.append((rate[1], bus[1]))
    op = known_op(name or "all_reduce")
    ranks, told = settled(op, ratio(pairs), stated)
    return Table(
        file=source,
        tool="all_reduce_bench",
        op=op,
        test="" if op else name.replace("_", "-"),
        ranks=ranks,
        quantity="isolated",
        size_is="message",
        points=tuple(points),
        notes=(
            note("bandwidth-only", "only bandwidth is printed, to 0.01: a small time is size over algbw, so rounded"),
            note("mean-of-bandwidths", "a mean of bandwidths, not of times: slightly flattering"),
            *told,
        ),
        skipped=tuple(sorted(skipped, key=_by_line)),
    )


def _by_line(one: Skipped) -> int:
    return one.line


def _unit(name: str) -> float:
    return parse(f"1{name}", "bandwidth")


READER = Format(
    name="all-reduce-bench",
    words=("payload", "average bandwidth"),
    signs=(
        (re.compile(r"\|\s*payload\s*\|\s*busbw\s*\|\s*algbw\s*\|"), 1.0),
        (re.compile(r"average bandwidth of \w+ (?:over|with) \d+ ranks"), 0.9),
    ),
    parse=_parse,
    banner=re.compile(r"The average bandwidth of \w+ (?:over|with) \d+ ranks"),
)
