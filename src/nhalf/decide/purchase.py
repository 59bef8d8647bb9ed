"""Purchases: what each thing that one could buy or change saves, by batch, and whether the model can tell.

Every option is predicted, not extrapolated; its gain is the ratio of two predictions that share their constants, so
that most of what is uncertain about either cancels.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from nhalf.decide.flips import LARGEST_BATCH, Flip, Gains, flips, gains, link_gains, steps, wider_runs
from nhalf.decide.levers import elasticities, levers, of_links
from nhalf.decide.option import Option
from nhalf.decide.search import nearest
from nhalf.errors import NoAnswerError
from nhalf.points import Point
from nhalf.predict.band import DRAWS, LEVEL
from nhalf.predict.memory import memory
from nhalf.predict.step import decode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.scenario import Scenario


@dataclass(frozen=True, kw_only=True, eq=False)
class State(Point):
    """A machine at one batch in the fastest layout that fits; `layout_index` is its place among the layouts."""

    layout_index: int


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
class Wish:
    """What links of a tier owe a step at one batch: the part saved by twice the bandwidth, and by half the latency."""

    batch: int
    tier: str
    wider: float
    quicker: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Purchase:
    """Every effect, option by option, and what they say together.

    `curves` are the gains of the options at every batch, `links` those of a wider and of a quicker link.
    `wider_runs` are the first and last batches of the runs in which a wider link buys more than a quicker one;
    `tornado` is how much the step moves with each input at each batch; `mix` are the shares of steps by batch.
    """

    options: tuple[Option, ...]
    batches: tuple[int, ...]
    effects: tuple[Effect, ...]
    curves: Gains
    links: Gains
    flips: tuple[Flip, ...]
    wishes: tuple[Wish, ...]
    wider_runs: tuple[tuple[int, int], ...]
    tornado: Mapping[int, Mapping[str, float]]
    mix: Mapping[int, float] = field(default_factory=dict)

    @property
    def wish_flip(self) -> int | None:
        """Return the batch from which on a wider link buys more than a quicker one, None where none lasts."""
        last = self.wider_runs[-1] if self.wider_runs else None
        return last[0] if last is not None and last[1] == self.links.batches[-1] else None

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
    curves, links = gains(now, options, every), link_gains(now, every)
    found = {batch: state for batch, state in before.items() if state is not None}
    return Purchase(
        options=tuple(options),
        batches=asked,
        effects=tuple(effects),
        curves=curves,
        links=links,
        flips=flips(options, curves),
        wishes=tuple(wish for batch, state in found.items() for wish in _wish(batch, state)),
        wider_runs=wider_runs(links),
        tornado={batch: elasticities(state.scenario) for batch, state in found.items()},
        mix=dict(mix or {}),
    )


def _does_not_fit(now: Option, batch: int) -> NoAnswerError:
    """Return the refusal of a batch that does not fit before anything is bought."""
    held = [memory(now.scenario(index, float(batch))) for index in range(len(now.layouts))]
    least = min(each.needed_bytes for each in held)
    most = max(int(each.largest_batch) for each in held)
    base = now.layouts[0]
    found = nearest(base, max(layout.layout.devices for layout in now.layouts), (batch,))
    larger = f"the nearest layout that holds it is {found[0].layout.name} on {found[1]} devices" if found else ""
    smaller = f"the largest batch that fits here is {most}" if most else ""
    return NoAnswerError(
        f"batch {batch} does not fit before anything is bought: it needs {least / 1e9:.1f} GB or more on each device",
        where=base.system.name,
        do="; ".join(part for part in (larger, smaller, "or quantise with --weights") if part),
    )


def _state(option: Option, batch: int) -> State | None:
    """Return an option's fastest layout that fits at a batch, or None."""
    found = steps(option, np.array([float(batch)]))[:, 0]
    index = int(np.argmin(found))
    if not np.isfinite(found[index]):
        return None
    return State(points=option.points(index, np.array([float(batch)])), layout_index=index)


def _effect(option: Option, batch: int, now: Option, before: State) -> Effect:
    """Return what an option does at a batch, its band from draws that both predictions share."""
    after = _state(option, batch)
    if after is None:
        return Effect(option=option, batch=batch, before=before, after=None, gain=None, low=None, high=None)
    # The gain of a cheaper step per token: where tokens per step differ, per token is what counts.
    kept = float(np.mean(before.scenario.workload.accepted_tokens))
    keeps = float(np.mean(after.scenario.workload.accepted_tokens))
    first = np.broadcast_to(decode(now.drawn(before.layout_index, float(batch))).value, DRAWS) / kept
    second = np.broadcast_to(decode(option.drawn(after.layout_index, float(batch))).value, DRAWS) / keeps
    low, high = np.quantile(1 - second / first, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    gain = 1 - after.tpot_s / before.tpot_s
    return Effect(option=option, batch=batch, before=before, after=after, gain=gain,
                  low=min(float(low), gain), high=max(float(high), gain))  # fmt: skip


def _wish(batch: int, state: State) -> list[Wish]:
    """Return what a wider and a quicker link of each tier would save, most first; nothing where one device has none."""
    return [
        Wish(batch=batch, tier=wider.path.split(".")[2], wider=wider.gain, quicker=quicker.gain)
        for wider, quicker in of_links(levers(state.scenario))
    ]
