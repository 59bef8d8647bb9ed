"""The decode step: the time of one step of a scenario, as one tree of terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nhalf.breakdown import Input, Term, excess, leaf, product, total
from nhalf.collective import Mode
from nhalf.predict import exchange, layer
from nhalf.predict.hand_over import hand_overs
from nhalf.predict.prompt import interference

if TYPE_CHECKING:
    from nhalf.scenario import Scenario

COLUMNS = (
    "weights", "experts", "kv", "compute", "launch", "collective_fixed", "collective_transfer", "hand_over", "prefill",
)  # fmt: skip
"""The columns that add up to a step, in the order of the contract."""


def decode(scenario: Scenario) -> Term:
    """Return the time [s] of one decode step of the scenario: what each sequence waits for its next token.

    Step time = max(device time, host time); what the host takes beyond the device is launch time of its own. Any
    numeric input of the scenario may be an array; the terms then are arrays of the common shape.

    References
    ----------
    The house's decode-step note; DESIGN 5 for pipelines: max(stages, micro-batches) passes and the hand-overs.
    """
    parts = _passes(scenario, one_pass(scenario, layer.tokens(scenario)))
    parts += [_step_time(scenario), _sequence_time(scenario), *hand_overs(scenario)]
    logits = exchange.time(scenario, "logits", exchange.gathered_logits(scenario, layer.tokens(scenario)))
    if logits is not None:
        parts.append(logits)
    if np.any(np.greater(scenario.workload.output_tokens, 0)):
        parts.append(interference(scenario))
    if scenario.stack.mode != Mode.EAGER:
        return total("step", *parts)
    device = total("device", *parts)
    return total("step", device, excess("host", _host(scenario), device, column="launch"))


def one_pass(scenario: Scenario, through: Term) -> list[Term]:
    """Return the terms of one pass of `through` tokens per attention rank through the layers of the fullest stage."""
    reads = {"weights": layer.weights(scenario), "kv": layer.key_values(scenario)}
    routed = layer.experts(scenario, through)
    if routed is not None:
        reads["experts"] = routed
    parts = [*reads.values(), layer.compute(scenario, through, reads), layer.layer_time(scenario)]
    collectives = exchange.time(scenario, "collectives", exchange.exchanges(scenario, through))
    return [*parts, collectives] if collectives is not None else parts


def _passes(scenario: Scenario, parts: list[Term]) -> list[Term]:
    """Return the terms of all passes of a step: one, or one for each slot of the pipeline."""
    if scenario.layout.pipeline_parallel == 1:
        return parts
    inputs: dict[str, Input] = {
        "p": float(scenario.layout.pipeline_parallel),
        "m": layer.micro_batches(scenario),
    }
    slots = leaf("pipeline slots", "maximum(p, m)", inputs, unit="1")
    return [product("pipeline", slots, total("stage", *parts))]


def _step_time(scenario: Scenario) -> Term:
    """Return the time [s] that each step pays once: scheduler, graph launch, sampling set-up."""
    return leaf("step", "ts", {"ts": scenario.stack.step_time_s}, column="launch")


def _sequence_time(scenario: Scenario) -> Term:
    """Return the time [s] that each sequence of a rank adds to a step, on a scale of 60 layers."""
    inputs: dict[str, Input] = {
        "tq": scenario.stack.sequence_time_s,
        "b": layer.running(scenario),
        "dp": float(scenario.layout.attention_dp),
        "L": float(scenario.transformer.layer_count),
    }
    return leaf("sequences", "tq * b / dp * L / 60", inputs, column="launch")


def _host(scenario: Scenario) -> Term:
    """Return the time [s] in which the host launches an eager step's kernels one by one."""
    inputs: dict[str, Input] = {
        "L": float(scenario.transformer.layer_count),
        "kernels": scenario.stack.kernels_per_layer,
        "launch": scenario.stack.host_launch_s,
    }
    return leaf("host", "L * kernels * launch", inputs)
