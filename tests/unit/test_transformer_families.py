"""Families with grouped attention: what their config.json means, counted by hand on small ones."""

from __future__ import annotations

import pytest
from tests.unit.transformer_configs import ATTENTION, LATENT, Config, D, blocks, read, wrapped

from nhalf.transformer import ExpertFeedForward, GatedFeedForward, GroupedQueryAttention, Transformer

# ----------------------------------------------------------------------------------------------------------- grouped


@pytest.mark.parametrize(
    ("architecture", "changes", "beside"),
    [
        ("LlamaForCausalLM", {}, 0),
        ("MistralForCausalLM", {}, 0),
        ("Qwen2ForCausalLM", {}, (8 + 2 + 2) * 16),
        ("MiMoForCausalLM", {"attention_bias": True}, (8 + 2 + 2) * 16),
        ("Qwen3ForCausalLM", {}, 2 * 16),
        ("Gemma2ForCausalLM", {"sliding_window": 8}, 0),
        ("Gemma3ForCausalLM", {"sliding_window": 8}, 2 * 16),
    ],
)
def test_a_dense_layer_is_attention_feed_forward_and_what_is_beside(
    architecture: str, changes: Config, beside: int
) -> None:
    assert blocks(read(architecture, **changes)) == 4 * (ATTENTION + 3 * D * 96 + beside)


def test_gemma_has_four_norms_a_layer_and_shares_its_embeddings_unless_it_says_otherwise() -> None:
    model = read("Gemma3ForCausalLM", sliding_window=8, tie_word_embeddings="absent")
    assert model.norm_parameters == (4 * 4 + 1) * D
    assert model.tied_embeddings
    assert not read("LlamaForCausalLM", tie_word_embeddings="absent").tied_embeddings


MOE: dict[str, tuple[Config, int, int]] = {
    # changes; parameters of one layer beside attention; those of one expert
    "MixtralForCausalLM": (
        {"num_local_experts": 8, "num_experts_per_tok": 2},
        8 * 3 * D * 96 + 8 * D,
        3 * D * 96,
    ),
    "Qwen3MoeForCausalLM": (
        {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 20},
        8 * 3 * D * 20 + 8 * D + 2 * 16,
        3 * D * 20,
    ),
    "Qwen2MoeForCausalLM": (
        {
            "num_experts": 8,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 20,
            "shared_expert_intermediate_size": 30,
        },
        8 * 3 * D * 20 + 8 * D + 3 * D * 30 + D + (8 + 2 + 2) * 16,
        3 * D * 20,
    ),
    "GptOssForCausalLM": (
        {"num_local_experts": 8, "experts_per_token": 2, "attention_bias": True, "sliding_window": 8},
        8 * (3 * D * 96 + 2 * 96 + D) + 8 * D + 8 + (8 + 2 + 2) * 16 + D + 8,
        3 * D * 96 + 2 * 96 + D,
    ),
    "MiniMaxM2ForCausalLM": (
        {"num_local_experts": 8, "num_experts_per_tok": 2, "use_routing_bias": True, "use_qk_norm": True},
        8 * 3 * D * 96 + 8 * D + 8 + (8 + 2) * 16,
        3 * D * 96,
    ),
    "Glm4MoeForCausalLM": (
        {**LATENT, "first_k_dense_replace": 0, "attention_bias": True, "use_qk_norm": True},
        16 * 3 * D * 20 + 16 * D + 16 + 3 * D * 20 + (8 + 2 + 2) * 16 + 2 * 16,
        3 * D * 20,
    ),
}


@pytest.mark.parametrize("architecture", MOE)
def test_a_layer_of_experts_is_router_experts_and_the_shared_one(architecture: str) -> None:
    changes, beside, expert = MOE[architecture]
    model = read(architecture, **changes)
    mixture = model.mixture
    assert mixture is not None
    assert blocks(model) == 4 * (ATTENTION + beside)
    assert mixture.expert_parameters == expert
    assert mixture.layer_count == model.moe_layer_count == 4
    idle = mixture.experts - mixture.chosen
    assert model.parameters - model.embedding_parameters - model.active_parameters == 4 * idle * expert
    routed = [group for group in model.groups if group.read == "routed"]
    assert sum(group.parameters for group in routed) == 4 * mixture.experts * expert
    assert mixture.expert_bytes == 2 * expert


@pytest.mark.parametrize(
    ("architecture", "changes", "moe_layers"),
    [
        ("Qwen3MoeForCausalLM", {"decoder_sparse_step": 2}, (1, 3)),
        ("Qwen3MoeForCausalLM", {"mlp_only_layers": [0, 3]}, (1, 2)),
        ("Glm4MoeForCausalLM", {"first_k_dense_replace": 3}, (3,)),
        ("Glm4MoeForCausalLM", {"first_k_dense_replace": 1, "moe_layer_freq": 2}, (2,)),
        ("Llama4ForCausalLM", {"interleave_moe_layer_step": 2}, (1, 3)),
        ("Llama4ForCausalLM", {"interleave_moe_layer_step": 2, "moe_layers": [2]}, (2,)),
    ],
)
def test_the_layers_with_experts_are_those_that_the_config_means(
    architecture: str, changes: Config, moe_layers: tuple[int, ...]
) -> None:
    experts = {
        "num_experts": 8,
        "num_local_experts": 8,
        "intermediate_size_mlp": 160,
        **LATENT,
    }
    model = read(architecture, **{**experts, **changes})
    with_experts = [layer for layer in model.layers if isinstance(layer.feed_forward, ExpertFeedForward)]
    assert tuple(index for layer in with_experts for index in layer.indices) == moe_layers
    assert model.layer_count == 4
    wide = 160 if architecture == "Llama4ForCausalLM" else 96
    dense = [layer.feed_forward for layer in model.layers if isinstance(layer.feed_forward, GatedFeedForward)]
    assert {block.intermediate_size for block in dense} == {wide}


def test_llama4_shares_an_expert_of_the_width_of_the_others() -> None:
    model = read("Llama4ForCausalLM", num_local_experts=8, num_experts_per_tok=1, intermediate_size_mlp=160)
    assert blocks(model) == 4 * (ATTENTION + (8 + 1) * 3 * D * 96 + 8 * D)


# ----------------------------------------------------------------------------------------------------------- windows


def windows(model: Transformer) -> list[int | None]:
    found: dict[int, int | None] = {}
    for layer in model.layers:
        assert isinstance(layer.attention, GroupedQueryAttention)
        found |= dict.fromkeys(layer.indices, layer.attention.window)
    return [found[index] for index in range(model.layer_count)]


@pytest.mark.parametrize(
    ("architecture", "changes", "expected"),
    [
        ("LlamaForCausalLM", {"sliding_window": 8}, [None] * 4),
        ("MistralForCausalLM", {"sliding_window": 8}, [8] * 4),
        ("MistralForCausalLM", {"sliding_window": None}, [None] * 4),
        ("Qwen3ForCausalLM", {"sliding_window": 8, "max_window_layers": 3}, [None] * 4),
        (
            "Qwen3ForCausalLM",
            {"sliding_window": 8, "max_window_layers": 3, "use_sliding_window": True},
            [None, None, None, 8],
        ),
        ("Gemma2ForCausalLM", {"sliding_window": 8}, [8, None, 8, None]),
        ("Gemma3ForCausalLM", {"sliding_window": 8, "sliding_window_pattern": 3}, [8, 8, None, 8]),
        (
            "Gemma3ForCausalLM",
            {
                "sliding_window": 8,
                "layer_types": ["full_attention", "sliding_attention", "full_attention", "full_attention"],
            },
            [None, 8, None, None],
        ),
        ("Llama4ForCausalLM", {"attention_chunk_size": 8}, [8, 8, 8, None]),
        ("Llama4ForCausalLM", {"attention_chunk_size": 8, "no_rope_layers": [1, 0, 1, 1]}, [8, None, 8, 8]),
        ("Llama4ForCausalLM", {"attention_chunk_size": 8, "no_rope_layer_interval": 2}, [8, None, 8, None]),
        ("Llama4ForCausalLM", {"attention_chunk_size": None}, [None] * 4),
    ],
)
def test_windows_are_where_the_config_or_the_family_says(
    architecture: str, changes: Config, expected: list[int | None]
) -> None:
    experts = {"num_local_experts": 8, "num_experts_per_tok": 1, "intermediate_size_mlp": 160}
    more = experts if architecture == "Llama4ForCausalLM" else {}
    model = read(architecture, **{**more, **changes})
    assert windows(model) == expected


def test_gemma4_has_other_heads_where_it_looks_back_on_everything() -> None:
    model = wrapped(
        "Gemma4ForConditionalGeneration",
        sliding_window=8,
        layer_types=["sliding_attention"] * 3 + ["full_attention"],
        global_head_dim=32,
        num_global_key_value_heads=1,
        attention_k_eq_v=True,
    )
    full = D * 32 * (8 + 1 + 8) + 2 * 32  # no projection of values
    assert blocks(model) == 3 * (ATTENTION + 2 * 16) + full + 4 * 3 * D * 96
    assert model.kv_elements(1) == 3 * 2 * 2 * 16 + 2 * 1 * 32  # but values are cached
    assert model.left_out == ("the encoders of images and sound",)
