"""The band of an anchored step: what a measured step leaves open, and no more than was open before it.

Constants that were fitted to one step are tied to each other: each may be far off while their sum is not. So they are
not drawn one by one; the band around a step is what their covariance, carried to it by its derivatives, and the noise
of a repeated run make together.

References
----------
W. H. Press et al., "Numerical Recipes" (2007), section 15.6: the variance of what is predicted from fitted parameters.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.calibrate.fit import NOISE
from nhalf.quantiles import Z80, Z95

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.breakdown import Array
    from nhalf.calibrate.fit import Fitted
    from nhalf.predict.response import Response
    from nhalf.scenario import Scenario

_STEP: Final = 1e-4
_LEAST: Final = 1e-9


def slopes(step: Response, constants: Mapping[str, float], names: Sequence[str]) -> Array:
    """Return d ln(step) / d ln(constant) of one step by each of some constants."""
    here = math.log(float(step.step_s(constants)[0]))
    there = [float(step.step_s({**constants, name: constants[name] * math.exp(_STEP)})[0]) for name in names]
    found: Array = (np.log(there) - here) / _STEP
    return found


def told(steps: Sequence[Response], fitted: Fitted) -> tuple[str, ...]:
    """Return the names of the free constants that some measured steps depend on."""
    names = tuple(fitted.log_sd)
    size = np.max([np.abs(slopes(step, fitted.constants, names)) for step in steps], axis=0)
    return tuple(name for name, each in zip(names, size.tolist(), strict=True) if each > _LEAST)


def residual(
    scenario: Scenario, step: Response, fitted: Fitted, names: Sequence[str], before: Mapping[str, float]
) -> tuple[float, float]:
    """Return the half-widths of 80 %, as logarithms, below and above a step whose constants `names` were fitted.

    `scenario` and `before` are as they were without the anchor: neither half-width exceeds what those constants and
    that residual make together, to first order.
    """
    at = [list(fitted.log_sd).index(name) for name in names]
    slope = slopes(step, fitted.constants, names)
    left = Z80 * math.sqrt(float(slope @ fitted.covariance[np.ix_(at, at)] @ slope) + NOISE**2)
    spread = np.array([_log_sd(scenario, name) for name in names])
    drawn = Z80 * float(np.linalg.norm(slopes(step, before, names) * spread))
    low, high = (min(left, math.hypot(side, drawn)) for side in scenario.residual)
    return low, high


def _log_sd(scenario: Scenario, name: str) -> float:
    """Return the standard deviation of the logarithm of a constant, from its interval; 0 where it has none."""
    origin = scenario.origins.get(f"stack.{name}")
    if origin is None or not origin.low or origin.high is None:
        return 0.0
    return math.log(origin.high / origin.low) / 2 / Z95
