"""The fit: constants that explain measured steps, pulled to their priors where the steps say nothing.

The posterior mode of log constants under normal priors and Student-t errors of log time, by damped Gauss-Newton steps
on reweighted residuals; its curvature gives the spread of each constant.

References
----------
K. L. Lange, R. J. A. Little and J. M. G. Taylor, "Robust statistical modeling using the t distribution", JASA 84
(1989); J. Nocedal and S. Wright, "Numerical Optimization" (2006), chapter 10.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.calibrate.prior import EFFICIENCY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.breakdown import Array
    from nhalf.calibrate.prior import Prior
    from nhalf.predict.response import Response

NOISE: Final = 0.078
"""Log-standard deviation of a repeated run: a quarter of repeats differ by more than 9 % = 1.15 standard deviations."""
ONE_EACH: Final = 1.0
"""Correlation of steps within a cluster for constants of all stacks: each stack and model counts once."""
WITHIN: Final = 0.05
"""Correlation of the steps of one stack and model once its own constants are fitted."""
TAIL: Final = 4.0
"""Degrees of freedom of the errors: one repeat in ten differs by 18 % or more, which a normal would not."""
_STEP: Final = 1e-4
_ROUNDS: Final = 40
_TOLERANCE: Final = 1e-6
"""Part of the cost below which a step no longer counts: constants are then within 0.1 % of where they end."""
_TRIES: Final = 8
_LONGEST: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fitted:
    """Constants, and the log-standard deviation of those that were free.

    `covariance` is that of the logarithms of the free constants, in the order of `log_sd`; `cost` is minus twice the
    log posterior, up to a constant.
    """

    constants: Mapping[str, float]
    log_sd: Mapping[str, float]
    covariance: Array
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """What a fit is asked: responses of steps, the log of their measured times, a weight for each, and the prior."""

    response: Response
    log_times: Array
    weights: Array
    prior: Prior
    noise: float = NOISE

    def constants(self, x: Array) -> dict[str, Array | float]:
        """Return all constants at log values `x` of the free ones, of shape (m, free): arrays of shape (m, 1)."""
        found: dict[str, Array | float] = dict(self.prior.centre)
        found.update({name: np.exp(x[:, [index]]) for index, name in enumerate(self.prior.free)})
        return found

    def around(self, x: Array) -> tuple[Array, Array]:
        """Return the log times at `x`, and their derivative by each free constant, of shape (n, free)."""
        points = np.vstack([x, x + _STEP * np.eye(len(x))])
        logs = np.log(np.broadcast_to(self.response.step_s(self.constants(points)), (len(points), len(self.log_times))))
        return logs[0], ((logs[1:] - logs[0]) / _STEP).T

    def cost(self, logs: Array, x: Array, centre: Array, spread: Array) -> float:
        """Return minus twice the log posterior, up to a constant."""
        scaled = (self.log_times - logs) / self.noise
        misfit = np.sum(self.weights * (TAIL + 1) * np.log1p(scaled**2 / TAIL))
        return float(misfit + np.sum(((x - centre) / spread) ** 2))


def fit(task: Task, start: Mapping[str, float] | None = None) -> Fitted:
    """Return the constants at the posterior mode, found from `start` or from the prior's centre."""
    names = task.prior.free
    centre = np.log([task.prior.centre[name] for name in names])
    spread = np.array([task.prior.log_sd[name] for name in names])
    limit = np.array([0.0 if name.endswith(EFFICIENCY) else np.inf for name in names])
    x = centre.copy() if start is None else np.log([start[name] for name in names])
    logs, slopes = task.around(x)
    cost, damping = task.cost(logs, x, centre, spread), 1e-3
    for _ in range(_ROUNDS):
        residual = task.log_times - logs
        trust = task.weights * (TAIL + 1) / (TAIL + (residual / task.noise) ** 2) / task.noise**2
        curvature = slopes.T @ (trust[:, None] * slopes) + np.diag(spread**-2.0)
        pull = slopes.T @ (trust * residual) - (x - centre) / spread**2
        before = cost
        for _ in range(_TRIES):
            move = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), pull)
            there = np.minimum(x + np.clip(move, -_LONGEST, _LONGEST), limit)
            new_logs, new_slopes = task.around(there)
            new_cost = task.cost(new_logs, there, centre, spread)
            if new_cost <= cost:
                x, logs, slopes, cost, damping = there, new_logs, new_slopes, new_cost, max(damping / 10, 1e-9)
                break
            damping *= 10
        if before - cost < _TOLERANCE * (1.0 + cost):
            break
    covariance: Array = np.asarray(np.linalg.inv(curvature), dtype=np.float64)
    deviation = np.sqrt(np.diag(covariance))
    found = {**task.prior.centre, **{name: float(np.exp(value)) for name, value in zip(names, x, strict=True)}}
    log_sd = {name: float(sd) for name, sd in zip(names, deviation, strict=True)}
    return Fitted(constants=found, log_sd=log_sd, covariance=covariance, cost=cost)
