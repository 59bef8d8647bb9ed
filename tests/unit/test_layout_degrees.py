"""Degrees of every kind of parallelism: which are legal, where their groups lie, what they hold, and what they cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nhalf
from nhalf.breakdown import columns, walk
from nhalf.catalog import store
from nhalf.decide.comparison import compare
from nhalf.errors import InputError
from nhalf.layout import Layout, check
from nhalf.predict.exchange import exchanges
from nhalf.predict.layer import tokens
from nhalf.predict.memory import memory

H100 = store.system("h100-sxm")[0].fabric


def load(model: str = "llama-3.1-70b", on: str = "h100-sxm", **choices: Any) -> nhalf.Scenario:  # noqa: ANN401
    return nhalf.load(model, on=on, **choices)


def owed(scenario: nhalf.Scenario) -> dict[str, float]:
    return {name: float(np.mean(value)) for name, value in columns(nhalf.decode(scenario)).items()}


# ----------------------------------------------------------------------------------------------------------- legality


@pytest.mark.parametrize(
    ("model", "layout", "where", "parts"),
    [
        ("mixtral-8x7b", {"tensor_parallel": 8, "expert_parallel": 16}, "--ep", ["8 experts", "1, 2, 4, 8"]),
        ("mixtral-8x7b", {"tensor_parallel": 8, "expert_parallel": 3}, "--ep", ["8 experts"]),
        ("mixtral-8x7b", {"tensor_parallel": 2, "expert_parallel": 4}, "--ep", ["= 2 devices", "1, 2"]),
        ("mixtral-8x7b", {"expert_parallel": 0}, "--ep", ["below 1"]),
        ("llama-3.1-8b", {"expert_parallel": 2}, "--ep", ["no experts"]),
        ("llama-3.1-8b", {"attention_dp": 2}, "--attention-dp", ["no experts", "--replicas"]),
        ("llama-3.1-8b", {"pipeline_parallel": 33}, "--pp", ["32 layers", "Allowed: 1 to 32."]),
        ("llama-3.1-8b", {"pipeline_parallel": 0}, "--pp", ["below 1"]),
        ("llama-3.1-8b", {"context_parallel": 0}, "--cp", ["below 1"]),
        ("llama-3.1-8b", {"tensor_parallel": 4, "context_parallel": 3}, "--cp", ["whole nodes of 8", "1, 2, 4"]),
        ("llama-3.1-8b", {"tensor_parallel": 3}, "--tp", ["32 attention heads"]),
        ("qwen3-30b-a3b", {"attention_dp": 12}, "--attention-dp", ["whole nodes"]),
    ],
    ids=str,
)
def test_a_layout_that_cannot_be_is_refused(model: str, layout: dict[str, Any], where: str, parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        check(Layout(**layout), store.transformer(model)[0], H100)
    assert caught.value.where == where
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("model", "layout"),
    [
        ("mixtral-8x7b", {"tensor_parallel": 8, "expert_parallel": 8}),
        ("mixtral-8x7b", {"tensor_parallel": 8, "expert_parallel": 2, "pipeline_parallel": 4}),
        ("deepseek-r1", {"attention_dp": 32, "expert_parallel": 32}),
        ("llama-3.1-8b", {"tensor_parallel": 2, "context_parallel": 3}),
        ("llama-3.1-405b", {"tensor_parallel": 8, "pipeline_parallel": 7, "context_parallel": 2}),
    ],
    ids=str,
)
def test_a_layout_that_can_be_is_let_through(model: str, layout: dict[str, Any]) -> None:
    check(Layout(**layout), store.transformer(model)[0], H100)


@pytest.mark.parametrize(
    ("model", "weights"),
    [("llama-3.1-70b-fp8", "bf16"), ("deepseek-r1-nvfp4", "fp8"), ("gpt-oss-120b", "bf16"), ("deepseek-r1", "bf16")],
)
def test_weights_wider_than_the_checkpoint_contradict_it(model: str, weights: str) -> None:
    with pytest.raises(InputError, match="wider than") as caught:
        load(model, tp=8, weights=weights)
    assert caught.value.where == "weights"


# ---------------------------------------------------------------------------------------------------------- placement


def test_groups_lie_on_the_tiers_that_their_strides_reach() -> None:
    layout = Layout(tensor_parallel=4, context_parallel=4)
    assert layout.tensor_group.span(H100).nodes == 1
    assert layout.context_group.span(H100).nodes == 2
    assert layout.context_group.span(H100).rails == 8 / 4  # four groups share the NICs
    assert Layout(tensor_parallel=8, context_parallel=2).context_group.span(H100).nodes == 2


def test_stage_boundaries_cross_where_nodes_end() -> None:
    assert Layout(tensor_parallel=8, pipeline_parallel=4).crossing_boundaries(H100) == 3
    assert Layout(tensor_parallel=4, pipeline_parallel=4).crossing_boundaries(H100) == 1
    assert Layout(tensor_parallel=2, pipeline_parallel=4).crossing_boundaries(H100) == 0


def test_tensor_parallelism_over_a_node_pays_the_slow_link_and_says_so() -> None:
    inside, across = (compare([load(tp=tp)]).rows[0] for tp in (8, 16))
    assert (inside.nodes, across.nodes) == (1, 2)
    assert across.crosses_nodes
    assert across.columns["collective_fixed"] > 2 * inside.columns["collective_fixed"]
    assert inside.split is None
    assert across.split is not None
    assert (across.split.nodes, across.split.count) == (2, 160)
    assert across.split.across_s > 2 * across.split.inside_s
    assert 0 < across.split.cost_s < across.step_s


def test_the_article_sends_sparse_traffic_over_the_slow_link() -> None:
    tensor, stages = owed(load(tp=16)), owed(load(tp=8, pp=2))
    between = [sum(each.get(name, 0.0) for name in ("collective_fixed", "collective_transfer", "hand_over"))
               for each in (tensor, stages)]  # fmt: skip
    assert between[1] < between[0] / 2
    assert 0 < stages["hand_over"] < 50e-6


# -------------------------------------------------------------------------------------------------- what a degree does


def test_context_parallelism_reads_a_part_of_the_cache_and_pays_an_all_reduce() -> None:
    one, four = load(tp=2, context=131072, batch=4), load(tp=2, cp=4, context=131072, batch=4)
    assert owed(four)["kv"] == pytest.approx(owed(one)["kv"] / 4)
    assert owed(four)["weights"] == owed(one)["weights"]
    names = [each.name for each in exchanges(four, tokens(four))]
    assert names == ["all-reduce", "context all-reduce"]


def test_attention_data_parallelism_splits_sequences_and_copies_attention() -> None:
    tensor = load("deepseek-r1", "h200-sxm", tp=8, ep=8, batch=64)
    data = load("deepseek-r1", "h200-sxm", attention_dp=8, ep=8, batch=64)
    assert owed(data)["kv"] == pytest.approx(owed(tensor)["kv"] / 8)  # a latent is not split by heads
    assert owed(data)["weights"] > 4 * owed(tensor)["weights"]
    assert owed(data)["experts"] == pytest.approx(owed(tensor)["experts"])
    assert [each.name for each in exchanges(data, tokens(data))] == ["expert all-gather", "expert reduce-scatter"]


def test_replicas_are_more_devices_with_the_same_step() -> None:
    one, three = (compare([load(tp=4, batch=8, replicas=count)]).rows[0] for count in (None, 3))
    assert three.step_s == one.step_s
    assert three.layout_name == "TP4 x3"
    assert three.scenario.layout.devices == 4
    with pytest.raises(InputError, match="whole number"):
        load(tp=4, replicas=0)


# -------------------------------------------------------------------------------------------------------------- memory


def test_memory_is_weights_cache_and_workspace() -> None:
    found = memory(load(tp=8, batch=16, context=2048))
    assert found.weights_bytes == pytest.approx(2 * 70.55e9 / 8, rel=0.01)
    assert found.cache_bytes == 16 * 2048 * 80 * 2 * 128 * 2
    assert found.workspace_bytes == 3e9
    free = 0.9 * load().system.device.memory_bytes - found.weights_bytes - found.workspace_bytes
    assert found.largest_batch == np.floor(free / (found.cache_bytes / 16))
    assert memory(load("llama-3.1-405b", tp=1)).largest_batch == 0


def test_a_serving_batch_is_capped_by_the_cache_and_fits() -> None:
    (row,) = compare([load(tp=2, batch=512, isl=3000, osl=1000, weights="fp8")]).rows
    room = memory(load(tp=2, batch=512, isl=3000, osl=1000, weights="fp8")).largest_batch
    assert room < 512
    assert np.floor(row.running) == room
    assert row.fits_memory == "yes"
    assert row.memory.cache_bytes < row.memory.usable_bytes
    assert row.tokens_per_s == pytest.approx(row.running / row.step_s)
    (plain,) = compare([load(tp=2, batch=512, context=4000, weights="fp8")]).rows
    assert (plain.running, plain.fits_memory) == (512, "no")


def test_the_head_and_the_stage_are_in_the_tree() -> None:
    terms = dict(walk(nhalf.decode(load(tp=2, pp=4, batch=8))))
    assert terms["step/pipeline/pipeline slots"].value == 4
    assert "step/boundaries between nodes" not in terms
    assert terms["step/boundaries inside a node/boundaries"].value == 3
