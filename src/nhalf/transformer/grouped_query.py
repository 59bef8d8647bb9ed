"""Families with grouped-query attention in every layer: Llama, Qwen, Gemma, gpt-oss, Mixtral and their like."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from nhalf.transformer.attention import GroupedQueryAttention
from nhalf.transformer.feedforward import ExpertFeedForward, GatedFeedForward
from nhalf.transformer.model import Layer

if TYPE_CHECKING:
    from nhalf.transformer.feedforward import FeedForward
    from nhalf.transformer.fields import Fields

Windows = Literal["none", "always", "upper", "alternate", "pattern", "chunks"]


class Traits(NamedTuple):
    """What the code of a family fixes and its config does not say.

    `biased`: which projections have biases, or `flag` where attention_bias says so for all, `flagged-inputs` for the
    inputs. `normed`: norms of queries and keys `per head`, over `all` heads, or as `use_qk_norm` says (`flag`).
    `windows`: which layers look back on a window where layer_types does not say.
    """

    biased: Literal["none", "inputs", "flag", "flagged-inputs"] = "flag"
    normed: Literal["none", "per head", "all", "flag"] = "none"
    windows: Windows = "none"
    sinks: bool = False
    norms: int = 2


def dense(fields: Fields, traits: Traits) -> list[Layer]:
    """Return the layers of a dense model."""
    block = GatedFeedForward(intermediate_size=fields.count("intermediate_size"), biased=fields.flag("mlp_bias"))
    return [
        Layer(count=1, attention=attention, feed_forward=block, norms=traits.norms)
        for attention in attentions(fields, traits)
    ]


def mixed(fields: Fields, traits: Traits, experts: ExpertFeedForward, moe_layers: set[int], wide: str) -> list[Layer]:
    """Return the layers of a model whose `moe_layers` have experts; the field `wide` has the width of the others."""
    found = attentions(fields, traits)
    return [
        Layer(count=1, attention=attention, feed_forward=block, norms=traits.norms)
        for attention, block in zip(found, feed_forwards(fields, experts, moe_layers, wide), strict=True)
    ]


def feed_forwards(fields: Fields, experts: ExpertFeedForward, moe_layers: set[int], wide: str) -> list[FeedForward]:
    """Return the feed-forward block of each layer."""
    count = fields.layer_count()
    everywhere = moe_layers >= set(range(count))
    plain: FeedForward = experts if everywhere else GatedFeedForward(intermediate_size=fields.count(wide))
    return [experts if index in moe_layers else plain for index in range(count)]


def attention(fields: Fields, traits: Traits) -> GroupedQueryAttention:
    """Return the attention of a layer without a window."""
    hidden_size, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
    kv_heads = fields.count("num_key_value_heads", default=heads)
    if not fields.has("head_dim") and hidden_size % heads:
        what = f"it is missing, and {heads} heads do not divide hidden_size {hidden_size}"
        raise fields.error("head_dim", what, "a positive whole number")
    head_dim = fields.count("head_dim", default=hidden_size // heads)
    if heads % kv_heads:
        raise fields.error("num_key_value_heads", f"{kv_heads} does not divide {heads} heads", f"a divisor of {heads}")
    return GroupedQueryAttention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        biased=_biases(fields, traits),
        norm_elements=_norms(fields, traits, heads, kv_heads) * head_dim,
        sinks=traits.sinks,
    )


def attentions(fields: Fields, traits: Traits) -> list[GroupedQueryAttention]:
    """Return the attention of each layer."""
    whole = attention(fields, traits)
    limits = _windows(fields, traits.windows)
    return [whole if kind == "full" else _windowed(fields, whole, chunked=kind == "chunked") for kind in limits]


def _windowed(fields: Fields, whole: GroupedQueryAttention, *, chunked: bool) -> GroupedQueryAttention:
    """Return the attention of a layer with a window."""
    return replace(whole, window=fields.count("attention_chunk_size" if chunked else "sliding_window"), chunked=chunked)


def _biases(fields: Fields, traits: Traits) -> Literal["none", "inputs", "all"]:
    """Return which projections have biases."""
    flagged = fields.flag("attention_bias")
    if traits.biased == "flag":
        return "all" if flagged else "none"
    if traits.biased == "flagged-inputs":
        return "inputs" if flagged else "none"
    return traits.biased


def _norms(fields: Fields, traits: Traits, heads: int, kv_heads: int) -> int:
    """Return how many head dimensions the norms of queries and keys span."""
    if traits.normed == "all":
        return heads + kv_heads if fields.flag("use_qk_norm", default=True) else 0
    if traits.normed == "per head" or (traits.normed == "flag" and fields.flag("use_qk_norm")):
        return 2
    return 0


_KINDS = {
    "full_attention": "full",
    "attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
}


def _windows(fields: Fields, rule: Windows) -> list[str]:
    """Return for each layer whether it looks back on everything (full), a window (sliding) or a chunk (chunked)."""
    count = fields.layer_count()
    if fields.has("layer_types"):
        return [_kind(fields, index, kind) for index, kind in enumerate(fields.entries("layer_types", count))]
    switched = fields.flag("use_sliding_window")
    if rule == "none":
        if switched:
            raise fields.error(
                "use_sliding_window", "this architecture has no windows, so which layers have one is not known", "false"
            )
        return ["full"] * count
    if rule == "always":
        return ["sliding" if fields.has("sliding_window") else "full"] * count
    if rule == "upper":
        first = fields.count("max_window_layers", least=0) if switched else count
        return ["sliding" if index >= first else "full" for index in range(count)]
    if rule == "chunks":
        return _chunks(fields, count)
    step = 2 if rule == "alternate" else fields.count("sliding_window_pattern", default=6)
    return ["full" if (index + 1) % step == 0 else "sliding" for index in range(count)]


def _kind(fields: Fields, index: int, kind: object) -> str:
    if not isinstance(kind, str) or kind not in _KINDS:
        raise fields.error("layer_types", f"{kind!r} of layer {index} is not known", ", ".join(_KINDS))
    return _KINDS[kind]


def _chunks(fields: Fields, count: int) -> list[str]:
    """Return the kinds of Llama 4: layers with rotary positions look back on a chunk, every fourth on everything."""
    if not fields.has("attention_chunk_size"):
        return ["full"] * count
    if fields.has("no_rope_layers") and fields.config["no_rope_layers"]:
        return ["chunked" if rotary else "full" for rotary in fields.entries("no_rope_layers", count)]
    step = fields.count("no_rope_layer_interval", default=4)
    return ["full" if (index + 1) % step == 0 else "chunked" for index in range(count)]


# ------------------------------------------------------------------------------------------------------------ families


def everywhere(fields: Fields) -> set[int]:
    """Return every layer."""
    return set(range(fields.layer_count()))


def after_dense(fields: Fields) -> set[int]:
    """Return the layers with experts where the first few are dense (DeepSeek, GLM, Kimi)."""
    first, step = fields.count("first_k_dense_replace", least=0), fields.count("moe_layer_freq", default=1)
    return {index for index in everywhere(fields) if index >= first and index % step == 0}


def stepped(fields: Fields) -> set[int]:
    """Return the layers with experts where every so many has them (Qwen)."""
    step, dense_only = fields.count("decoder_sparse_step", default=1), fields.whole_numbers("mlp_only_layers")
    return {index for index in everywhere(fields) if (index + 1) % step == 0 and index not in dense_only}


def chosen_of(fields: Fields, experts_key: str, *chosen_keys: str) -> tuple[int, int]:
    """Return the number of experts and how many of them a token goes to."""
    experts = fields.count(experts_key)
    key = next((key for key in chosen_keys if fields.has(key)), chosen_keys[0])
    chosen = fields.count(key)
    if chosen > experts:
        raise fields.error(key, f"{chosen} is more than the {experts} experts there are", f"1 to {experts}")
    return experts, chosen


def qwen_experts(fields: Fields, *, shared_gate: bool) -> ExpertFeedForward:
    """Return the experts of Qwen: a shared one only where its width is given."""
    experts, chosen = chosen_of(fields, "num_experts", "num_experts_per_tok")
    shared = fields.count("shared_expert_intermediate_size", default=0, least=0)
    return ExpertFeedForward(
        experts=experts,
        chosen=chosen,
        intermediate_size=fields.count("moe_intermediate_size"),
        shared=GatedFeedForward(intermediate_size=shared) if shared else None,
        shared_gate=bool(shared) and shared_gate,
    )


def qwen_moe(fields: Fields, traits: Traits) -> list[Layer]:
    """Return the layers of Qwen2-MoE and Qwen3-MoE."""
    return mixed(fields, traits, qwen_experts(fields, shared_gate=True), stepped(fields), "intermediate_size")


def mixtral(fields: Fields, traits: Traits) -> list[Layer]:
    """Return the layers of Mixtral and MiniMax-M2: experts everywhere; MiniMax's router has a correction."""
    experts, chosen = chosen_of(fields, "num_local_experts", "num_experts_per_tok")
    fields.absent("shared_intermediate_size", "a shared expert of this family")
    block = ExpertFeedForward(
        experts=experts,
        chosen=chosen,
        intermediate_size=fields.count("intermediate_size"),
        corrected=fields.flag("use_routing_bias"),
    )
    return mixed(fields, traits, block, everywhere(fields), "intermediate_size")


def gpt_oss(fields: Fields, traits: Traits) -> list[Layer]:
    """Return the layers of gpt-oss: experts and router have biases, heads have sinks."""
    experts, chosen = chosen_of(fields, "num_local_experts", "num_experts_per_tok", "experts_per_token")
    block = ExpertFeedForward(
        experts=experts,
        chosen=chosen,
        intermediate_size=fields.count("intermediate_size"),
        biased=True,
        router_biased=True,
    )
    return mixed(fields, traits, block, everywhere(fields), "intermediate_size")


def llama4(fields: Fields, traits: Traits) -> list[Layer]:
    """Return the layers of Llama 4: every so many has experts and a shared expert, the others are wider."""
    experts, chosen = chosen_of(fields, "num_local_experts", "num_experts_per_tok")
    width = fields.count("intermediate_size")
    block = ExpertFeedForward(
        experts=experts, chosen=chosen, intermediate_size=width, shared=GatedFeedForward(intermediate_size=width)
    )
    step = fields.count("interleave_moe_layer_step", default=1)
    listed = fields.whole_numbers("moe_layers")
    moe_layers = set(listed or range(step - 1, fields.layer_count(), step))
    return mixed(fields, traits, block, moe_layers, "intermediate_size_mlp")


def deepseek_experts(fields: Fields) -> ExpertFeedForward:
    """Return the experts of DeepSeek, Kimi and GLM: shared ones are one block of their widths together."""
    experts, chosen = chosen_of(fields, "n_routed_experts", "num_experts_per_tok")
    width, shared = fields.count("moe_intermediate_size"), fields.count("n_shared_experts", default=0, least=0)
    return ExpertFeedForward(
        experts=experts,
        chosen=chosen,
        intermediate_size=width,
        shared=GatedFeedForward(intermediate_size=shared * width) if shared else None,
        corrected=fields.config.get("topk_method", "noaux_tc") == "noaux_tc",
    )


def glm4_moe(fields: Fields, traits: Traits) -> list[Layer]:
    """Return the layers of GLM-4.5 and its successors with grouped-query attention."""
    return mixed(fields, traits, deepseek_experts(fields), after_dense(fields), "intermediate_size")
