"""Answers: what many steps of one layout say at once, as arrays: time per token, what binds, a range for the first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nhalf.breakdown import columns
from nhalf.predict import incast
from nhalf.predict.communication import is_measured
from nhalf.predict.exchange import exchanges, gathered_logits
from nhalf.predict.first_token import first_token
from nhalf.predict.layer import tokens
from nhalf.predict.step import COLUMNS, decode

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.predict.response import Indices
    from nhalf.scenario import Scenario

_BETWEEN = ("collective_fixed", "collective_transfer", "hand_over")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """The answer to `n` steps; every array is of shape (n,).

    `tpot_s` [s] is the time per token that is kept, `other_tpot_s` [s] the same were the cache of the other dtype;
    `column` is the index of the largest column in `COLUMNS`. `modelled_s` [s] is what no measurement backs: collectives
    without a curve, hand-overs, and the fixed time of kinds of layers that no run was measured with; `exposed_s` [s] is
    the part of it that incast may multiply. `first_low_s` and `first_high_s` [s] bound the time to the first token
    (`nhalf.predict.first_token`); both are NaN without prompts.
    """

    tpot_s: Array
    other_tpot_s: Array
    column: Indices
    modelled_s: Array
    exposed_s: Array
    first_low_s: Array
    first_high_s: Array


def answer(scenario: Scenario, count: int, *, other_kv_bytes: float) -> Answer:
    """Return the answer to a scenario whose workload holds arrays of `count` steps.

    `other_kv_bytes` is what an element of the cache weighs if its assumed dtype is wrong [bytes].
    """
    workload = scenario.workload
    both = np.array([[float(np.mean(workload.kv_bytes))], [other_kv_bytes]])
    step = decode(scenario.having({"workload.kv_bytes": both}))
    times = np.broadcast_to(np.asarray(step.value), (2, count)) / workload.accepted_tokens
    owed = {name: np.broadcast_to(np.asarray(value), (2, count))[0] for name, value in columns(step).items()}
    each = np.stack([owed.get(name, np.zeros(count)) for name in COLUMNS])
    low, high = first_token(scenario, np.broadcast_to(np.asarray(workload.batch, dtype=float), (count,)), times[0])
    return Answer(
        tpot_s=times[0],
        other_tpot_s=times[1],
        column=np.argmax(each, axis=0),
        modelled_s=(_modelled(scenario, owed, count) + _untried(scenario)) / workload.accepted_tokens,
        exposed_s=np.broadcast_to(incast.exposed_s(scenario, step), (2, count))[0] / workload.accepted_tokens,
        first_low_s=low,
        first_high_s=high,
    )


def _modelled(scenario: Scenario, owed: dict[str, Array], count: int) -> Array:
    """Return the time [s] of collectives and hand-overs that rest on no measurement."""
    found = [*exchanges(scenario, tokens(scenario)), *gathered_logits(scenario, tokens(scenario))]
    # The all-reduce carries the communication of a step; a curve that is missing for the logits alone hardly matters.
    unmeasured = any(
        not is_measured(scenario, exchange.op, exchange.group)
        for exchange in found
        if exchange.name != "logits all-gather"
    )
    if not unmeasured:
        return np.zeros(count)
    total: Array = sum((owed.get(name, np.zeros(count)) for name in _BETWEEN), np.zeros(count))
    return total


def _untried(scenario: Scenario) -> float:
    """Return the fixed time [s] of kinds of layers that no run was measured with: linear and sparse attention."""
    transformer, stack = scenario.transformer, scenario.stack
    layers = stack.linear_layer_factor * transformer.linear_layer_count
    layers = layers + stack.sparse_layer_factor * transformer.sparse_layer_count
    return float(np.mean(stack.layer_time_s * layers))
