"""The curve through measured points, as knots: straight lines in log-log between them, dense enough to bend.

The surface (`nhalf.curve.surface`) says how the curve bends between two measured sizes; the measured points themselves
stay as they were measured. Below them the floor holds, above them the bandwidth of the last point. Nothing forces the
time to rise, because it does fall where a library switches its algorithm.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.curve.surface import INSIDE, Surface
from nhalf.tape import recorded

if TYPE_CHECKING:
    from nhalf.breakdown import Array, Quantity

FLOOR_SIZE_BYTES: Final = 2048.0
"""The floor is the median time of the messages up to this size [bytes], where none is long enough to cost bandwidth."""
FAR: Final = 1000.0
"""log2 of a size [bytes] that nobody asks for: the end of the bandwidth ceiling."""
_PER_DOUBLING: Final = 4
"""Knots for each doubling of the size: the straight line between two leaves the surface by 0.1 % at most."""
_LEAST: Final = 4
"""Fewer points than this say nothing of a bend: the base of the surface alone has three unknowns."""


@dataclass(frozen=True, slots=True, eq=False)
class CurveAt:
    """A measured curve at one number of ranks: call it with a size [bytes] for the time [s].

    `log2_sizes` and `log2_times` are its knots; the first holds the floor, and a last one far out continues the
    bandwidth of the largest measured size. Both are empty for one rank, which waits for nobody.
    """

    label: str
    log2_sizes: tuple[float, ...]
    log2_times: tuple[float, ...]
    _x: Array = field(init=False, repr=False)
    _y: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Keep the knots as arrays too: scalars search the tuples, arrays the arrays."""
        object.__setattr__(self, "_x", np.array(self.log2_sizes))
        object.__setattr__(self, "_y", np.array(self.log2_times))

    @recorded
    def __call__(self, size_bytes: Quantity) -> Quantity:
        """Return the time [s] of a message of `size_bytes` [bytes]: a float for a float, an array for an array."""
        if isinstance(size_bytes, np.ndarray):
            return self._of_array(size_bytes)
        xs, ys = self.log2_sizes, self.log2_times
        if not xs:
            return 0.0
        x = float(np.log2(max(size_bytes, math.exp2(xs[0]))))
        if x <= xs[0]:
            return float(np.exp2(ys[0]))
        i = min(bisect_right(xs, x), len(xs) - 1)
        # The order of operations is that of np.interp, so that a float and an array give the same last digit.
        slope = (ys[i] - ys[i - 1]) / (xs[i] - xs[i - 1])
        return float(np.exp2(slope * (x - xs[i - 1]) + ys[i - 1]))

    def _of_array(self, sizes_bytes: Array) -> Array:
        if not self.log2_sizes:
            return np.zeros_like(sizes_bytes, dtype=np.float64)
        positive = np.maximum(sizes_bytes, math.exp2(self.log2_sizes[0]), dtype=np.float64)
        times: Array = np.exp2(np.interp(np.log2(positive), self._x, self._y))
        return times

    @property
    def floor_s(self) -> float:
        """Return the time [s] of the smallest messages, and of any smaller one."""
        return math.exp2(self.log2_times[0]) if self.log2_times else 0.0

    def __str__(self) -> str:
        """Return the key of the curve and the ranks: `h100-sxm/vllm 0.24.0/graph/all-reduce/bfloat16 x8`."""
        return self.label


Knots = tuple[tuple[float, ...], tuple[float, ...]]
"""log2 of sizes and times."""


def through(sizes_bytes: Array, times_s: Array, noise: float) -> Knots:
    """Return the knots of one sweep: its points, what the surface says between them, the floor and the ceiling.

    `noise` [1] is the relative standard deviation of one point.
    """
    times = np.concatenate([[_floor(sizes_bytes, times_s)], times_s[1:]])
    xs, ys = np.log2(sizes_bytes), np.log2(times)
    if len(xs) < _LEAST:
        return _ended(xs, ys)
    unknown = np.zeros(len(xs))
    surface = Surface(
        ranks=unknown, sizes_bytes=sizes_bytes, times_s=times, noise=unknown + noise, doubled=False, form=INSIDE
    )
    dense = _dense(xs)
    bent, _ = surface.log_time(np.exp2(dense), np.zeros(len(dense)))
    missed = ys - surface.log_time(sizes_bytes, unknown)[0] / math.log(2.0)
    return _ended(dense, bent / math.log(2.0) + np.interp(dense, xs, missed))


def between(surface: Surface, ranks: int) -> Knots:
    """Return the knots at a number of ranks that was not measured, by the surface over those that were."""
    sizes = np.unique(surface.sizes_bytes)
    dense = _dense(np.log2(sizes))
    times = np.exp(surface.log_time(np.exp2(dense), np.full(len(dense), float(ranks)))[0])
    times[0] = _floor(np.exp2(dense), times)
    return _ended(dense, np.log2(times))


def _floor(sizes_bytes: Array, times_s: Array) -> float:
    """Return the time [s] of the smallest messages."""
    small = times_s[sizes_bytes <= FLOOR_SIZE_BYTES]
    return float(np.median(small)) if len(small) else float(times_s[0])


def _dense(xs: Array) -> Array:
    """Return the knots and others between them, evenly in the logarithm."""
    parts = [
        np.linspace(low, high, math.ceil((high - low) * _PER_DOUBLING) + 1)[:-1] for low, high in pairwise(xs.tolist())
    ]
    return np.concatenate([*parts, xs[-1:]])


def _ended(xs: Array, ys: Array) -> Knots:
    """Return the knots with a last one far out, which holds the bandwidth of the largest size."""
    return (*xs.tolist(), FAR), (*ys.tolist(), float(ys[-1]) + FAR - float(xs[-1]))
