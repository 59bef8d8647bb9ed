"""Families with linear attention, state spaces, and searched stacks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nhalf.transformer.feedforward import ExpertFeedForward, GatedFeedForward
from nhalf.transformer.grouped_query import (
    Traits,
    attention,
    chosen_of,
    feed_forwards,
    qwen_experts,
    stepped,
)
from nhalf.transformer.model import Layer
from nhalf.transformer.recurrence import LinearAttention, StateSpace

if TYPE_CHECKING:
    from nhalf.transformer.attention import Attention, GroupedQueryAttention
    from nhalf.transformer.feedforward import FeedForward
    from nhalf.transformer.fields import Fields


# ------------------------------------------------------------------------------------------------------ Qwen3-Next, 3.5


def qwen_hybrid(fields: Fields, traits: Traits) -> list[Layer]:
    """Return the layers of dense Qwen3.5."""
    block = GatedFeedForward(intermediate_size=fields.count("intermediate_size"))
    return [
        Layer(count=1, attention=mixing, feed_forward=block, norms=traits.norms) for mixing in _mixers(fields, traits)
    ]


def qwen_hybrid_moe(fields: Fields, traits: Traits) -> list[Layer]:
    """Return the layers of Qwen3-Next and Qwen3.5 with experts."""
    blocks = feed_forwards(fields, qwen_experts(fields, shared_gate=True), stepped(fields), "intermediate_size")
    return [
        Layer(count=1, attention=mixing, feed_forward=block, norms=traits.norms)
        for mixing, block in zip(_mixers(fields, traits), blocks, strict=True)
    ]


def _mixers(fields: Fields, traits: Traits) -> list[Attention]:
    """Return each layer's mixer: gated full attention every so many layers, linear attention otherwise."""
    count = fields.layer_count()
    full = replace(attention(fields, traits), gated=fields.flag("attn_output_gate", default=True))
    linear = LinearAttention(
        heads=fields.count("linear_num_value_heads"),
        key_heads=fields.count("linear_num_key_heads"),
        key_dim=fields.count("linear_key_head_dim"),
        value_dim=fields.count("linear_value_head_dim"),
        kernel=fields.count("linear_conv_kernel_dim"),
        state_dtype=fields.state_dtype("mamba_ssm_dtype"),
    )
    kinds: dict[str, Attention] = {"full_attention": full, "linear_attention": linear}
    if not fields.has("layer_types"):
        step = fields.count("full_attention_interval")
        return [full if (index + 1) % step == 0 else linear for index in range(count)]
    named = fields.entries("layer_types", count)
    for index, kind in enumerate(named):
        if not isinstance(kind, str) or kind not in kinds:
            allowed = ", ".join(kinds)
            raise fields.error("layer_types", f"{kind!r} of layer {index} is not known", allowed)
    return [kinds[kind] for kind in named]


# ---------------------------------------------------------------------------------------------------------- Nemotron-H

_LETTERS = {
    "mamba": "M", "linear_attention": "M", "attention": "*", "full_attention": "*", "mlp": "-", "moe": "E",
}  # fmt: skip
"""What a layer is called, before and since transformers named kinds of layers alike, and its letter in a pattern."""


def nemotron_h(fields: Fields, traits: Traits) -> list[Layer]:
    """Return the layers of Nemotron-H and Nemotron 3: each is a state space, an attention, an MLP or experts."""
    pattern = _pattern(fields)
    blocks: dict[str, tuple[Attention | None, FeedForward | None]] = {}
    if "M" in pattern:
        blocks["M"] = (_mamba(fields), None)
    if "*" in pattern:
        blocks["*"] = (_plain_attention(fields, traits), None)
    if "-" in pattern:
        width, biased = fields.count("intermediate_size"), fields.flag("mlp_bias")
        blocks["-"] = (None, GatedFeedForward(intermediate_size=width, biased=biased, gated=False))
    if "E" in pattern:
        blocks["E"] = (None, _nemotron_experts(fields))
    return [Layer(count=1, attention=blocks[kind][0], feed_forward=blocks[kind][1], norms=1) for kind in pattern]


def _pattern(fields: Fields) -> str:
    """Return one letter for each layer."""
    listed, allowed = fields.config.get("layers_block_type"), "M (Mamba), * (attention), - (MLP), E (experts)"
    # Newer configs list the layers and do not count them.
    if isinstance(listed, list) and listed and not fields.has("num_hidden_layers"):
        count = len(listed)
    else:
        count = fields.layer_count()
    if fields.has("layers_block_type"):
        named = fields.entries("layers_block_type", count)
        for index, kind in enumerate(named):
            if not isinstance(kind, str) or kind not in _LETTERS:
                raise fields.error("layers_block_type", f"{kind!r} of layer {index} is not known", ", ".join(_LETTERS))
        return "".join(_LETTERS[kind] for kind in named)
    key = "hybrid_override_pattern"
    pattern = fields.config.get(key)
    if not isinstance(pattern, str):
        raise fields.error(key, "it is missing" if pattern is None else "it is no text", f"a letter a layer: {allowed}")
    for index, kind in enumerate(pattern):
        if kind not in _LETTERS.values():
            raise fields.error(key, f"{kind!r} of layer {index} is not known", allowed)
    if len(pattern) != count:
        what = f"it has {len(pattern)} letters and the model {count} layers"
        raise fields.error(key, what, f"a letter for each of {count} layers")
    return pattern


def _plain_attention(fields: Fields, traits: Traits) -> GroupedQueryAttention:
    """Return Nemotron-H's attention, whose head dimension has had two names."""
    found = attention(fields, traits)
    return replace(found, head_dim=fields.count("attention_head_dim", default=found.head_dim))


def _mamba(fields: Fields) -> StateSpace:
    return StateSpace(
        heads=fields.count("mamba_num_heads"),
        head_dim=fields.count("mamba_head_dim"),
        groups=fields.count("n_groups"),
        state=fields.count("ssm_state_size"),
        kernel=fields.count("conv_kernel"),
        biased=fields.flag("mamba_proj_bias"),
        convolution_biased=fields.flag("use_conv_bias"),
        state_dtype=fields.state_dtype("mamba_ssm_cache_dtype"),
    )


def _nemotron_experts(fields: Fields) -> ExpertFeedForward:
    """Return the experts of Nemotron 3: two matrices each, of which a shared one has its own width."""
    experts, chosen = chosen_of(fields, "n_routed_experts", "num_experts_per_tok")
    shared = fields.count("n_shared_experts", default=0, least=0)
    width = fields.count("moe_shared_expert_intermediate_size") * shared if shared else 0
    return ExpertFeedForward(
        experts=experts,
        chosen=chosen,
        intermediate_size=fields.count("moe_intermediate_size"),
        gated=False,
        shared=GatedFeedForward(intermediate_size=width, gated=False) if width else None,
        corrected=True,
        latent_size=fields.optional("moe_latent_size"),
    )


# -------------------------------------------------------------------------------------------------- searched (Nemotron)

_WIDTH_STEP = 256
"""Widths from `ffn_mult` are rounded up to a multiple of this (the DeciLM code published with the weights)."""


def searched(fields: Fields, traits: Traits) -> list[Layer]:
    """Return the layers of a searched Llama (DeciLM: Nemotron-Super, -Ultra, -51B): each may lack either block."""
    count = fields.layer_count()
    found: list[Layer] = []
    for index, config in enumerate(fields.entries("block_configs", count)):
        nested = replace(fields, config={f"block_configs[{index}]": config}).table(f"block_configs[{index}]")
        mixing = _searched_attention(fields, nested.table("attention"), traits)
        block = _searched_width(fields, nested.table("ffn"))
        norms = (mixing is not None) + (block is not None)
        found.append(Layer(count=1, attention=mixing, feed_forward=block, norms=norms))
    return found


def _searched_attention(fields: Fields, choice: Fields, traits: Traits) -> GroupedQueryAttention | None:
    """Return the attention of a layer, None where the search left it out."""
    choice.absent("replace_with_linear", "a linear layer in place of attention")
    if choice.flag("no_op"):
        return None
    heads = fields.count("num_attention_heads")
    if choice.has("num_key_value_heads"):
        kv_heads = choice.count("num_key_value_heads")
    else:
        group = choice.count("n_heads_in_group")
        if heads % group:
            raise choice.error("n_heads_in_group", f"{group} does not divide {heads} heads", f"a divisor of {heads}")
        kv_heads = heads // group
    whole = replace(fields, config={**fields.config, "num_key_value_heads": kv_heads})
    return attention(whole, traits)


def _searched_width(fields: Fields, choice: Fields) -> GatedFeedForward | None:
    """Return the feed-forward block of a layer, None where the search left it out."""
    choice.absent("replace_with_linear", "a linear layer in place of a feed-forward block")
    if choice.flag("no_op"):
        return None
    if choice.has("intermediate_size"):
        return GatedFeedForward(intermediate_size=choice.count("intermediate_size"))
    width = int(2 * choice.number("ffn_mult") * fields.count("hidden_size") / 3)
    return GatedFeedForward(intermediate_size=-(-width // _WIDTH_STEP) * _WIDTH_STEP)
