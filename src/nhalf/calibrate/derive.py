"""Derives the constants that hold for every stack, and the bands around predictions, from many measured runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.calibrate.fit import ONE_EACH
from nhalf.calibrate.routing import NAME, Routing, of_all
from nhalf.predict.residual import DENSE, EXPERTS, SEEN
from nhalf.quantiles import Z95

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.breakdown import Array
    from nhalf.calibrate.evidence import Evidence
    from nhalf.calibrate.prior import Prior
    from nhalf.calibrate.routing import Concentration
    from nhalf.predict.response import Mask

ALIKE: Final = 0.1
"""The same for bands: with it they hold 80 to 82 % of steps of a model, system or engine that was left out (nominal
80 %), and 72 % or more of every family; with one band for dense models and models with experts, 65 % of one."""
DRAWS: Final = 200
ENOUGH: Final = 250
"""Steps of one cluster in a draw: alike as they are, so many weigh 19 steps and any number at most 20."""
SEED: Final = 20261129
ONE_MACHINE: Final = 0.4
"""Log-standard deviation between machines of what was measured on one."""
IDENTIFIED: Final = 0.5
"""A constant is identified when the data halve what the prior leaves open."""
MOVED: Final = 0.01
LEVEL: Final = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A constant with its 95 % interval, whether the data identify it, and what was assumed before."""

    name: str
    value: float
    low: float
    high: float
    identified: bool
    prior: float

    @property
    def moved(self) -> bool:
        """Tell whether the data moved it at all: by more than a hundredth."""
        return abs(self.value / self.prior - 1) > MOVED


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """Constants for every stack, and half-widths of bands as logarithms (below, above), as `Bands` has them.

    `routing` is the concentration of each family.
    """

    constants: tuple[Constant, ...]
    routing: Mapping[str, Concentration]
    widths: Mapping[str, Mapping[str, tuple[float, float]]]


def derive(measured: Evidence, prior: Prior, families: Mapping[str, str]) -> Derived:
    """Return the constants and bands that the runs give; `families` maps each model to its family."""
    routing = Routing.of(measured, families, prior)
    known = routing.known(measured)
    told = routing.told(measured, known)
    fitted = told.fit(prior, correlation=ONE_EACH)
    spread = bootstrap(told, prior, fitted.constants)
    family = np.array([families[model] for model in measured.model.tolist()])
    groupings = {
        SEEN: (measured.cluster,),
        "model": (family,),
        "system": (measured.system, measured.generation),
        "engine": (measured.engine,),
        "version": (measured.version,),
    }
    found = {name: [left_out(measured, prior, by, routing) for by in each] for name, each in groupings.items()}
    constants = constants_of(prior, fitted.constants, fitted.log_sd, spread)
    return Derived(
        constants=tuple(_of_all(each, known, prior) if each.name == NAME else each for each in constants),
        routing=known,
        widths={kind: _widths(measured, found, of_kind) for kind, of_kind in kinds(measured).items()},
    )


def _of_all(constant: Constant, known: Mapping[str, Concentration], prior: Prior) -> Constant:
    """Return the constant that a family takes whose routing nobody measured."""
    found = of_all(known, prior)
    return replace(constant, value=found.value, low=found.low, high=found.high)


def kinds(measured: Evidence) -> dict[str, Mask]:
    """Return masks of the steps of dense models and of those with experts, whose errors are of different size."""
    experts = measured.response.experts_s > 0
    return {DENSE: ~experts, EXPERTS: experts}


def _widths(measured: Evidence, errors: Mapping[str, Sequence[Array]], of_kind: Mask) -> dict[str, tuple[float, float]]:
    """Return the half-widths of one kind of model by what is new to a prediction, none narrower than for what was seen.

    A new system may be of a generation that is new too, so it has the wider of both.
    """
    weights = measured.weights(ALIKE)[of_kind]
    found = {name: [half_widths(each[of_kind], weights) for each in several] for name, several in errors.items()}
    return {name: reduce(_at_least, each, found[SEEN][0]) for name, each in found.items()}


def from_pairs(prior: Prior, name: str, measured: Sequence[float]) -> Constant:
    """Return a constant by pairs of runs of one machine that differ in nothing else, and by its prior.

    `measured` are the values that the pairs show. Their scatter is log-normal; however many they are, one machine
    stands for others no better than `ONE_MACHINE`.
    """
    logs = np.log(np.asarray(measured))
    variance = ONE_MACHINE**2 + float(np.var(logs, ddof=1)) / len(logs)
    before = prior.log_sd[name] ** 2
    mean = (math.log(prior.centre[name]) / before + float(np.mean(logs)) / variance) / (1 / before + 1 / variance)
    deviation = (1 / before + 1 / variance) ** -0.5
    width = math.exp(Z95 * deviation)
    return Constant(
        name=name,
        value=math.exp(mean),
        low=math.exp(mean) / width,
        high=math.exp(mean) * width,
        identified=deviation <= IDENTIFIED * prior.log_sd[name],
        prior=prior.centre[name],
    )


def constants_of(
    prior: Prior, values: Mapping[str, float], log_sd: Mapping[str, float], spread: Mapping[str, float]
) -> tuple[Constant, ...]:
    """Return the free constants with their intervals: the wider of the curvature's and the bootstrap's spread."""
    found = []
    for name in prior.free:
        deviation = max(log_sd[name], spread.get(name, 0.0))
        width = math.exp(Z95 * deviation)
        high = values[name] * width
        found.append(
            Constant(
                name=name,
                value=values[name],
                low=values[name] / width,
                high=min(high, 1.0) if name.endswith("_efficiency") else high,
                identified=deviation <= IDENTIFIED * prior.log_sd[name],
                prior=prior.centre[name],
            )
        )
    return tuple(found)


def bootstrap(
    measured: Evidence, prior: Prior, start: Mapping[str, float], *, correlation: float = ONE_EACH, draws: int = DRAWS
) -> dict[str, float]:
    """Return the log-standard deviation of each free constant over draws of the clusters with replacement.

    Of a large cluster some steps stand for all: what is drawn is clusters.

    References
    ----------
    A. C. Davison and D. V. Hinkley, "Bootstrap Methods and their Application" (1997), section 3.8: clusters.
    """
    random = np.random.default_rng(SEED)
    measured = thinned(measured)
    names, member = np.unique(measured.cluster, return_inverse=True)
    found = []
    for _ in range(draws):
        times = np.bincount(random.integers(0, len(names), len(names)), minlength=len(names)).astype(float)
        fitted = measured.fit(prior, correlation=correlation, start=start, multiples=times[member])
        found.append([math.log(fitted.constants[name]) for name in prior.free])
    return dict(zip(prior.free, np.std(found, axis=0).tolist(), strict=True))


def thinned(measured: Evidence) -> Evidence:
    """Return at most `ENOUGH` steps of each cluster, evenly among its rows."""
    _, member, counts = np.unique(measured.cluster, return_inverse=True, return_counts=True)
    chosen = np.zeros(len(measured), dtype=bool)
    for index, count in enumerate(counts.tolist()):
        inside = np.flatnonzero(member == index)
        chosen[inside[np.linspace(0, count - 1, min(count, ENOUGH)).round().astype(int)]] = True
    return measured.take(chosen)


def left_out(measured: Evidence, prior: Prior, by: Array, routing: Routing) -> Array:
    """Return ln(measured / predicted) of every step by constants fitted without the group that it belongs to."""
    errors = np.empty(len(measured))
    for group in np.unique(by):
        errors[by == group] = unseen(measured.take(by != group), measured.take(by == group), prior, routing)
    return errors


def unseen(rest: Evidence, asked: Evidence, prior: Prior, routing: Routing) -> Array:
    """Return ln(measured / predicted) of steps by what the rest of the runs tell: constants, and families' routing."""
    known = routing.known(rest)
    fitted = routing.told(rest, known).fit(prior, correlation=ONE_EACH)
    return routing.told(asked, known).log_errors(fitted.constants)


def median_error(log_errors: Array) -> float:
    """Return the median of |predicted / measured - 1|, given ln(measured / predicted)."""
    return float(np.median(np.abs(np.expm1(-log_errors))))


def half_widths(log_errors: Array, weights: Array, level: float = LEVEL) -> tuple[float, float]:
    """Return how far below and above its prediction a measured time lies, as logarithms."""
    order = np.argsort(log_errors)
    share = np.cumsum(weights[order]) / np.sum(weights)
    below, above = (
        float(log_errors[order][min(int(np.searchsorted(share, at)), len(order) - 1)])
        for at in ((1 - level) / 2, (1 + level) / 2)
    )
    return max(-below, 0.0), max(above, 0.0)


def _at_least(found: tuple[float, float], least: tuple[float, float]) -> tuple[float, float]:
    return max(found[0], least[0]), max(found[1], least[1])
