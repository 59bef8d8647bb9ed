"""Purchases: what each thing that one could buy or change saves, by batch, and whether the model can tell.

Every option is predicted, not extrapolated; its gain is the ratio of two predictions that share their constants, so
that most of what is uncertain about either cancels.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from nhalf.breakdown import columns
from nhalf.decide.elasticity import elasticities
from nhalf.decide.levers import levers
from nhalf.decide.regime import BINDING, TIE
from nhalf.errors import NoAnswerError
from nhalf.predict.band import DRAWS, LEVEL, draws
from nhalf.predict.memory import needed, usable_bytes
from nhalf.predict.step import COLUMNS, decode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.breakdown import Array, Quantity
    from nhalf.scenario import Scenario

SAME_STACK: Final = TIE
"""A gain below 5 % on one machine and engine is noise: a repeated run differs by 9 % in a quarter of cases, and the
ratios of device counts are predicted within 4 to 6 % (the house's decode-step note)."""
ANOTHER_STACK: Final = 0.15
"""The median error of a prediction whose constants were not fitted (the house's decode-step note): two machines,
engines or libraries do not share what is uncertain about them."""
LARGEST_BATCH: Final = 1024
"""Up to this batch, or the largest that is asked for, the advice is looked at for flips."""
_LASTING: Final = 1.15
"""An advice that holds for less than 15 % of a batch is a wiggle of a curve, not a flip."""

MoveKind = Literal["value", "delta", "factor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What an option does to one input: a new value, something added to it, or a factor; times end at 0."""

    path: str
    kind: MoveKind
    amount: float

    def of(self, before: Quantity) -> Quantity:
        """Return the input after the move."""
        if self.kind == "value":
            return self.amount
        if self.kind == "factor":
            return before * self.amount
        after = np.maximum(np.asarray(before) + self.amount, 0.0)
        return float(after) if after.ndim == 0 else after


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Option:
    """One thing on the list: scenarios of every layout it may run in, and inputs that it moves.

    `price_per_gpu` [$] is None where none was given; `another` tells whether machine, engine, library or number format
    is another one, so that the model's errors before and after are not the same error.
    """

    name: str
    layouts: tuple[Scenario, ...]
    moves: tuple[Move, ...] = ()
    price_per_gpu: float | None = None
    another: bool = False

    @property
    def error(self) -> float:
        """Return the gain [1] below which the model cannot tell."""
        return ANOTHER_STACK if self.another else SAME_STACK

    def scenario(self, layout: int, batch: Quantity) -> Scenario:
        """Return the scenario of one of the layouts at a batch, with the moves made."""
        base = self.layouts[layout]
        changes = {move.path: move.of(base.value(move.path)) for move in self.moves}
        return base.having({**changes, "workload.batch": batch})

    def drawn(self, layout: int, batch: float) -> Scenario:
        """Return the scenario with every uncertain input drawn; a moved one is drawn, then moved."""
        base = self.layouts[layout].having({"workload.batch": batch})
        changes: dict[str, Quantity] = dict(draws(base))
        for move in self.moves:
            changes[move.path] = move.of(changes.get(move.path, base.value(move.path)))
        return base.having(changes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class State:
    """A machine at one batch in the fastest layout that fits: its scenario and its step [s], column by column."""

    scenario: Scenario
    layout: int
    step_s: float
    owed: Mapping[str, float]

    @property
    def binding(self) -> str:
        """Return the word for the largest column."""
        return BINDING[max(COLUMNS, key=lambda name: self.owed[name])]

    @property
    def tokens_per_s_per_user(self) -> float:
        """Return the tokens that a sequence gets each second."""
        return float(np.mean(self.scenario.workload.accepted_tokens)) / self.step_s

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """Return the tokens that a device gives each second."""
        batch = float(np.mean(self.scenario.workload.batch))
        return batch * self.tokens_per_s_per_user / self.scenario.layout.devices


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Effect:
    """What an option does at one batch; `after` is None where nothing fits, and then every number is too.

    `gain` [1] is the part of the time per token that it saves, `low` and `high` the ends of its 80 % band.
    """

    option: Option
    batch: int
    before: State
    after: State | None
    gain: float | None
    low: float | None
    high: float | None

    @property
    def above_model_error(self) -> bool:
        """Tell whether the model can tell the gain from nothing: large enough, and of one sign in its band."""
        if self.gain is None or self.low is None or self.high is None:
            return False
        return abs(self.gain) >= self.option.error and (self.low > 0 or self.high < 0)

    @property
    def per_gpu(self) -> Effect:
        """Return the effect on the time of a GPU that a token takes: another where the number of devices is another."""
        if self.after is None or self.gain is None or self.low is None or self.high is None:
            return self
        more = self.after.scenario.layout.devices / self.before.scenario.layout.devices
        gain, low, high = (1 - (1 - each) * more for each in (self.gain, self.low, self.high))
        return replace(self, gain=gain, low=low, high=high)

    @property
    def helps(self) -> bool:
        """Tell whether it makes steps shorter, beyond the model's error."""
        return self.above_model_error and self.gain is not None and self.gain > 0

    @property
    def gain_per_money(self) -> float | None:
        """Return the gain [1] for each dollar a GPU costs; None without a price or a gain."""
        price = self.option.price_per_gpu
        return self.gain / price if price and self.gain is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """The batch from which on other advice holds; an empty name stands for: nothing on the list helps."""

    before: str
    after: str
    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What links owe a step at one batch: the part saved by twice the bandwidth, and by half the latency."""

    batch: int
    tier: str
    wider: float
    quicker: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Purchase:
    """Every effect, option by option, and what they say together.

    `wish_flip` is the batch from which a wider link buys more than a quicker one, None where it never does;
    `tornado` is how much the step moves with each input at each batch; `mix` are the shares of steps by batch.
    """

    options: tuple[Option, ...]
    batches: tuple[int, ...]
    effects: tuple[Effect, ...]
    flips: tuple[Flip, ...]
    wishes: tuple[Wish, ...]
    wish_flip: int | None
    tornado: Mapping[int, Mapping[str, float]]
    mix: Mapping[int, float] = field(default_factory=dict)

    def at(self, batch: int) -> list[Effect]:
        """Return the effects at a batch."""
        return [effect for effect in self.effects if effect.batch == batch]

    def mixed_gain(self, option: Option) -> float | None:
        """Return the part of the time of a mix of steps that an option saves [1]; None where it does not fit."""
        chosen = [effect for effect in self.effects if effect.option is option and effect.batch in self.mix]
        if not chosen or any(effect.after is None for effect in chosen):
            return None
        before = sum(self.mix[effect.batch] * effect.before.step_s for effect in chosen)
        after = sum(self.mix[effect.batch] * effect.after.step_s for effect in chosen if effect.after)
        return 1 - after / before


def purchase(
    layouts: Sequence[Scenario],
    options: Sequence[Option],
    batches: Sequence[int],
    mix: Mapping[int, float] | None = None,
) -> Purchase:
    """Return what each option does to a machine that may run in some layouts, at some batches.

    Raises
    ------
    NoAnswerError
        Nothing fits in memory at one of the batches before anything is bought.
    """
    now = Option(name="", layouts=tuple(layouts))
    asked = tuple(sorted({*batches, *(mix or {})}))
    before = {batch: _state(now, batch) for batch in asked}
    effects = []
    for batch in asked:
        state = before[batch]
        if state is None:
            raise _does_not_fit(now, batch)
        effects += [_effect(option, batch, now, state) for option in options]
    effects.sort(key=lambda effect: options.index(effect.option))
    every = np.arange(1.0, max(LARGEST_BATCH, *asked) + 1)
    wish_flip = _wish_flip(now, every)
    found = {batch: state for batch, state in before.items() if state is not None}
    return Purchase(
        options=tuple(options),
        batches=asked,
        effects=tuple(effects),
        flips=_flips(now, options, every),
        wishes=tuple(wish for batch, state in found.items() for wish in _wish(batch, state)),
        wish_flip=wish_flip,
        tornado={batch: elasticities(state.scenario) for batch, state in found.items()},
        mix=dict(mix or {}),
    )


def _does_not_fit(now: Option, batch: int) -> NoAnswerError:
    """Return the refusal of a batch that does not fit before anything is bought."""
    least = min(float(np.mean(needed(now.scenario(index, float(batch))).value)) for index in range(len(now.layouts)))
    return NoAnswerError(
        f"batch {batch} does not fit before anything is bought: it needs {least / 1e9:.1f} GB or more on each device",
        where=now.layouts[0].system.name,
        do="raise --tp, lower --batch or --context, or quantise with --weights",
    )


def _steps(option: Option, batches: Array) -> Array:
    """Return the time per token [s] of every layout (rows) at every batch, infinite where it does not fit."""
    rows = []
    for index in range(len(option.layouts)):
        scenario = option.scenario(index, batches)
        step = np.broadcast_to(np.asarray(decode(scenario).value), batches.shape)
        held = np.broadcast_to(np.asarray(needed(scenario).value), batches.shape)
        rows.append(np.where(held <= usable_bytes(scenario)[1], step / scenario.workload.accepted_tokens, np.inf))
    return np.stack(rows)


def _state(option: Option, batch: int) -> State | None:
    """Return an option's fastest layout that fits at a batch, or None."""
    steps = _steps(option, np.array([float(batch)]))[:, 0]
    index = int(np.argmin(steps))
    if not np.isfinite(steps[index]):
        return None
    scenario = option.scenario(index, float(batch))
    step = decode(scenario)
    owed = columns(step)
    return State(
        scenario=scenario,
        layout=index,
        step_s=float(step.value),
        owed={name: float(owed.get(name, 0.0)) for name in COLUMNS},
    )


def _effect(option: Option, batch: int, now: Option, before: State) -> Effect:
    """Return what an option does at a batch, its band from draws that both predictions share."""
    after = _state(option, batch)
    if after is None:
        return Effect(option=option, batch=batch, before=before, after=None, gain=None, low=None, high=None)
    # The gain of a cheaper step per token: where tokens per step differ, per token is what counts.
    kept = float(np.mean(before.scenario.workload.accepted_tokens))
    keeps = float(np.mean(after.scenario.workload.accepted_tokens))
    first = np.broadcast_to(decode(now.drawn(before.layout, float(batch))).value, DRAWS) / kept
    second = np.broadcast_to(decode(option.drawn(after.layout, float(batch))).value, DRAWS) / keeps
    low, high = np.quantile(1 - second / first, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    gain = 1 - after.step_s / keeps / (before.step_s / kept)
    return Effect(option=option, batch=batch, before=before, after=after, gain=gain,
                  low=min(float(low), gain), high=max(float(high), gain))  # fmt: skip


def _flips(now: Option, options: Sequence[Option], batches: Array) -> tuple[Flip, ...]:
    """Return the batches at which the best option changes, over every batch that fits."""
    before = np.min(_steps(now, batches), axis=0)
    kept = batches[np.isfinite(before)]
    if not len(kept):
        return ()
    before = before[: len(kept)]
    gains = [1 - np.min(_steps(option, kept), axis=0) / before for option in options]
    told = np.array([np.where(gain >= option.error, gain, -1.0) for gain, option in zip(gains, options, strict=True)])
    best = np.where(np.max(told, axis=0) > 0, np.argmax(told, axis=0), -1)
    runs = _runs(best, kept)
    names = {-1: "", **{index: option.name for index, option in enumerate(options)}}
    return tuple(
        Flip(before=names[first], after=names[second], batch=start) for (first, _), (second, start) in pairwise(runs)
    )


def _runs(best: Array, batches: Array) -> list[tuple[int, int]]:
    """Return each winner that lasts with the batch at which it begins; short runs count for the one before."""
    edges = [0, *(np.flatnonzero(np.diff(best)) + 1).tolist(), len(best)]
    found: list[tuple[int, int]] = []
    for start, stop in pairwise(edges):
        winner, first = int(best[start]), int(batches[start])
        lasts = (float(batches[stop - 1]) + 1) / first >= _LASTING
        if found and (not lasts or found[-1][0] == winner):
            continue
        found.append((winner, first))
    return found


def _wish(batch: int, state: State) -> list[Wish]:
    """Return what a wider and a quicker link would save at a batch; nothing where one device has none."""
    links = [lever for lever in levers(state.scenario) if lever.path.startswith("system.fabric")]
    if not links:
        return []
    wider, quicker = links
    return [Wish(batch=batch, tier=wider.path.split(".")[2], wider=wider.gain, quicker=quicker.gain)]


def _wish_flip(now: Option, batches: Array) -> int | None:
    """Return the batch from which on twice the bandwidth saves more than half the latency, None if never."""
    steps = _steps(now, batches)
    fastest = np.argmin(steps, axis=0)
    wants = np.zeros(len(batches), dtype=bool)
    for index, base in enumerate(now.layouts):
        links = [lever for lever in levers(base.having({"workload.batch": 1.0})) if "system.fabric" in lever.path]
        if not links:
            continue
        scenario = now.scenario(index, batches)
        wider, quicker = (
            decode(scenario.having({lever.path: scenario.value(lever.path) * lever.factor})).value for lever in links
        )
        wants = np.where(fastest == index, np.broadcast_to(np.less(wider, quicker), wants.shape), wants)
    wants = wants[np.isfinite(np.min(steps, axis=0))]
    if not len(wants) or not wants[-1]:
        return None
    before = np.flatnonzero(~wants)
    return int(batches[before[-1] + 1]) if len(before) else int(batches[0])
