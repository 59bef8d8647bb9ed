"""Curves of the user's own carried to sizes and ranks that were not measured, by the shape of curves of other systems.

What a machine's own points say is how far it is from others; what others say is how a time changes from size to size
and from rank count to rank count. So the offset of the own points [ln] is held between and beyond them, over the mean
of the others' curves, of which those near the own points count more. `tests/bench/cluster_study.py` says how far off
that is on systems left out.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.curve import spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.breakdown import Array
    from nhalf.curve.measured import MeasuredCurve

_NEAR: Final = 0.1
"""How far [ln] curves may be from the own points before they count less: of 0.02 to 5, the least error over systems
left out, where siblings are known and where they are not."""
_FEW: Final = 8
_GAP: Final = 4.0
"""Curves of fewer sizes, or with a wider gap between two, say too little of their own shape."""


def filled(own: MeasuredCurve, others: Sequence[MeasuredCurve], *, slots: bool = False) -> MeasuredCurve:
    """Return a curve of the user's with the sizes and rank counts that it lacks, moved from those of other systems.

    `others` are of the same operation and library; `slots` tells that devices share the slots of a host. What was
    measured stays as it is; `seen` tells it apart.
    """
    sizes: dict[int, Array] = {}
    times: dict[int, Array] = {}
    seen: dict[int, Array] = {}
    for ranks, own_sizes, own_times in zip(own.ranks, own.sizes_bytes, own.times_s, strict=True):
        alike = [other for other in others if other.covers(ranks)]
        seen[ranks], sizes[ranks], times[ranks] = own_sizes, own_sizes, own_times
        if alike and is_sparse(own_sizes):
            sizes[ranks], times[ranks] = _between(own_sizes, own_times, ranks, alike)
    for ranks in sorted({each for other in others for each in other.ranks if not own.covers(each)}):
        nearest = min(own.ranks, key=lambda each: (abs(math.log2(each / ranks)), each))
        both = [other for other in others if other.covers(ranks) and other.covers(nearest)]
        if both:
            sizes[ranks], seen[ranks] = sizes[nearest], np.array([])
            times[ranks] = _carried(own, nearest, (sizes[nearest], times[nearest]), ranks, both)
    order = sorted(sizes)
    moved = len(order) > len(own.ranks) or any(len(seen[each]) < len(sizes[each]) for each in order)
    return replace(
        own,
        ranks=tuple(order),
        sizes_bytes=tuple(sizes[each] for each in order),
        times_s=tuple(times[each] for each in order),
        seen=tuple(seen[each] for each in order) if moved else (),
        slack=spread.ON_SLOTS if slots else 1.0,
    )


def is_sparse(sizes_bytes: Array) -> bool:
    """Tell whether sizes [bytes] are too few or too far apart to show the shape of a curve."""
    return len(sizes_bytes) < _FEW or bool(np.max(sizes_bytes[1:] / sizes_bytes[:-1]) > _GAP)


def _between(sizes_bytes: Array, times_s: Array, ranks: int, alike: Sequence[MeasuredCurve]) -> tuple[Array, Array]:
    """Return sizes [bytes] and times [s] of one rank count with those between and beyond a few points.

    The offset of the points [ln] is straight between them in the logarithm of the size, and stays beyond them.
    """
    grid = np.unique(np.concatenate([sizes_bytes, *(_sizes(other) for other in alike)]))
    logs = np.array([np.log(np.asarray(other.time_s(grid, ranks))) for other in alike])
    at = np.searchsorted(grid, sizes_bytes)
    shape = _weights(np.log(times_s), logs[:, at]) @ logs
    times = np.exp(shape + np.interp(np.log2(grid), np.log2(sizes_bytes), np.log(times_s) - shape[at]))
    times[at] = times_s  # to the last digit
    return grid, times


def _carried(
    own: MeasuredCurve, known: int, points: tuple[Array, Array], ranks: int, both: Sequence[MeasuredCurve]
) -> Array:
    """Return the times [s] on other ranks, at the sizes of the points of a known rank count [bytes, s]."""
    index = own.ranks.index(known)
    near = np.array([np.log(np.asarray(other.time_s(own.sizes_bytes[index], known))) for other in both])
    weights = _weights(np.log(own.times_s[index]), near)
    sizes, times = points
    ratios = np.array(
        [np.log(np.asarray(other.time_s(sizes, ranks)) / np.asarray(other.time_s(sizes, known))) for other in both]
    )
    found: Array = times * np.exp(weights @ ratios)
    return found


def _sizes(curve: MeasuredCurve) -> Array:
    return np.unique(np.concatenate(curve.sizes_bytes))


def _weights(own: Array, others: Array) -> Array:
    """Return how much each of some curves counts [1], by how near its points are to the own ones [ln]."""
    apart = np.mean(np.abs(others - own), axis=1)
    weights = np.exp(-0.5 * ((apart - apart.min()) / _NEAR) ** 2)
    found: Array = weights / weights.sum()
    return found
