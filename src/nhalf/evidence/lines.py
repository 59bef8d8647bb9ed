"""The robust line t = alpha + n / beta through measured times, for one set of times or for a stack of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.curve import Line
from nhalf.curve.leastsquares import nonnegative, reweighted

if TYPE_CHECKING:
    from nhalf.breakdown import Array

_SINGULAR: Final = 1e-12  # below this the sizes are one size, or indistinguishable from it: all of the time is fixed


def robust_line(sizes_bytes: Array, times_s: Array) -> tuple[Line, Array]:
    """Return the line nearest to the times in relative error, and the weight that each point kept.

    It is `nhalf.curve.fit_line` with Huber's weights, so a spike does not move it.
    """
    scale = max(float(sizes_bytes.max()), 1.0)
    fixed = 1.0 / times_s
    moved = sizes_bytes / scale * fixed
    (alpha, inverse), weights = reweighted(
        len(times_s),
        lambda weights: _solved(fixed, moved, weights),
        lambda found: found[0] * fixed + found[1] * moved - 1.0,
    )
    return as_line(alpha, inverse / scale, sizes_bytes, times_s), weights


def _solved(fixed: Array, moved: Array, weights: Array) -> tuple[float, float]:
    """Return the two coefficients of the weighted columns nearest to 1, neither negative; scalars are quick."""
    of_fixed, of_moved = weights * fixed, weights * moved
    ff, fm, mm = float(of_fixed @ fixed), float(of_fixed @ moved), float(of_moved @ moved)
    f1, m1 = float(of_fixed.sum()), float(of_moved.sum())
    determinant = ff * mm - fm * fm
    if determinant <= _SINGULAR * ff * mm:
        return f1 / ff, 0.0
    alpha, inverse = (f1 * mm - m1 * fm) / determinant, (m1 * ff - f1 * fm) / determinant
    if alpha < 0.0:
        return 0.0, m1 / mm
    return (alpha, inverse) if inverse >= 0.0 else (f1 / ff, 0.0)


def as_line(alpha: float, inverse: float, sizes_bytes: Array, times_s: Array) -> Line:
    """Return a line of given alpha [s] and 1 / beta [s/byte] with its misfit to the points."""
    misfit = np.abs((alpha + inverse * sizes_bytes) / times_s - 1.0)
    return Line(
        latency_s=alpha,
        bandwidth_bytes_per_s=1.0 / inverse if inverse > 0.0 else math.inf,
        misfit_median=float(np.median(misfit)),
        misfit_max=float(misfit.max()),
    )


def line_times(line: Line, sizes_bytes: Array) -> Array:
    """Return the times [s] of a line."""
    return line.latency_s + sizes_bytes / line.bandwidth_bytes_per_s


def refit(sizes_bytes: Array, times_s: Array, weights: Array) -> tuple[Array, Array]:
    """Return alpha [s] and 1 / beta [s/byte] of each row of `times_s` (draws, points), with fixed weights."""
    scale = max(float(sizes_bytes.max()), 1.0)
    fixed = 1.0 / times_s
    moved = sizes_bytes / scale * fixed
    of_fixed, of_moved = weights * fixed, weights * moved
    cross = (of_fixed * moved).sum(axis=-1)
    gram = np.stack(
        [
            np.stack([(of_fixed * fixed).sum(axis=-1), cross], axis=-1),
            np.stack([cross, (of_moved * moved).sum(axis=-1)], axis=-1),
        ],
        axis=-2,
    )
    found = nonnegative(gram, np.stack([of_fixed.sum(axis=-1), of_moved.sum(axis=-1)], axis=-1))
    return found[..., 0], found[..., 1] / scale
