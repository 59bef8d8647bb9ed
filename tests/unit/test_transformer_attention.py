"""Attention: what a rank caches, keeps and computes, and which degrees can split it."""

from __future__ import annotations

import pytest

from nhalf.catalog import store
from nhalf.transformer import (
    Attention,
    CachePart,
    GroupedQueryAttention,
    Indexer,
    LatentAttention,
    LinearAttention,
    StateSpace,
)

GROUPED = GroupedQueryAttention(heads=64, kv_heads=8, head_dim=128)
WINDOWED = GroupedQueryAttention(heads=64, kv_heads=8, head_dim=64, window=128)
LATENT = LatentAttention(heads=128, query_rank=1536, latent=512, rope_dim=64, nope_dim=128, value_dim=128)
SPARSE = LatentAttention(
    heads=128, query_rank=1536, latent=512, rope_dim=64, nope_dim=128, value_dim=128,
    indexer=Indexer(heads=64, head_dim=128, tokens=2048),
)  # fmt: skip
LINEAR = LinearAttention(heads=48, key_heads=16, key_dim=128, value_dim=128, kernel=4)
MAMBA = StateSpace(heads=64, head_dim=64, groups=8, state=128, kernel=4, state_dtype="fp32")
ALL: list[Attention] = [GROUPED, WINDOWED, LATENT, SPARSE, LINEAR, MAMBA]


@pytest.mark.parametrize("attention", ALL, ids=lambda attention: attention.kind)
def test_more_ranks_never_cache_keep_or_compute_more_each(attention: Attention) -> None:
    for few, many in ((1, 2), (2, 4), (4, 8), (8, 16)):
        assert attention.kv_elements(many) <= attention.kv_elements(few)
        assert attention.state_bytes(many) <= attention.state_bytes(few)
        assert attention.score_flop(many) <= attention.score_flop(few)
        assert attention.kv_elements(many) * many >= attention.kv_elements(few) * few


@pytest.mark.parametrize("attention", ALL, ids=lambda attention: attention.kind)
@pytest.mark.parametrize("ranks", [1, 2, 4, 8, 16])
def test_copies_are_what_ranks_hold_together_beyond_one_cache(attention: Attention, ranks: int) -> None:
    together = attention.kv_elements(ranks) * ranks
    assert together == attention.kv_elements(1) * attention.copies(ranks)


def test_each_kind_has_its_own_name() -> None:
    assert len({attention.kind for attention in ALL}) == len(ALL)


def test_a_window_bounds_reading_and_keeping_and_an_indexer_reading_only() -> None:
    assert (GROUPED.read_limit, GROUPED.kept_limit) == (None, None)
    assert (WINDOWED.read_limit, WINDOWED.kept_limit) == (128, 128)
    assert (LATENT.read_limit, LATENT.kept_limit) == (None, None)
    assert (SPARSE.read_limit, SPARSE.kept_limit) == (2048, None)


def test_score_flop_are_multiplications_and_additions_of_scores_and_values() -> None:
    assert GROUPED.score_flop(1) == GROUPED.prompt_score_flop(1) == 2 * 2 * 64 * 128
    assert GROUPED.score_flop(8) == 2 * 2 * 8 * 128
    assert LATENT.score_flop(8) == 2 * 16 * (512 + 64 + 512)
    assert LATENT.prompt_score_flop(8) == 2 * 16 * (128 + 64 + 128)
    assert SPARSE.prompt_score_flop(8) == SPARSE.score_flop(8) == LATENT.score_flop(8)
    assert LINEAR.score_flop(1) == MAMBA.score_flop(1) == 0


def test_an_indexer_scores_with_every_head_on_every_rank() -> None:
    assert SPARSE.index_flop == 2 * 64 * 128
    assert (SPARSE.index_elements, SPARSE.index_bytes) == (128, 128 + 4)
    assert [LATENT.index_flop, LATENT.index_elements, LATENT.index_bytes, GROUPED.index_flop] == [0, 0, 0, 0]


def test_a_state_has_a_matrix_for_each_head_and_the_last_inputs() -> None:
    channels = 2 * 16 * 128 + 48 * 128
    assert LINEAR.state_elements(1) == 48 * 128 * 128 + channels * 3
    assert LINEAR.state_bytes(4) == (4 * 48 * 128 * 128 + 2 * channels * 3) / 4
    assert MAMBA.state_elements(1) == 64 * 64 * 128 + (64 * 64 + 2 * 8 * 128) * 3
    # with more ranks than groups, each rank keeps the inputs of one whole group
    assert MAMBA.state_elements(16) == 64 * 64 * 128 / 16 + (64 * 64 / 16 + 2 * 128) * 3
    assert GROUPED.state_elements(1) == LATENT.state_bytes(1) == 0


@pytest.mark.parametrize(
    ("attention", "legal", "reasons"),
    [
        (GROUPED, [1, 2, 4, 8, 16, 32, 64], {3: "64 attention heads", 128: "64 attention heads"}),
        (GroupedQueryAttention(heads=48, kv_heads=8, head_dim=128), [1, 2, 4, 8, 16, 24, 48],
         {3: "8 key-value heads", 5: "48 attention heads"}),
        (LATENT, [1, 2, 4, 8, 16, 32, 64, 128], {12: "128 attention heads"}),
        (LINEAR, [1, 2, 4, 8, 16], {3: "16 key heads", 32: "16 key heads"}),
        (MAMBA, [1, 2, 4, 8, 16, 32, 64], {6: "64 state-space heads"}),
        (StateSpace(heads=24, head_dim=4, groups=8, state=4, kernel=4), [1, 2, 4, 8, 24], {12: "8 state-space groups"}),
    ],
)  # fmt: skip
def test_a_degree_is_refused_with_the_reason(attention: Attention, legal: list[int], reasons: dict[int, str]) -> None:
    assert [ranks for ranks in range(1, 129) if not attention.refusal(ranks)] == legal
    for ranks, reason in reasons.items():
        assert reason in attention.refusal(ranks)


@pytest.mark.parametrize("name", store.names("model"))
def test_cache_parts_are_the_distinct_kinds_of_a_model(name: str) -> None:
    model = store.transformer(name)[0]
    parts = model.cache_parts()
    assert len({part.attention for part in parts}) == len(parts)
    assert all(isinstance(part, CachePart) and part.name == part.attention.kind for part in parts)
    attending = sum(layer.count for layer in model.layers if layer.attention is not None)
    assert sum(part.layer_count for part in parts) == attending
    for ranks in (1, 8):
        counted = sum(part.layer_count * part.attention.kv_elements(ranks) for part in parts)
        assert model.kv_elements(ranks) == counted
