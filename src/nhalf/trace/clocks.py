"""Clocks: how far each rank's clock is off, from the collectives alone.

Two facts of a synchronous collective are used. Nobody ends before the last one starts: each collective bounds the
offset of two clocks from both sides, without any assumption about transfer. And all end nearly together: the median
difference of the ends is a point estimate, within 0.1 us on GPU-like data. On processes the second is biased by
hundreds of microseconds (a blocked process needs a wake-up), so where their ends scatter the middle of the bounds is
taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nhalf.errors import WeakEvidenceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.trace.matching import Meetings
    from nhalf.trace.record import Floats, RankTrace

_WINDOW = 30
"""Collectives whose median gives one point of a drift."""
_FEWEST_WINDOWS, _SMALLEST_WINDOW = 6, 5
_SURE = 5.0  # a drift is believed when it is this many of its own standard errors
_SMALLEST_DRIFT_S = 0.3e-6  # over the capture; below it the offset alone does
_LEAST_CONSISTENT = 0.95
_TIGHT_S, _TIGHT = 1e-6, 0.05
"""Ends of processes whose middle half lies within this [s], or this part of the shortest calls, are left together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """One rank's clock against another's: reads `offset_s` [s] too much, by the middle of the capture.

    `against` is the first rank, or the first of the ranks that meetings tie together where none ties them to it.
    `low_s` and `high_s` [s] are the bounds that causality sets; `drift` [s/s] is how fast the offset grows;
    `end_median_s` and `midpoint_s` [s] are the two estimates. A clock that no collective ties has no bounds (NaN).
    """

    rank: int
    against: int
    offset_s: float
    low_s: float
    high_s: float
    drift: float
    end_median_s: float
    midpoint_s: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Aligned:
    """The meetings on one clock: starts and ends, (ranks, meetings) [s], NaN where a rank took no part."""

    start_s: Floats
    end_s: Floats
    clocks: tuple[Clock, ...]
    middle_s: float

    def on_common_clock(self, row: int, time_s: Floats, shift_s: float) -> Floats:
        """Return times [s] of a rank's own clock on the common one; `shift_s` [s] is between the origins."""
        clock = self.clocks[row]
        moved = time_s + shift_s
        return moved - clock.offset_s - clock.drift * (moved - self.middle_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edge:
    """The offset and drift of the second of two ranks' clocks against the first's, from the calls they share [s].

    `together` says that the ranks leave together: their median is the better estimate.
    """

    ends: float
    drift: float
    together: bool


def shifts_s(traces: Sequence[RankTrace]) -> Floats:
    """Return the distance [s] between each trace's origin and the first one's."""
    return np.array([(trace.origin_ns - traces[0].origin_ns) * 1e-9 for trace in traces])


def align(traces: Sequence[RankTrace], meetings: Meetings) -> Aligned:
    """Return the meetings on the first rank's clock.

    Raises
    ------
    WeakEvidenceError
        No offset of the clocks lets 95 % of the meetings have happened: they are not the same collectives.
    """
    start, end = raw_times(traces, meetings)
    usable = meetings.symmetric
    middle = float(np.nanmean(start)) if start.size else 0.0
    device = traces[0].device
    tree = _forest(~np.isnan(start[:, usable]))
    edges: dict[int, tuple[int, _Edge]] = {}
    drift = np.zeros(len(traces))
    for parent, child in tree:
        both = usable & ~np.isnan(start[parent]) & ~np.isnan(start[child])
        times = [array[row][both] for array in (start, end) for row in (parent, child)]
        # The parent is brought to the common rate first, so that drifts add along the tree.
        for i in (0, 2):
            times[i] = times[i] - drift[parent] * (times[i] - middle)
        edge = _edge(times[0], times[1], times[2], times[3], middle, device)
        edges[child] = parent, edge
        drift[child] = edge.drift
    rated = [array - drift[:, None] * (array - middle) for array in (start, end)]
    bounds = _bounds(rated[0][:, usable], rated[1][:, usable])
    clocks = _clocks(traces, edges, bounds)
    offset = np.array([clock.offset_s for clock in clocks])
    return Aligned(start_s=rated[0] - offset[:, None], end_s=rated[1] - offset[:, None], clocks=clocks, middle_s=middle)


def raw_times(traces: Sequence[RankTrace], meetings: Meetings) -> tuple[Floats, Floats]:
    """Return starts and ends, (ranks, meetings) [s], after the first rank's origin on each rank's own clock."""
    start, end = (np.full(meetings.index.shape, np.nan) for _ in range(2))
    for row, (trace, shift) in enumerate(zip(traces, shifts_s(traces), strict=True)):
        there = meetings.index[row] >= 0
        calls = meetings.index[row, there]
        start[row, there] = trace.calls.start_s[calls] + shift
        end[row, there] = trace.calls.end_s[calls] + shift
    return start, end


def _forest(present: np.ndarray[tuple[int, int], np.dtype[np.bool_]]) -> list[tuple[int, int]]:
    """Return (parent, child) rows outwards from row 0, by the pairs that met most often.

    Rows that no chain of meetings ties to row 0 hang from the first of their like.
    """
    met = present.astype(np.int64) @ present.astype(np.int64).T
    np.fill_diagonal(met, 0)
    reached, tree = [0], []
    while len(reached) < len(met):
        rest = [row for row in range(len(met)) if row not in reached]
        count, a, b = max((int(met[a, b]), -a, -b) for a in reached for b in rest)
        if count:
            tree.append((-a, -b))
        reached.append(-b if count else rest[0])
    return tree


def _edge(start_a: Floats, start_b: Floats, end_a: Floats, end_b: Floats, middle: float, device: str) -> _Edge:
    """Return what meetings of two ranks say about their clocks."""
    low, high, ends = start_b - end_a, end_b - start_a, end_b - end_a
    at = end_a - middle
    drift = _drift(at, ends)
    found = _interval(low - drift * at, high - drift * at)
    if found[2] < 1.0 and len(at) >= _WINDOW:
        other = _widest(at, low, high)
        wider = _interval(low - other * at, high - other * at)
        if wider[2] > found[2] + 0.01:
            drift, found = other, wider
    if found[2] < _LEAST_CONSISTENT:
        apart = (low - drift * at > found[1]) | (high - drift * at < found[0])
        raise WeakEvidenceError(
            f"only {100 * found[2]:.0f} % of the matched collectives can have happened together, whatever the clocks; "
            f"the first that cannot is number {int(np.flatnonzero(apart)[0]) + 1} of {len(at)}",
            where="matching",
            allowed=f"{100 * _LEAST_CONSISTENT:.0f} % or more",
            do="give traces of the same run and the same steps",
        )
    left = ends - drift * at
    spread = float(np.subtract(*np.percentile(left, [75, 25])))
    shortest = float(np.median(np.minimum(end_a - start_a, end_b - start_b)))
    together = device == "gpu" or spread <= max(_TIGHT_S, _TIGHT * shortest)
    return _Edge(ends=float(np.median(left)), drift=drift, together=together)


def _drift(at: Floats, ends: Floats) -> float:
    """Return the drift [s/s] that medians over windows of the end differences show, 0 when none is sure."""
    windows = max(len(at) // _WINDOW, min(_FEWEST_WINDOWS, len(at) // _SMALLEST_WINDOW))
    if windows < _FEWEST_WINDOWS:
        return 0.0
    cut = len(at) // windows * windows
    x = np.median(at[:cut].reshape(windows, -1), axis=1)
    y = np.median(ends[:cut].reshape(windows, -1), axis=1)
    centred = x - x.mean()
    if not np.any(centred):
        return 0.0
    slope = float(centred @ (y - y.mean()) / (centred @ centred))
    left = y - y.mean() - slope * centred
    error = float(np.sqrt((left @ left) / max(1, windows - 2) / (centred @ centred)))
    sure = abs(slope) > _SURE * error and abs(slope) * float(np.ptp(at)) > _SMALLEST_DRIFT_S
    return slope if sure else 0.0


def _interval(low: Floats, high: Floats) -> tuple[float, float, float]:
    """Return the bounds of the offset that most meetings allow, and the share of meetings that allow it."""
    rising_low, rising_high = np.sort(low), np.sort(high)
    allowed = np.arange(1, len(low) + 1) - np.searchsorted(rising_high, rising_low, side="left")
    best = int(np.argmax(allowed))
    at = rising_low[best]
    inside = (low <= at) & (high >= at)
    return float(low[inside].max()), float(high[inside].min()), float(inside.mean())


def _widest(at: Floats, low: Floats, high: Floats) -> float:
    """Return the drift [s/s] that leaves the widest interval.

    The width min(high - d t) - max(low - d t) is concave in the drift d, so it is found by golden sections.
    """
    reach = 1e-3  # no two clocks that anything runs on differ by more than a part in a thousand
    left, right, ratio = -reach, reach, (5**0.5 - 1) / 2

    def width(d: float) -> float:
        return float(np.min(high - d * at) - np.max(low - d * at))

    for _ in range(100):
        a, b = right - ratio * (right - left), left + ratio * (right - left)
        if width(a) < width(b):
            left = a
        else:
            right = b
    return (left + right) / 2


def _bounds(start: Floats, end: Floats) -> Floats:
    """Return the largest offset of each column's clock over each row's that causality allows [s], tightened jointly.

    Rounding and rare mismatches are left out as in a single pair; shortest paths then combine all pairs, and are
    dropped when they contradict each other.
    """
    ranks = len(start)
    most = np.full((ranks, ranks), np.inf)
    np.fill_diagonal(most, 0.0)
    for a in range(ranks):
        for b in range(a + 1, ranks):
            both = ~np.isnan(start[a]) & ~np.isnan(start[b])
            if np.any(both):
                low, high, _ = _interval(start[b][both] - end[a][both], end[b][both] - start[a][both])
                most[a, b], most[b, a] = high, -low
    joint = most.copy()
    for via in range(ranks):
        joint = np.minimum(joint, joint[:, via, None] + joint[None, via, :])
    return most if np.any(np.diag(joint) < 0) else joint


def _clocks(traces: Sequence[RankTrace], edges: dict[int, tuple[int, _Edge]], bounds: Floats) -> tuple[Clock, ...]:
    """Return each rank's clock; the ends add up along the tree, the bounds hold jointly."""
    found: dict[int, Clock] = {}
    roots: dict[int, int] = {}
    sure: dict[int, bool] = {}
    ordered = [row for row in range(len(traces)) if row not in edges] + list(edges)
    for row in ordered:
        if row not in edges:
            roots[row], sure[row] = row, True
            nothing = 0.0 if row == 0 else float("nan")
            found[row] = Clock(
                rank=traces[row].rank, against=traces[row].rank if row else traces[0].rank, offset_s=0.0, low_s=nothing,
                high_s=nothing, drift=0.0, end_median_s=0.0, midpoint_s=0.0,
            )  # fmt: skip
            continue
        parent, edge = edges[row]
        root = roots[row] = roots[parent]
        low, high = -float(bounds[row, root]), float(bounds[root, row])
        ends = found[parent].end_median_s + edge.ends
        midpoint = (low + high) / 2
        sure[row] = sure[parent] and edge.together
        point = float(np.clip(ends, low, high)) if sure[row] else midpoint
        found[row] = Clock(
            rank=traces[row].rank, against=traces[root].rank, offset_s=point, low_s=low, high_s=high, drift=edge.drift,
            end_median_s=ends, midpoint_s=midpoint,
        )  # fmt: skip
    return tuple(found[row] for row in range(len(traces)))
