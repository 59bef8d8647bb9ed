"""Candidates: one layout at every batch that fits, predicted as arrays, and what is wanted of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from nhalf.decide.little import settled
from nhalf.points import Point, Points, at_batches
from nhalf.predict.memory import FITS, usable_bytes
from nhalf.quantiles import Z80, deviations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from nhalf.breakdown import Array
    from nhalf.layout import Layout
    from nhalf.scenario import Scenario

Goal = Literal["tokens-per-gpu", "latency", "cost"]
Exchange = Literal["all-gather", "all-to-all"]
GOALS: Final = ("tokens-per-gpu", "latency", "cost")
EACH: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Sequences of each attention rank that are looked at, besides as many as fit."""
_SECONDS_PER_HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is wanted: the most of something, within limits; prices in [$] for each GPU and hour, None where unknown.

    `odds` is the probability with which a token, and a first token, keeps its limit by its band (None: a half); `users`
    are the sequences in flight over all replicas, `rate_per_s` the requests that come to all: each layout is looked at
    at its share of either.

    `degrees` narrows a degree of the layout (by the name of its field) to some values, `batches` the batch, `exchanges`
    how tokens of attention-DP groups reach the experts; `pools` asks for prefill and decode apart, too.
    """

    goal: Goal = "tokens-per-gpu"
    tpot_s: float | None = None
    ttft_s: float | None = None
    odds: float | None = None
    users: int | None = None
    rate_per_s: float | None = None
    price_per_hour: float | None = None
    degrees: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    batches: tuple[int, ...] | None = None
    exchanges: tuple[Exchange, ...] = ("all-gather", "all-to-all")
    pools: bool = False

    @property
    def load(self) -> float | None:
        """Return the load that is stated, in whatever words; None where each layout is looked at at its best."""
        return self.users or self.rate_per_s or (self.batches[0] if self.batches else None)


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """One layout with every batch that fits, as points.

    `alike` are the degrees of expert parallelism that the prediction does not tell apart, the layout's own among them.
    """

    points: Points
    alike: tuple[int, ...]

    @property
    def scenario(self) -> Scenario:
        """Return the scenario of all its batches."""
        return self.points.scenario

    @property
    def batches(self) -> Array:
        """Return the batches."""
        return self.points.batch

    @property
    def marginal(self) -> NDArray[np.bool_]:
        """Tell of every batch whether memory may not do."""
        found: NDArray[np.bool_] = self.points.fit_codes == FITS.index("marginal")
        return found

    @cached_property
    def decoding(self) -> Points:
        """Return the points at every batch when prompts are prefilled elsewhere."""
        workload = replace(self.scenario.workload, prompt_tokens=0.0, output_tokens=0.0)
        return Points(scenario=replace(self.scenario, workload=workload), count=self.points.count)

    @property
    def decode_s(self) -> Array:
        """Return the time per token [s] at every batch when prompts are prefilled elsewhere."""
        return self.decoding.tpot_s

    def tpot_at(self, odds: float | None) -> Array:
        """Return the time per token [s] that a run keeps with odds of a half or more (None: a half), at every batch."""
        return _kept_s(self.points, odds)

    def decode_at(self, odds: float | None) -> Array:
        """Return the same when prompts are prefilled elsewhere."""
        return _kept_s(self.decoding, odds)

    @property
    def first_s(self) -> tuple[Array, Array] | None:
        """Return the range of the time to the first token [s] at every batch; None where there are no prompts."""
        return self.points.first_s if np.any(np.greater(self.scenario.workload.output_tokens, 0)) else None

    @property
    def layout(self) -> Layout:
        """Return the layout."""
        return self.scenario.layout


def _kept_s(found: Points, odds: float | None) -> Array:
    """Return the time per token [s] that points keep with some odds: bands are log-normal on each side."""
    if odds is None:
        return found.tpot_s
    kept: Array = found.tpot_s * (found.tpot_high_s / found.tpot_s) ** (deviations(odds) / Z80)
    return kept


FIRST_TOKEN: Final = 0.64
"""Half-width [ln] upwards of the 80 % of 1,155 measured first tokens around those of the replay, by constants that had
not seen their curves (tools/derive_first_token.py; downwards it is 0.43)."""


def first_token_doubt(odds: float | None) -> float:
    """Return by what factor [1] a first token may be later than predicted with some odds (None: a half)."""
    return 1.0 if odds is None else math.exp(FIRST_TOKEN * deviations(odds) / Z80)


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice(Point):
    """One layout at one batch, as a row shows it; `meets` is whether the limits hold (`marginal`: perhaps)."""

    candidate: Candidate
    meets: Literal["yes", "marginal", "no"]
    score: float
    pareto: bool = False
    tied: bool = False

    @property
    def batch(self) -> int:
        """Return the sequences of one replica."""
        return int(self.points.batch[self.place])

    @property
    def band_s(self) -> tuple[float, float]:
        """Return the ends of the 80 % band of the time per token [s]."""
        return self.tpot_low_s, self.tpot_high_s

    @property
    def ttft_s(self) -> tuple[float, float] | None:
        """Return the range of the time to the first token [s], or None without prompts."""
        low, high = self.ttft_low_s, self.ttft_high_s
        return None if low is None or high is None else (low, high)

    def cost_per_mtoken(self, price_per_hour: float | None) -> float | None:
        """Return the price of a million tokens [$], or None where that of a GPU is not known."""
        return None if price_per_hour is None else price_per_hour / _SECONDS_PER_HOUR / self.tokens_per_s_per_gpu * 1e6


def evaluate(scenario: Scenario, wish: Wish, alike: tuple[int, ...] = ()) -> Candidate | None:
    """Return a layout at every batch that fits, or None where none does.

    Of the batches that nobody asked for, those are left out that would wait for room in the cache.
    """
    dp = scenario.layout.attention_dp
    if wish.users is not None:
        wish = replace(wish, batches=(-(-wish.users // scenario.layout.replicas),))
    if wish.rate_per_s is not None:
        found = settled(scenario, wish.rate_per_s)
        coming = wish.rate_per_s if found.settles else 0.0
        wish = replace(wish, batches=(found.batch,))
        scenario = replace(scenario, workload=replace(scenario.workload, requests_per_s=coming))
    asked = np.array(wish.batches or [dp * each for each in EACH], dtype=np.float64)
    asked = asked[asked >= dp]
    if not len(asked):
        return None
    if not wish.batches:
        asked = _with_largest(scenario, asked)
    at_all = at_batches(scenario, asked)
    fits = at_all.fit_codes > 0
    if not wish.batches:
        fits = fits & (at_all.running == at_all.batch)
    if not np.any(fits):
        return None
    kept = at_all if np.all(fits) else at_batches(scenario, asked[fits])
    return Candidate(points=kept, alike=alike or (scenario.layout.expert_parallel,))


def _with_largest(scenario: Scenario, asked: Array) -> Array:
    """Return batches with the largest that surely fits among them, where it is not beyond what is looked at.

    Memory is linear in the batch, so two batches tell all.
    """
    dp = scenario.layout.attention_dp
    one, more = at_batches(scenario, np.array([1.0, 2.0]) * dp).held_bytes.tolist()
    room = float(np.min(usable_bytes(scenario)[0]))
    count = np.floor((room - one) / (more - one)) + 1 if more > one else 0.0
    return np.unique(np.append(asked, count * dp)) if 1 <= count <= EACH[-1] else asked
