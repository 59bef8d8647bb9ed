"""Points: what is predicted of a scenario, as one struct of arrays that every command reads.

A scenario whose numbers are arrays holds as many points; `Points` evaluates them in one call, and only what is asked
for: the step at once, its band, the memory and the first token when somebody looks. `at` gives one point as a row.
A number of a step is computed here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

import numpy as np

from nhalf.breakdown import Term, columns, some
from nhalf.emitted import LEAST, MEMORY, RUNNING, STEP, known, least, running
from nhalf.layout import Layout
from nhalf.predict import communication, exchange
from nhalf.predict.band import band
from nhalf.predict.first_token import first_token
from nhalf.predict.memory import FITS, Fit, Memory, fit_codes, memory, needed
from nhalf.predict.prefill import predicted
from nhalf.predict.step import BINDING, COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nhalf.breakdown import Array, Quantity
    from nhalf.predict.response import Indices
    from nhalf.scenario import Scenario

T = TypeVar("T")
_WORDS: Final = tuple(BINDING[name] for name in COLUMNS)


@dataclass(frozen=True, kw_only=True, eq=False)
class Points:
    """`count` points of one scenario, whose numbers are floats, or arrays of shape (count,); so is every answer.

    `known` is what an emitted function said of them: then no tree is built until somebody looks at one.

    Times are in [s], sizes in [bytes], rates in [tokens/s]; they are of one replica, but for `tokens_per_s_per_gpu`.
    """

    scenario: Scenario
    count: int = 1
    known: Mapping[str, Quantity] | None = None

    def at(self, place: int) -> Point:
        """Return one of the points."""
        return Point(points=self, place=place)

    def over(self, value: Quantity) -> Array:
        """Return a quantity of the scenario as an array over the points."""
        if isinstance(value, np.ndarray) and value.shape == (self.count,):
            return value
        return np.full(self.count, value, dtype=np.float64)

    @cached_property
    def step(self) -> Term:
        """Return the step as a tree of terms: a decode step, or the whole prefill."""
        return predicted(self.scenario)

    @cached_property
    def step_s(self) -> Array:
        """Return the time of a step."""
        return self.over(self.known[STEP] if self.known else self.step.value)

    @property
    def prefills(self) -> bool:
        """Tell whether the points are prefills."""
        return self.scenario.workload.phase == "prefill"

    @property
    def batch(self) -> Array:
        """Return the sequences that were asked for."""
        return self.over(self.scenario.workload.batch)

    @cached_property
    def running(self) -> Array:
        """Return the sequences that run at once: fewer than the batch where the cache has no room for all."""
        return self.over(self.known[RUNNING] if self.known else running(self.scenario))

    @property
    def accepted_tokens(self) -> Array:
        """Return the tokens that a sequence keeps of a step."""
        return self.over(self.scenario.workload.accepted_tokens)

    @cached_property
    def tpot_s(self) -> Array:
        """Return the time of each token that a sequence keeps; of a prefill, that of the whole."""
        found: Array = self.step_s / self.accepted_tokens
        return found

    @cached_property
    def columns(self) -> dict[str, Array]:
        """Return what the step is made of, by the names of `COLUMNS`; the columns add up to it."""
        owed = self.known or columns(self.step)
        return {name: self.over(owed.get(name, 0.0)) for name in COLUMNS}

    @cached_property
    def binds(self) -> Indices:
        """Return the index in `COLUMNS` of the largest column."""
        found: Indices = np.argmax(np.stack([self.columns[name] for name in COLUMNS]), axis=0)
        return found

    @property
    def binding(self) -> list[str]:
        """Return the words for what binds."""
        return [_WORDS[index] for index in self.binds.tolist()]

    @cached_property
    def tokens_per_s(self) -> Array:
        """Return the tokens of one replica: kept ones of a decode, prompt tokens of a prefill."""
        each = self.over(self.scenario.workload.prompt_tokens) if self.prefills else self.accepted_tokens
        found: Array = self.running * each / self.step_s
        return found

    @cached_property
    def tokens_per_s_per_user(self) -> Array:
        """Return the tokens of a sequence that runs."""
        found: Array = self.tokens_per_s / self.running
        return found

    @cached_property
    def tokens_per_s_per_gpu(self) -> Array:
        """Return the tokens of each device."""
        found: Array = self.tokens_per_s / self.scenario.layout.devices
        return found

    @cached_property
    def held_bytes(self) -> Array:
        """Return what the fullest device would hold of all sequences that were asked for."""
        return self.over(needed(self.scenario).value)

    @cached_property
    def memory_bytes(self) -> Array:
        """Return what the fullest device holds, of the sequences that run."""
        if self.known:
            return self.over(self.known[MEMORY])
        return self.over(needed(self.scenario, self._plain(self.running)).value)

    @cached_property
    def fit_codes(self) -> Indices:
        """Return whether the points fit in memory, as indices in `FITS`.

        Where requests queue for room in the cache, what must fit is one of them on each attention rank.
        """
        if np.array_equal(self.running, self.batch):
            need: Quantity = self._plain(self.memory_bytes)
        else:
            need = self.known[LEAST] if self.known else needed(self.scenario, least(self.scenario)).value
        return np.broadcast_to(fit_codes(self.scenario, need), (self.count,))

    @property
    def fits_memory(self) -> list[Fit]:
        """Return the words for whether the points fit in memory."""
        return [FITS[code] for code in self.fit_codes.tolist()]

    @cached_property
    def band_s(self) -> tuple[Array, Array]:
        """Return the low and high ends of the 80 % band of the step."""
        return band(self.scenario, self.step, self.count)

    @property
    def low_s(self) -> Array:
        """Return the low ends of the 80 % band of the step."""
        return self.band_s[0]

    @property
    def high_s(self) -> Array:
        """Return the high ends of the 80 % band of the step."""
        return self.band_s[1]

    @property
    def tpot_low_s(self) -> Array:
        """Return the low ends of the 80 % band of the time per token."""
        found: Array = self.low_s / self.accepted_tokens
        return found

    @property
    def tpot_high_s(self) -> Array:
        """Return the high ends of the 80 % band of the time per token."""
        found: Array = self.high_s / self.accepted_tokens
        return found

    @cached_property
    def first_s(self) -> tuple[Array, Array]:
        """Return the range of the time to the first token; NaN where there are no prompts."""
        if self.prefills or not some(self.scenario.workload.output_tokens > 0):
            return np.full(self.count, np.nan), np.full(self.count, np.nan)
        return first_token(self.scenario, self.batch, self.tpot_s)

    @property
    def ttft_low_s(self) -> Array:
        """Return the low ends of the range of the time to the first token."""
        return self.first_s[0]

    @property
    def ttft_high_s(self) -> Array:
        """Return the high ends of the range of the time to the first token."""
        return self.first_s[1]

    def _plain(self, values: Array) -> Quantity:
        """Return an array over the points as the scenario holds its numbers: an array only where there are several."""
        return values if self.count > 1 else float(values[0])


class _Number:
    """A number of one of the points: the entry of the array of that name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, point: Point, owner: type | None = None) -> float:
        return float(getattr(point.points, self.name)[point.place])


class _Told(Generic[T]):
    """What the scenario, or the points together, say of one of them."""

    def __init__(self, tell: Callable[[Point], T]) -> None:
        self.tell = tell

    def __get__(self, point: Point, owner: type | None = None) -> T:
        return self.tell(point)


@dataclass(frozen=True, kw_only=True, eq=False)
class Point:
    """One of the points, as a row: the attributes of `Points` as plain numbers and words.

    `report.fields` says in a sentence what each is. `ttft_low_s` and `ttft_high_s` are None without prompts, `moe_tp`
    without experts, `exchange` where every rank has all experts.
    """

    points: Points
    place: int = 0

    @cached_property
    def scenario(self) -> Scenario:
        """Return the scenario of this point alone."""
        return self.points.scenario.at(self.place, self.points.count)

    @cached_property
    def step(self) -> Term:
        """Return the step as a tree of terms, every number a float."""
        if self.points.count == 1 and not isinstance(self.points.step.value, np.ndarray):
            return self.points.step
        return self.points.step.at(self.place, self.points.count)

    @property
    def batch(self) -> float:
        """Return the sequences that were asked for."""
        return float(self.points.batch[self.place])

    @property
    def columns(self) -> Mapping[str, float]:
        """Return the columns [s] that add up to the step."""
        return {name: float(owed[self.place]) for name, owed in self.points.columns.items()}

    layout = _Told[Layout](lambda point: point.points.scenario.layout)
    layout_name = _Told[str](lambda point: point.layout.name)
    system = _Told[str](lambda point: point.points.scenario.system.name)
    model = _Told[str](lambda point: point.points.scenario.transformer.name)
    engine = _Told[str](lambda point: point.points.scenario.stack.engine)
    phase = _Told[str](lambda point: point.points.scenario.workload.phase)
    prefills = _Told[bool](lambda point: point.points.prefills)
    tp = _Told[int](lambda point: point.layout.tensor_parallel)
    pp = _Told[int](lambda point: point.layout.pipeline_parallel)
    ep = _Told[int](lambda point: point.layout.expert_parallel)
    attention_dp = _Told[int](lambda point: point.layout.attention_dp)
    cp = _Told[int](lambda point: point.layout.context_parallel)
    moe_tp = _Told[int | None](
        lambda point: point.layout.moe_tensor_parallel if point.points.scenario.transformer.mixture else None
    )
    exchange = _Told[str | None](lambda point: point.layout.routed_exchange if point.layout.attention_dp > 1 else None)
    nodes = _Told[int](lambda point: point.layout.nodes(point.points.scenario.system.fabric))
    kind = _Told[str](lambda point: exchange.kind(point.points.scenario))
    as_of = _Told["str | None"](lambda point: communication.as_of(point.points.scenario))
    binding = _Told[str](lambda point: _WORDS[int(point.points.binds[point.place])])
    fits_memory = _Told[Fit](lambda point: FITS[int(point.points.fit_codes[point.place])])
    ttft_low_s = _Told[float | None](lambda point: _known(point.points.ttft_low_s[point.place]))
    ttft_high_s = _Told[float | None](lambda point: _known(point.points.ttft_high_s[point.place]))
    running = _Number()
    accepted_tokens = _Number()
    step_s = _Number()
    low_s = _Number()
    high_s = _Number()
    tpot_s = _Number()
    tpot_low_s = _Number()
    tpot_high_s = _Number()
    tokens_per_s = _Number()
    tokens_per_s_per_user = _Number()
    tokens_per_s_per_gpu = _Number()
    memory_bytes = _Number()

    @cached_property
    def memory(self) -> Memory:
        """Return what the fullest device holds, part by part."""
        return memory(self.scenario.having({"workload.batch": self.running}))


def _known(value: float) -> float | None:
    """Return a number, None where it is not known."""
    return None if np.isnan(value) else float(value)


def points(scenario: Scenario, changes: Mapping[str, Quantity] | None = None) -> Points:
    """Return the points of a scenario with some inputs replaced by numbers or by arrays of one length, by path."""
    given = dict(changes or {})
    if not given:
        return Points(scenario=scenario)
    count = max(np.size(value) for value in given.values())
    return Points(scenario=scenario.moved(given), count=count, known=known(scenario, given))


def at_batches(scenario: Scenario, batches: Array) -> Points:
    """Return the points of a scenario at several batches."""
    workload = replace(scenario.workload, batch=cast("Array", np.asarray(batches, dtype=np.float64)))
    return Points(scenario=replace(scenario, workload=workload), count=len(batches))
