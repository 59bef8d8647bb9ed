"""The line alpha + n / beta nearest to a curve, which explains it; the curve itself predicts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nhalf.errors import InputError

if TYPE_CHECKING:
    from nhalf.breakdown import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The line t(n) = alpha + n / beta nearest to a curve, and how far from the curve it stays.

    `latency_s` (alpha) [s] is the fixed time of the whole collective, not of one message; `bandwidth_bytes_per_s`
    (beta) [bytes/s] is infinite when the times do not grow with size. `misfit_median` and `misfit_max` are
    |line / measured - 1|, the median and the largest over the points.
    """

    latency_s: float
    bandwidth_bytes_per_s: float
    misfit_median: float
    misfit_max: float

    @property
    def half_size_bytes(self) -> float:
        """Return n_1/2 = alpha x beta [bytes] of the line."""
        return self.latency_s * self.bandwidth_bytes_per_s


def fit_line(sizes_bytes: Array, times_s: Array) -> Line:
    """Return the line alpha + n / beta with the least squared relative error, alpha and 1 / beta not negative.

    The error is relative because the times span five or six decades: with plain least squares the largest message
    alone decides, and alpha comes out as noise, often negative. Each point is divided by its time and the two normal
    equations are solved directly; when one unknown comes out negative it is zero and the other is solved alone, which
    for two unknowns is the exact non-negative solution.

    Raises InputError when there are no points, sizes and times do not pair, or a time is not positive.

    Reference: R. W. Hockney, "The communication challenge for MPP: Intel Paragon and Meiko CS-2", Parallel Computing 20
    (1994), for the line; C. L. Lawson and R. J. Hanson, "Solving Least Squares Problems" (1974), for the constraint.
    """
    if len(sizes_bytes) == 0 or sizes_bytes.shape != times_s.shape or not np.all(times_s > 0):
        raise InputError(
            f"{len(sizes_bytes)} sizes and {len(times_s)} times give no line",
            where="fit of a line",
            allowed="one positive time for every size, at least one",
        )
    # In units of the largest size, so that both columns are of like magnitude.
    scale = max(float(np.max(sizes_bytes)), 1.0)
    fixed, moved = 1.0 / times_s, sizes_bytes / scale / times_s
    ff, fm, mm = float(fixed @ fixed), float(fixed @ moved), float(moved @ moved)
    f1, m1 = float(fixed.sum()), float(moved.sum())
    determinant = ff * mm - fm * fm
    # Below this the points are one size, or indistinguishable from it: all of the time is called fixed.
    if determinant <= 1e-12 * ff * mm:
        alpha, inverse = f1 / ff, 0.0
    else:
        alpha, inverse = (f1 * mm - m1 * fm) / determinant, (m1 * ff - f1 * fm) / determinant
        if alpha < 0:
            alpha, inverse = 0.0, m1 / mm
        elif inverse < 0:
            alpha, inverse = f1 / ff, 0.0
    misfit = np.abs(alpha * fixed + inverse * moved - 1.0)
    return Line(
        latency_s=alpha,
        bandwidth_bytes_per_s=scale / inverse if inverse > 0 else math.inf,
        misfit_median=float(np.median(misfit)),
        misfit_max=float(np.max(misfit)),
    )
