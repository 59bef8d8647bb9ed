"""Read NCCL Inspector's JSON lines: the collectives of a live job, one record for each rank.

Source, by description: NVIDIA/nccl, plugins/profiler/inspector (formats v4.0 and v5.1). Times are whole microseconds.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from nhalf.collective import Op
from nhalf.evidence.readers.columns import note, skip
from nhalf.evidence.readers.consistency import host_timed
from nhalf.evidence.readers.inference import PARTS, known_op
from nhalf.evidence.readers.json_text import dictionary, number, records
from nhalf.evidence.readers.numerals import GIGABYTE_PER_S, MICROSECOND
from nhalf.evidence.readers.protocol import Format, Line
from nhalf.evidence.table import Note, Point, Skipped, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_HALF_A_MICROSECOND = 0.5 * MICROSECOND
_UNDERFLOW_BYTES: Final = 2.0**63
_PER_RANK: Final = frozenset({Op.ALL_GATHER, Op.REDUCE_SCATTER})
_BY_KERNEL: Final = frozenset({"", "kernel_gpu", "kernel_cpu"})
"""Sources of a time that ends with the kernel; `collective_cpu` ends with the call that put it into the queue."""


class _Key(NamedTuple):
    """What the records of one table share: the operation, the ranks and nodes, and who took the time."""

    name: str
    ranks: int | None
    nodes: int | None
    timing: str


@dataclass(slots=True)
class _Group:
    """The records of one key; `whole` holds the bytes that each bandwidth says were moved, over the size."""

    points: list[Point] = field(default_factory=list)
    repeats: Counter[float] = field(default_factory=Counter)
    whole: list[float] = field(default_factory=list)


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    groups: dict[_Key, _Group] = {}
    skipped: list[Skipped] = []
    for line, record in records(lines):
        why = _take(groups, line, record)
        if why:
            skipped.append(skip(line, source, why))
    tables = [_table(key, group, source) for key, group in groups.items()]
    if skipped:
        first = tables[0] if tables else Table(file=source, tool="NCCL Inspector")
        tables[:1] = [replace(first, skipped=tuple(skipped))]
    return tables


def _take(groups: dict[_Key, _Group], line: Line, record: dict[str, Any] | None) -> str:
    """Take one record; return why it is not taken, or nothing."""
    if record is None:
        return "the record is cut or damaged"
    header = dictionary(record.get("header"))
    kind = "coll" if record.get("coll_perf") else "p2p"
    measured = dictionary(record.get(f"{kind}_perf"))
    if not measured:
        return ""  # a record of another kind
    size, time = number(measured.get(f"{kind}_msg_size_bytes")), number(measured.get(f"{kind}_exec_time_us"))
    if not size or not time or size < 0.0 or time < 0.0:
        return "its size or its time is no number above 0"
    if size >= _UNDERFLOW_BYTES:
        return "its size is over 2^63 bytes: the profiler's counter ran below zero"
    ranks, nodes = number(header.get("n_ranks")), number(header.get("nnodes"))
    name = "send-recv" if kind == "p2p" else str(measured.get("coll", ""))
    timing = str(measured.get(f"{kind}_timing_source", ""))
    group = groups.setdefault(_Key(name, _counted(ranks), _counted(nodes), timing), _Group())
    seconds = time * MICROSECOND
    if rate := number(measured.get(f"{kind}_algobw_gbs")):
        group.whole.append(rate * GIGABYTE_PER_S * seconds / size)
    half = _HALF_A_MICROSECOND if time == int(time) else None
    group.points.append(
        Point(
            size_bytes=size,
            seconds=seconds,
            repeat=group.repeats[size],
            line=line.number,
            low_s=seconds - half if half else None,
            high_s=seconds + half if half else None,
        )
    )
    group.repeats[size] += 1
    return ""


def _table(key: _Key, group: _Group, source: str) -> Table:
    op = known_op(key.name)
    shares = _shares(op, key.ranks, group.whole)
    table = Table(
        file=source,
        tool="NCCL Inspector",
        op=op,
        test="" if op else key.name.casefold(),
        ranks=key.ranks,
        nodes=key.nodes,
        quantity="isolated",
        size_is="total" if op in PARTS else "message",
        label="" if key.timing in _BY_KERNEL else key.timing,
        points=tuple(msgspec.structs.replace(point, size_bytes=point.size_bytes * shares) for point in group.points),
        environment={"timing_source": key.timing} if key.timing else {},
        notes=tuple(_notes(shares)),
    )
    return table if key.timing in _BY_KERNEL else host_timed(table, key.timing)


def _counted(value: float | None) -> int | None:
    """Return a count, None where it is none."""
    return int(value) if value is not None and value >= 1 else None


def _shares(op: Op | None, ranks: int | None, whole: Sequence[float]) -> int:
    """Return by what a printed size is multiplied for that of the whole operation: the ranks, or 1.

    The plug-in's own bandwidth tells, and without one its source: the size of a gather or scatter is one rank's.
    """
    if ranks is None or ranks == 1:
        return 1
    if whole:
        return ranks if median(whole) > math.sqrt(ranks) else 1
    return ranks if op in _PER_RANK else 1


def _notes(shares: int) -> Iterable[Note]:
    yield note("quantised", "whole microseconds: quantised")
    yield note("live-job", "a live job: kernel time, queueing and stragglers included")
    if shares > 1:
        yield note("size-total", f"a printed size is that of one rank: it counts {shares} times, once for each")


READER = Format(
    name="nccl-inspector",
    words=("coll_perf", "p2p_perf", "inspector_output"),
    signs=((re.compile(r'"(?:coll|p2p)_perf"\s*:\s*\{|"inspector_output_format_version"'), 1.0),),
    parse=_parse,
    whole=True,
)
