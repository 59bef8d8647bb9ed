"""Quantiles of the normal distribution and of Student's t, of which bands and intervals are made."""

from __future__ import annotations

import math
from typing import Final

Z80: Final = 1.2815515655446004
"""Half-width of a normal's 80 % interval, in standard deviations."""
Z95: Final = 1.959963984540054
"""Half-width of a normal's 95 % interval: low and high of an input or a constant are read as one of a log-normal."""
TO_SIGMA: Final = 1.482602218505602
"""A normal's standard deviation over the median of its absolute residuals."""


def normal_below(deviations: float) -> float:
    """Return the part [1] of a normal that lies below a number of standard deviations."""
    return 0.5 * math.erfc(-deviations / math.sqrt(2.0))


def deviations(part: float) -> float:
    """Return the number of standard deviations below which a part [1] of a normal lies."""
    from statistics import NormalDist

    return NormalDist().inv_cdf(part)


def student(freedom: int, level: float = 0.95) -> float:
    """Return the half-width of the two-sided interval of a level [1] of Student's t, in standard errors."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1.0 + level) / 2.0))
