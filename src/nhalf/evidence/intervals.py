"""The 95 % interval of a fitted latency or bandwidth: the hull of every doubt, and the name of the widest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.evidence.lines import refit
from nhalf.quantiles import Z95, student

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.breakdown import Array

DRAWS: Final = 400
"""Draws of each bootstrap: the ends of a 95 % interval are then known to about a tenth of its width."""
_SEED: Final = 20_240_501
_LEVEL: Final = (0.025, 0.975)
_LEAST_NOISE: Final = 0.005
"""Relative noise [1] of a point, at least: two runs of one point differ by 0.8 % in the median (collectives of
aiconfigurator-core 0.12.0, repeated points)."""
_ENOUGH_RUNS: Final = 3
_UNKNOWNS: Final = 2
_UNCHECKED: Final = 0.03
"""Relative standard deviation of a time that no other size checks: two runs of one point differ by 5.1 % at the 90 %
quantile (as above)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A fitted value with its 95 % interval, in SI units.

    `low` and `high` are the ends of the hull of every doubt, None where nothing bounds it on that side;
    `noise_low` and `noise_high` leave out what two runs of one sweep share (the form of the model, in place or not),
    so a comparison uses them. `because` names the widest doubt.
    """

    value: float
    low: float | None = None
    high: float | None = None
    noise_low: float | None = None
    noise_high: float | None = None
    because: str = ""

    @property
    def noise(self) -> float:
        """Return half the width of the noise interval over the value, infinite when there is none."""
        if self.noise_low is None or self.noise_high is None or self.value <= 0:
            return float("inf")
        return (self.noise_high - self.noise_low) / (2.0 * self.value)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Doubt:
    """What the points of one segment are known by: times [s], the fitted times, their weights, and what was printed."""

    sizes_bytes: Array
    times_s: Array
    fitted_s: Array
    weights: Array
    low_s: Array
    high_s: Array
    runs: tuple[Array, ...]


def noise_draws(doubt: Doubt) -> dict[str, tuple[Array, Array]]:
    """Return draws of alpha [s] and 1 / beta [s/byte] for each kind of noise.

    `residuals`: a wild bootstrap, each residual with a random sign. `repetition`: the medians as the repeated runs
    allow. `rounding`: anywhere in the interval that was printed.

    References
    ----------
    C. F. J. Wu, "Jackknife, bootstrap and other resampling methods in regression analysis", Ann. Statist. 14 (1986).
    J. G. MacKinnon and H. White, "Some heteroskedasticity-consistent covariance matrix estimators", J. Econometrics 29
    (1985), for HC3.
    T. Hoefler and R. Belli, "Scientific benchmarking of parallel computing systems", SC15: no normality, medians.
    """
    random = np.random.default_rng(_SEED)
    count = len(doubt.times_s)
    signs = random.choice((-1.0, 1.0), size=(DRAWS, count))
    residual = doubt.times_s / doubt.fitted_s - 1.0
    # A fit of two unknowns takes part of the noise with it, most of it where one point decides: what is left is
    # inflated by what it took (HC3), and few points by Student's factor.
    size = np.minimum(np.abs(residual), 0.5) / (1.0 - _leverage(doubt))
    if count > _UNKNOWNS:
        size = np.sqrt(size**2 + _LEAST_NOISE**2) * student(count - _UNKNOWNS) / Z95
    else:
        size = np.full(count, Z95 * _UNCHECKED)
    drawn = {"residuals": doubt.fitted_s * (1.0 + signs * size)}
    if min(len(run) for run in doubt.runs) >= _ENOUGH_RUNS:
        spread = np.array([median_spread(run) for run in doubt.runs])
        drawn["repetition"] = doubt.times_s * np.exp(spread * random.standard_normal((DRAWS, count)))
    if np.any(doubt.high_s > doubt.low_s):
        drawn["rounding"] = random.uniform(doubt.low_s, doubt.high_s, size=(DRAWS, count))
    return {name: refit(doubt.sizes_bytes, np.maximum(times, 1e-12), doubt.weights) for name, times in drawn.items()}


def _leverage(doubt: Doubt) -> Array:
    """Return how far each point decides its own fitted value, from 0 to 0.8."""
    columns = np.stack([1.0 / doubt.times_s, doubt.sizes_bytes / doubt.sizes_bytes.max() / doubt.times_s], axis=1)
    weighted = columns * np.sqrt(doubt.weights)[:, None]
    orthogonal = np.linalg.qr(weighted)[0]
    leverage: Array = np.minimum((orthogonal**2).sum(axis=1), 0.8)
    return leverage


def median_spread(run: Array) -> float:
    """Return the relative standard deviation of the median of repeated times, from their order alone.

    Reference: Hoefler and Belli (above), rule 6: the interval of a median lies between two order statistics.
    """
    count = len(run)
    if count < _ENOUGH_RUNS:
        return 0.0
    ordered = np.sort(run)
    reach = 0.98 * np.sqrt(count)
    low, high = max(int(count / 2 - reach), 0), min(int(np.ceil(count / 2 + reach)), count - 1)
    return float(np.log(ordered[high] / ordered[low]) / (2.0 * Z95))


def estimate(value: float, noise: Mapping[str, Array], systematic: Mapping[str, Sequence[float]]) -> Estimate:
    """Return a value with its interval: the hull of the draws of each noise and of what other readings give."""
    ends = {name: _interval(value, draws) for name, draws in noise.items()}
    noise_low, noise_high = min(low for low, _ in ends.values()), max(high for _, high in ends.values())
    for name, others in systematic.items():
        readings = [value, *(other for other in others if np.isfinite(other))]
        ends[name] = (min(readings), max(readings))
    widest = max(ends, key=lambda name: ends[name][1] - ends[name][0])
    return Estimate(
        value=value,
        low=min(low for low, _ in ends.values()),
        high=max(high for _, high in ends.values()),
        noise_low=noise_low,
        noise_high=noise_high,
        because=widest,
    )


def _interval(value: float, draws: Array) -> tuple[float, float]:
    low, high = np.quantile(draws, _LEVEL)
    return min(value, float(low)), max(value, float(high))


def inverted(found: Estimate) -> Estimate:
    """Return the interval of beta from that of 1 / beta: the ends change places, and an end at 0 is unknown."""

    def flip(end: float | None) -> float | None:
        return None if end is None or end <= 0.0 else 1.0 / end

    return Estimate(
        value=1.0 / found.value,
        low=flip(found.high),
        high=flip(found.low),
        noise_low=flip(found.noise_high),
        noise_high=flip(found.noise_low),
        because=found.because,
    )
