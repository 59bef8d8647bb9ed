"""Wait and transfer: what each rank spent of each collective until the last one came, and what moving took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from nhalf.trace.clocks import Aligned
    from nhalf.trace.matching import Meetings
    from nhalf.trace.record import Clockwork, Floats, Ints

_TWO = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split:
    """Every meeting split, as columns; (ranks, meetings) or (meetings,), [s].

    `wait_s` is the time until the last rank came, NaN where a rank took no part; `transfer_s` what followed, at most
    the shortest duration (`shortest_s`), which bounds it without any clock. `last` is the row that came last, -1
    where that has no meaning; `lateness_s` how long after the last but one it came.
    """

    wait_s: Floats
    transfer_s: Floats
    shortest_s: Floats
    last: Ints
    lateness_s: Floats


def split(meetings: Meetings, aligned: Aligned, device: Clockwork) -> Split:
    """Return wait and transfer of every meeting.

    On GPUs the transfer ends when the first rank leaves: the others' kernels only take longer to go. Processes are
    woken one by one and early ones may be served first, so there it ends when half of them have left.

    A broadcast, a reduction to one rank or a message may be left before the last one comes: their transfer is the
    shortest duration, and what is longer is waiting.
    """
    start, end = aligned.start_s, aligned.end_s
    length = end - start
    there = ~np.isnan(start)
    if not start.shape[1]:
        empty = np.empty(0)
        return Split(
            wait_s=length, transfer_s=empty, shortest_s=empty, last=np.empty(0, dtype=np.int64), lateness_s=empty
        )
    shortest = np.nanmin(length, axis=0)
    came = np.where(there, start, -np.inf)
    last = came.argmax(axis=0)
    arrival = came.max(axis=0)
    before = np.partition(came, -_TWO, axis=0)[-_TWO] if len(start) >= _TWO else arrival
    counted = meetings.symmetric & (there.sum(axis=0) >= _TWO)
    left = np.nanmin(end, axis=0) if device == "gpu" else np.nanmedian(end, axis=0)
    moved = np.clip(left - arrival, 0.0, shortest)
    transfer = np.where(counted, moved, shortest)
    wait = np.where(counted, np.clip(arrival - start, 0.0, length), length - shortest)
    return Split(
        wait_s=np.where(there, wait, np.nan),
        transfer_s=transfer,
        shortest_s=shortest,
        last=np.where(counted, last, -1),
        lateness_s=np.where(counted, arrival - before, 0.0),
    )
