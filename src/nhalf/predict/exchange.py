"""Exchanges: every collective of a pass through the layers, how often it runs, over which group, and how large it is.

References
----------
M. Shoeybi et al., "Megatron-LM", arXiv:1909.08053: one all-reduce after attention, one after the feed-forward block.
The house's decode-step note, term 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nhalf.breakdown import Input, Quantity, Term, leaf, portion, product, some, total
from nhalf.collective import Op, Routed
from nhalf.predict import routed
from nhalf.predict.communication import collective, is_measured
from nhalf.predict.layer import tokens
from nhalf.predict.memory import stage_share
from nhalf.transformer import LatentAttention

if TYPE_CHECKING:
    from nhalf.layout import Group
    from nhalf.predict.communication import Known
    from nhalf.scenario import Scenario
    from nhalf.transformer import Attention


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exchange:
    """`count` collectives `op` of `size` [bytes] over `group`; `name` says what they are for.

    `known` is a measured time of one that is no curve of `op`.
    """

    name: str
    op: Op
    group: Group
    count: Term
    size: Term
    known: Known | None = None


def exchanges(scenario: Scenario, through: Term) -> list[Exchange]:
    """Return the collectives of one pass of `through` tokens per attention rank through the layers of a stage."""
    found = [
        *_tensor(scenario, through),
        *_context(scenario, through),
        *_experts(scenario, through, routed.STEP),
    ]
    return [exchange for exchange in found if exchange.group.ranks > 1]


def prompt_exchanges(scenario: Scenario, through: Term) -> list[Exchange]:
    """Return the collectives of one pass of `through` prompt tokens, those of context parallelism left out."""
    found = [*_tensor(scenario, through), *_experts(scenario, through, routed.PROMPT)]
    return [exchange for exchange in found if exchange.group.ranks > 1]


def context_gather(scenario: Scenario, seen: Term) -> Exchange:
    """Return how each rank of a CP group gets the keys and values of `seen` tokens of all prompts: once a layer."""
    layout, parts = scenario.layout, scenario.transformer.cache_parts()
    cached = [part for part in parts if part.attention.kv_elements(1)]
    layers = sum(part.layer_count for part in cached)
    elements = sum(part.layer_count * part.attention.kv_elements(layout.tensor_parallel) for part in cached)
    inputs: dict[str, Input] = {
        "t": seen,
        "e": elements / max(layers, 1),
        "w": scenario.workload.kv_bytes,
        "fuse": scenario.stack.remedies.fused_collectives,
    }
    return Exchange(
        name=f"context {'ring' if layout.context_exchange == 'ring' else 'all-gather'}",
        op=Op.ALL_GATHER,
        group=layout.context_group,
        count=per_pass(scenario, layers),
        size=leaf("keys and values", "t * e * w * fuse", inputs, unit="bytes"),
    )


def all_reduces(scenario: Scenario) -> int:
    """Return the all-reduces of TP in all layers: one a block, but for experts whose tokens other ranks hold too."""
    transformer, layout = scenario.transformer, scenario.layout
    if layout.tensor_parallel == 1:
        return 0
    return transformer.block_count - (transformer.moe_layer_count if layout.attention_dp > 1 else 0)


def backed(scenario: Scenario, exchange: Exchange) -> bool:
    """Tell whether the time of an exchange was measured, on links that nobody changed."""
    untouched = scenario.system.fabric is scenario.system.measured_fabric
    return (exchange.known is not None and untouched) or is_measured(scenario, exchange.op, exchange.group)


def kind(scenario: Scenario) -> Literal["measured", "modelled"]:
    """Return whether the collectives of a step are measured curves on their own links, or modelled."""
    found = exchanges(scenario, tokens(scenario))
    return "measured" if found and all(backed(scenario, exchange) for exchange in found) else "modelled"


def _tensor(scenario: Scenario, through: Term) -> list[Exchange]:
    """Return the all-reduces of TP."""
    inputs = _activation(scenario, through) | {"q": scenario.stack.remedies.message_factor}
    return [
        Exchange(
            name="all-reduce",
            op=Op.ALL_REDUCE,
            group=scenario.layout.tensor_group,
            count=per_pass(scenario, all_reduces(scenario)),
            size=leaf("message", "t * d * a * q * fuse", inputs, unit="bytes"),
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
        "fuse": scenario.stack.remedies.fused_collectives,
    }
    size = leaf("attention output", "t * width / k * a * fuse", inputs, unit="bytes")
    return [
        Exchange(
            name="context all-reduce",
            op=Op.ALL_REDUCE,
            group=layout.context_group,
            count=per_pass(scenario, layers),
            size=size,
        )
    ]


def _output_width(attention: Attention) -> float:
    """Return the elements per token that all heads of an attention give back."""
    per_head = attention.value_dim if isinstance(attention, LatentAttention) else getattr(attention, "head_dim", 0)
    return float(attention.heads * per_head)


def _experts(scenario: Scenario, through: Term, kernels: routed.Kernels) -> list[Exchange]:
    """Return how tokens of attention-DP ranks reach the experts and come back: gathered by all, or sent where due."""
    transformer, layout = scenario.transformer, scenario.layout
    if layout.attention_dp == 1 or transformer.mixture is None:
        return []
    count = per_pass(scenario, transformer.moe_layer_count)
    group = layout.expert_group
    if layout.routed_exchange == "all-to-all":
        return [
            Exchange(
                name=str(way),
                op=Op.ALL_TO_ALL,
                group=group,
                count=count,
                size=_routed(scenario, through, way),
                known=routed.known(scenario, way, through, kernels),
            )
            for way in Routed
        ]
    size = _gathered(scenario, through)
    ways = ((Op.ALL_GATHER, "expert all-gather"), (Op.REDUCE_SCATTER, "expert reduce-scatter"))
    return [Exchange(name=name, op=op, group=group, count=count, size=size) for op, name in ways]


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
            count=leaf("per step", "n", {"n": 1.0}, unit="1"),
            size=leaf("logits", "t * V * a", inputs, unit="bytes"),
        )
    ]


def per_pass(scenario: Scenario, count: int) -> Term:
    """Return how often a collective of the layers runs in a pass: in the stage's part of the blocks, less the fused."""
    inputs: dict[str, Input] = {
        "blocks": float(count),
        "stage": stage_share(scenario),
        "fuse": scenario.stack.remedies.fused_collectives,
    }
    return leaf("collectives per pass", "blocks * stage / fuse", inputs, unit="1")


def _activation(scenario: Scenario, through: Term) -> dict[str, Input]:
    """Return what the size of an activation is made of: tokens, hidden size, bytes, and how many are sent as one."""
    return {
        "t": through,
        "d": float(scenario.transformer.hidden_size),
        "a": scenario.workload.activation_bytes,
        "fuse": scenario.stack.remedies.fused_collectives,
    }


def _gathered(scenario: Scenario, through: Term) -> Term:
    """Return the bytes of all attention-DP ranks' tokens together, as an all-gather counts them."""
    message = leaf("message", "t * d * a * fuse", _activation(scenario, through), unit="bytes")
    inputs: dict[str, Input] = {"message": message, "dp": float(scenario.layout.attention_dp)}
    return leaf("all tokens", "message * dp", inputs, unit="bytes")


def _routed(scenario: Scenario, through: Term, way: Routed) -> Term:
    """Return the bytes that a rank sends to experts, or gets back: each token once for each rank its experts are on.

    Routed evenly, k choices hit K (1 - (1 - 1 / K)^k) of K groups of ranks; `skew` is how far the busiest exceeds the
    mean. Where experts are split, every rank of a group gets the token. Experts in 8 bits or fewer take tokens in fp8
    with a scale for each 128; results come back in the activations' format.

    References
    ----------
    The house's collective-models note, MoE dispatch and combine; DeepEP, docs (fp8 dispatch, bf16 combine).
    """
    mixture, layout = scenario.transformer.mixture, scenario.layout
    inputs: dict[str, Input] = _activation(scenario, through) | {
        "K": float(layout.expert_parallel),
        "k": float(mixture.chosen if mixture else 1),
        "m": float(layout.moe_tensor_parallel),
        "skew": scenario.workload.routing_skew,
        "a": routed.token_bytes(scenario) if way == Routed.DISPATCH else scenario.workload.activation_bytes,
    }
    return leaf("routed tokens", "t * d * a * fuse * K * (1 - (1 - 1 / K) ** k) * m * skew", inputs, unit="bytes")


def time(scenario: Scenario, name: str, found: list[Exchange]) -> Term | None:
    """Return the time [s] of some exchanges; each pays its excess inside a model. None when there are none."""
    if not found:
        return None
    return total(name, *(_one_kind(scenario, exchange) for exchange in found))


def _one_kind(scenario: Scenario, exchange: Exchange) -> Term:
    """Return the time [s] of one kind of exchange."""
    excess = leaf(
        "waiting inside the model", "dl", {"dl": scenario.stack.collective_excess_s}, column="collective_fixed"
    )
    isolated = collective(scenario, exchange.op, exchange.group, exchange.size, exchange.known)
    parts = [isolated] if exchange.op != Op.ALL_REDUCE else _by_another_kernel(scenario, exchange, isolated)
    return product(exchange.name, exchange.count, total("collective", excess, *parts))


def _by_another_kernel(scenario: Scenario, exchange: Exchange, isolated: Term) -> list[Term]:
    """Return an all-reduce by the kernel of a what-if: so many times as long, or so much less; as it is without one."""
    on = scenario.stack.remedies
    if some(on.all_reduce_factor != 1.0):
        factor = leaf("another kernel", "factor", {"factor": on.all_reduce_factor}, unit="1")
        isolated = product("another kernel", factor, isolated)
    if not some(on.all_reduce_s != 0) and not some(on.all_reduce_saved_s != 0):
        return [isolated]
    inputs: dict[str, Input] = {
        "now": collective(scenario, exchange.op, exchange.group, message_bytes(scenario)),
        "target": on.all_reduce_s,
        "saved": on.all_reduce_saved_s,
        "fixed": portion("fixed time", isolated, "collective_fixed"),
    }
    formula = "maximum(target - now - saved, -fixed)" if some(on.all_reduce_s != 0) else "maximum(-saved, -fixed)"
    return [isolated, leaf("another kernel", formula, inputs, column="collective_fixed")]


def message_bytes(scenario: Scenario) -> Quantity:
    """Return the bytes that one sequence adds to an all-reduce: one activation, or one for each token it checks."""
    workload, on = scenario.workload, scenario.stack.remedies
    each = workload.activation_bytes * workload.tokens_per_step * on.message_factor * on.fused_collectives
    return scenario.transformer.hidden_size * each
