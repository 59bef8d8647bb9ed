"""Prompts: what a prefill costs on one device as part of every decode step, and what its ranks tell each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.breakdown import Input, Term, leaf, product, total
from nhalf.laws.overlap import exposed_share
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
    # Each stage of a pipeline does its part of every prompt once a step, beside micro-batches on the other stages. With
    # fewer of these than stages, the prompt passes some stages while nothing else runs.
    waits: dict[str, Input] = {
        "n": layer.prompts_per_step(scenario),
        "p": float(scenario.layout.pipeline_parallel),
        "m": layer.micro_batches(scenario),
    }
    count = leaf("prompts per step, waited for", "n * maximum(p / m, 1)", waits, unit="1")
    return product("prefill", count, one_prompt(scenario), column="prefill")


def one_prompt(scenario: Scenario) -> Term:
    """Return what one prompt adds [s] to the steps beside which it is worked on: arithmetic and its collectives."""
    length = leaf("prompt tokens", "i", {"i": scenario.workload.prompt_tokens}, unit="tokens")
    through = own_tokens(scenario, length)
    work = layer.prompt_work(scenario, through, length)
    device, stack = scenario.system.device, scenario.stack
    rate = (device.bf16_flop_per_s, stack.prefill_efficiency)
    shared = total("prompt FLOP", *(each for name, each in work.items() if name != "experts"))
    parts = [flop_time("prompt", shared, *rate, column="prefill")]
    if "experts" in work:
        of_experts = (device.bf16_flop_per_s, stack.expert_prefill_efficiency)
        parts.append(flop_time("prompt's experts", work["experts"], *of_experts, column="prefill"))
    collectives = exchange.time(scenario, "prompt collectives", exchange.prompt_exchanges(scenario, through))
    if collectives is not None:
        parts.append(collectives)
    attention = flop_time("attention", work["kv"], *rate)
    parts += context(scenario, length, attention)
    return total("one prompt", *parts)


def own_tokens(scenario: Scenario, length: Term) -> Term:
    """Return the tokens of a prompt that one rank takes: all, or its part where context parallelism splits them."""
    if scenario.layout.context_parallel == 1:
        return length
    inputs: dict[str, Input] = {"i": length, "cp": float(scenario.layout.context_parallel)}
    return leaf("own tokens", "i / cp", inputs, unit="tokens")


def context(scenario: Scenario, seen: Term, attention: Term) -> list[Term]:
    """Return the time [s] in which the ranks of a CP group get each other's keys and values; nothing for one rank.

    Gathered before attention they all show; passed around a ring, each part comes while attention [s] works on the one
    before it.

    References
    ----------
    H. Liu, M. Zaharia and P. Abbeel, "Ring attention with blockwise transformers", arXiv:2310.01889; A. Yang et al.,
    "Context parallelism for scalable million-token inference", arXiv:2411.01783 (passing keys and values, or gathering
    them).
    """
    layout = scenario.layout
    if layout.context_parallel == 1:
        return []
    gathered = exchange.time(scenario, "context", [exchange.context_gather(scenario, seen)])
    if gathered is None or layout.context_exchange == "all-gather":
        return [] if gathered is None else [gathered]
    return [product("exposed context", exposed_share(gathered, attention, 1.0), gathered)]
