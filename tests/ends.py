"""The ends of the band of one scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.points import points

if TYPE_CHECKING:
    from nhalf.scenario import Scenario


def band(scenario: Scenario) -> tuple[float, float]:
    """Return the low and high end [s] of the 80 % band of a scenario's step."""
    point = points(scenario).at(0)
    return point.low_s, point.high_s
