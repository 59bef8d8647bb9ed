"""Wait and counter tracks as a Chrome trace, for Perfetto: every rank on one clock."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nhalf.trace.timeline import Timeline

_US = 1e6


def tracks(timeline: Timeline) -> str:
    """Return a Chrome trace with, for each rank, its compute, its waits and transfers, and how many ranks wait."""
    events = [event for row in range(len(timeline.traces)) for event in _rank(timeline, row)]
    events += _waiting(timeline)
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events}, separators=(",", ":"))


def _rank(timeline: Timeline, row: int) -> Iterator[dict[str, Any]]:
    trace, meetings = timeline.traces[row], timeline.meetings
    names = {0: "steps", 1: "compute", 2: "wait", 3: "transfer"}
    yield {"ph": "M", "name": "process_name", "pid": trace.rank, "args": {"name": f"rank {trace.rank}"}}
    for thread, name in names.items():
        yield {"ph": "M", "name": "thread_name", "pid": trace.rank, "tid": thread, "args": {"name": name}}

    def slice_(thread: int, name: str, start_s: float, end_s: float, **args: object) -> dict[str, Any]:
        return {
            "ph": "X", "pid": trace.rank, "tid": thread, "name": name, "ts": round(start_s * _US, 3),
            "dur": round((end_s - start_s) * _US, 3), "args": args,
        }  # fmt: skip

    for label, window in zip(timeline.labels, timeline.windows_s[row], strict=True):
        start, end = timeline.common_s(row, window).tolist()
        yield slice_(0, label, start, end)
    for start, end in timeline.common_s(row, trace.busy_s).tolist():
        yield slice_(1, "compute", start, end)
    for k in np.flatnonzero(meetings.index[row] >= 0).tolist():
        kind = meetings.kinds[int(meetings.kind[k])]
        start, end = float(timeline.aligned.start_s[row, k]), float(timeline.aligned.end_s[row, k])
        wait = float(timeline.split.wait_s[row, k])
        last = int(timeline.split.last[k])
        late = timeline.traces[last].rank if last >= 0 else None
        if wait > 0:
            yield slice_(2, f"wait for rank {late}" if late is not None else "wait", start, start + wait, meeting=k)
        yield slice_(3, str(kind.op), start + wait, end, meeting=k, size_bytes=kind.size_bytes, kernel=kind.name)


def _waiting(timeline: Timeline) -> Iterator[dict[str, Any]]:
    """Yield the counter of ranks that wait."""
    there = timeline.meetings.index >= 0
    start = timeline.aligned.start_s[there]
    wait = timeline.split.wait_s[there]
    times = np.concatenate((start[wait > 0], (start + wait)[wait > 0]))
    change = np.concatenate((np.ones(int(np.sum(wait > 0))), -np.ones(int(np.sum(wait > 0)))))
    order = np.argsort(times, kind="stable")
    for time, count in zip(times[order].tolist(), np.cumsum(change[order]).tolist(), strict=True):
        yield {
            "ph": "C",
            "pid": -1,
            "name": "ranks that wait",
            "ts": round(time * _US, 3),
            "args": {"ranks": int(count)},
        }
