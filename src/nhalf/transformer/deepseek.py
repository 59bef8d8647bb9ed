"""Families with latent or compressed attention: DeepSeek, GLM-5, and Kimi with its delta attention."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nhalf.transformer.attention import Indexer
from nhalf.transformer.compressed import OVERLAPPING, CompressedAttention
from nhalf.transformer.feedforward import ExpertFeedForward, GatedFeedForward
from nhalf.transformer.grouped_query import after_dense, chosen_of, deepseek_experts, feed_forwards
from nhalf.transformer.latent import LatentAttention
from nhalf.transformer.model import Layer
from nhalf.transformer.recurrence import LinearAttention
from nhalf.transformer.weights import UNQUANTISED

if TYPE_CHECKING:
    from nhalf.transformer.fields import Fields
    from nhalf.transformer.grouped_query import Traits


def deepseek(fields: Fields, traits: Traits) -> list[Layer]:
    """Return the layers of DeepSeek V2, V3 and R1, Kimi K2 and GLM-5; an indexer where its fields are there."""
    mixing = latent_attention(fields)
    blocks = feed_forwards(fields, deepseek_experts(fields), after_dense(fields), "intermediate_size")
    return [Layer(count=1, attention=mixing, feed_forward=block, norms=traits.norms) for block in blocks]


def latent_attention(fields: Fields) -> LatentAttention:
    """Return multi-head latent attention."""
    return LatentAttention(
        heads=fields.count("num_attention_heads"),
        query_rank=fields.optional("q_lora_rank"),
        latent=fields.count("kv_lora_rank"),
        rope_dim=fields.count("qk_rope_head_dim"),
        nope_dim=fields.count("qk_nope_head_dim"),
        value_dim=fields.count("v_head_dim"),
        biased=fields.flag("attention_bias"),
    )


def deepseek_sparse(fields: Fields, traits: Traits) -> list[Layer]:
    """Return the layers of DeepSeek V3.2 and GLM-5: latent attention that reads what an indexer chose.

    In GLM-5.2 some layers read what the indexer of one before them chose.
    """
    indexer = Indexer(
        heads=fields.count("index_n_heads"),
        head_dim=fields.count("index_head_dim"),
        tokens=fields.count("index_topk"),
    )
    own = _own_indexers(fields)
    found: list[Layer] = []
    for index, layer in enumerate(deepseek(fields, traits)):
        each = layer.attention
        chosen = indexer._replace(own=own[index])
        sparse = replace(each, indexer=chosen) if isinstance(each, LatentAttention) else each
        found.append(replace(layer, attention=sparse))
    return found


def _own_indexers(fields: Fields) -> list[bool]:
    """Return for each layer whether it has an indexer of its own: all, or those that indexer_types calls full."""
    count = fields.layer_count()
    if not fields.has("indexer_types"):
        if fields.count("index_topk_freq", default=1) > 1:
            raise fields.error("indexer_types", "it is missing, and index_topk_freq shares indexers", "full or shared")
        return [True] * count
    kinds = fields.entries("indexer_types", count)
    for index, kind in enumerate(kinds):
        if kind not in {"full", "shared"}:
            raise fields.error("indexer_types", f"{kind!r} of layer {index} is not known", "full, shared")
    return [kind == "full" for kind in kinds]


def deepseek_v4(fields: Fields, traits: Traits) -> list[Layer]:
    """Return the layers of DeepSeek-V4: a compressed cache with an indexer (4), without one (128), or a window (0)."""
    count = fields.layer_count()
    ratios = fields.whole_numbers("compress_ratios")[:count]
    if len(ratios) != count or any(each < 0 for each in ratios):
        raise fields.error("compress_ratios", f"it has not one for each of {count} layers", "0, 4 or 128 a layer")
    block = deepseek_experts(fields)
    return [
        Layer(count=1, attention=_compressed(fields, ratio), feed_forward=block, norms=traits.norms) for ratio in ratios
    ]


def _compressed(fields: Fields, ratio: int) -> CompressedAttention:
    """Return the attention of a layer by its ratio; one that overlaps its entries has an indexer."""
    indexer = Indexer(
        heads=fields.count("index_n_heads"),
        head_dim=fields.count("index_head_dim"),
        tokens=fields.count("index_topk") * OVERLAPPING,
    )
    return CompressedAttention(
        heads=fields.count("num_attention_heads"),
        head_dim=fields.count("head_dim"),
        query_rank=fields.count("q_lora_rank"),
        groups=fields.count("o_groups"),
        output_rank=fields.count("o_lora_rank"),
        window=fields.count("sliding_window"),
        ratio=ratio,
        indexer=indexer if ratio == OVERLAPPING else None,
    )


# ------------------------------------------------------------------------------------------------------------- Kimi K3


def kimi_linear(fields: Fields, traits: Traits) -> list[Layer]:
    """Return the layers of Kimi Linear and Kimi K3: latent attention every few layers, delta attention otherwise."""
    table = fields.table("linear_attn_config")
    heads, dimension = table.count("num_heads"), table.count("head_dim")
    delta = LinearAttention(
        heads=heads,
        key_heads=heads,
        key_dim=dimension,
        value_dim=dimension,
        kernel=table.count("short_conv_kernel_size"),
        decay_rank=dimension,
    )
    latent = replace(latent_attention(fields), gated=fields.flag("mla_use_output_gate"))
    whole = set(table.whole_numbers("full_attn_layers"))  # counted from 1
    blocks = feed_forwards(fields, _kimi_experts(fields), after_dense(fields), "intermediate_size")
    return [
        Layer(count=1, attention=latent if index in whole else delta, feed_forward=block, norms=traits.norms)
        for index, block in enumerate(blocks, 1)
    ]


def _kimi_experts(fields: Fields) -> ExpertFeedForward:
    """Return the experts of Kimi Linear and K3, which work on a narrower token in K3."""
    experts, chosen = chosen_of(fields, "num_experts", "num_experts_per_token", "num_experts_per_tok")
    width, shared = fields.count("moe_intermediate_size"), fields.count("num_shared_experts", default=0, least=0)
    return ExpertFeedForward(
        experts=experts,
        chosen=chosen,
        intermediate_size=width,
        shared=GatedFeedForward(intermediate_size=shared * width) if shared else None,
        corrected=True,
        latent_size=fields.optional("routed_expert_hidden_size"),
        latent_bits=UNQUANTISED,
    )
