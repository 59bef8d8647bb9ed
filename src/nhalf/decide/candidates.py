"""Candidates: one layout at every batch that fits, predicted as arrays, and what is wanted of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from nhalf.breakdown import columns, total
from nhalf.collective import Mode
from nhalf.decide.regime import BINDING
from nhalf.predict.band import bands
from nhalf.predict.first_token import first_token
from nhalf.predict.memory import needed, usable_bytes
from nhalf.predict.prompt import interference
from nhalf.predict.step import COLUMNS, decode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from nhalf.breakdown import Array, Quantity, Term
    from nhalf.layout import Layout
    from nhalf.scenario import Scenario

Goal = Literal["tokens-per-gpu", "latency", "cost"]
Exchange = Literal["all-gather", "all-to-all"]
GOALS: Final = ("tokens-per-gpu", "latency", "cost")
EACH: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Sequences of each attention rank that are looked at, besides as many as fit."""
_SECONDS_PER_HOUR: Final = 3600.0
_FITS: Final = ("no", "marginal", "yes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is wanted: the most of something, within limits; prices in [$] for each GPU and hour, None where unknown.

    `degrees` narrows a degree of the layout (by the name of its field) to some values, `batches` the batch, `exchanges`
    how tokens of attention-DP groups reach the experts; `pools` asks for prefill and decode apart, too.
    """

    goal: Goal = "tokens-per-gpu"
    tpot_s: float | None = None
    ttft_s: float | None = None
    price_per_hour: float | None = None
    degrees: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    batches: tuple[int, ...] | None = None
    exchanges: tuple[Exchange, ...] = ("all-gather", "all-to-all")
    pools: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """One layout with every batch that fits: arrays of shape (n,), times in [s]; `marginal` where memory may not do.

    `alike` are the degrees of expert parallelism that the prediction does not tell apart, the layout's own among them;
    `unserved` is the step without prompts, where it was made on the way to that with them.
    """

    scenario: Scenario
    batches: Array
    tpot_s: Array
    marginal: NDArray[np.bool_]
    step: Term
    alike: tuple[int, ...]
    unserved: Term | None = None

    @cached_property
    def decode_s(self) -> Array:
        """Return the time per token [s] at every batch when prompts are prefilled elsewhere."""
        found = self.unserved
        if found is None:
            found = decode(_unserved(_at(self.scenario, self.batches)))
        kept = self.scenario.workload.accepted_tokens
        times: Array = np.broadcast_to(np.asarray(found.value), self.batches.shape) / kept
        return times

    @cached_property
    def first_s(self) -> tuple[Array, Array] | None:
        """Return the range of the time to the first token [s] at every batch; None where there are no prompts.

        It runs from one prompt alone to all prompts of the batch at once, and a step after them.
        """
        if not np.any(np.greater(self.scenario.workload.output_tokens, 0)):
            return None
        return first_token(self.scenario, self.batches, self.tpot_s)

    @cached_property
    def owed(self) -> dict[str, Array]:
        """Return the columns of the step [s] at every batch."""
        found = columns(self.step)
        return {name: np.broadcast_to(found.get(name, 0.0), self.batches.shape) for name in COLUMNS}

    def bands_s(self, places: Sequence[int]) -> tuple[Array, Array]:
        """Return the ends of the 80 % bands of the time per token [s] at some of the batches, by their places."""
        low, high = bands(self.scenario, self.batches[list(places)])
        kept = self.scenario.workload.accepted_tokens
        return low / kept, high / kept

    @property
    def layout(self) -> Layout:
        """Return the layout."""
        return self.scenario.layout

    @cached_property
    def per_user(self) -> Array:
        """Return tokens/s of each sequence."""
        rates: Array = 1.0 / self.tpot_s
        return rates

    @cached_property
    def per_gpu(self) -> Array:
        """Return tokens/s of each device."""
        rates: Array = self.batches / self.tpot_s / self.layout.devices
        return rates


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """One layout at one batch, as a row shows it; `meets` is whether the limits hold (`marginal`: perhaps)."""

    candidate: Candidate
    place: int
    meets: Literal["yes", "marginal", "no"]
    score: float
    pareto: bool = False
    tied: bool = False

    @property
    def layout(self) -> Layout:
        """Return the layout."""
        return self.candidate.layout

    @property
    def batch(self) -> int:
        """Return the sequences of one replica."""
        return int(self.candidate.batches[self.place])

    @property
    def tpot_s(self) -> float:
        """Return the time per token [s]."""
        return float(self.candidate.tpot_s[self.place])

    @property
    def band_s(self) -> tuple[float, float]:
        """Return the ends of the 80 % band of the time per token [s]."""
        low, high = self.candidate.bands_s([self.place])
        return float(low[0]), float(high[0])

    @property
    def per_user(self) -> float:
        """Return tokens/s of each sequence."""
        return float(self.candidate.per_user[self.place])

    @property
    def per_gpu(self) -> float:
        """Return tokens/s of each device."""
        return float(self.candidate.per_gpu[self.place])

    @property
    def ttft_s(self) -> tuple[float, float] | None:
        """Return the range of the time to the first token [s], or None without prompts."""
        first = self.candidate.first_s
        return None if first is None else (float(first[0][self.place]), float(first[1][self.place]))

    @property
    def fits(self) -> str:
        """Return whether it fits: `yes`, or `marginal`."""
        return _FITS[1] if self.candidate.marginal[self.place] else _FITS[2]

    @property
    def columns(self) -> dict[str, float]:
        """Return the columns of the step [s]."""
        return {name: float(owed[self.place]) for name, owed in self.candidate.owed.items()}

    @property
    def binding(self) -> str:
        """Return the word for the largest column."""
        owed = self.columns
        return BINDING[max(COLUMNS, key=lambda name: owed[name])]

    @property
    def scenario(self) -> Scenario:
        """Return the scenario at this batch alone."""
        return _at(self.candidate.scenario, float(self.batch))

    def cost_per_mtoken(self, price_per_hour: float | None) -> float | None:
        """Return the price of a million tokens [$], or None where that of a GPU is not known."""
        return None if price_per_hour is None else price_per_hour / _SECONDS_PER_HOUR / self.per_gpu * 1e6


def evaluate(scenario: Scenario, wish: Wish, alike: tuple[int, ...] = ()) -> Candidate | None:
    """Return a layout at every batch that fits, or None where none does."""
    dp = scenario.layout.attention_dp
    asked = np.array(wish.batches or [dp * each for each in EACH], dtype=np.float64)
    asked = asked[asked >= dp]
    if not len(asked):
        return None
    low, high = usable_bytes(scenario)
    first, each = _memory(scenario)
    if not wish.batches:
        asked = _with_largest(asked, dp, room=low - first, each=each)
    held = first + (asked / dp - 1) * each
    fits = held <= high
    if not np.any(fits):
        return None
    batches, held = asked[fits], held[fits]
    step, unserved = _step(_at(scenario, batches))
    tpot_s = np.broadcast_to(np.asarray(step.value), batches.shape) / scenario.workload.accepted_tokens
    same = alike or (scenario.layout.expert_parallel,)
    return Candidate(
        scenario=scenario, batches=batches, tpot_s=tpot_s, marginal=held > low, step=step, alike=same, unserved=unserved
    )  # fmt: skip


def _unserved(scenario: Scenario) -> Scenario:
    """Return a scenario without the prompts of arriving requests."""
    return replace(scenario, workload=replace(scenario.workload, prompt_tokens=0.0, output_tokens=0.0))


def _at(scenario: Scenario, batch: Quantity) -> Scenario:
    """Return a scenario at another batch, or at several."""
    return replace(scenario, workload=replace(scenario.workload, batch=batch))


def _memory(scenario: Scenario) -> tuple[float, float]:
    """Return what a device holds with one sequence for each attention rank, and what one more for each adds [bytes].

    Memory is linear in the batch, so two batches tell all.
    """
    two = np.array([1.0, 2.0]) * scenario.layout.attention_dp
    one, more = np.broadcast_to(needed(_at(scenario, two)).value, (2,)).tolist()
    return one, more - one


def _with_largest(asked: Array, dp: int, *, room: float, each: float) -> Array:
    """Return batches with the largest that surely fits among them, where it is not beyond what is looked at."""
    count = np.floor(room / each) + 1 if each > 0 else 0.0
    return np.unique(np.append(asked, count * dp)) if 1 <= count <= EACH[-1] else asked


def _step(moved: Scenario) -> tuple[Term, Term | None]:
    """Return the decode step of a scenario whose batches all fit, and that without prompts, if it was made.

    There the cap of the running batch does not bind, so it is spared: the step without prompts, and their part of it.
    """
    workload = moved.workload
    whole = moved.stack.mode == Mode.EAGER or moved.stack.remedies.two_batches
    if whole or not np.any(np.greater(workload.output_tokens, 0)):
        return decode(moved), None
    alone = decode(_unserved(moved))
    return total("step", *alone.parts, interference(moved)), alone
