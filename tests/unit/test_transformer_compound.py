"""Families with other attention: latent, linear, state spaces, searched stacks; counted by hand on small configs."""

from __future__ import annotations

import pytest
from tests.unit.transformer_configs import ATTENTION, HYBRID, LATENT, MAMBA, D, blocks, read, wrapped

from nhalf.transformer import LatentAttention, LinearAttention, StateSpace

# ------------------------------------------------------------------------------------------------------------ latent


def test_latent_attention_is_projections_down_up_and_out() -> None:
    model = read("DeepseekV3ForCausalLM", **LATENT)
    attention = D * 24 + 24 * 8 * 12 + D * (32 + 4) + 32 * 8 * (8 + 8) + 8 * 8 * D + 24 + 32
    experts = 16 * 3 * D * 20 + 3 * D * 20 + 16 * D + 16
    assert blocks(model) == 4 * attention + 3 * D * 96 + 3 * experts
    assert (model.mla_layer_count, model.sparse_layer_count, model.moe_layer_count) == (4, 0, 3)
    assert model.kv_elements(1) == model.kv_elements(8) == 4 * (32 + 4)


def test_queries_that_are_not_compressed_have_one_projection() -> None:
    compressed, plain = (
        read("DeepseekV2ForCausalLM", **LATENT),
        read("DeepseekV2ForCausalLM", **{**LATENT, "q_lora_rank": None}),
    )
    assert blocks(plain) - blocks(compressed) == 4 * (8 * 12 * D - D * 24 - 24 * 8 * 12 - 24)


@pytest.mark.parametrize("architecture", ["DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM"])
def test_sparse_attention_adds_an_indexer_that_every_rank_holds(architecture: str) -> None:
    index = {"index_n_heads": 4, "index_head_dim": 8, "index_topk": 2048}
    sparse, whole = read(architecture, **LATENT, **index), read("DeepseekV3ForCausalLM", **LATENT)
    assert blocks(sparse) - blocks(whole) == 4 * (24 * 4 * 8 + D * 8 + D * 4 + 2 * 8)
    assert sparse.sparse_layer_count == sparse.mla_layer_count == 4
    (part,) = sparse.cache_parts()
    assert (part.attention.read_limit, part.attention.kept_limit) == (2048, None)
    assert sparse.kv_bytes() - whole.kv_bytes() == 4 * (8 + 4)
    assert {group.split for group in sparse.groups if group.name == "indexer"} == {"none"}


# ----------------------------------------------------------------------------------------------------------- hybrids


def test_qwen_hybrids_have_linear_attention_and_gated_full_attention() -> None:
    model = wrapped("Qwen3_5ForConditionalGeneration", **HYBRID)
    keys, values = 4 * 8, 8 * 8
    linear = D * (2 * keys + 2 * values + 2 * 8) + (2 * keys + values) * 4 + values * D + 2 * 8 + 8
    full = ATTENTION + D * 16 * 8 + 2 * 16
    assert blocks(model) == 3 * linear + full + 4 * 3 * D * 96
    assert model.linear_layer_count == 3
    assert model.kv_elements(1) == 2 * 2 * 16
    parts = {part.name: part for part in model.cache_parts()}
    assert parts["linear attention"].attention.state_elements(2) == (8 * 8 * 8 + (2 * keys + values) * 3) / 2
    assert parts["linear attention"].attention.state_bytes(1) == 4 * 8 * 8 * 8 + 2 * (2 * keys + values) * 3


def test_layer_types_of_a_hybrid_override_its_interval() -> None:
    kinds = ["full_attention", "linear_attention", "full_attention", "linear_attention"]
    experts = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 20}
    model = read("Qwen3NextForCausalLM", **HYBRID, **experts, layer_types=kinds)
    linear = [layer for layer in model.layers if isinstance(layer.attention, LinearAttention)]
    assert [layer.indices for layer in linear] == [(1, 3)]
    assert model.moe_layer_count == 4


def test_nemotron_layers_are_one_block_each() -> None:
    model = read("NemotronHForCausalLM", **MAMBA)
    inner, shared = 8 * 8, 2 * 2 * 16
    mamba = D * (2 * inner + shared + 8) + (inner + shared) * 5 + inner * D + 3 * 8 + inner
    experts = 8 * 2 * D * 20 + 8 * D + 8 + 2 * D * 40
    assert blocks(model) == mamba + ATTENTION + 2 * D * 96 + experts
    assert model.norm_parameters == (4 + 1) * D
    assert (model.layer_count, model.block_count) == (4, 4)
    assert (model.linear_layer_count, model.moe_layer_count) == (1, 1)
    assert model.kv_elements(4) == 2 * 16
    assert read("LlamaForCausalLM").block_count == 8


def test_nemotron_experts_may_work_in_a_latent() -> None:
    model = read("NemotronHForCausalLM", **MAMBA, moe_latent_size=24)
    whole = read("NemotronHForCausalLM", **MAMBA)
    assert blocks(model) - blocks(whole) == 8 * 2 * (24 - D) * 20 + 2 * D * 24
    assert model.mixture is not None
    assert model.mixture.expert_parameters == 2 * 24 * 20


def test_a_list_of_block_types_says_the_same_as_the_letters() -> None:
    kinds = ["mamba", "mlp", "attention", "moe"]
    listed = read("NemotronHForCausalLM", **{**MAMBA, "hybrid_override_pattern": "absent"}, layers_block_type=kinds)
    assert listed.layers == read("NemotronHForCausalLM", **MAMBA).layers


def test_a_config_that_lists_its_layers_need_not_count_them() -> None:
    kinds = ["mamba", "moe", "full_attention", "linear_attention"]
    absent = {"hybrid_override_pattern": "absent", "num_hidden_layers": "absent"}
    listed = read("NemotronHForCausalLM", **{**MAMBA, **absent}, layers_block_type=kinds)
    assert listed.layer_count == 4
    assert (listed.linear_layer_count, listed.moe_layer_count) == (2, 1)


def test_a_searched_stack_may_lack_either_block() -> None:
    choices = [
        {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 5.25}},
        {"attention": {"no_op": True}, "ffn": {"ffn_mult": 3.0}},
        {"attention": {"n_heads_in_group": 8}, "ffn": {"no_op": True}},
        {"attention": {"num_key_value_heads": 2}, "ffn": {"intermediate_size": 100}},
    ]
    model = read("DeciLMForCausalLM", block_configs=choices, num_key_value_heads=None, intermediate_size=None)
    widths = 256 + 256 + 100  # 2 x 5.25 x 64 / 3 = 224 and 2 x 3 x 64 / 3 = 128, up to the next multiple of 256
    one_head = D * 16 * (8 + 1 + 1 + 8)
    assert blocks(model) == 2 * ATTENTION + one_head + 3 * D * widths
    assert model.norm_parameters == (6 + 1) * D
    assert model.block_count == 6
    assert model.kv_elements(1) == (2 + 1 + 2) * 2 * 16


def test_a_state_keeps_the_dtype_of_the_model_when_none_is_named() -> None:
    (mamba,) = [layer.attention for layer in read("NemotronHForCausalLM", **MAMBA).layers
                if isinstance(layer.attention, StateSpace)]  # fmt: skip
    assert mamba.state_dtype == "bf16"
    assert mamba.state_bytes(1) == 2 * mamba.state_elements(1)


def test_an_unpacked_prompt_costs_less_than_an_absorbed_one() -> None:
    (part,) = read("DeepseekV3ForCausalLM", **LATENT).cache_parts()
    assert isinstance(part.attention, LatentAttention)
    assert part.attention.score_flop(2) == 2 * 8 / 2 * (32 + 4 + 32)
    assert part.attention.prompt_score_flop(2) == 2 * 8 / 2 * (8 + 4 + 8)
