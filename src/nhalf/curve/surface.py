"""The curve behind the points: the time at any size, at ranks that were measured and at some that were not.

A base of a few physical terms carries the shape, and a smooth residual carries what the points say beyond it. The base
of one set of ranks is a + c n^p + n / beta; over several it is shared: a0 + a1 (K - 1) for the steps, (v n)^p and v n
for the bytes, v being the share of the buffer that a rank sends. The middle term is the knee, where pipelines fill. Its
power and the scales of the residual were chosen by points held out of 535 measured curves of 8 systems; chosen on the
other systems each time, the error is the same within 0.6 %. No mechanistic form with more constants does better at a
new rank count.

References
----------
C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine Learning" (2006), for the residual: kernel
Matern 3/2, equation 4.17; mean and variance, equations 2.25 and 2.26.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.curve.leastsquares import NOISE_FLOOR, robust
from nhalf.quantiles import TO_SIGMA

if TYPE_CHECKING:
    from nhalf.breakdown import Array


@dataclass(frozen=True, slots=True)
class Form:
    """What a surface assumes: the power p of the bytes in the knee between floor and ceiling, and two distances.

    `size_scale` says how far the residual of one size tells of another, in doublings of the size, and `rank_scale` how
    far that of one rank count tells of another, in doublings of the ranks; None where there is one rank count only.
    """

    knee_power: float
    size_scale: float
    rank_scale: float | None = None


INSIDE: Final = Form(0.4, 1.25)
"""Between the measured sizes of one rank count."""
OUTSIDE: Final = Form(0.5, 3.0)
"""Beyond them: what is near no longer says much, so the base must carry further."""
SHARED: Final = Form(0.5, 2.0, 3.0)
"""Over several rank counts."""
_LEAST_SPREAD: Final = 0.02  # of the residual: below it the base alone is as good as the points
_OUTLIER: Final = 3.0
_MEGABYTE: Final = 1e6  # bytes count in these, so that the columns are of like size


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Surface:
    """A fitted curve, or several over the ranks when its form says so: ask it with arrays of sizes [bytes] and ranks.

    `ranks`, `sizes_bytes` and `times_s` [s] are the points, one for each; `noise` [1] is the relative standard
    deviation of each. `moved` is v, the share of the buffer that a rank sends, at each point: 2 (K - 1) / K for an
    all-reduce, (K - 1) / K for the others.
    """

    ranks: Array
    sizes_bytes: Array
    times_s: Array
    noise: Array
    doubled: bool
    form: Form
    _coefficients: Array = field(init=False, repr=False)
    _pull: Array = field(init=False, repr=False)
    _inverse: Array = field(init=False, repr=False)
    _variance: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Fit the base, and condition the residual on the points."""
        columns = self._columns(self.sizes_bytes, self.ranks) / self.times_s[:, None]
        coefficients, _ = robust(columns, np.ones(len(self.times_s)))
        object.__setattr__(self, "_coefficients", coefficients)
        residual = np.log(self.times_s) - self._base(self.sizes_bytes, self.ranks)
        spread = max(TO_SIGMA * float(np.median(np.abs(residual))), _LEAST_SPREAD)
        variance = max(float(np.mean(np.minimum(residual**2, (_OUTLIER * spread) ** 2))), _LEAST_SPREAD**2)
        object.__setattr__(self, "_variance", variance)
        alike = variance * self._alike(self.sizes_bytes, self.ranks)
        inverse = np.linalg.inv(alike + np.diag(np.maximum(self.noise, NOISE_FLOOR) ** 2))
        object.__setattr__(self, "_inverse", inverse)
        object.__setattr__(self, "_pull", inverse @ residual)

    def log_time(self, sizes_bytes: Array, ranks: Array) -> tuple[Array, Array]:
        """Return ln of the time, and the standard deviation that the residual leaves to it, noise not included."""
        near = self._variance * self._alike(sizes_bytes, ranks)
        mean = self._base(sizes_bytes, ranks) + near @ self._pull
        known = np.einsum("ij,jk,ik->i", near, self._inverse, near)
        return mean, np.sqrt(np.maximum(self._variance - known, 0.0))

    def residual(self, sizes_bytes: Array, ranks: Array) -> Array:
        """Return what the points say beyond the base [ln]."""
        known: Array = self._variance * self._alike(sizes_bytes, ranks) @ self._pull
        return known

    def _base(self, sizes_bytes: Array, ranks: Array) -> Array:
        base: Array = np.log(np.maximum(self._columns(sizes_bytes, ranks) @ self._coefficients, np.finfo(float).tiny))
        return base

    def _columns(self, sizes_bytes: Array, ranks: Array) -> Array:
        """Return the terms of the base, one column each."""
        size = sizes_bytes / _MEGABYTE
        power = self.form.knee_power
        if self.form.rank_scale is None:
            return np.stack([np.ones_like(size), size**power, size], axis=1)
        size = size * sent_share(ranks, doubled=self.doubled)
        steps = ranks - 1.0
        knee = size**power
        # The knee grows with the ranks too: direct kernels read K - 1 peers.
        return np.stack([np.ones_like(size), steps, knee, knee * steps, size], axis=1)

    def _alike(self, sizes_bytes: Array, ranks: Array) -> Array:
        """Return how alike the residuals are: asked points by rows, measured points by columns."""
        alike = _matern(np.log2(sizes_bytes)[:, None] - np.log2(self.sizes_bytes)[None], self.form.size_scale)
        if self.form.rank_scale is not None:
            alike = alike * _matern(np.log2(ranks)[:, None] - np.log2(self.ranks)[None], self.form.rank_scale)
        return alike


def sent_share(ranks: Array, *, doubled: bool) -> Array:
    """Return v, the share of the buffer that one rank sends; an all-reduce sends it `doubled`."""
    share: Array = (2.0 if doubled else 1.0) * (ranks - 1.0) / ranks
    return share


def _matern(distance: Array, scale: float) -> Array:
    scaled = np.sqrt(3.0) * np.abs(distance) / scale
    alike: Array = (1.0 + scaled) * np.exp(-scaled)
    return alike
