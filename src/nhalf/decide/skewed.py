"""Skewed: a collective whose ranks arrive at random times, against what the slowest of K should cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nhalf.decide.lateness import lateness
from nhalf.quantiles import normal_below

if TYPE_CHECKING:
    from nhalf.decide.lateness import Lateness
    from nhalf.simulate.engine import Run
    from nhalf.simulate.straggler import Skew

_POINTS = 4001
_REACH = 9.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The times of many draws [s]: their mean, median and 99th percentile, and the time without skew.

    `latest_s` is the mean of the last arrival, `expected_s` what theory says of it by `rule`; `cost_s` is what skew
    adds to the mean time, and `lateness` tells how it does. `what_if` is that of `Outcome`.
    """

    algorithm: str
    ranks: int
    draws: int
    base_s: float
    mean_s: float
    p50_s: float
    p99_s: float
    latest_s: float
    expected_s: float
    rule: str
    lateness: Lateness | None
    what_if: bool

    @property
    def cost_s(self) -> float:
        """Return what skew adds to the mean time [s]."""
        return self.mean_s - self.base_s


def spread(run: Run, base: Run, skew: Skew, *, what_if: bool = False) -> Spread:
    """Return the spread of a run of many draws; `base` is the same run without skew."""
    times = np.asarray(run.time_s) - skew.offset_s
    starts = run.conditions.starts_s
    latest = 0.0 if starts is None else float(starts.max(axis=0).mean()) - skew.offset_s
    expected, rule = expected_latest(skew, run.program.ranks)
    return Spread(
        algorithm=run.program.algorithm,
        ranks=run.program.ranks,
        draws=len(times),
        base_s=float(base.time_s),
        mean_s=float(times.mean()),
        p50_s=float(np.percentile(times, 50)),
        p99_s=float(np.percentile(times, 99)),
        latest_s=latest,
        expected_s=expected,
        rule=rule,
        lateness=lateness(run, skew),
        what_if=what_if,
    )


def expected_latest(skew: Skew, ranks: int) -> tuple[float, str]:
    """Return the expected latest of `ranks` independent arrivals [s] and its rule.

    References
    ----------
    H. A. David and H. N. Nagaraja, "Order Statistics", 3rd ed. (2003), for the maximum of each distribution;
    J. Dean and L. A. Barroso, "The Tail at Scale", CACM 56 (2013), for 1 - (1 - p)^K.
    """
    scale, shape = skew.scale_s, skew.shape
    if skew.kind == "exponential":
        return scale * sum(1.0 / place for place in range(1, ranks + 1)), "mean x (1 + 1/2 + ... + 1/K)"
    if skew.kind == "normal":
        return scale * _normal_maximum(ranks), "deviation x the mean largest of K standard normals"
    if skew.kind == "hiccup":
        return scale * (1.0 - (1.0 - shape) ** ranks), "length x (1 - (1 - p)^K)"
    if skew.kind == "pareto":
        log_beta = math.lgamma(ranks + 1) + math.lgamma(1 - 1 / shape) - math.lgamma(ranks + 1 - 1 / shape)
        return scale * (shape - 1) * (math.exp(log_beta) - 1), "mean x (a - 1) x (K B(K, 1 - 1/a) - 1), about K^(1/a)"
    ordered = np.sort(np.asarray(skew.samples_s))
    below = (np.arange(len(ordered) + 1) / len(ordered)) ** ranks
    return float(ordered @ np.diff(below)), "the mean largest of K of the samples"


def _normal_maximum(ranks: int) -> float:
    """Return the mean largest of `ranks` standard normals: their values weighed by the distribution of the largest."""
    edges = np.linspace(-_REACH, _REACH, _POINTS)
    below = np.array([normal_below(edge) for edge in edges.tolist()]) ** ranks
    return float((edges[1:] + edges[:-1]) / 2 @ np.diff(below))
