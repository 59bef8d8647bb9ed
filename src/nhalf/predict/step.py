"""The decode step: the time per token of a scenario, as one tree of terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nhalf.breakdown import Input, Quantity, Term, excess, leaf, product, total
from nhalf.collective import Mode
from nhalf.laws.roofline import flop_time
from nhalf.predict import layer
from nhalf.predict.communication import all_reduce

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
    The house's decode-step note (terms 1, 3, 4, 5, 6 and 7 for dense models).
    """
    weights = layer.weights(scenario)
    key_values = layer.key_values(scenario)
    parts = [weights, key_values, layer.compute(scenario, weights, key_values), layer.launch(scenario)]
    if scenario.layout.tensor_parallel > 1:
        parts.append(collectives(scenario))
    if np.any(np.greater(scenario.workload.output_tokens, 0)):
        parts.append(prefill(scenario))
    if scenario.stack.mode != Mode.EAGER:
        return total("step", *parts)
    device = total("device", *parts)
    return total("step", device, excess("host", _host(scenario), device, column="launch"))


def collectives(scenario: Scenario) -> Term:
    """Return the time [s] of the two all-reduces that TP pays in each layer, with their excess inside a model.

    References
    ----------
    M. Shoeybi et al., "Megatron-LM", arXiv:1909.08053: one all-reduce after attention, one after the feed-forward.
    The house's decode-step note, term 6: the excess is launch gap and skew beyond the isolated collective.
    """
    one = total(
        "collective",
        leaf("in-model excess", "dl", {"dl": scenario.stack.collective_excess_s}, column="collective_fixed"),
        all_reduce(scenario, message_bytes(scenario)),
    )
    count = leaf("collectives per step", "2 * L", {"L": float(scenario.transformer.layer_count)}, unit="1")
    return product("collectives", count, one)


def message_bytes(scenario: Scenario) -> Quantity:
    """Return the size [bytes] of the activation that a TP all-reduce moves: hidden size x batch x bytes."""
    workload = scenario.workload
    return scenario.transformer.hidden_size * workload.batch * workload.activation_bytes


def prefill(scenario: Scenario) -> Term:
    """Return the part [s] of each step that arriving requests take: batch / output tokens prefills per step.

    References
    ----------
    The house's decode-step note, term 7.
    """
    transformer, workload = scenario.transformer, scenario.workload
    inputs: dict[str, Input] = {
        "i": workload.prompt_tokens,
        "P": float(transformer.layer_parameters),
        "s": layer.speedup(scenario),
        "width": float(transformer.attention_width),
        "k": float(scenario.layout.tensor_parallel),
    }
    work = leaf("prompt FLOP", "(2 * i * P / s + 2 * i * i * width) / k", inputs, unit="FLOP")
    device, stack = scenario.system.device, scenario.stack
    parts = [flop_time("prompt", work, device.bf16_flop_per_s, stack.prefill_efficiency, column="prefill")]
    if scenario.layout.tensor_parallel > 1:
        size = transformer.hidden_size * workload.prompt_tokens * workload.activation_bytes
        layers: dict[str, Input] = {"L": float(transformer.layer_count)}
        each = leaf("collectives per prompt", "2 * L", layers, unit="1")
        parts.append(product("prompt collectives", each, all_reduce(scenario, size)))
    per_step: dict[str, Input] = {"b": workload.batch, "o": workload.output_tokens}
    count = leaf("prompts per step", "b * minimum(o, 1) / maximum(o, 1)", per_step, unit="1")
    return product("prefill", count, total("one prompt", *parts), column="prefill")


def _host(scenario: Scenario) -> Term:
    """Return the time [s] in which the host launches an eager step's kernels one by one."""
    inputs: dict[str, Input] = {
        "L": float(scenario.transformer.layer_count),
        "kernels": scenario.stack.kernels_per_layer,
        "launch": scenario.stack.host_launch_s,
    }
    return leaf("host", "L * kernels * launch", inputs)
