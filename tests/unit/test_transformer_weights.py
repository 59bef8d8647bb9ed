"""Weights: groups that add up, shares that only fall with more ranks, and dtypes that a quantiser would give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nhalf.catalog import store
from nhalf.errors import InputError
from nhalf.transformer import BITS, WEIGHT_BYTES, WeightGroup

if TYPE_CHECKING:
    from nhalf.transformer import Transformer

MODELS = store.names("model")
RANKS = (1, 2, 4, 8, 16, 32, 64)


def model(name: str) -> Transformer:
    return store.transformer(name)[0]


def size(groups: tuple[WeightGroup, ...]) -> float:
    return sum(group.bytes for group in groups)


def dtypes(name: str) -> list[str]:
    held = BITS[model(name).weight_dtype]
    return [dtype for dtype, bits in BITS.items() if bits <= held]


# ------------------------------------------------------------------------------------------------------------ groups


@pytest.mark.parametrize("name", MODELS)
def test_groups_add_up_to_the_model_in_every_dtype(name: str) -> None:
    for dtype in (None, *dtypes(name)):
        groups = model(name).weights(dtype)
        assert sum(group.parameters for group in groups) == model(name).parameters
        assert len(groups) == len(set(groups))
        assert {group.dtype for group in groups} <= set(WEIGHT_BYTES)


@pytest.mark.parametrize("name", MODELS)
def test_more_ranks_never_hold_or_read_more_weight_each(name: str) -> None:
    for dtype in (None, *dtypes(name)):
        groups = model(name).weights(dtype)
        held = [sum(group.bytes * group.share(ranks) for group in groups) for ranks in RANKS]
        assert held == sorted(held, reverse=True)
        assert held[0] == pytest.approx(size(groups))
        copied = sum(group.bytes for group in groups if group.split == "none")
        assert held[-1] >= copied


@pytest.mark.parametrize("name", MODELS)
def test_embeddings_head_norms_and_router_keep_their_dtype(name: str) -> None:
    for dtype in (None, *dtypes(name)):
        kept = [g for g in model(name).weights(dtype) if g.name in {"embeddings", "output head", "norms", "router"}]
        expected = {dtype} if dtype in {"bf16", "fp16"} else {model(name).base_dtype}
        assert {group.dtype for group in kept} == expected
        assert {group.split for group in kept if group.name in {"norms", "router"}} == {"none"}


@pytest.mark.parametrize("name", MODELS)
def test_only_the_embedding_table_is_never_read_and_only_experts_are_routed(name: str) -> None:
    for group in model(name).weights():
        assert (group.read == "never") == (group.name == "embeddings")
        assert (group.read == "routed") == (group.split == "expert") == group.name.startswith("expert")
    assert any(group.name == "embeddings" for group in model(name).weights()) != model(name).tied_embeddings


@pytest.mark.parametrize("name", MODELS)
def test_the_weight_dtype_is_that_of_most_of_what_can_be_quantised(name: str) -> None:
    sums: dict[str, float] = {}
    for group in model(name).weights():
        if group.narrowest_bits < 16:
            sums[group.dtype] = sums.get(group.dtype, 0.0) + group.parameters
    assert max(sums, key=sums.__getitem__) == model(name).weight_dtype


# ------------------------------------------------------------------------------------------------------------ shares


def group(**changes: object) -> WeightGroup:
    values = {"name": "g", "parameters": 64.0, "dtype": "bf16", "split": "tensor", "read": "step"}
    return WeightGroup(**{**values, **changes})  # type: ignore[arg-type]


def test_a_group_is_split_copied_or_split_until_its_pieces_run_out() -> None:
    assert [group().share(ranks) for ranks in (1, 2, 8)] == [1.0, 0.5, 0.125]
    assert [group(split="expert").share(ranks) for ranks in (1, 2, 8)] == [1.0, 0.5, 0.125]
    assert [group(split="none").share(ranks) for ranks in (1, 2, 8)] == [1.0, 1.0, 1.0]
    assert [group(pieces=4).share(ranks) for ranks in (1, 4, 8)] == [1.0, 0.25, 0.25]


def test_key_and_value_projections_are_copied_where_ranks_outnumber_heads() -> None:
    qwen = model("qwen3-235b-a22b")  # 4 key-value heads
    (cached,) = [each for each in qwen.weights() if each.name == "attention keys and values"]
    assert cached.parameters == 94 * 2 * 4 * 128 * 4096
    assert cached.share(8) == cached.share(4) == 1 / 4


def test_latent_down_projections_and_the_indexer_are_on_every_rank() -> None:
    deepseek = model("deepseek-v3.2")
    copied: dict[str, float] = {}
    for each in deepseek.weights():
        if each.split == "none":
            copied[each.name] = copied.get(each.name, 0.0) + each.parameters
    assert copied["latent down-projections"] == 61 * 7168 * (1536 + 512 + 64)
    assert copied["indexer"] == 61 * (1536 * 64 * 128 + 7168 * 128 + 7168 * 64)
    assert copied["router"] == 58 * 7168 * 256


def test_scales_of_fp8_blocks_are_bytes_too() -> None:
    (experts,) = [each for each in model("deepseek-v3").weights() if each.name == "experts"]
    assert experts.bytes == experts.parameters * (1 + 4 / 128**2)
    assert group(dtype="fp8").bytes == 64.0


# ------------------------------------------------------------------------------------------------------------ dtypes


@pytest.mark.parametrize(
    ("base", "dtype", "checkpoint"),
    [
        ("deepseek-v3", "nvfp4", "deepseek-v3.1-nvfp4"),
        ("qwen3-235b-a22b", "nvfp4", "qwen3-235b-a22b-nvfp4"),
        ("llama-3.1-70b", "fp8", "llama-3.1-70b-fp8"),
    ],
)
def test_a_dtype_gives_what_a_published_checkpoint_of_it_holds(base: str, dtype: str, checkpoint: str) -> None:
    assert size(model(base).weights(dtype)) == pytest.approx(size(model(checkpoint).weights()), rel=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_the_checkpoints_own_dtype_changes_nothing(name: str) -> None:
    assert model(name).weights(model(name).weight_dtype) == model(name).weights()


@pytest.mark.parametrize("name", MODELS)
def test_a_narrower_dtype_is_never_heavier(name: str) -> None:
    for dtype in dtypes(name):
        if BITS[dtype] < BITS[model(name).weight_dtype]:
            assert size(model(name).weights(dtype)) < size(model(name).weights())


def test_four_bits_leave_the_latent_projections_alone() -> None:
    for each in model("deepseek-v3").weights("nvfp4"):
        if each.name.startswith("latent"):
            assert each.dtype == "bf16"
    assert {each.dtype for each in model("deepseek-v3").weights() if each.name.startswith("latent")} == {"fp8"}


def test_another_format_of_the_same_width_keeps_the_checkpoints_exceptions() -> None:
    kimi = model("kimi-k2.5")
    swapped = {each.name: each.dtype for each in kimi.weights("nvfp4")}
    assert swapped["experts"] == "nvfp4"
    assert swapped["attention"] == swapped["shared expert"] == swapped["feed-forward"] == "bf16"


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("deepseek-v3", "bf16"), ("gpt-oss-120b", "fp8"), ("gpt-oss-120b", "bf16"), ("kimi-k2.5", "int8")],
)
def test_a_dtype_wider_than_the_checkpoint_contradicts_it(name: str, dtype: str) -> None:
    with pytest.raises(InputError) as caught:
        model(name).weights(dtype)
    assert caught.value.where == "--weights"
    assert dtype in caught.value.what
    assert name in caught.value.what
    assert model(name).weight_dtype in caught.value.allowed
    assert dtype not in caught.value.allowed.split(", ")


def test_an_unknown_dtype_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError) as caught:
        model("llama-3.1-8b").weights("nvfp")
    assert caught.value.allowed == ", ".join(WEIGHT_BYTES)
    assert "nvfp4" in caught.value.do
