"""A timeline: a run as a Chrome trace, which Perfetto and chrome://tracing open.

References
----------
"Trace Event Format", Google, for the keys `ph`, `ts` (microseconds), `dur`, `pid`, `tid`, and flow events `s` and `f`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nhalf.errors import InputError

if TYPE_CHECKING:
    from nhalf.simulate.engine import Run

LARGEST = 200_000
"""Messages in a timeline; a viewer opens no more."""


def timeline(runs: list[Run]) -> dict[str, Any]:
    """Return a trace of runs: one process each, one row a rank for what it sends, an arrow for each message.

    Raises
    ------
    InputError
        A run without a record, or with too many messages to look at.
    """
    events: list[dict[str, Any]] = []
    for process, run in enumerate(runs):
        if run.record is None or run.messages > LARGEST:
            raise InputError(
                f"{run.messages} messages are too many for a timeline",
                where="--timeline",
                allowed=f"one start per rank and up to {LARGEST} messages",
                do="use fewer --ranks",
            )
        name = f"{run.program.op} {run.program.algorithm}"
        events.append({"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}})
        events += [
            {"ph": "M", "pid": process, "tid": rank, "name": "thread_name", "args": {"name": f"rank {rank}"}}
            for rank in range(run.program.ranks)
        ]
        events += _messages(run, process)
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def _messages(run: Run, process: int) -> list[dict[str, Any]]:
    """Return the events of every message: its slice at the sender and at the receiver, and the arrow between."""
    record = run.record
    if record is None:
        return []
    events: list[dict[str, Any]] = []
    graph = record.graph
    columns = (
        graph.source.tolist(),
        graph.target.tolist(),
        (record.posted_s * 1e6).tolist(),
        (record.ended_s * 1e6).tolist(),
        graph.size_bytes.tolist(),
    )
    for message, (source, target, begin, end, size) in enumerate(zip(*columns, strict=True)):
        flow = {"cat": "message", "name": "message", "id": process * LARGEST + message, "pid": process}
        events += [
            {
                "ph": "X",
                "pid": process,
                "tid": source,
                "ts": begin,
                "dur": end - begin,
                "cat": "message",
                "name": f"to rank {target}",
                "args": {"message": message, "bytes": size},
            },
            {**flow, "ph": "s", "tid": source, "ts": begin},
            {**flow, "ph": "f", "bp": "e", "tid": target, "ts": end},
        ]
    return events
