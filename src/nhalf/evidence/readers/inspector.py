"""Read NCCL Inspector's JSON lines: the collectives of a live job, one record for each rank.

Source, by description: NVIDIA/nccl, plugins/profiler/inspector (formats v4.0 and v5.1). Times are whole microseconds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nhalf.collective import Op
from nhalf.errors import InputError
from nhalf.evidence.readers.columns import note, skip
from nhalf.evidence.readers.json_text import dictionary, number, records
from nhalf.evidence.readers.numerals import MICROSECOND
from nhalf.evidence.readers.protocol import Format, Line
from nhalf.evidence.table import Point, Skipped, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

_HALF_A_MICROSECOND = 0.5 * MICROSECOND


@dataclass(slots=True)
class _Group:
    """The records of one operation on one number of ranks and nodes."""

    points: list[Point] = field(default_factory=list)
    repeats: dict[float, int] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    groups: dict[tuple[str, int | None, int | None], _Group] = {}
    skipped: list[Skipped] = []
    for line, record in records(lines):
        why = _take(groups, line, record)
        if why:
            skipped.append(skip(line, source, why))
    tables = [_table(key, group, source) for key, group in groups.items()]
    if skipped:
        from dataclasses import replace

        first = tables[0] if tables else Table(file=source, tool="NCCL Inspector")
        tables[:1] = [replace(first, skipped=tuple(skipped))]
    return tables


def _take(groups: dict[tuple[str, int | None, int | None], _Group], line: Line, record: dict[str, Any] | None) -> str:
    """Take one record; return why it is not taken, or nothing."""
    if record is None:
        return "the record is cut or damaged"
    header = dictionary(record.get("header"))
    measured = dictionary(record.get("coll_perf"))
    kind = "coll"
    if not measured:
        measured, kind = dictionary(record.get("p2p_perf")), "p2p"
    if not measured:
        return ""  # a record of another kind
    size, time = number(measured.get(f"{kind}_msg_size_bytes")), number(measured.get(f"{kind}_exec_time_us"))
    if not size or not time or size < 0.0 or time < 0.0:
        return "its size or its time is no number above 0"
    name = "send-recv" if kind == "p2p" else str(measured.get("coll", ""))
    ranks, nodes = number(header.get("n_ranks")), number(header.get("nnodes"))
    group = groups.setdefault((name, int(ranks) if ranks else None, int(nodes) if nodes else None), _Group())
    repeat = group.repeats.get(size, 0)
    group.repeats[size] = repeat + 1
    group.sources.add(str(measured.get(f"{kind}_timing_source", "")))
    seconds = time * MICROSECOND
    whole = time == int(time)
    group.points.append(
        Point(
            size_bytes=size,
            seconds=seconds,
            repeat=repeat,
            line=line.number,
            low_s=seconds - _HALF_A_MICROSECOND if whole else None,
            high_s=seconds + _HALF_A_MICROSECOND if whole else None,
        )
    )
    return ""


def _table(key: tuple[str, int | None, int | None], group: _Group, source: str) -> Table:
    name, ranks, nodes = key
    op = _op(name)
    timing = ", ".join(sorted(filter(None, group.sources)))
    return Table(
        file=source,
        tool="NCCL Inspector",
        op=op,
        test="" if op else name.casefold(),
        ranks=ranks,
        nodes=nodes,
        quantity="isolated",
        size_is="message",
        points=tuple(group.points),
        environment={"timing_source": timing} if timing else {},
        notes=(
            note("quantised", "whole microseconds: quantised"),
            note("live-job", "a live job: kernel time, queueing and stragglers included"),
        ),
    )


def _op(name: str) -> Op | None:
    try:
        return Op.parse(name)
    except InputError:
        return None


READER = Format(
    name="nccl-inspector",
    words=("coll_perf", "p2p_perf", "inspector_output"),
    signs=((re.compile(r'"(?:coll|p2p)_perf"\s*:\s*\{|"inspector_output_format_version"'), 1.0),),
    parse=_parse,
    whole=True,
)
