"""Segments: where a library switches its algorithm or protocol, found as the best few lines with jumps between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from nhalf.curve.leastsquares import NOISE_FLOOR, nonnegative
from nhalf.evidence.lines import robust_line

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.curve import Line

MOST: Final = 4
"""More segments than this explain noise."""
LEAST_POINTS: Final = 4
"""A segment has two unknowns and needs points to be wrong about."""
_FINEST: Final = 96  # sizes; a longer sweep is thinned for the search, whose work grows with the square


_CHI2_95: Final = 3.84
"""The 95 % quantile of chi-square with one degree of freedom."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """Where one segment ends and the next begins: `size_bytes` [bytes] is the first measured size of the next one.

    It happens above `low_bytes` and at or below `high_bytes` [bytes], both measured sizes, at 95 %.
    """

    size_bytes: float
    low_bytes: float
    high_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The line through neighbouring sizes, `from_bytes` to `to_bytes` [bytes], both measured.

    `latency_s` [s] and `bandwidth_bytes_per_s` [bytes/s] are those of the line; `first` and `last` are the indices of
    its points.
    """

    from_bytes: float
    to_bytes: float
    latency_s: float
    bandwidth_bytes_per_s: float
    first: int
    last: int

    def times_s(self, sizes_bytes: Array) -> Array:
        """Return the times [s] of the line."""
        return self.latency_s + sizes_bytes / self.bandwidth_bytes_per_s

    @property
    def points(self) -> slice:
        """Return where the points of the segment lie."""
        return slice(self.first, self.last + 1)


def split(sizes_bytes: Array, times_s: Array) -> tuple[Segment, ...]:
    """Return the 1 to 4 lines that explain the times best, each through 4 sizes or more.

    All places to cut are tried (dynamic programming); the number of lines is the one of the lowest BIC with a noise
    floor of 1 %. K lines count 4K - 2 unknowns: two each, and two for each cut, because its place was searched for
    (with one, 14 of 100 sweeps with 5 % noise get a cut that is not there, with two 5). Lines need not meet, and the
    time may fall from one to the next, because it does where a library switches. Sizes rise; spikes should have been
    left out.

    References
    ----------
    R. Bellman, "On the approximation of curves by line segments using dynamic programming", Commun. ACM 4 (1961).
    G. Schwarz, "Estimating the dimension of a model", Ann. Statist. 6 (1978), for BIC.
    """
    kept = _thinned(sizes_bytes)
    cuts = _best_cuts(sizes_bytes[kept], times_s[kept])
    starts = [0, *(int(kept[cut]) for cut in cuts), len(sizes_bytes)]
    return tuple(_segment(sizes_bytes, times_s, first, last - 1) for first, last in pairwise(starts))


def switches(sizes_bytes: Array, times_s: Array, segments: tuple[Segment, ...]) -> tuple[Switch, ...]:
    """Return the switches between segments, each with the places that explain the times nearly as well.

    A cut is moved while the others stay: the places whose likelihood ratio to the chosen one is below the 95 % quantile
    of chi-square are its interval. For a place that distribution is an approximation, good where the step is large.

    References
    ----------
    D. V. Hinkley, "Inference about the change-point in a sequence of random variables", Biometrika 57 (1970).
    """
    return tuple(
        _switch(sizes_bytes, times_s, before.first, after.first, after.last + 1) for before, after in pairwise(segments)
    )


def _switch(sizes: Array, times: Array, first: int, cut: int, end: int) -> Switch:
    """Return the switch at index `cut`, between the segments of the points [first, cut) and [cut, end)."""
    kept = np.union1d(_thinned(sizes[first:end]) + first, [cut])
    place, count = int(np.searchsorted(kept, cut)), len(kept)
    cost = _costs(sizes[kept], times[kept])
    places = np.arange(1, count)
    scores = count * np.log((cost[0, places] + cost[places, count]) / count + NOISE_FLOOR**2)
    alike = places[scores <= scores.min() + _CHI2_95]
    low, high = min([*alike.tolist(), place]), max([*alike.tolist(), place])
    return Switch(
        size_bytes=float(sizes[cut]), low_bytes=float(sizes[kept[low - 1]]), high_bytes=float(sizes[kept[high]])
    )


def modelled(segments: tuple[Segment, ...], sizes_bytes: Array) -> Array:
    """Return the time [s] that the segments give each measured size."""
    return np.concatenate([segment.times_s(sizes_bytes[segment.points]) for segment in segments])


def _segment(sizes: Array, times: Array, first: int, last: int) -> Segment:
    line: Line = robust_line(sizes[first : last + 1], times[first : last + 1])[0]
    return Segment(
        from_bytes=float(sizes[first]),
        to_bytes=float(sizes[last]),
        latency_s=line.latency_s,
        bandwidth_bytes_per_s=line.bandwidth_bytes_per_s,
        first=first,
        last=last,
    )


def _thinned(sizes: Array) -> npt.NDArray[np.intp]:
    """Return the indices of at most 96 sizes, evenly spread in their logarithm."""
    if len(sizes) <= _FINEST:
        return np.arange(len(sizes))
    steps = np.linspace(math.log(max(sizes[0], 1.0)), math.log(sizes[-1]), _FINEST)
    return np.unique(np.searchsorted(np.log(np.maximum(sizes, 1.0)), steps - 1e-9).clip(0, len(sizes) - 1))


def _best_cuts(sizes: Array, times: Array) -> list[int]:
    """Return the first index of every segment but the first."""
    count = len(sizes)
    most = min(MOST, count // LEAST_POINTS)
    if most <= 1:
        return []
    cost = _costs(sizes, times)
    # reached[end]: the least cost of the points before `end` with the lines used so far; `came`: where the last began.
    reached, came = cost[0].copy(), [np.zeros(count + 1, dtype=int)]
    totals = [reached[count]]
    for _ in range(1, most):
        through = reached[:, None] + cost
        came.append(through.argmin(axis=0))
        reached = through.min(axis=0)
        totals.append(reached[count])
    scores = [
        count * math.log(total / count + NOISE_FLOOR**2) + (4 * lines - 2) * math.log(count)
        for lines, total in enumerate(totals, start=1)
    ]
    cuts: list[int] = []
    end = count
    for lines in range(int(np.argmin(scores)), 0, -1):
        end = int(came[lines][end])
        cuts.insert(0, end)
    return _earliest(cuts, cost, count)


def _earliest(cuts: list[int], cost: Array, count: int) -> list[int]:
    """Return the cuts, each one size earlier where that explains the times as well.

    A point where two lines meet lies on both; a tuner that takes the quicker of two has switched there.
    """
    ends = [0, *cuts, count]
    for index in range(1, len(ends) - 1):
        before, cut, after = ends[index - 1 : index + 2]
        worse = cost[before, cut - 1] + cost[cut - 1, after] - cost[before, cut] - cost[cut, after]
        if worse < NOISE_FLOOR**2:
            ends[index] = cut - 1
    return ends[1:-1]


def _costs(sizes: Array, times: Array) -> Array:
    """Return the squared relative error of the best line through the points [i, j), infinite for too few."""
    count = len(sizes)
    fixed, moved = 1.0 / times, sizes / max(float(sizes[-1]), 1.0) / times
    sums = np.zeros((count + 1, 5))
    np.cumsum(np.stack([fixed * fixed, fixed * moved, moved * moved, fixed, moved], axis=1), axis=0, out=sums[1:])
    first, last = np.nonzero(np.arange(count + 1)[None, :] - np.arange(count + 1)[:, None] >= LEAST_POINTS)
    of = sums[last] - sums[first]
    gram = np.stack([of[:, [0, 1]], of[:, [1, 2]]], axis=1)
    found = nonnegative(gram, of[:, 3:])
    error = (last - first) - 2.0 * (found * of[:, 3:]).sum(axis=1) + np.einsum("ij,ijk,ik->i", found, gram, found)
    cost = np.full((count + 1, count + 1), math.inf)
    cost[first, last] = np.maximum(error, 0.0)
    return cost
