"""Elasticities: by how many per cent the step moves for one per cent of an input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nhalf.predict.prefill import predicted

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity
    from nhalf.scenario import Scenario

STEP = 1e-4
"""Log step of the central difference; terms are smooth but for kinks where two of them cross."""
_TABLES = ("stack.library.", "system.curve_factor", "stack.first_token")
"""A tuner's constants and the doubt about measurements are no levers (`stack.software_factor` stands for them), and
what only the first token waits is no part of a step."""


def _is_lever(path: str, value: Quantity) -> bool:
    """Tell whether an input is a number that a small change makes sense of."""
    return not path.startswith(_TABLES) and not isinstance(value, int) and bool(np.all(value))


def elasticities(scenario: Scenario) -> dict[str, float]:
    """Return d ln(step) / d ln(x) [1] for every input of the scenario that is not zero, by path.

    A rate has a negative elasticity. Over all latencies, fixed times and `stack.software_factor`, less those of all
    rates, they add up to 1: the step is what its inputs make it (Euler's theorem on a function of degree 1).
    """
    inputs = {path: float(np.mean(value)) for path, value in scenario.inputs() if _is_lever(path, value)}
    paths = list(inputs)
    count = len(paths)
    changes = {}
    for index, path in enumerate(paths):
        column = np.full(2 * count, inputs[path])
        column[index] *= np.exp(STEP)
        column[count + index] *= np.exp(-STEP)
        changes[path] = column
    times = np.log(np.broadcast_to(predicted(scenario.having(changes)).value, 2 * count))
    return {path: float((times[i] - times[count + i]) / (2 * STEP)) for i, path in enumerate(paths)}
