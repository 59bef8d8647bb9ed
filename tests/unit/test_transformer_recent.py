"""Families of 2026: compressed caches, shared indexers, delta attention, and layers of two shapes."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

import nhalf
from nhalf.breakdown import walk
from nhalf.catalog import store
from nhalf.errors import InputError
from nhalf.transformer import Transformer, from_config


def shipped(name: str, **changes: object) -> Transformer:
    """Return a built-in model with some fields of its config changed."""
    config = json.loads((files("nhalf.catalog") / "data" / "models" / f"{name}.json").read_text(encoding="utf-8"))
    config.get("text_config", config).update(changes)
    return from_config(config, name=name, where="config.json")


def dtypes(name: str) -> dict[str, set[str]]:
    """Return the dtypes of each group of a built-in model's weights."""
    found: dict[str, set[str]] = {}
    for group in store.transformer(name)[0].groups:
        found.setdefault(group.name, set()).add(group.dtype)
    return found


def test_deepseek_v4_keeps_its_experts_in_four_bits_and_the_rest_in_eight() -> None:
    found = dtypes("deepseek-v4-pro")
    assert found["experts"] == {"mxfp4"}
    assert found["shared expert"] == found["attention"] == found["latent up-projections"] == {"fp8"}
    assert found["compressor"] == found["router"] == found["output head"] == {"bf16"}


def test_kimi_k3_quantises_nothing_but_the_routed_experts() -> None:
    found = dtypes("kimi-k3")
    assert {name for name, each in found.items() if "mxfp4" in each} == {"experts"}
    assert found["latent projections"] == {"bf16"}  # as its weight files have them


def test_mimo_leaves_the_output_projections_alone() -> None:
    assert dtypes("mimo-v2-flash")["attention"] == {"fp8", "bf16"}


@pytest.mark.parametrize("context", [1024, 65536])
def test_a_compressed_cache_is_read_as_its_entries_and_the_last_tokens(context: int) -> None:
    # By hand, with one byte per element: 21 layers read at most 512 entries of 512 and the index keys of all tokens,
    # 20 read an entry for 128 tokens, both the last 128 tokens besides, and 2 the last 128 tokens alone.
    chosen = min(context / 4, 512) * 512 + 128 * 512 + context / 4 * 132
    whole = context / 128 * 512 + 128 * 512
    answer = nhalf.decode("deepseek-v4-flash", on="b200-sxm", tp=4, batch=1, context=context, kv="fp8")
    read = next(term.value for _, term in walk(answer.step) if term.name == "cache bytes")
    assert read == pytest.approx(21 * chosen + 20 * whole + 2 * 128 * 512)


def test_layers_that_share_an_indexer_keep_no_index_keys() -> None:
    model = store.transformer("glm-5.2")[0]
    kinds = {part.name: part for part in model.cache_parts()}
    shared = kinds["sparse latent attention, index shared"]
    assert (shared.layer_count, shared.attention.index_bytes, shared.attention.index_flop) == (57, 0.0, 0.0)
    assert shared.attention.read_limit == kinds["sparse latent attention"].attention.read_limit == 2048
    assert model.sparse_layer_count == model.mla_layer_count == 78


def test_step_has_more_heads_where_it_has_a_window() -> None:
    full, near = (part.attention for part in store.transformer("step-3.7-flash")[0].cache_parts())
    assert (full.heads, full.read_limit, near.heads, near.read_limit) == (64, None, 96, 512)


def test_minimax_m3_reads_blocks_but_for_its_first_layers() -> None:
    model = store.transformer("minimax-m3")[0]
    assert [(part.layer_count, part.attention.read_limit) for part in model.cache_parts()] == [(3, None), (57, 2048)]


@pytest.mark.parametrize(
    ("name", "changes", "field"),
    [
        ("deepseek-v4-flash", {"compress_ratios": [0, 4]}, "compress_ratios"),
        ("deepseek-v4-flash", {"compress_ratios": [-4] * 43}, "compress_ratios"),
        ("glm-5.2", {"indexer_types": ["half"] * 78}, "indexer_types"),
        ("glm-5.2", {"indexer_types": None}, "indexer_types"),
        ("mimo-v2-flash", {"hybrid_layer_pattern": [1]}, "hybrid_layer_pattern"),
        ("mimo-v2-flash", {"enable_dsa": True}, "enable_dsa"),
        ("step-3.7-flash", {"layer_types": ["other"] * 45}, "layer_types"),
        ("step-3.7-flash", {"attention_other_setting": None}, "attention_other_setting"),
        ("minimax-m3", {"sparse_attention_config": None}, "sparse_attention_config"),
        ("kimi-k3", {"linear_attn_config": None}, "linear_attn_config"),
        ("kimi-k3", {"num_experts_per_token": 1000}, "num_experts_per_token"),
    ],
)
def test_a_field_that_is_wrong_is_named(name: str, changes: dict[str, object], field: str) -> None:
    with pytest.raises(InputError, match=field):
        shipped(name, **changes)


def test_experts_in_another_format_beside_fp8_are_refused() -> None:
    with pytest.raises(InputError, match="fp6"):
        shipped("deepseek-v4-flash", expert_dtype="fp6")
