"""Transformers: what a config.json says, and one clear error for each thing it may say wrongly."""

from __future__ import annotations

from typing import Any

import pytest

from nhalf.errors import InputError
from nhalf.transformer import KV_BYTES, WEIGHT_BYTES, Transformer, from_config

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "torch_dtype": "bfloat16",
}


def read(**changes: Any) -> Transformer:  # noqa: ANN401  any value a JSON file may hold
    config = {**LLAMA, **changes}
    return from_config(
        {key: value for key, value in config.items() if value != "absent"}, name="m", where="config.json"
    )


def refused(**changes: Any) -> InputError:  # noqa: ANN401  any value a JSON file may hold
    with pytest.raises(InputError) as caught:
        read(**changes)
    assert caught.value.where == "config.json"
    return caught.value


# ---------------------------------------------------------------------------------------------------------- counting


def test_the_parameters_are_counted_block_by_block() -> None:
    model = read()
    attention = 64 * 64 + 2 * 64 * 16 + 64 * 64  # queries, keys and values of 2 heads of 8, output
    feed_forward = 3 * 64 * 96
    assert model.layer_parameters == 3 * (attention + feed_forward)
    assert model.norm_parameters == (2 * 3 + 1) * 64
    assert model.head_parameters == model.embedding_parameters == 100 * 64
    assert model.parameters == 3 * (attention + feed_forward) + 7 * 64 + 2 * 6400


def test_tied_embeddings_are_held_once_and_read_all_the_same() -> None:
    tied, untied = read(tie_word_embeddings=True), read()
    assert untied.parameters - tied.parameters == 6400
    assert tied.head_parameters == untied.head_parameters


def test_biases_and_head_norms_count() -> None:
    assert read(attention_bias=True).layer_parameters - read().layer_parameters == 3 * (64 + 2 * 16 + 64)
    assert read(mlp_bias=True).layer_parameters - read().layer_parameters == 3 * (2 * 96 + 64)
    qwen = read(architectures=["Qwen3ForCausalLM"])
    assert qwen.layer_parameters - read().layer_parameters == 3 * 2 * 8


def score_flop(model: Transformer) -> float:
    return sum(part.layer_count * part.attention.score_flop(1) for part in model.cache_parts())


def test_a_head_dimension_of_its_own_is_taken() -> None:
    assert score_flop(read(head_dim=16)) == 2 * score_flop(read())
    assert score_flop(read(head_dim=None)) == score_flop(read()) == 4 * 3 * 64


def test_without_grouped_heads_every_head_has_its_keys() -> None:
    assert read(num_key_value_heads="absent").kv_elements(1) == 3 * 2 * 64


@pytest.mark.parametrize(("ranks", "heads"), [(1, 2.0), (2, 1.0), (4, 1.0), (8, 1.0)])
def test_cache_heads_are_split_until_there_is_one_and_then_copied(ranks: int, heads: float) -> None:
    assert read().kv_elements(ranks) == 3 * 2 * heads * 8


# ------------------------------------------------------------------------------------------------------------ dtypes


@pytest.mark.parametrize(
    ("changes", "weights", "cache"),
    [
        ({}, "bf16", "bf16"),
        ({"torch_dtype": "float16"}, "fp16", "fp16"),
        ({"torch_dtype": "absent", "dtype": "float16"}, "fp16", "fp16"),
        ({"torch_dtype": "absent"}, "bf16", "bf16"),
        ({"quantization_config": {"quant_method": "fp8"}}, "fp8", "bf16"),
    ],
)
def test_dtypes_are_those_of_the_config(changes: dict[str, Any], weights: str, cache: str) -> None:
    assert (read(**changes).weight_dtype, read(**changes).kv_dtype) == (weights, cache)


def test_scales_of_blocks_count_as_bytes_of_the_weight() -> None:
    assert WEIGHT_BYTES["nvfp4"] == 0.5 + 1 / 16
    assert WEIGHT_BYTES["mxfp4"] == 0.5 + 1 / 32
    assert WEIGHT_BYTES["int4"] == 0.5 + 2 / 32
    assert WEIGHT_BYTES["bf16"] == KV_BYTES["bf16"] == 2.0
    assert WEIGHT_BYTES["fp8"] == KV_BYTES["fp8"] == 1.0


# ------------------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize("named", [["Llama"], "absent", [], "LlamaForCausalLM", [7], None])
def test_an_unknown_architecture_names_the_field_and_what_is_read(named: object) -> None:
    error = refused(architectures=named)
    assert "'architectures'" in error.what
    assert "LlamaForCausalLM" in error.allowed
    assert "Qwen3ForCausalLM" in error.allowed


def test_a_misspelled_architecture_is_suggested_and_never_guessed() -> None:
    error = refused(architectures=["LlamaForCasualLM"])
    assert "LlamaForCausalLM" in error.do
    assert "LlamaForCasualLM" in error.what


@pytest.mark.parametrize(
    "field", ["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size"]
)
@pytest.mark.parametrize("value", ["absent", None, 0, -1, 1.5, "64", True, [64], float("nan")])
def test_a_count_that_is_missing_or_impossible_names_its_field(field: str, value: object) -> None:
    error = refused(**{field: value})
    assert f"'{field}'" in error.what
    assert error.allowed == "a positive whole number"


@pytest.mark.parametrize("field", ["num_key_value_heads", "head_dim"])
@pytest.mark.parametrize("value", [0, -8, 2.0, "2", False])
def test_an_optional_count_that_is_impossible_names_its_field(field: str, value: object) -> None:
    assert f"'{field}'" in refused(**{field: value}).what


def test_key_value_heads_that_do_not_divide_the_heads_are_refused() -> None:
    error = refused(num_key_value_heads=3)
    assert "'num_key_value_heads'" in error.what
    assert "8" in error.allowed


@pytest.mark.parametrize("field", ["tie_word_embeddings", "attention_bias", "mlp_bias", "use_sliding_window"])
def test_a_switch_that_is_no_switch_names_its_field(field: str) -> None:
    assert f"'{field}'" in refused(**{field: "yes"}).what


def test_what_is_not_modelled_yet_is_refused_and_not_left_out() -> None:
    assert "'use_sliding_window'" in refused(use_sliding_window=True).what
    assert "'torch_dtype'" in refused(torch_dtype="float8").what
    for quantised in ({"quant_method": "awq"}, {}, "fp8"):
        assert "quantization_config.quant_method" in refused(quantization_config=quantised).what
