"""Skewed: a collective whose ranks arrive at random times, what the slowest of K should cost, and whom it drags."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nhalf.quantiles import normal_below
from nhalf.simulate.engine import run as play

if TYPE_CHECKING:
    from nhalf.breakdown import Array
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


SAME = 0.01
"""Differences below this share of how far the ranks of a draw are apart are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Draws on one side of the last arrival plus the time together: their share, and by how much they are beside it.

    `mean_s` and `most_s` [s] are over these draws; both are 0 where there are none.
    """

    share: float
    mean_s: float
    most_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """What becomes of lateness over the draws in which ranks are apart, `draws` of them.

    `passed_on` [1] is the mean delay of the end over the mean lateness of the last rank, None where nobody is late on
    average. Some draws end sooner than the last arrival plus the time together, where lateness is `hidden`, some later,
    where a convoy has `added` to it. `dragged` is how many other ranks end later than their own lateness explains, on
    average.
    """

    draws: int
    passed_on: float | None
    hidden: Side
    added: Side
    dragged: float


def lateness(run: Run, skew: Skew) -> Lateness | None:
    """Return what becomes of the lateness of many draws of a skew; None where no draw has ranks apart."""
    starts = run.conditions.starts_s
    if starts is None:
        return None
    apart = starts.max(axis=0) - starts.min(axis=0)
    chosen = np.flatnonzero(apart > 0)
    if not len(chosen):
        return None
    known = replace(run.conditions, starts_s=None, port_slowness=None)  # the network of a run is as slow already
    together = play(run.program, run.network, known, record=False)
    last = starts.max(axis=0)
    delays = np.asarray(run.time_s) - float(together.time_s)
    beyond = (delays - last)[chosen]
    tolerance = SAME * apart[chosen]
    late_s = float(last.mean()) - skew.offset_s
    own = run.finished_s[:, chosen] - together.finished_s[:, None] - starts[:, chosen]
    waiting = (own > tolerance).sum(axis=0) - (
        own[starts[:, chosen].argmax(axis=0), np.arange(len(chosen))] > tolerance
    )
    return Lateness(
        draws=len(chosen),
        passed_on=(float(delays.mean()) - skew.offset_s) / late_s if late_s > 0 else None,
        hidden=_side(-beyond, tolerance),
        added=_side(beyond, tolerance),
        dragged=float(waiting.mean()),
    )


def _side(beyond: Array, tolerance: Array) -> Side:
    """Return the draws that go beyond their tolerance."""
    found = beyond[beyond > tolerance]
    if not len(found):
        return Side(share=0.0, mean_s=0.0, most_s=0.0)
    return Side(share=len(found) / len(beyond), mean_s=float(found.mean()), most_s=float(found.max()))
