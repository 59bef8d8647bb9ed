"""What the layers of one pipeline stage cost on one device: bytes read, arithmetic, and time that is neither."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nhalf.breakdown import Input, Quantity, Term, excess, leaf, some, total
from nhalf.laws.roofline import byte_time, flop_time
from nhalf.predict.memory import largest_batch, stage_share
from nhalf.scenario import shared

if TYPE_CHECKING:
    from nhalf.scenario import Scenario
    from nhalf.transformer import CachePart
    from nhalf.transformer.weights import WeightGroup

_HEAD = "output head"
_ALL = 1.0 - 1e-12
"""The largest share of a layer's experts that a token goes to: beyond it the logarithm has no value."""


@shared
def tokens(scenario: Scenario) -> Term:
    """Return the tokens that the busiest attention rank feeds through a layer at once.

    Each sequence feeds one token, or several where a draft is checked; attention-DP ranks take different sequences,
    and micro-batches follow each other.
    """
    inputs: dict[str, Input] = {
        "b": running(scenario),
        "q": scenario.workload.tokens_per_step,
        "dp": float(scenario.layout.attention_dp),
        "m": micro_batches(scenario),
    }
    return leaf("tokens per rank", "maximum(b / (dp * m), 1) * q", inputs, unit="tokens")


@shared
def running(scenario: Scenario) -> Quantity | Term:
    """Return how many sequences run at once: the batch, or where requests come and go what the cache has room for.

    References
    ----------
    The house's decode-step note, term 8.
    """
    workload = scenario.workload
    if not some(workload.output_tokens > 0):
        return workload.batch
    inputs: dict[str, Input] = {"b": workload.batch, "room": largest_batch(scenario)}
    return leaf("running batch", "minimum(b, maximum(room, 1))", inputs, unit="1")


@shared
def micro_batches(scenario: Scenario) -> Quantity:
    """Return into how many parts [1] the batch is cut to keep every pipeline stage busy: min(pp, batch) by default."""
    layout = scenario.layout
    if layout.micro_batches is not None:
        return float(layout.micro_batches)
    if layout.pipeline_parallel == 1:
        return 1.0
    inputs: dict[str, Input] = {"p": float(layout.pipeline_parallel), "b": scenario.workload.batch}
    return leaf("micro-batches", "minimum(p, b)", inputs, unit="1").value


def weights(scenario: Scenario) -> Term:
    """Return the time [s] to read the rank's weights once: every group as it is stored, experts apart.

    References
    ----------
    The house's decode-step note, term 1.
    """
    read = total("weight bytes", *(_group_bytes(scenario, group) for group in _read_each_step(scenario)))
    device, stack = scenario.system.device, scenario.stack
    return byte_time("weights", read, device, stack.memory_efficiency, column="weights")


@shared
def _read_each_step(scenario: Scenario) -> list[WeightGroup]:
    """Return the groups of weights that every step reads whole."""
    return [group for group in scenario.weight_groups if group.read == "step"]


def _group_bytes(scenario: Scenario, group: WeightGroup) -> Term:
    """Return the bytes of one group that the rank reads in one slot of the pipeline."""
    inputs: dict[str, Input] = {
        "P": group.parameters,
        "w": group.bytes_per_parameter,
        "share": group.share(scenario.layout.tensor_parallel),
        "stage": _head_share(scenario) if group.name == _HEAD else stage_share(scenario),
    }
    return leaf(f"{group.name} ({group.dtype})", "P * w * share * stage", inputs, unit="bytes")


@shared
def _head_share(scenario: Scenario) -> Quantity:
    """Return in what part [1] of the slots of a pipeline the output head is on the critical path.

    The last stage has it. With as many micro-batches as stages that stage sets the pace, and every slot holds it; one
    micro-batch goes through it once in as many slots as there are stages.
    """
    if scenario.layout.pipeline_parallel == 1:
        return 1.0
    inputs: dict[str, Input] = {"p": float(scenario.layout.pipeline_parallel), "m": micro_batches(scenario)}
    return leaf("slots with the head", "minimum(m / p, 1)", inputs, unit="1").value


def experts(scenario: Scenario, through: Term) -> Term | None:
    """Return the time [s] to read the experts that a layer's tokens hit, over the stage's layers; None without experts.

    A rank holds E / EP experts; of those, (E / EP) (1 - (1 - k / E)^T) are hit by the T tokens of all ranks that meet,
    where all experts are as popular. Where popularity scatters, fewer are: with a variance of c over the squared mean,
    Gamma-distributed, 1 - (1 + c m)^(-1/c) of them, m = -T ln(1 - k / E), which is the former at c = 0. A step that
    takes prompts reads what their tokens hit beside.

    References
    ----------
    The house's decode-step note, term 2; M. Greenwood and G. U. Yule, "An inquiry into the nature of frequency
    distributions", J. Royal Statistical Society 83 (1920), for counts whose rates are Gamma-distributed.
    """
    mixture = scenario.transformer.mixture
    if mixture is None:
        return None
    layout, stack = scenario.layout, scenario.stack
    routed = [group for group in scenario.weight_groups if group.read == "routed"]
    own, prompts, share = expert_hits(scenario, through)
    inputs: dict[str, Input] = {
        "E": float(mixture.experts),
        "EP": float(layout.expert_parallel),
        "c": stack.routing_concentration,
        "m": own,
    }
    formula = "E / EP * (1 - (1 + maximum(c, 1e-6) * m) ** (-1 / maximum(c, 1e-6)))"
    hit = leaf("experts hit", formula, inputs, unit="1")
    if share is not None:
        inputs["m"] = prompts
        mixed: dict[str, Input] = {"s": share, "all": leaf("hit with prompts", formula, inputs, unit="1"), "own": hit}
        hit = leaf("experts hit, with prompts", "own + s * (all - own)", mixed, unit="1")
    sizes: dict[str, Input] = {
        "hit": hit,
        "w": sum(group.bytes for group in routed) / (mixture.experts * mixture.layer_count),
        "k": float(layout.moe_tensor_parallel),
        "L": float(mixture.layer_count),
        "stage": stage_share(scenario),
    }
    read = leaf("expert bytes", "hit * w / k * L * stage", sizes, unit="bytes")
    return byte_time("experts", read, scenario.system.device, stack.expert_efficiency, column="experts")


@shared
def expert_hits(scenario: Scenario, through: Term) -> tuple[Term, Term, Term | None]:
    """Return how often a pass hits an expert in the mean [1]: by its own tokens, and with the prompts that it takes.

    The last is the share of steps that take prompts, None where none do.
    """
    mixture, workload = scenario.transformer.mixture, scenario.workload
    share = mixture.chosen / mixture.experts if mixture else 0.0
    inputs: dict[str, Input] = {
        "T": through,
        "dp": float(scenario.layout.attention_dp),
        "h": -math.log1p(-min(share, _ALL)),
    }
    own = leaf("hits of an expert", "T * dp * h", inputs, unit="1")
    if workload.phase == "prefill" or not some(workload.output_tokens > 0):
        return own, own, None
    several = prompts_per_step(scenario)
    inputs |= {"i": workload.prompt_tokens, "n": several}
    return (
        own,
        leaf("hits with prompts", "(T + i * maximum(n, 1)) * dp * h", inputs, unit="1"),
        leaf("steps with prompts", "minimum(n, 1)", {"n": several}, unit="1"),
    )


@shared
def prompts_per_step(scenario: Scenario) -> Term:
    """Return how many prompts a rank takes in each step: as many as finish, batch / output tokens."""
    inputs: dict[str, Input] = {
        "b": running(scenario),
        "dp": float(scenario.layout.attention_dp),
        "o": scenario.workload.output_tokens,
    }
    return leaf("prompts per step", "maximum(b / dp, 1) * minimum(o, 1) / maximum(o, 1)", inputs, unit="1")


def key_values(scenario: Scenario) -> Term:
    """Return the time [s] to read the rank's cache and its states; context parallelism splits the cache.

    References
    ----------
    The house's decode-step note, term 3.
    """
    parts = [_cache_bytes(scenario, part) for part in scenario.transformer.cache_parts()]
    read = total("cache bytes", *parts)
    device, stack = scenario.system.device, scenario.stack
    return byte_time("kv", read, device, stack.kv_efficiency, column="kv")


def _cache_bytes(scenario: Scenario, part: CachePart) -> Term:
    """Return the bytes that one kind of attention reads: cached tokens, index keys, and a state that is written too."""
    attention, layout = part.attention, scenario.layout
    ranks = layout.tensor_parallel
    inputs: dict[str, Input] = {
        "b": sequences(scenario),
        "c": scenario.workload.context_tokens,
        "L": float(part.layer_count),
        "e": attention.kv_elements(ranks),
        "w": scenario.workload.kv_bytes,
        "cp": float(layout.context_parallel),
        "stage": stage_share(scenario),
        "limit": float(attention.read_limit or 0),
        "recent": float(attention.recent_elements),
        "index": attention.index_bytes,
        "state": attention.state_bytes(ranks),
    }
    if not attention.kv_elements(ranks):
        formula = "b * 2 * state * L * stage"
    else:
        seen = "minimum(c, limit)" if attention.read_limit else "c"
        recent = " + recent * w" if attention.recent_elements else ""
        indexed = " + c * index" if attention.index_bytes else ""
        formula = f"b * ({seen} * e * w{recent}{indexed}) / cp * L * stage"
    return leaf(part.name, formula, inputs, unit="bytes")


@shared
def sequences(scenario: Scenario) -> Term:
    """Return the sequences whose cache the busiest attention rank reads at once."""
    inputs: dict[str, Input] = {
        "b": running(scenario),
        "dp": float(scenario.layout.attention_dp),
        "m": micro_batches(scenario),
    }
    return leaf("sequences per rank", "maximum(b / (dp * m), 1)", inputs, unit="1")


def compute(scenario: Scenario, through: Term, reads: dict[str, Term]) -> Term:
    """Return by how much [s] the arithmetic outlasts the reads it overlaps with: weights, experts and cache.

    `reads` holds the byte times by column.

    References
    ----------
    The house's decode-step note, terms 1 to 3; S. Williams, A. Waterman and D. Patterson, "Roofline", CACM 52 (2009).
    """
    device, stack = scenario.system.device, scenario.stack
    rate = (device.bf16_flop_per_s, stack.flop_efficiency)
    products = [_group_flop(scenario, group, through) for group in _read_each_step(scenario)]
    work = total("projections FLOP", *products)
    parts_of_cache = scenario.transformer.cache_parts()
    scores = total("attention FLOP", *(_score_flop(scenario, part, through) for part in parts_of_cache))
    parts = [
        excess("beyond the weights", flop_time("projections", work, *rate), reads["weights"], column="compute"),
        excess("beyond the cache", flop_time("attention", scores, *rate), reads["kv"], column="compute"),
    ]
    if "experts" in reads:
        routed = flop_time("routed", _routed_flop(scenario, through), *rate)
        parts.append(excess("beyond the experts", routed, reads["experts"], column="compute"))
    return total("compute", *parts)


def _group_flop(scenario: Scenario, group: WeightGroup, through: Quantity | Term) -> Term:
    """Return the arithmetic of one group as if it ran in bf16: 2 operations per weight and token."""
    inputs: dict[str, Input] = {
        "t": through,
        "P": group.parameters,
        "share": group.share(scenario.layout.tensor_parallel),
        "stage": _head_share(scenario) if group.name == _HEAD else stage_share(scenario),
        "s": speedup(scenario, group.dtype),
    }
    return leaf(f"{group.name} ({group.dtype})", "2 * t * P * share * stage / s", inputs, unit="FLOP")


def _routed_flop(scenario: Scenario, through: Term) -> Term:
    """Return the arithmetic of the chosen experts on one rank, tokens spread evenly."""
    mixture, layout = scenario.transformer.mixture, scenario.layout
    if mixture is None:
        return leaf("routed FLOP", "0", {}, unit="FLOP")
    inputs: dict[str, Input] = {
        "T": through,
        "dp": float(layout.attention_dp),
        "k": float(mixture.chosen),
        "P": float(mixture.expert_parameters),
        "L": float(mixture.layer_count),
        "devices": float(layout.expert_devices),
        "stage": stage_share(scenario),
        "s": speedup(scenario, scenario.expert_dtype),
    }
    return leaf("routed FLOP", "2 * T * dp * k * P * L * stage / devices / s", inputs, unit="FLOP")


def _score_flop(scenario: Scenario, part: CachePart, through: Term) -> Term:
    """Return the arithmetic of scores and values of one kind of attention, and of the index before them."""
    attention, layout = part.attention, scenario.layout
    inputs: dict[str, Input] = {
        "t": through,
        "c": scenario.workload.context_tokens,
        "limit": float(attention.read_limit or 0),
        "f": attention.score_flop(layout.tensor_parallel),
        "recent": attention.recent_flop(layout.tensor_parallel),
        "g": attention.index_flop,
        "L": float(part.layer_count),
        "cp": float(layout.context_parallel),
        "stage": stage_share(scenario),
    }
    seen = "minimum(c, limit)" if attention.read_limit else "c"
    recent = " + recent" if attention.recent_elements else ""
    return leaf(part.name, f"t * ({seen} * f{recent} + c * g) / cp * L * stage", inputs, unit="FLOP")


def prompt_work(scenario: Scenario, through: Term, length: Term) -> dict[str, Term]:
    """Return the arithmetic [FLOP] of `through` tokens of prompts of `length` tokens on a rank, by what it runs beside.

    A causal prompt has half of all pairs of tokens, and needs the output head for its last token only.
    """
    projections = [_group_flop(scenario, group, through) for group in _read_each_step(scenario) if group.name != _HEAD]
    pairs = [_pair_flop(scenario, part, through, length) for part in scenario.transformer.cache_parts()]
    found = {"weights": total("projections FLOP", *projections), "kv": total("attention FLOP", *pairs)}
    if scenario.transformer.mixture is not None:
        found["experts"] = _routed_flop(scenario, through)
    return found


def _pair_flop(scenario: Scenario, part: CachePart, through: Term, length: Term) -> Term:
    """Return the arithmetic [FLOP] of scores and values of one kind of attention in a causal prompt, and of its index.

    `through` tokens are the rank's own: context parallelism has split them, not their pairs.
    """
    attention = part.attention
    inputs: dict[str, Input] = {
        "t": through,
        "i": length,
        "f": attention.prompt_score_flop(scenario.layout.tensor_parallel),
        "g": attention.index_flop,
        "limit": float(attention.read_limit or 0),
        "L": float(part.layer_count),
        "stage": stage_share(scenario),
    }
    seen = "minimum(i / 2, limit)" if attention.read_limit else "i / 2"
    return leaf(part.name, f"t * ({seen} * f + i / 2 * g) * L * stage", inputs, unit="FLOP")


@shared
def speedup(scenario: Scenario, dtype: str) -> Term:
    """Return how many times faster than bf16 a dtype computes: (peak ratio)^exponent.

    References
    ----------
    The house's decode-step note: s = 2^fq for FP8, 4^fq for FP4 on Blackwell.
    """
    device = scenario.system.device
    inputs: dict[str, Input] = {
        "F_q": device.flop_per_s(dtype),
        "F": device.bf16_flop_per_s,
        "fq": scenario.stack.fp8_exponent,
    }
    return leaf("speed-up", "(F_q / F) ** fq", inputs, unit="1")
