"""Points: what is predicted of a scenario, as one struct of arrays that every command reads.

A scenario whose numbers are arrays holds as many points; `Points` evaluates them in one call, and only what is asked
for: the step at once, its band, the memory and the first token when somebody looks. `at` gives one point as a row.
A number of a step is computed here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from nhalf.breakdown import Term, columns
from nhalf.predict import communication, exchange, layer
from nhalf.predict.band import band
from nhalf.predict.first_token import first_token
from nhalf.predict.memory import FITS, Fit, Memory, fit_codes, memory, needed
from nhalf.predict.prefill import predicted
from nhalf.predict.step import BINDING, COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.breakdown import Array, Quantity
    from nhalf.layout import Layout
    from nhalf.predict.response import Indices
    from nhalf.scenario import Scenario

_WORDS: Final = tuple(BINDING[name] for name in COLUMNS)


@dataclass(frozen=True, kw_only=True, eq=False)
class Points:
    """`count` points of one scenario, whose numbers are floats, or arrays of shape (count,); so is every answer.

    Times are in [s], sizes in [bytes], rates in [tokens/s]; they are of one replica, but for `tokens_per_s_per_gpu`.
    """

    scenario: Scenario
    count: int = 1

    def at(self, place: int) -> Point:
        """Return one of the points."""
        return Point(points=self, place=place)

    def over(self, value: Quantity) -> Array:
        """Return a quantity of the scenario as an array over the points."""
        found: Array = np.broadcast_to(np.asarray(value, dtype=np.float64), (self.count,))
        return found

    @cached_property
    def step(self) -> Term:
        """Return the step as a tree of terms: a decode step, or the whole prefill."""
        return predicted(self.scenario)

    @cached_property
    def step_s(self) -> Array:
        """Return the time of a step."""
        return self.over(self.step.value)

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
        found = layer.running(self.scenario)
        return self.over(found.value if isinstance(found, Term) else found)

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
        owed = columns(self.step)
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
        return self.over(needed(self.scenario, self._plain(self.running)).value)

    @cached_property
    def fit_codes(self) -> Indices:
        """Return whether the points fit in memory, as indices in `FITS`.

        Where requests queue for room in the cache, what must fit is one of them on each attention rank.
        """
        least = np.where(self.running < self.batch, float(self.scenario.layout.attention_dp), self.batch)
        return np.broadcast_to(fit_codes(self.scenario, self._plain(least)), (self.count,))

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
        if self.prefills or not np.any(np.greater(self.scenario.workload.output_tokens, 0)):
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Point:
    """One of the points, as a row: the attributes of `Points` as plain numbers and words."""

    points: Points
    place: int = 0

    def _one(self, values: Array) -> float:
        return float(values[self.place])

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
    def layout(self) -> Layout:
        """Return the layout."""
        return self.points.scenario.layout

    @property
    def layout_name(self) -> str:
        """Return the layout in short, such as TP8 or TP4 PP2."""
        return self.layout.name

    @property
    def system(self) -> str:
        """Return the name of the system."""
        return self.points.scenario.system.name

    @property
    def model(self) -> str:
        """Return the name of the model."""
        return self.points.scenario.transformer.name

    @property
    def engine(self) -> str:
        """Return the name of the engine."""
        return self.points.scenario.stack.engine

    @property
    def phase(self) -> str:
        """Return `decode` or `prefill`."""
        return self.points.scenario.workload.phase

    @property
    def prefills(self) -> bool:
        """Tell whether the point is a prefill."""
        return self.points.prefills

    @property
    def tp(self) -> int:
        """Return the TP degree."""
        return self.layout.tensor_parallel

    @property
    def pp(self) -> int:
        """Return the number of pipeline stages."""
        return self.layout.pipeline_parallel

    @property
    def ep(self) -> int:
        """Return the EP degree."""
        return self.layout.expert_parallel

    @property
    def attention_dp(self) -> int:
        """Return the attention-DP degree."""
        return self.layout.attention_dp

    @property
    def cp(self) -> int:
        """Return the CP degree."""
        return self.layout.context_parallel

    @property
    def moe_tp(self) -> int | None:
        """Return over how many devices each expert is split; None without experts."""
        return self.layout.moe_tensor_parallel if self.points.scenario.transformer.mixture else None

    @property
    def exchange(self) -> str | None:
        """Return how tokens reach their experts; None where every rank has them all."""
        return self.layout.routed_exchange if self.layout.attention_dp > 1 else None

    @property
    def nodes(self) -> int:
        """Return how many nodes one replica needs."""
        return self.layout.nodes(self.points.scenario.system.fabric)

    @property
    def kind(self) -> str:
        """Return whether the collectives are measured curves on their own links, or modelled."""
        return exchange.kind(self.points.scenario)

    @property
    def as_of(self) -> str | None:
        """Return the library and version that the collectives were measured with, None where none was."""
        return communication.as_of(self.points.scenario)

    @property
    def batch(self) -> float:
        """Return the sequences that were asked for."""
        return self._one(self.points.batch)

    @property
    def running(self) -> float:
        """Return the sequences that run at once."""
        return self._one(self.points.running)

    @property
    def accepted_tokens(self) -> float:
        """Return the tokens that a sequence keeps of a step."""
        return self._one(self.points.accepted_tokens)

    @property
    def step_s(self) -> float:
        """Return the time [s] of the step."""
        return self._one(self.points.step_s)

    @property
    def low_s(self) -> float:
        """Return the low end [s] of the 80 % band of the step."""
        return self._one(self.points.low_s)

    @property
    def high_s(self) -> float:
        """Return the high end [s] of the 80 % band of the step."""
        return self._one(self.points.high_s)

    @property
    def tpot_s(self) -> float:
        """Return the time [s] of each token that a sequence keeps; of a prefill, that of the whole."""
        return self._one(self.points.tpot_s)

    @property
    def tpot_low_s(self) -> float:
        """Return the low end [s] of the 80 % band of the time per token."""
        return self._one(self.points.tpot_low_s)

    @property
    def tpot_high_s(self) -> float:
        """Return the high end [s] of the 80 % band of the time per token."""
        return self._one(self.points.tpot_high_s)

    @property
    def ttft_low_s(self) -> float | None:
        """Return the low end [s] of the range of the time to the first token; None without prompts."""
        return _known(self._one(self.points.ttft_low_s))

    @property
    def ttft_high_s(self) -> float | None:
        """Return the high end [s] of the range of the time to the first token; None without prompts."""
        return _known(self._one(self.points.ttft_high_s))

    @property
    def tokens_per_s(self) -> float:
        """Return the tokens/s of one replica: kept ones of a decode, prompt tokens of a prefill."""
        return self._one(self.points.tokens_per_s)

    @property
    def tokens_per_s_per_user(self) -> float:
        """Return the tokens/s of a sequence that runs."""
        return self._one(self.points.tokens_per_s_per_user)

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """Return the tokens/s of each device."""
        return self._one(self.points.tokens_per_s_per_gpu)

    @property
    def columns(self) -> Mapping[str, float]:
        """Return the columns [s] that add up to the step."""
        return {name: self._one(owed) for name, owed in self.points.columns.items()}

    @property
    def binding(self) -> str:
        """Return the word for what binds."""
        return _WORDS[int(self.points.binds[self.place])]

    @property
    def memory_bytes(self) -> float:
        """Return the bytes that the fullest device holds."""
        return self._one(self.points.memory_bytes)

    @property
    def fits_memory(self) -> Fit:
        """Return whether the point fits in memory: `yes`, `marginal` or `no`."""
        return FITS[int(self.points.fit_codes[self.place])]

    @cached_property
    def memory(self) -> Memory:
        """Return what the fullest device holds, part by part."""
        return memory(self.scenario.having({"workload.batch": self.running}))


def _known(value: float) -> float | None:
    """Return a number, None where it is not known."""
    return None if np.isnan(value) else value


def points(scenario: Scenario, changes: Mapping[str, Quantity] | None = None) -> Points:
    """Return the points of a scenario with some inputs replaced by numbers or by arrays of one length, by path."""
    given = dict(changes or {})
    count = max((np.size(value) for value in given.values()), default=1)
    return Points(scenario=scenario.moved(given) if given else scenario, count=count)


def at_batches(scenario: Scenario, batches: Array) -> Points:
    """Return the points of a scenario at several batches."""
    workload = replace(scenario.workload, batch=cast("Array", np.asarray(batches, dtype=np.float64)))
    return Points(scenario=replace(scenario, workload=workload), count=len(batches))
