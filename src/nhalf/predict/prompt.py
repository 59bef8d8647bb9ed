"""Prompts: what a prefill costs on one device, alone or as part of every decode step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.breakdown import Input, Term, leaf, product, total
from nhalf.laws.roofline import flop_time
from nhalf.predict import exchange, layer

if TYPE_CHECKING:
    from nhalf.scenario import Scenario


def interference(scenario: Scenario) -> Term:
    """Return the part [s] of each step that arriving requests take: batch / output tokens prefills per step and rank.

    References
    ----------
    The house's decode-step note, term 7.
    """
    workload = scenario.workload
    length = leaf("prompt tokens", "i", {"i": workload.prompt_tokens}, unit="tokens")
    inputs: dict[str, Input] = {"b": layer.sequences(scenario), "o": workload.output_tokens}
    count = leaf("prompts per step", "b * minimum(o, 1) / maximum(o, 1)", inputs, unit="1")
    device, stack = scenario.system.device, scenario.stack
    work = layer.prompt_flop(scenario, length)
    parts = [flop_time("prompt", work, device.bf16_flop_per_s, stack.prefill_efficiency, column="prefill")]
    collectives = exchange.time(scenario, "prompt collectives", exchange.exchanges(scenario, length))
    if collectives is not None:
        parts.append(collectives)
    return product("prefill", count, total("one prompt", *parts), column="prefill")
