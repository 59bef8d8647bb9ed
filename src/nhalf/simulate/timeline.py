"""A timeline: a run as a Chrome trace, which Perfetto and chrome://tracing open.

References
----------
"Trace Event Format", Google, for the keys `ph`, `ts` (microseconds), `dur`, `pid`, `tid`, and flow events `s` and `f`.
"Frequently Asked Questions", perfetto.dev: slices of one row that overlap without one inside the other are dropped.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nhalf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nhalf.simulate.engine import Run
    from nhalf.simulate.program import Program
    from nhalf.simulate.round import Ints

LARGEST = 200_000
"""Messages in a timeline; a viewer opens no more."""
_NS = 1e9
_PER_US = 1000
"""Nanoseconds, to which Perfetto cuts every time, in a microsecond."""
_SLICE, _LEAVES, _ARRIVES = 0, 1, 2
"""Events of one time in the order in which a viewer must read them: an arrow hangs on a slice that has begun."""


def check_size(programs: Iterable[Program]) -> None:
    """Refuse programs of which no timeline can be looked at.

    Raises
    ------
    InputError
        One has too many messages.
    """
    for program in programs:
        if program.messages > LARGEST:
            raise InputError(
                f"the {program.messages:,} messages of {program.algorithm} are too many for a timeline",
                where="--timeline",
                allowed=f"up to {LARGEST:,}",
                do="use fewer --ranks, or leave it out",
            )


def timeline(runs: Sequence[Run]) -> dict[str, Any]:
    """Return a trace of runs, in order of time: one process each, rows of what each rank sends and gets, and arrows.

    Times are cut to nanoseconds, a message lasts one at least.

    Raises
    ------
    InputError
        A run without a record, or with too many messages to look at.
    """
    check_size(run.program for run in runs)
    named: list[dict[str, Any]] = []
    timed: list[tuple[tuple[int, int, int], dict[str, Any]]] = []
    for process, run in enumerate(runs, start=1):
        if run.record is None:
            raise InputError(
                f"the run of {run.program.algorithm} keeps no record of its messages, so it has no timeline",
                where="--timeline",
                do="use fewer --ranks, or leave it out",
            )
        name = f"{run.program.op} {run.program.algorithm}"
        named.append({"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}})
        _add(run, process, named, timed)
    timed.sort(key=lambda pair: pair[0])
    return {"traceEvents": [*named, *(event for _, event in timed)], "displayTimeUnit": "ns"}


def _add(
    run: Run, process: int, named: list[dict[str, Any]], timed: list[tuple[tuple[int, int, int], dict[str, Any]]]
) -> None:
    """Add the rows of a run, and the events of every message: a slice at its sender, one at its receiver, an arrow."""
    record = run.record
    if record is None:
        return
    graph = record.graph
    begins = np.floor(record.posted_s * _NS).astype(np.int64)
    ends = np.maximum(begins + 1, np.floor(record.ended_s * _NS).astype(np.int64))
    ways = (graph.source.tolist(), graph.target.tolist())
    sizes = graph.size_bytes.tolist()
    rows = [np.empty(run.messages, dtype=np.int64) for _ in ways]
    for number, (name, way, side) in enumerate(_rows(graph.ranks, ways, begins, ends), start=1):
        rows[way][side] = number
        named.append({"ph": "M", "pid": process, "tid": number, "name": "thread_name", "args": {"name": name}})
        named.append(
            {"ph": "M", "pid": process, "tid": number, "name": "thread_sort_index", "args": {"sort_index": number}}
        )
    columns = (*ways, rows[0].tolist(), rows[1].tolist(), begins.tolist(), ends.tolist(), sizes)
    for message, (source, target, sent, got, begin, end, size) in enumerate(zip(*columns, strict=True)):
        for row, what in ((sent, f"to rank {target}"), (got, f"from rank {source}")):
            timed.append(
                (
                    (begin, _SLICE, begin - end),
                    {
                        "ph": "X",
                        "pid": process,
                        "tid": row,
                        "ts": _us(begin),
                        "dur": _us(end - begin),
                        "cat": "message",
                        "name": what,
                        "args": {"message": message, "bytes": size},
                    },
                )
            )
        arrow = {"cat": "message", "name": "message", "id": process * LARGEST + message, "pid": process}
        timed.append(((begin, _LEAVES, 0), {**arrow, "ph": "s", "tid": sent, "ts": _us(begin)}))
        # In the last nanosecond, as the slice on which it hangs is over at its end.
        timed.append(((end - 1, _ARRIVES, 0), {**arrow, "ph": "f", "bp": "e", "tid": got, "ts": _us(end - 1)}))


def _us(time_ns: int) -> float:
    """Return a time in microseconds that survives a viewer's cutting to whole nanoseconds."""
    found = time_ns / _PER_US
    return found if found * _PER_US >= time_ns else math.nextafter(found, math.inf)


def _rows(
    ranks: int, ways: tuple[list[int], list[int]], begins: Ints, ends: Ints
) -> Iterator[tuple[str, int, list[int]]]:
    """Yield each row's name, whether it is of what a rank sends (0) or gets (1), and its messages.

    A rank has a second row where messages overlap without one inside the other, and so on.
    """
    order = np.lexsort((-ends, begins)).tolist()
    listed: list[list[list[int]]] = [[[] for _ in range(ranks)] for _ in ways]
    for message in order:
        for way, side in enumerate(ways):
            listed[way][side[message]].append(message)
    for rank in range(ranks):
        for way, verb in enumerate(("sends", "gets")):
            rows = _apart(listed[way][rank], begins, ends)
            for number, row in enumerate(rows, start=1):
                yield f"rank {rank} {verb}{f' ({number})' if number > 1 else ''}", way, row


def _apart(messages: list[int], begins: Ints, ends: Ints) -> list[list[int]]:
    """Return messages, in order of their begins, in rows in which those that overlap lie one inside the other."""
    rows: list[list[int]] = []
    around: list[list[int]] = []  # the ends of the messages that the next one of a row begins in, the innermost last
    for message in messages:
        begin, end = int(begins[message]), int(ends[message])
        for row, open_ends in zip(rows, around, strict=True):
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            if not open_ends or end <= open_ends[-1]:
                row.append(message)
                open_ends.append(end)
                break
        else:
            rows.append([message])
            around.append([end])
    return rows
