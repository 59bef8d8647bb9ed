"""Descriptions: the TOML form for architectures that no reader knows, equal to what the readers make of a config."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from nhalf.catalog import store
from nhalf.errors import InputError
from nhalf.transformer import Transformer, from_description

LLAMA = """
name = "mine"
hidden_size = 8192
vocabulary_size = 128_256

[[layers]]
count = 80
attention = {kind = "grouped", heads = 64, kv_heads = 8, head_dim = 128}
feed_forward = {kind = "gated", width = 28_672}
"""
DEEPSEEK = """
name = "mine"
hidden_size = 7168
vocabulary_size = 129_280
weights = "fp8"

[[layers]]
count = 3
feed_forward = {kind = "gated", width = 18_432}
[layers.attention]
kind = "latent"
heads = 128
query_rank = 1536
latent = 512
rope_dim = 64
nope_dim = 128
value_dim = 128

[[layers]]
count = 58
feed_forward = {kind = "experts", experts = 256, chosen = 8, width = 2048, shared_width = 2048}
[layers.attention]
kind = "latent"
heads = 128
query_rank = 1536
latent = 512
rope_dim = 64
nope_dim = 128
value_dim = 128
"""
HYBRID = """
name = "mine"
hidden_size = 64
vocabulary_size = 100
tied_embeddings = true
kv = "fp8"
weights = {experts = "mxfp4", feed_forward = "fp8"}

[[layers]]
count = 2
attention = {kind = "state-space", heads = 8, head_dim = 8, groups = 2, state_size = 16, kernel = 4, state = "fp32"}

[[layers]]
count = 1
attention = {kind = "linear", heads = 8, key_heads = 4, key_dim = 8, value_dim = 8, kernel = 4}
feed_forward = {kind = "plain", width = 96}

[[layers]]
count = 3
attention = {kind = "grouped", heads = 8, kv_heads = 2, head_dim = 8, window = 128}
feed_forward = {kind = "experts", experts = 8, chosen = 2, width = 20, gated = false}
"""


def read(text: str) -> Transformer:
    return from_description(tomllib.loads(text), where="mine.toml")


def refused(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read(text)
    assert caught.value.where == "mine.toml"
    return caught.value


def test_a_description_of_a_known_model_is_that_model() -> None:
    mine, known = read(LLAMA), store.transformer("llama-3.1-70b")[0]
    assert mine.weights() == known.weights()
    assert (mine.name, mine.layers, mine.parameters) == ("mine", known.layers, known.parameters)
    assert (mine.weight_dtype, mine.kv_dtype, mine.left_out) == ("bf16", "bf16", ())


def test_a_description_of_latent_attention_and_experts_is_that_of_deepseek() -> None:
    mine, known = read(DEEPSEEK), store.transformer("deepseek-v3")[0]
    assert mine.parameters == known.parameters - 58 * 256  # but for the correction of the router
    assert mine.active_parameters == known.active_parameters - 58 * 256
    assert mine.kv_bytes() == known.kv_bytes()
    assert mine.weight_dtype == "fp8"
    assert mine.mixture is not None
    assert known.mixture is not None
    assert mine.mixture.expert_parameters == known.mixture.expert_parameters


def test_every_kind_of_block_can_be_described() -> None:
    model = read(HYBRID)
    kinds = ["state space", "linear attention", "sliding-window attention"]
    assert [part.name for part in model.cache_parts()] == kinds
    assert [part.layer_count for part in model.cache_parts()] == [2, 1, 3]
    assert (model.layer_count, model.block_count, model.moe_layer_count) == (6, 2 + 2 + 6, 3)
    assert model.norm_parameters == (2 + 2 + 6 + 1) * 64
    assert model.tied_embeddings
    assert model.kv_dtype == "fp8"
    assert model.kv_elements(1) == 3 * 2 * 2 * 8
    dtypes = {group.name: group.dtype for group in model.weights()}
    assert dtypes["experts"] == model.weight_dtype == "mxfp4"
    assert dtypes["feed-forward"] == "fp8"
    assert dtypes["attention"] == dtypes["state space"] == dtypes["router"] == "bf16"
    assert sum(group.parameters for group in model.weights()) == model.parameters


def test_an_indexer_makes_latent_attention_sparse() -> None:
    sparse = DEEPSEEK.replace(
        "value_dim = 128\n", "value_dim = 128\nindex_heads = 64\nindex_dim = 128\nindex_tokens = 2048\n"
    )
    assert read(sparse).sparse_layer_count == 61
    assert read(sparse).kv_bytes() == store.transformer("deepseek-v3.2")[0].kv_bytes()
    assert "'layers[0].attention.index_tokens'" in refused(sparse.replace("index_tokens = 2048", "")).what


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('name = "mine"', "", "name"),
        ('name = "mine"', "name = 7", "name"),
        ("hidden_size = 8192", "", "hidden_size"),
        ("vocabulary_size = 128_256", "vocabulary_size = 0", "vocabulary_size"),
        ("vocabulary_size = 128_256", "vocabulary_size = 1\nvocab_size = 2", "vocab_size"),
        ("vocabulary_size = 128_256", 'vocabulary_size = 1\nweights = "fp7"', "weights"),
        ("vocabulary_size = 128_256", 'vocabulary_size = 1\nweights = {head = "fp8"}', "weights.head"),
        ("vocabulary_size = 128_256", 'vocabulary_size = 1\nweights = {experts = "fp7"}', "weights.experts"),
        ("vocabulary_size = 128_256", 'vocabulary_size = 1\nkv = "nvfp4"', "kv"),
        ("[[layers]]", "[[layer]]", "layer"),
        ("count = 80", "", "layers[0].count"),
        ("count = 80", "count = 1.5", "layers[0].count"),
        ("count = 80", "count = 1_000_000_000", "layers[0].count"),
        ("count = 80", "count = 80\nfeed_foward = 1", "layers[0].feed_foward"),
        ('kind = "grouped", ', "", "layers[0].attention.kind"),
        ('kind = "grouped"', 'kind = "groupd"', "layers[0].attention.kind"),
        ('kind = "gated"', 'kind = "dense"', "layers[0].feed_forward.kind"),
        ("kv_heads = 8", "kv_heads = 7", "layers[0].attention.kv_heads"),
        ("head_dim = 128", "head_size = 128", "layers[0].attention.head_size"),
        ("width = 28_672", "width = -1", "layers[0].feed_forward.width"),
    ],
)
def test_a_field_that_is_missing_wrong_or_unknown_is_named(old: str, new: str, field: str) -> None:
    assert old in LLAMA
    error = refused(LLAMA.replace(old, new))
    assert f"'{field}'" in error.what
    assert error.allowed


def test_more_chosen_experts_than_there_are_is_refused() -> None:
    assert "chosen" in refused(DEEPSEEK.replace("chosen = 8", "chosen = 257")).what


def test_a_layer_without_any_block_is_refused() -> None:
    assert "neither" in refused(LLAMA.partition("attention")[0]).what


def test_layers_are_a_list_of_tables() -> None:
    table: dict[str, Any] = {"name": "m", "hidden_size": 8, "vocabulary_size": 8, "layers": {"count": 1}}
    with pytest.raises(InputError, match="'layers'"):
        from_description(table, where="mine.toml")
    with pytest.raises(InputError, match=r"'layers\[0\]'"):
        from_description({**table, "layers": [7]}, where="mine.toml")
