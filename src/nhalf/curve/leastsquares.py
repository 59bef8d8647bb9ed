"""Least squares with unknowns that cannot be negative, exact for the few unknowns that a fit here has."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from nhalf.quantiles import TO_SIGMA

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.breakdown import Array

Fit = TypeVar("Fit")
HUBER: Final = 1.345
"""Residuals beyond this many standard deviations lose weight (P. J. Huber, "Robust Statistics", 1981): 95 % efficient
on normal noise."""
NOISE_FLOOR: Final = 0.01
"""Relative noise [1] below which nothing is believed: repeated runs of one collective differ by 0.8 % in the median."""

_RIDGE: Final = 1e-12
_ROUNDS: Final = 12
"""Rounds of reweighting at most."""
_NOTHING: Final = 1e-200
"""A column whose squares add up to no more has no say: divided by them, damaged logs overflow."""
_SETTLED: Final = 1e-3
"""Weights that move less than this are final."""


def nonnegative(gram: Array, moment: Array) -> Array:
    """Return the x >= 0 that minimises x'Gx - 2h'x, for any stack of problems: `gram` (..., p, p), `moment` (..., p).

    Each set of unknowns that are allowed to differ from zero is solved on its own, and the best solution without a
    negative unknown is the answer: exact, as p is at most 5.

    Reference: C. L. Lawson and R. J. Hanson, "Solving Least Squares Problems" (1974), chapter 23, for the problem.
    """
    unknowns = moment.shape[-1]
    diagonal = np.einsum("...ii->...i", gram)
    scale = np.sqrt(np.where(diagonal > _NOTHING, diagonal, 1.0))
    unit_gram = gram / (scale[..., :, None] * scale[..., None, :]) + _RIDGE * np.eye(unknowns)
    unit_moment = moment / scale
    masks = _subsets(unknowns)
    kept = masks[:, :, None] * masks[:, None, :]
    identity = np.eye(unknowns) * (1.0 - masks)[:, None, :]
    wanted = unit_moment[..., None, :] * masks
    found = np.linalg.solve(unit_gram[..., None, :, :] * kept + identity, wanted[..., None])[..., 0]
    gain = np.where((found >= 0.0).all(axis=-1), (found * wanted).sum(axis=-1), -np.inf)
    best = gain.argmax(axis=-1)
    chosen = np.take_along_axis(found, best[..., None, None], axis=-2)[..., 0, :]
    answer: Array = chosen / scale
    return answer


@cache
def _subsets(unknowns: int) -> Array:
    """Return every subset of the unknowns as rows of 0 and 1."""
    numbers = np.arange(2**unknowns)
    rows: Array = ((numbers[:, None] >> np.arange(unknowns)) & 1).astype(float)
    return rows


def robust(columns: Array, target: Array, *, noise: float = NOISE_FLOOR) -> tuple[Array, Array]:
    """Return the coefficients x >= 0 with `columns` @ x near `target`, and the weight of each row, from 0 to 1.

    Rows far off lose weight (Huber), so that one bad point does not move the fit; `noise` [1] is the smallest
    standard deviation that is believed.
    """
    return reweighted(
        len(target),
        lambda weights: weighted(columns, target, weights),
        lambda found: columns @ found - target,
        noise=noise,
    )


def reweighted(
    count: int, solve: Callable[[Array], Fit], residuals: Callable[[Fit], Array], *, noise: float = NOISE_FLOOR
) -> tuple[Fit, Array]:
    """Return the fit of `count` rows that Huber's weights settle on, and those weights; `solve` fits by weights."""
    weights = np.ones(count)
    found = solve(weights)
    for _ in range(_ROUNDS - 1):
        renewed = huber(residuals(found), noise)
        if float(np.abs(renewed - weights).max()) < _SETTLED:
            break
        weights = renewed
        found = solve(weights)
    return found, weights


def weighted(columns: Array, target: Array, weights: Array) -> Array:
    """Return the coefficients x >= 0 of the weighted problem."""
    return nonnegative(columns.T @ (columns * weights[:, None]), columns.T @ (target * weights))


def huber(residuals: Array, noise: float = NOISE_FLOOR) -> Array:
    """Return the weight of each residual, from 0 to 1."""
    size = np.abs(residuals)
    sigma = max(TO_SIGMA * float(np.sort(size)[len(size) // 2]), noise)
    weights: Array = np.minimum(1.0, HUBER * sigma / np.maximum(size, np.finfo(float).tiny))
    return weights
