"""The quantiles of the normal distribution that bands and intervals are made of, of logarithms as a rule."""

from __future__ import annotations

from typing import Final

Z80: Final = 1.2815515655446004
"""Half-width of a normal's 80 % interval, in standard deviations."""
Z95: Final = 1.959963984540054
"""Half-width of a normal's 95 % interval: low and high of an input or a constant are read as one of a log-normal."""
