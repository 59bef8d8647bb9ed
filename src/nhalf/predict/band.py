"""Bands: how far a prediction may be off, from the intervals of the numbers that it is made of."""

from __future__ import annotations

import math
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from nhalf.predict.incast import drawn_s
from nhalf.predict.normal import Z80, Z95
from nhalf.predict.prefill import predicted

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.citation import Datum
    from nhalf.scenario import Scenario

LEVEL = 0.8
"""Nominal coverage of the band of a prediction."""
DRAWS = 512
SEED = 20261129
_LINKS = "system.fabric."


def draws(scenario: Scenario, count: int = DRAWS, seed: int = SEED) -> dict[str, Array]:
    """Return `count` draws of every input whose origin has an interval, by path.

    Link values are not drawn: what they do not explain of a collective's time is software, and the sum was measured.
    An input is log-normal around its value, with the spread of its lower and of its upper interval on each side.
    """
    found: dict[str, Array] = {}
    for path, value in scenario.inputs():
        origin = scenario.origins.get(path)
        if (
            path.startswith(_LINKS)
            or origin is None
            or origin.low is None
            or origin.high is None
            or float(np.mean(value)) <= 0
        ):
            continue
        # A stream of its own for each input: one more input leaves the draws of the others as they were.
        normal = np.random.default_rng([seed, zlib.crc32(path.encode())]).standard_normal(count)
        below, above = _spreads(origin)
        drawn = float(np.mean(value)) * np.exp(normal * np.where(normal < 0, below, above))
        found[path] = np.minimum(drawn, 1.0) if path.endswith("_efficiency") else drawn
    return found


def _spreads(origin: Datum) -> tuple[float, float]:
    """Return the log-standard deviations below and above the value of a datum with an interval."""
    low, high = cast("float", origin.low), cast("float", origin.high)
    below = math.log(origin.value / low) / Z95 if low > 0 else 1.0
    return below, math.log(high / origin.value) / Z95


def _unexplained(scenario: Scenario) -> Array:
    """Return draws of measured over predicted: log-normal on each side, with the half-widths of 80 %."""
    normal = np.random.default_rng([SEED, 1]).standard_normal(DRAWS) / Z80
    below, above = scenario.residual
    return np.exp(normal * np.where(normal < 0, below, above))


def band(scenario: Scenario) -> tuple[float, float]:
    """Return the low and high end [s] of the 80 % band of the scenario's decode step.

    Besides the intervals of its inputs it holds what the model itself was found to be off by, where that is known; what
    incast may add raises its high end.
    """
    low, high = _ends(scenario, (DRAWS,))
    return float(low), float(high)


def bands(scenario: Scenario, batches: Array) -> tuple[Array, Array]:
    """Return the ends [s] of the bands of the scenario's step at `n` batches, each as `band` has it: shapes (n,)."""
    at = replace(scenario, workload=replace(scenario.workload, batch=batches[:, None]))
    return _ends(at, (len(batches), DRAWS))


def _ends(scenario: Scenario, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Return the ends [s] of the bands of steps whose draws are the last axis of `shape`."""
    step = predicted(scenario.having(draws(scenario)))
    times, off = np.broadcast_to(step.value, shape), _unexplained(scenario)
    low = np.quantile(times * off, (1 - LEVEL) / 2, axis=-1)
    high = np.quantile((times + drawn_s(scenario, step, DRAWS)) * off, (1 + LEVEL) / 2, axis=-1)
    return low, high
