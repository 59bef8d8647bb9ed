"""Families whose layers have attention of two shapes: Gemma 4, MiMo-V2, Step-3.5, MiniMax-M3."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nhalf.transformer.attention import GroupedQueryAttention, Indexer
from nhalf.transformer.feedforward import ExpertFeedForward, GatedFeedForward
from nhalf.transformer.grouped_query import attention, chosen_of, deepseek_experts, dense, feed_forwards
from nhalf.transformer.model import Layer

if TYPE_CHECKING:
    from nhalf.transformer.fields import Fields
    from nhalf.transformer.grouped_query import Traits


def gemma4(fields: Fields, traits: Traits) -> list[Layer]:
    """Return the layers of Gemma 4: those that look back on everything have heads of their own, and no values.

    One with experts has them beside the dense block, which every token passes like a shared expert.
    """
    for key in ("num_kv_shared_layers", "hidden_size_per_layer_input", "use_double_wide_mlp"):
        fields.absent(key, "only Gemma 4 without shared caches and without embeddings of each layer is")
    block = _gemma4_experts(fields) if fields.flag("enable_moe_block") else None
    head_dim = fields.count("global_head_dim", default=fields.count("head_dim"))
    found: list[Layer] = []
    for layer in dense(fields, traits):
        each = layer.attention
        if isinstance(each, GroupedQueryAttention) and each.window is None:
            each = replace(
                each,
                head_dim=head_dim,
                kv_heads=fields.count("num_global_key_value_heads", default=each.kv_heads),
                norm_elements=2 * head_dim,
                keys_as_values=fields.flag("attention_k_eq_v"),
            )
        found.append(replace(layer, attention=each, feed_forward=block or layer.feed_forward))
    return found


def _gemma4_experts(fields: Fields) -> ExpertFeedForward:
    """Return the experts of Gemma 4 with the dense block beside them."""
    experts, chosen = chosen_of(fields, "num_experts", "top_k_experts")
    return ExpertFeedForward(
        experts=experts,
        chosen=chosen,
        intermediate_size=fields.count("moe_intermediate_size"),
        shared=GatedFeedForward(intermediate_size=fields.count("intermediate_size")),
    )


def mimo_v2(fields: Fields, traits: Traits) -> list[Layer]:
    """Return the layers of MiMo-V2: a 1 in hybrid_layer_pattern has a window, sinks and heads of its own."""
    fields.absent("enable_dsa", "an indexer on its full layers")
    whole = replace(attention(fields, traits), value_dim=fields.count("v_head_dim"))
    near = replace(
        whole,
        heads=fields.count("swa_num_attention_heads", default=whole.heads),
        kv_heads=fields.count("swa_num_key_value_heads", default=whole.kv_heads),
        head_dim=fields.count("swa_head_dim", default=whole.head_dim),
        value_dim=fields.count("swa_v_head_dim", default=whole.value_dim),
        window=fields.count("sliding_window_size" if fields.has("sliding_window_size") else "sliding_window"),
        sinks=fields.flag("add_swa_attention_sink_bias", default=True),
    )
    count = fields.layer_count()
    windowed = fields.entries("hybrid_layer_pattern", count)
    moe_layers = {index for index, each in enumerate(fields.entries("moe_layer_freq", count)) if each}
    blocks = feed_forwards(fields, deepseek_experts(fields), moe_layers, "intermediate_size")
    return [
        Layer(count=1, attention=near if short else whole, feed_forward=block, norms=traits.norms)
        for short, block in zip(windowed, blocks, strict=True)
    ]


def step(fields: Fields, traits: Traits) -> list[Layer]:
    """Return the layers of Step-3.5 and 3.7: sliding ones have more heads, and each head's output a gate."""
    count = fields.layer_count()
    groups = replace(fields, config={**fields.config, "num_key_value_heads": fields.count("num_attention_groups")})
    whole = replace(attention(groups, traits), head_gated=fields.flag("use_head_wise_attn_gate"))
    other = fields.table("attention_other_setting")
    near = replace(
        whole,
        heads=other.count("num_attention_heads"),
        kv_heads=other.count("num_attention_groups", default=whole.kv_heads),
        head_dim=other.count("head_dim", default=whole.head_dim),
        window=fields.count("sliding_window"),
    )
    shapes = {"full_attention": whole, "sliding_attention": near}
    kinds = fields.config.get("layer_types")
    # The layers that draft further tokens are listed behind those of the model.
    listed = replace(
        fields, config={**fields.config, "layer_types": kinds[:count] if isinstance(kinds, list) else kinds}
    )
    blocks = feed_forwards(fields, _step_experts(fields), _enumerated(fields, "moe_layers_enum"), "intermediate_size")
    found = []
    for index, (kind, block) in enumerate(zip(listed.entries("layer_types", count), blocks, strict=True)):
        if kind not in shapes:
            raise fields.error("layer_types", f"{kind!r} of layer {index} is not known", ", ".join(shapes))
        found.append(Layer(count=1, attention=shapes[kind], feed_forward=block, norms=traits.norms))
    return found


def _step_experts(fields: Fields) -> ExpertFeedForward:
    experts, chosen = chosen_of(fields, "moe_num_experts", "moe_top_k")
    shared = fields.count("share_expert_dim", default=0, least=0)
    return ExpertFeedForward(
        experts=experts,
        chosen=chosen,
        intermediate_size=fields.count("moe_intermediate_size"),
        shared=GatedFeedForward(intermediate_size=shared) if shared else None,
        corrected=True,
    )


def _enumerated(fields: Fields, key: str) -> set[int]:
    """Return the layers that a field lists, as numbers or in one text with commas."""
    value = fields.config.get(key)
    if isinstance(value, str) and all(each.strip().isdecimal() for each in value.split(",")):
        return {int(each) for each in value.split(",")}
    return set(fields.whole_numbers(key))


def minimax_m3(fields: Fields, traits: Traits) -> list[Layer]:
    """Return the layers of MiniMax-M3: the first are dense and read everything, the others read chosen blocks."""
    sparse = fields.table("sparse_attention_config")
    tokens = sparse.count("sparse_topk_blocks") * sparse.count("sparse_block_size")
    indexer = Indexer(sparse.count("sparse_num_index_heads"), sparse.count("sparse_index_dim"), tokens, plain=True)
    whole = attention(fields, traits)
    blocked = replace(whole, indexer=indexer)
    count = fields.layer_count()
    moe_layers = {index for index, each in enumerate(fields.entries("moe_layer_freq", count)) if each}
    chooses = sparse.entries("sparse_attention_freq", count) if sparse.has("sparse_attention_freq") else None
    experts, chosen = chosen_of(fields, "num_local_experts", "num_experts_per_tok")
    shared = fields.count("n_shared_experts", default=0, least=0) * fields.count("shared_intermediate_size")
    block = ExpertFeedForward(
        experts=experts,
        chosen=chosen,
        intermediate_size=fields.count("intermediate_size"),
        shared=GatedFeedForward(intermediate_size=shared) if shared else None,
        corrected=fields.flag("use_routing_bias"),
    )
    blocks = feed_forwards(fields, block, moe_layers, "dense_intermediate_size")
    return [
        Layer(
            count=1,
            attention=blocked if (index in moe_layers if chooses is None else chooses[index]) else whole,
            feed_forward=each,
            norms=traits.norms,
        )
        for index, each in enumerate(blocks)
    ]
