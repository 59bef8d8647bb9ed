"""The budget of a step: compute, overlapped, exposed transfer, exposed wait, gaps beside communication, idle."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from nhalf.trace.record import merged

if TYPE_CHECKING:
    from nhalf.trace.record import Floats, Ints, RankTrace

GAP_S = {"gpu": 20e-6, "cpu": 200e-6}
"""How much of an idle time beside a call counts as the call's launch gap [s]: a launch takes 5 to 10 us on a GPU, a
hand-over between threads up to 200 us; what is longer has another cause."""
_TOUCHES_S = 1e-9
_ROUNDING = 1e-12  # of a sum of times of a step


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Where a step's time goes [s]; the parts add up to `step_s`. The two exposed parts are None when not known."""

    step_s: float
    compute_s: float
    overlapped_s: float
    exposed_transfer_s: float | None
    exposed_wait_s: float | None
    exposed_s: float
    gap_s: float
    idle_s: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parts:
    """The parts of every step of one rank [s], (steps,)."""

    step_s: Floats
    compute_s: Floats
    overlapped_s: Floats
    exposed_transfer_s: Floats
    exposed_wait_s: Floats
    gap_s: Floats
    idle_s: Floats


class Cover:
    """A union of intervals that can say how much of any window it covers [s]."""

    def __init__(self, rows: Floats) -> None:
        """Keep the intervals: disjoint rows (start, end) [s] in rising order."""
        self.rows = rows
        self._before = np.concatenate(([0.0], np.cumsum(rows[:, 1] - rows[:, 0])))

    def until(self, time_s: Floats) -> Floats:
        """Return how much lies before each time [s]."""
        if not len(self.rows):
            return np.zeros_like(time_s)
        index = np.searchsorted(self.rows[:, 0], time_s, side="right")
        inside = np.where(index > 0, np.minimum(time_s, self.rows[np.maximum(index - 1, 0), 1]), 0.0)
        begun = np.where(index > 0, self.rows[np.maximum(index - 1, 0), 0], 0.0)
        covered: Floats = self._before[np.maximum(index - 1, 0)] + np.maximum(inside - begun, 0.0)
        return covered

    def within(self, start_s: Floats, end_s: Floats) -> Floats:
        """Return how much of each window [s] is covered."""
        return self.until(end_s) - self.until(start_s)


def of_rank(trace: RankTrace, wait_s: Floats, window_s: tuple[Floats, Floats]) -> Parts:
    """Return the parts of each window (starts, ends) [s] of a rank's own clock.

    `wait_s` [s] is what each of its calls waited. Where several calls run at once, moving outweighs waiting.
    """
    calls = trace.calls
    busy = Cover(trace.busy_s)
    comm = Cover(merged(calls.start_s, calls.end_s))
    moving = merged(calls.start_s + wait_s, calls.end_s)
    both = Cover(_union(busy.rows, comm.rows))
    moved = Cover(_union(busy.rows, moving))
    a, b = window_s
    busy_s, comm_s, any_s = busy.within(a, b), comm.within(a, b), both.within(a, b)
    overlapped = np.maximum(busy_s + comm_s - any_s, 0.0)
    transfer = np.maximum(moved.within(a, b) - busy_s, 0.0)
    gap = Cover(_gaps(both.rows, comm.rows, GAP_S[trace.device])).within(a, b)
    return Parts(
        step_s=b - a,
        compute_s=busy_s - overlapped,
        overlapped_s=overlapped,
        exposed_transfer_s=transfer,
        exposed_wait_s=_rest(comm_s, overlapped, transfer),
        gap_s=gap,
        idle_s=_rest(b - a, any_s, gap),
    )


def _rest(whole_s: Floats, *parts_s: Floats) -> Floats:
    """Return what parts [s] leave of a whole: nothing, where it is no more than rounding."""
    rest = whole_s - sum(parts_s)
    return np.where(rest > _ROUNDING * whole_s, rest, 0.0)


def _union(left: Floats, right: Floats) -> Floats:
    rows = np.concatenate((left, right))
    return merged(rows[:, 0], rows[:, 1])


def _gaps(active: Floats, comm: Floats, longest_s: float) -> Floats:
    """Return the idle pieces that touch a call, each at most `longest_s` [s] on its side."""
    if len(active) < 2 or not len(comm):  # noqa: PLR2004  one interval leaves no gap
        return np.empty((0, 2))
    start, end = active[:-1, 1], active[1:, 0]
    after, before = _touches(start, comm[:, 1]), _touches(end, comm[:, 0])
    keep = after | before
    start, end, after, before = start[keep], end[keep], after[keep], before[keep]
    # Beside calls on both sides each side may have its share; one side only, its own.
    share = np.where(after & before, 2 * longest_s, longest_s)
    length = np.minimum(end - start, share)
    first = np.where(after, start, end - length)
    return np.column_stack((first, first + length))


def _touches(time_s: Floats, edges: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which times coincide with one of the rising edges."""
    index = np.clip(np.searchsorted(edges, time_s), 0, len(edges) - 1)
    near = np.minimum(np.abs(edges[index] - time_s), np.abs(edges[np.maximum(index - 1, 0)] - time_s))
    return near <= _TOUCHES_S


def mean(parts: Parts, chosen: Ints, *, waits_known: bool) -> Budget:
    """Return the mean budget of the chosen steps."""
    found = {one.name: float(np.mean(getattr(parts, one.name)[chosen])) for one in fields(parts)}
    exposed = found["exposed_transfer_s"] + found["exposed_wait_s"]
    return _budget(found, exposed, known=waits_known)


def average(budgets: list[Budget]) -> Budget:
    """Return the mean of several ranks' budgets."""
    known = all(one.exposed_wait_s is not None for one in budgets)
    found = {one.name: float(np.mean([getattr(b, one.name) or 0.0 for b in budgets])) for one in fields(Budget)}
    return _budget(found, found.pop("exposed_s"), known=known)


def _budget(found: dict[str, float], exposed_s: float, *, known: bool) -> Budget:
    return Budget(
        step_s=found["step_s"],
        compute_s=found["compute_s"],
        overlapped_s=found["overlapped_s"],
        exposed_transfer_s=found["exposed_transfer_s"] if known else None,
        exposed_wait_s=found["exposed_wait_s"] if known else None,
        exposed_s=exposed_s,
        gap_s=found["gap_s"],
        idle_s=found["idle_s"],
    )
