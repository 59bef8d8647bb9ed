"""Routing concentrations: how unevenly tokens hit the experts of each family of models, as far as its runs can tell.

A batch of a family whose experts are unlike in popularity reads fewer of them than uniform routing would, which shows
between 4 and 64 sequences: alone they hit few experts anyway, and many hit all. Each stack has constants of its own
beside, since no two agree; what the concentration leaves of their misfit is its likelihood.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.calibrate.fit import ONE_EACH, WITHIN
from nhalf.catalog import calibration
from nhalf.quantiles import Z95

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.breakdown import Array
    from nhalf.calibrate.evidence import Evidence
    from nhalf.calibrate.prior import Prior

NAME: Final = "routing_concentration"
GRID: Final = np.geomspace(0.01, 10.0, 13)
LEAST_RUNS: Final = 10
"""Fewer runs of a stack hold a curve or two, which any efficiency of the experts explains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Concentration:
    """The routing concentration of a family: its posterior median and 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Routing:
    """What runs tell of routing: the misfit of each stack and model over `GRID`, and the family of each model."""

    costs: Mapping[str, Array]
    families: Mapping[str, str]
    prior: Prior

    @classmethod
    def of(cls, measured: Evidence, families: Mapping[str, str], prior: Prior) -> Routing:
        """Return what runs tell of the families' routing, around the constants of all stacks."""
        found: dict[str, Array] = {}
        centre = prior.around(measured.fit(prior, correlation=ONE_EACH).constants)
        around = centre.around({NAME: prior.centre[NAME]})
        for name in np.unique(measured.cluster[measured.response.experts_s > 0]).tolist():
            runs = measured.take(measured.cluster == name)
            if len(runs) >= LEAST_RUNS:
                fits = [_having(runs, np.full(len(runs), at)).fit(around, correlation=WITHIN) for at in GRID]
                found[name] = np.array([fitted.cost for fitted in fits])
        return cls(costs=found, families=families, prior=prior)

    def known(self, measured: Evidence) -> dict[str, Concentration]:
        """Return the concentration of each family that some runs hold, by the misfits of their stacks and the prior."""
        of_cluster = dict(zip(measured.cluster.tolist(), measured.model.tolist(), strict=True))
        sums: dict[str, Array] = {}
        for cluster, cost in self.costs.items():
            if cluster in of_cluster:
                family = self.families.get(of_cluster[cluster], of_cluster[cluster])
                sums[family] = sums.get(family, np.zeros(len(GRID))) + cost
        logs = np.log(GRID)
        before = ((logs - math.log(self.prior.centre[NAME])) / self.prior.log_sd[NAME]) ** 2
        return {family: _posterior(logs, cost + before) for family, cost in sums.items()}

    def told(self, asked: Evidence, known: Mapping[str, Concentration]) -> Evidence:
        """Return runs with the concentration of their family where it is known, and that of all where it is not."""
        other = of_all(known, self.prior).value
        by_model = {
            model: known[family].value if (family := self.families.get(model, model)) in known else other
            for model in np.unique(asked.model).tolist()
        }
        return _having(asked, np.array([by_model[model] for model in asked.model.tolist()]))


def shipped(measured: Evidence) -> Evidence:
    """Return runs with the concentration that ships for their family, none for families that have none."""
    found = {model: calibration.concentration(model) for model in np.unique(measured.model).tolist()}
    values = {model: math.nan if datum is None else datum.value for model, datum in found.items()}
    return _having(measured, np.array([values[model] for model in measured.model.tolist()]))


def _having(measured: Evidence, concentration: Array) -> Evidence:
    """Return runs with a concentration each."""
    return replace(measured, response=replace(measured.response, concentration=concentration))


def _posterior(logs: Array, cost: Array) -> Concentration:
    """Return the median and the 95 % interval of a posterior that is known on a grid of logarithms."""
    fine = np.linspace(logs[0], logs[-1], 1000)
    density = np.exp(-(np.interp(fine, logs, cost) - np.min(cost)) / 2)
    share = np.cumsum(density) / np.sum(density)
    low, middle, high = (float(np.exp(np.interp(at, share, fine))) for at in (0.025, 0.5, 0.975))
    return Concentration(value=middle, low=low, high=high)


def of_all(known: Mapping[str, Concentration], prior: Prior) -> Concentration:
    """Return what a family takes that nobody measured: the middle of those that were, as wide as they scatter."""
    logs = np.log([each.value for each in known.values()])
    if len(logs) < 2:  # noqa: PLR2004  two have a scatter
        width = Z95 * prior.log_sd[NAME]
        return Concentration(value=prior.centre[NAME], low=prior.centre[NAME] * math.exp(-width),
                             high=prior.centre[NAME] * math.exp(width))  # fmt: skip
    middle, width = float(np.mean(logs)), Z95 * float(np.std(logs, ddof=1))
    return Concentration(value=math.exp(middle), low=math.exp(middle - width), high=math.exp(middle + width))
