"""The prefill: the time of a batch of prompts from nothing to their first tokens, by the same tree as a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nhalf.breakdown import Input, Quantity, Term, excess, leaf, product, some, total
from nhalf.laws.roofline import byte_time, flop_time
from nhalf.predict import exchange, layer, overhead, prompt
from nhalf.predict.hand_over import hand_overs
from nhalf.predict.memory import stage_share
from nhalf.predict.step import alternating, decode, exposed, sequence_time, step_time, with_host

if TYPE_CHECKING:
    from nhalf.predict.exchange import Exchange
    from nhalf.scenario import Scenario
    from nhalf.transformer import CachePart


def predicted(scenario: Scenario) -> Term:
    """Return the time [s] of the phase that the workload asks for: one decode step, or one prefill."""
    return prefill(scenario) if scenario.workload.phase == "prefill" else decode(scenario)


def prefill(scenario: Scenario) -> Term:
    """Return the time [s] of a prefill of `batch` prompts: their time to the first token when nothing queues.

    Each chunk of the prompts reads the weights and the cache of the chunks before it again. Through p pipeline stages,
    m chunks (of every micro-batch of prompts) take m + p - 1 turns: the bubble is p - 1 of them.

    References
    ----------
    A. Agrawal et al., "Sarathi-Serve", arXiv:2403.02310 (chunks read weights and cache again); Y. Huang et al.,
    "GPipe", arXiv:1811.06965 (the bubble); term 7 of the house's decode-step note for the efficiency of the arithmetic.
    """
    chunks = _chunks(scenario)
    parts = _in_halves(scenario) if scenario.stack.remedies.two_batches else _one_pass(scenario)
    if scenario.layout.pipeline_parallel > 1 or some(chunks > 1):
        inputs: dict[str, Input] = {
            "c": chunks,
            "m": layer.micro_batches(scenario),
            "p": float(scenario.layout.pipeline_parallel),
        }
        turns = leaf("turns of chunks", "c * m + p - 1", inputs, unit="1")
        parts = [product("chunks", turns, total("one chunk", *parts))]
    fixed = product("steps", leaf("chunks", "m", {"m": chunks}, unit="1"), step_time(scenario))
    parts += [fixed, sequence_time(scenario), *hand_overs(scenario, _through(scenario))]
    logits = exchange.time(scenario, "logits", exchange.gathered_logits(scenario, layer.sequences(scenario)))
    if logits is not None:
        parts.append(logits)
    return with_host(scenario, parts, passes=chunks)


def _length(scenario: Scenario) -> Term:
    """Return the tokens of one prompt."""
    return leaf("prompt tokens", "i", {"i": scenario.workload.prompt_tokens}, unit="tokens")


def _chunks(scenario: Scenario) -> Quantity:
    """Return in how many chunks [1] a prompt is taken."""
    workload = scenario.workload
    size = np.where(np.greater(workload.chunk_tokens, 0), workload.chunk_tokens, np.inf)
    count = np.maximum(np.ceil(np.asanyarray(workload.prompt_tokens) / size), 1.0)
    return count if np.ndim(count) else float(count)


def _chunk(scenario: Scenario) -> Term:
    """Return the tokens of one prompt that a pass takes: chunks are of one size."""
    inputs: dict[str, Input] = {"i": scenario.workload.prompt_tokens, "m": _chunks(scenario)}
    return leaf("chunk", "i / m", inputs, unit="tokens")


def _through(scenario: Scenario) -> Term:
    """Return the tokens that the busiest rank takes in one pass: its part of a chunk of each of its prompts."""
    inputs: dict[str, Input] = {
        "b": layer.sequences(scenario),
        "c": prompt.own_tokens(scenario, _chunk(scenario)),
    }
    return leaf("tokens per rank", "b * c", inputs, unit="tokens")


def _one_pass(scenario: Scenario) -> list[Term]:
    """Return the terms of an average chunk of the prompts through the layers of the fullest stage."""
    parts, attention, found = _work(scenario)
    busy = total("busy", *parts[:-1])
    return [*parts, *prompt.context(scenario, _seen(scenario), attention), *exposed(scenario, found, busy)]


def _in_halves(scenario: Scenario) -> list[Term]:
    """Return the same in two halves of the prompts; a single prompt has none to halve."""
    inputs: dict[str, Input] = {"b": layer.running(scenario), "dp": float(scenario.layout.attention_dp)}
    halves = leaf("micro-batches", "minimum(2, maximum(b / dp, 1))", inputs, unit="1")
    size = leaf("prompts of one", "b / h", {"b": layer.running(scenario), "h": halves}, unit="1")
    half = scenario.having({"workload.batch": size.value})
    parts, attention, found = _work(half)
    parts += prompt.context(half, _seen(half), attention)
    return alternating(halves, parts, half, found)


def _work(scenario: Scenario) -> tuple[list[Term], Term, list[Exchange]]:
    """Return what a device reads, computes and launches in one pass, its attention [s], and its exchanges."""
    through = _through(scenario)
    device, stack = scenario.system.device, scenario.stack
    reads = {"weights": layer.weights(scenario), "kv": _cache(scenario)}
    routed = layer.experts(scenario, through)
    if routed is not None:
        reads["experts"] = routed
    work = layer.prompt_work(scenario, through, _length(scenario))
    times = {
        name: flop_time(
            _WORDS[name], each, device.bf16_flop_per_s,
            stack.expert_prefill_efficiency if name == "experts" else stack.prefill_efficiency,
        )
        for name, each in work.items()
    }  # fmt: skip
    beyond = [excess(f"beyond the {name}", times[name], reads[name], column="compute") for name in work]
    busy = [*reads.values(), total("compute", *beyond)]
    parts = [*busy, *overhead.unsharded(scenario, busy), overhead.layer_time(scenario)]
    return parts, times["kv"], exchange.prompt_exchanges(scenario, through)


_WORDS = {"weights": "projections", "kv": "attention", "experts": "routed"}


def _cache(scenario: Scenario) -> Term:
    """Return the time [s] to read the cache of the chunks before, on average, and to write this one's."""
    read = total("cache bytes", *(_cache_bytes(scenario, part) for part in scenario.transformer.cache_parts()))
    device, stack = scenario.system.device, scenario.stack
    return byte_time("kv", read, device, stack.kv_efficiency, column="kv")


def _cache_bytes(scenario: Scenario, part: CachePart) -> Term:
    """Return the bytes of one kind of attention: cached tokens read and written, or a state read and written."""
    attention, layout = part.attention, scenario.layout
    ranks = layout.tensor_parallel
    inputs: dict[str, Input] = {
        "b": layer.sequences(scenario),
        "i": _length(scenario),
        "c": _chunk(scenario),
        "limit": float(attention.read_limit or 0),
        "e": attention.kv_elements(ranks),
        "w": scenario.workload.kv_bytes,
        "index": attention.index_bytes,
        "state": attention.state_bytes(ranks),
        "L": float(part.layer_count),
        "cp": float(layout.context_parallel),
        "stage": stage_share(scenario),
    }
    if not attention.kv_elements(ranks):
        return leaf(part.name, "b * 2 * state * L * stage", inputs, unit="bytes")
    before = "minimum((i - c) / 2, limit)" if attention.read_limit else "(i - c) / 2"
    formula = f"b * (({before} + c) * e * w + (i + c) / 2 * index) / cp * L * stage"
    return leaf(part.name, formula, inputs, unit="bytes")


def _seen(scenario: Scenario) -> Term:
    """Return the tokens whose keys and values a pass needs: those of its chunks, and on average half of all before."""
    inputs: dict[str, Input] = {"b": layer.sequences(scenario), "i": _length(scenario), "c": _chunk(scenario)}
    return leaf("tokens seen", "b * (i + c) / 2", inputs, unit="tokens")
