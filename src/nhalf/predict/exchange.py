"""Exchanges: every collective of a pass through the layers, how often it runs, over which group, and how large it is.

References
----------
M. Shoeybi et al., "Megatron-LM", arXiv:1909.08053: one all-reduce after attention, one after the feed-forward block.
The house's decode-step note, term 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nhalf.breakdown import Input, Term, leaf, product, total
from nhalf.collective import Op
from nhalf.predict.communication import collective
from nhalf.predict.memory import stage_share
from nhalf.transformer import LatentAttention

if TYPE_CHECKING:
    from nhalf.layout import Group
    from nhalf.scenario import Scenario
    from nhalf.transformer import Attention


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exchange:
    """`count` collectives `op` of `size` [bytes] over `group`; `name` says what they are for."""

    name: str
    op: Op
    group: Group
    count: Term
    size: Term


def exchanges(scenario: Scenario, through: Term) -> list[Exchange]:
    """Return the collectives of one pass of `through` tokens per attention rank through the layers of a stage."""
    found = [
        *_tensor(scenario, through),
        *_context(scenario, through),
        *_experts(scenario, through),
    ]
    return [exchange for exchange in found if exchange.group.ranks > 1]


def _tensor(scenario: Scenario, through: Term) -> list[Exchange]:
    """Return the all-reduces of TP: one after each block, but for experts whose tokens other ranks hold too."""
    transformer, layout = scenario.transformer, scenario.layout
    met = transformer.moe_layer_count if layout.attention_dp > 1 else 0
    return [
        Exchange(
            name="all-reduce",
            op=Op.ALL_REDUCE,
            group=layout.tensor_group,
            count=_per_pass(scenario, transformer.block_count - met),
            size=_activation(scenario, through),
        )
    ]


def _context(scenario: Scenario, through: Term) -> list[Exchange]:
    """Return the exchange of context parallelism in decode: partial outputs of all heads are added up in each layer."""
    transformer, layout = scenario.transformer, scenario.layout
    if layout.context_parallel == 1:
        return []
    cached = [part for part in transformer.cache_parts() if part.attention.kv_elements(1)]
    layers = sum(part.layer_count for part in cached)
    inputs: dict[str, Input] = {
        "t": through,
        "width": sum(part.layer_count * _output_width(part.attention) for part in cached) / max(layers, 1),
        "k": float(layout.tensor_parallel),
        "a": scenario.workload.activation_bytes,
    }
    size = leaf("attention output", "t * width / k * a", inputs, unit="bytes")
    return [
        Exchange(
            name="context all-reduce",
            op=Op.ALL_REDUCE,
            group=layout.context_group,
            count=_per_pass(scenario, layers),
            size=size,
        )
    ]


def _output_width(attention: Attention) -> float:
    """Return the elements per token that all heads of an attention give back."""
    per_head = attention.value_dim if isinstance(attention, LatentAttention) else getattr(attention, "head_dim", 0)
    return float(attention.heads * per_head)


def _experts(scenario: Scenario, through: Term) -> list[Exchange]:
    """Return how tokens of attention-DP ranks reach the experts and come back: gathered by all, or sent where due."""
    transformer, layout = scenario.transformer, scenario.layout
    if layout.attention_dp == 1 or transformer.mixture is None:
        return []
    count = _per_pass(scenario, transformer.moe_layer_count)
    if layout.routed_exchange == "all-to-all":
        size = _routed(scenario, through)
        ways = ((Op.ALL_TO_ALL, "dispatch"), (Op.ALL_TO_ALL, "combine"))
    else:
        size = _gathered(scenario, through)
        ways = ((Op.ALL_GATHER, "expert all-gather"), (Op.REDUCE_SCATTER, "expert reduce-scatter"))
    return [Exchange(name=name, op=op, group=layout.expert_group, count=count, size=size) for op, name in ways]


def gathered_logits(scenario: Scenario, through: Term) -> list[Exchange]:
    """Return the exchange at the end of a step: each TP rank's part of the logits is gathered."""
    transformer, layout = scenario.transformer, scenario.layout
    if layout.tensor_parallel == 1:
        return []
    inputs: dict[str, Input] = {
        "t": through,
        "V": float(transformer.vocabulary_size),
        "a": scenario.workload.activation_bytes,
    }
    return [
        Exchange(
            name="logits all-gather",
            op=Op.ALL_GATHER,
            group=layout.tensor_group,
            count=leaf("per step", "1", {}, unit="1"),
            size=leaf("logits", "t * V * a", inputs, unit="bytes"),
        )
    ]


def _per_pass(scenario: Scenario, count: int) -> Term:
    """Return how often a collective runs in a pass: the stage's part of so many blocks, less what fusing saves."""
    inputs: dict[str, Input] = {
        "blocks": float(count),
        "stage": stage_share(scenario),
        "fuse": scenario.stack.remedies.fused_collectives,
    }
    return leaf("collectives per pass", "blocks * stage / fuse", inputs, unit="1")


def _activation(scenario: Scenario, through: Term) -> Term:
    """Return the size [bytes] of the activation that an all-reduce moves: tokens x hidden size x bytes."""
    inputs: dict[str, Input] = {
        "t": through,
        "d": float(scenario.transformer.hidden_size),
        "a": scenario.workload.activation_bytes,
        "q": scenario.stack.remedies.message_factor,
        "fuse": scenario.stack.remedies.fused_collectives,
    }
    return leaf("message", "t * d * a * q * fuse", inputs, unit="bytes")


def _gathered(scenario: Scenario, through: Term) -> Term:
    """Return the bytes of all attention-DP ranks' tokens together, as an all-gather counts them."""
    inputs: dict[str, Input] = {"message": _activation(scenario, through), "dp": float(scenario.layout.attention_dp)}
    return leaf("all tokens", "message * dp", inputs, unit="bytes")


def _routed(scenario: Scenario, through: Term) -> Term:
    """Return the bytes that a rank sends to experts: each token once to each rank that its experts are on.

    Routed evenly, k choices hit K (1 - (1 - 1 / K)^k) of K ranks; `skew` is how far the busiest exceeds the mean.

    References
    ----------
    The house's collective-models note, MoE dispatch and combine.
    """
    mixture, layout = scenario.transformer.mixture, scenario.layout
    inputs: dict[str, Input] = {
        "message": _activation(scenario, through),
        "K": float(layout.expert_parallel),
        "k": float(mixture.chosen if mixture else 1),
        "skew": scenario.workload.routing_skew,
    }
    return leaf("routed tokens", "message * K * (1 - (1 - 1 / K) ** k) * skew", inputs, unit="bytes")


def time(scenario: Scenario, name: str, found: list[Exchange]) -> Term | None:
    """Return the time [s] of some exchanges; each pays its excess inside a model. None when there are none."""
    if not found:
        return None
    return total(name, *(_one_kind(scenario, exchange) for exchange in found))


def _one_kind(scenario: Scenario, exchange: Exchange) -> Term:
    """Return the time [s] of one kind of exchange."""
    one = total(
        "collective",
        leaf("in-model excess", "dl", {"dl": scenario.stack.collective_excess_s}, column="collective_fixed"),
        collective(scenario, exchange.op, exchange.group, exchange.size),
    )
    return product(exchange.name, exchange.count, one)
