"""The decode step: one body for a number and an array, columns that add up, and sizes that are to be expected."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.tensor_group import message_bytes

import nhalf
from nhalf.breakdown import Term, audit, columns, shares, walk
from nhalf.decide.levers import elasticities
from nhalf.decide.regime import best
from nhalf.predict.step import COLUMNS

if TYPE_CHECKING:
    from nhalf.scenario import Scenario


@cache
def scenario(tp: int, **choices: Any) -> Scenario:  # noqa: ANN401  as nhalf.load
    model = choices.pop("model", "llama-3.1-70b")
    # The assumed constants: round numbers, which no calibration moves.
    return nhalf.load(model, on=choices.pop("on", "h100-sxm"), tp=tp, stack="priors", **choices)


def step_s(scenario: Scenario) -> float:
    return float(np.mean(nhalf.decode(scenario).value))


SERVING = {"isl": 1000, "osl": 200}
KINDS: list[dict[str, Any]] = [
    {"tp": tp, "batch": batch, "weights": weights, **more}
    for tp in (1, 2, 8, 16)
    for batch, weights, more in (
        (1, "bf16", {}),
        (1, "fp8", {"engine": "trtllm"}),
        (16, "nvfp4", {"on": "b200-sxm"}),
        (64, "fp8", SERVING),
        (8, "bf16", {"mode": "eager"}),
        (32, "bf16", {"library": "nccl", "mode": "host", "on": "a100-sxm"}),
        (4, "bf16", {"model": "qwen3-32b", "engine": "sglang"}),
        (512, "fp8", {"context": 4096, "kv": "fp8"}),
    )
]
NAMES = ["-".join(str(value) for value in kind.values()) for kind in KINDS]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=NAMES)


# ------------------------------------------------------------------------------------------------------- the tree


@every_kind
def test_the_columns_of_the_contract_add_up_to_the_step(kind: dict[str, Any]) -> None:
    step = nhalf.decode(scenario(**kind))
    owed = columns(step)
    assert set(owed) <= set(COLUMNS)
    assert sum(float(np.mean(value)) for value in owed.values()) == pytest.approx(step_s(scenario(**kind)), rel=1e-12)
    assert min(float(np.mean(value)) for value in owed.values()) >= 0


@every_kind
def test_no_number_of_the_step_is_but_what_its_formula_gives(kind: dict[str, Any]) -> None:
    step = nhalf.decode(scenario(**kind))
    assert audit(step) == []
    paths = [path for path, _ in walk(step)]
    assert len(paths) > 10


@every_kind
def test_every_share_of_the_step_lies_between_0_and_1(kind: dict[str, Any]) -> None:
    found = shares(nhalf.decode(scenario(**kind)))
    assert found["step"] == pytest.approx(1.0)
    for path, share in found.items():
        assert 0 <= float(np.mean(share)) <= 1 + 1e-12, path


@pytest.mark.parametrize("batch", [1, 64, 4096])
@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_one_device_pays_for_no_collective(batch: int, mode: str) -> None:
    step = nhalf.decode(scenario(1, batch=batch, mode=mode, weights="fp8", **SERVING))
    owed = columns(step)
    assert "collective_fixed" not in owed
    assert "collective_transfer" not in owed
    assert not [path for path, _ in walk(step) if "collective" in path]


def test_a_layer_pays_for_two_all_reduces_of_one_activation() -> None:
    assert message_bytes(scenario(8, batch=4)) == 8192 * 4 * 2
    terms: dict[str, Term] = dict(walk(nhalf.decode(scenario(8))))
    assert terms["step/collectives/all-reduce/collectives per pass"].value == 2 * 80


# --------------------------------------------------------------------------------------------------- array == scalar


@every_kind
def test_any_input_may_be_an_array(kind: dict[str, Any]) -> None:
    asked = scenario(**kind)
    for path, value in asked.inputs():
        if isinstance(value, int):  # a count of whole things: devices of a node
            continue
        values = np.array([0.5, 1.0, 2.0, 3.7]) * float(np.mean(value))
        together = nhalf.decode(asked.having({path: values}))
        alone = [step_s(asked.having({path: one})) for one in values.tolist()]
        np.testing.assert_allclose(np.broadcast_to(together.value, 4), alone, rtol=1e-12, err_msg=path)
        assert audit(together) == [], path


def test_all_inputs_may_be_arrays_at_once_and_broadcast() -> None:
    asked = scenario(16, batch=4, **SERVING)
    batches = np.array([1.0, 16.0, 256.0])[:, None, None]
    latencies = np.array([1e-6, 5e-6])[:, None]
    bandwidths = np.array([25e9, 50e9, 100e9, 200e9])
    tier = "system.fabric.inter_node"
    paths = ("workload.batch", f"{tier}.latency_s", f"{tier}.bandwidth_bytes_per_s")
    step = nhalf.decode(asked.having(dict(zip(paths, (batches, latencies, bandwidths), strict=True))))
    together = np.asarray(step.value)
    assert together.shape == (3, 2, 4)
    for index in np.ndindex(together.shape):
        i, j, k = index
        one = asked.having(dict(zip(paths, (batches[i, 0, 0], latencies[j, 0], bandwidths[k]), strict=True)))
        assert together[index] == pytest.approx(step_s(one), rel=1e-12)
    owed = sum((np.broadcast_to(value, together.shape) for value in columns(step).values()), np.zeros(together.shape))
    np.testing.assert_allclose(owed, together, rtol=1e-12)
    assert audit(step) == []


def test_a_sweep_may_hold_requests_that_arrive_and_a_batch_that_stays() -> None:
    asked = scenario(8, batch=4, **SERVING)
    together = nhalf.decode(asked.having({"workload.output_tokens": np.array([0.0, 200.0])}))
    alone = [step_s(asked.having({"workload.output_tokens": one})) for one in (0.0, 200.0)]
    np.testing.assert_allclose(np.asarray(together.value), alone, rtol=1e-12)


# ------------------------------------------------------------------------------------------- what is to be expected


# The sizes leave out what bytes of collectives, the gathered logits and copied key-value projections add, and
# what quantising activations takes.
@pytest.mark.parametrize(
    ("weights", "tp", "expected_ms"), [("fp8", 8, 7.3), ("fp8", 16, 10.3), ("bf16", 8, 10.9), ("bf16", 16, 12.1)]
)
def test_the_priors_give_the_order_of_size(weights: str, tp: int, expected_ms: float) -> None:
    asked = scenario(tp, weights=weights).having({"stack.quantised_input_layer_factor": 0.0})
    assert step_s(asked) * 1e3 == pytest.approx(expected_ms, rel=0.05)


def test_the_fastest_layouts_are_a_set() -> None:
    degrees = (1, 2, 4, 8, 16)
    fp8, bf16 = ([step_s(scenario(tp, weights=weights)) for tp in degrees] for weights in ("fp8", "bf16"))
    assert [degrees[index] for index in best([*fp8])] == [8]
    assert [degrees[index] for index in best([*bf16])] == [8]


def test_doubling_the_nics_hardly_changes_a_step_across_nodes() -> None:
    asked = scenario(16, weights="bf16")
    path = "system.fabric.inter_node.bandwidth_bytes_per_s"
    assert asked.value(path) == 50e9
    change = 1 - step_s(asked.having({path: 100e9})) / step_s(asked)
    assert 0 < change < 0.02


def test_halving_the_latency_between_nodes_saves_half_of_its_share() -> None:
    asked = scenario(16, weights="bf16")
    path = "system.fabric.inter_node.latency_s"
    saved = 1 - step_s(asked.having({path: asked.value(path) / 2})) / step_s(asked)
    share = 2 * 80 * 2 * 5e-6 / step_s(asked)  # 160 collectives, up and down one link between nodes of 5 us
    assert elasticities(asked)[path] == pytest.approx(share, rel=0.1)
    assert saved == pytest.approx(share / 2, rel=0.1)


@pytest.mark.parametrize("tp", [1, 8, 16])
def test_more_of_what_is_slow_never_helps(tp: int) -> None:
    asked = scenario(tp, batch=16, weights="fp8", **SERVING)
    for path, better in (
        ("system.device.memory_bandwidth_bytes_per_s", 2.0),
        ("system.device.bf16_flop_per_s", 2.0),
        ("stack.memory_efficiency", 1.2),
        ("stack.layer_time_s", 0.5),
        ("stack.collective_excess_s", 0.5),
        ("stack.software_factor", 0.5),
        ("workload.context_tokens", 0.5),
    ):
        assert step_s(asked.having({path: asked.value(path) * better})) <= step_s(asked) * (1 + 1e-12), path


def test_work_is_split_over_the_ranks_and_copied_cache_heads_are_not() -> None:
    owed = {tp: columns(nhalf.decode(scenario(tp, batch=16))) for tp in (1, 2, 8, 16)}
    for tp in (2, 8):  # norms, a part in 10^5, are on every rank
        assert owed[tp]["weights"] == pytest.approx(np.asarray(owed[1]["weights"]) / tp, rel=1e-3)
    copied = 80 * 2 * 1024 * 8192 * 2 / 8  # beyond 8 ranks, ranks hold the same key and value projections
    scale = 0.72 * 3.35e12
    split = (np.asarray(owed[8]["weights"]) * scale - copied) / 2 + copied
    assert np.asarray(owed[16]["weights"]) * scale == pytest.approx(split, rel=1e-3)
    assert owed[8]["kv"] == pytest.approx(np.asarray(owed[1]["kv"]) / 8)
    assert owed[16]["kv"] == pytest.approx(owed[8]["kv"])  # 8 key-value heads


def test_weights_of_llama_70b_take_the_time_of_their_bytes() -> None:
    # 68.45 G in layers and 1.05 G in the output projection, 2 bytes each, at 0.72 of 3.35 TB/s.
    read = 2 * (68_452_352_000 + 128_256 * 8192)
    owed = columns(nhalf.decode(scenario(1, weights="bf16")))
    assert owed["weights"] == pytest.approx(read / (0.72 * 3.35e12), rel=1e-4)


def test_large_batches_are_bound_by_arithmetic() -> None:
    owed = columns(nhalf.decode(scenario(8, batch=4096, weights="bf16", context=1)))
    assert max(owed, key=lambda name: float(np.mean(owed[name]))) in ("compute", "collective_transfer")
    assert np.all(np.asarray(owed["compute"]) > 0)
    assert columns(nhalf.decode(scenario(8, batch=1)))["compute"] == 0.0


def test_an_eager_engine_waits_for_its_host_where_that_is_slower() -> None:
    graph, eager = scenario(8), scenario(8, mode="eager")
    slow = eager.having({"stack.host_launch_s": 1e-3})
    assert step_s(slow) == pytest.approx(80 * 12 * 1e-3)
    fast = eager.having({"stack.host_launch_s": 1e-9})
    assert columns(nhalf.decode(fast))["launch"] == pytest.approx(columns(nhalf.decode(graph))["launch"])
    assert "step/host" in shares(nhalf.decode(slow))
