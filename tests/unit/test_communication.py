"""Communication in a step: which curve is found, and what a what-if on a link does to it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.tensor_group import all_reduce, is_measured, measured_curve

import nhalf
from nhalf.breakdown import Array, audit, columns
from nhalf.collective import Op
from nhalf.laws import selection
from nhalf.laws.across_nodes import across_nodes, place

if TYPE_CHECKING:
    from nhalf.scenario import Scenario

SIZES = 2.0 ** np.arange(6, 28.01, 0.25)
"""64 B to 256 MiB: a token of one stream, up to a prompt of 16 thousand tokens."""
LINK_VALUES = [f"system.fabric.{tier}.{name}" for tier in ("intra_node", "inter_node")
               for name in ("latency_s", "bandwidth_bytes_per_s")]  # fmt: skip
SYSTEMS = ("a100-sxm", "h100-sxm", "h200-sxm", "b200-sxm")


@cache
def scenario(tp: int, **choices: Any) -> Scenario:  # noqa: ANN401  as nhalf.load
    return nhalf.load("llama-3.1-70b", on=choices.pop("on", "h100-sxm"), tp=tp, **choices)


def times(scenario: Scenario) -> Array:
    return np.asarray(all_reduce(scenario, SIZES).value)


def law(scenario: Scenario) -> Array:
    span = scenario.system.fabric.span(scenario.layout.tensor_parallel)
    return np.asarray(selection.all_reduce(SIZES, span, scenario.stack.library).value)


# ------------------------------------------------------------------------------------------------- what was measured


@pytest.mark.parametrize(
    ("tp", "choices", "measured"),
    [
        (1, {}, False),  # nobody to talk to
        (2, {}, True),
        (8, {}, True),
        (16, {}, False),  # across nodes nothing was measured, and no other machine's table is borrowed
        (8, {"engine": "trtllm"}, True),
        (8, {"mode": "eager"}, True),
        (8, {"library": "nccl"}, False),  # there are no NCCL-in-a-graph curves
        (8, {"library": "nccl", "mode": "host"}, True),
    ],
)
def test_a_curve_is_taken_only_at_its_own_key(tp: int, choices: dict[str, str], measured: bool) -> None:  # noqa: FBT001
    asked = scenario(tp, **choices)
    assert is_measured(asked) == measured
    curve = measured_curve(asked)
    assert (curve is not None) == measured
    if curve is not None:
        assert curve.key.library == asked.stack.library.name
        assert curve.key.mode == asked.stack.mode
        assert curve.key.system == "h100-sxm"


def test_the_launch_mode_and_the_library_are_part_of_the_key() -> None:
    taken = {
        name: float(np.mean(all_reduce(scenario(8, **choices), 16384.0).value)) * 1e6
        for name, choices in {
            "trtllm graph": {"engine": "trtllm"},
            "vllm graph": {},
            "nccl host": {"library": "nccl", "mode": "host"},
            "vllm eager": {"mode": "eager"},
        }.items()
    }
    assert taken["trtllm graph"] == pytest.approx(3.6, rel=0.05)
    assert taken["vllm graph"] == pytest.approx(3.66, rel=0.05)
    assert taken["vllm eager"] == pytest.approx(25.7, rel=0.05)
    assert taken["vllm graph"] < taken["nccl host"] < taken["vllm eager"]


def test_a_link_that_was_changed_makes_the_answer_modelled() -> None:
    for path in LINK_VALUES:
        assert not is_measured(scenario(8).having({path: scenario(8).value(path)}))
    assert is_measured(scenario(8).having({"system.device.memory_bandwidth_bytes_per_s": 5e12}))


# -------------------------------------------------------------------------------------------------- unchanged links


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize("tp", [2, 4, 8])
def test_unchanged_links_give_the_curve_back(system: str, engine: str, tp: int) -> None:
    asked = scenario(tp, on=system, engine=engine)
    curve = measured_curve(asked)
    if curve is None:
        pytest.skip(f"no curve of {engine} on {system}")
    expected = np.asarray(curve.time_s(SIZES, tp))
    np.testing.assert_allclose(times(asked), expected, rtol=1e-12)
    same = asked.having({path: asked.value(path) for path in LINK_VALUES})
    np.testing.assert_allclose(times(same), expected, rtol=1e-12)


@pytest.mark.parametrize("tp", [16, 32])
def test_unchanged_links_give_the_price_back_and_the_plan_where_it_is_asked_for(tp: int) -> None:
    asked = scenario(tp)
    span = asked.system.fabric.span(tp)
    plan = selection.tuner_all_reduce(SIZES, span, asked.stack.library)
    by_plan = scenario(tp, library="nccl-plan")
    np.testing.assert_allclose(times(by_plan), np.asarray(plan.value), rtol=1e-12)
    where = place(Op.ALL_REDUCE, span, asked.system, asked.stack.library)
    assert where is not None
    price = across_nodes(Op.ALL_REDUCE, SIZES, where, asked.stack.library)
    np.testing.assert_allclose(times(asked), np.asarray(price.value), rtol=1e-12)
    assert place(Op.ALL_REDUCE, span, by_plan.system, by_plan.stack.library) is None


@pytest.mark.parametrize("tp", [2, 8, 16])
def test_fixed_time_and_transfer_add_up_and_neither_is_negative(tp: int) -> None:
    term = all_reduce(scenario(tp), SIZES)
    owed = columns(term)
    assert set(owed) == {"collective_fixed", "collective_transfer"}
    np.testing.assert_allclose(
        owed["collective_fixed"] + owed["collective_transfer"], np.asarray(term.value), rtol=1e-12
    )
    assert all(np.all(np.asarray(value) >= 0) for value in owed.values())
    assert audit(term) == []


def test_the_fixed_time_of_a_small_message_is_the_floor_of_the_curve() -> None:
    curve = measured_curve(scenario(8))
    assert curve is not None
    owed = columns(all_reduce(scenario(8), 512.0))
    assert owed["collective_fixed"] == pytest.approx(curve.floor_s(8), rel=0.02)


# ---------------------------------------------------------------------------------------------------- changed links

MEASURED = [(tp, system, engine) for tp in (2, 4, 8) for system in SYSTEMS for engine in ("vllm", "sglang", "trtllm")]
ACROSS = [(16, "h100-sxm", "vllm"), (16, "b200-sxm", "vllm"), (32, "h100-sxm", "vllm")]


@pytest.mark.parametrize(("tp", "system", "engine"), MEASURED + ACROSS)
def test_a_better_link_never_hurts(tp: int, system: str, engine: str) -> None:
    asked = scenario(tp, on=system, engine=engine)
    factors = np.geomspace(0.1, 10, 21)
    for path in LINK_VALUES:
        better = factors if path.endswith("bandwidth_bytes_per_s") else 1 / factors
        seen = np.array([times(asked.having({path: asked.value(path) * factor})) for factor in better])
        steps = np.max(seen[1:] / seen[:-1], axis=0) - 1
        worst = int(np.argmax(steps))
        assert steps[worst] <= 1e-9, f"a better {path} costs {steps[worst]:.1%} at {SIZES[worst]:.0f} bytes"


@pytest.mark.parametrize(("tp", "system", "engine"), MEASURED + ACROSS)
def test_nothing_that_kept_the_law_beats_the_law_of_its_new_links(tp: int, system: str, engine: str) -> None:
    asked = scenario(tp, on=system, engine=engine)
    kept = times(asked) >= law(asked)
    for path in LINK_VALUES:
        for factor in (0.1, 0.5, 2.0, 10.0):
            changed = asked.having({path: asked.value(path) * factor})
            below = np.where(kept, 1 - times(changed) / law(changed), 0.0)
            worst = int(np.argmax(below))
            assert below[worst] <= 1e-9, f"{path} x {factor}: {below[worst]:.1%} below at {SIZES[worst]:.0f} bytes"


@pytest.mark.parametrize("tp", [2, 8])
@pytest.mark.parametrize("name", ["latency_s", "bandwidth_bytes_per_s"])
def test_the_answer_moves_by_what_the_law_moves(tp: int, name: str) -> None:
    asked = scenario(tp)
    path = f"system.fabric.intra_node.{name}"
    changed = asked.having({path: asked.value(path) * 2})
    # Decode sizes, where the curve is above the law of its links in both columns.
    small = SIZES <= 2**18
    np.testing.assert_allclose((times(changed) - times(asked))[small], (law(changed) - law(asked))[small], atol=1e-15)


@pytest.mark.parametrize("tp", [2, 8, 16])
def test_halving_or_doubling_a_used_link_value_moves_the_answer(tp: int) -> None:
    asked = scenario(tp)
    tier = asked.system.fabric.span(tp).tier
    for name, better in (("latency_s", 0.5), ("bandwidth_bytes_per_s", 2.0)):
        path = f"system.fabric.{tier}.{name}"
        for factor, sign in ((better, -1), (1 / better, +1)):
            moved = times(asked.having({path: asked.value(path) * factor})) - times(asked)
            assert np.all(np.sign(moved) == sign), (name, factor)


@pytest.mark.parametrize("tp", [2, 8])
def test_the_link_between_nodes_does_not_matter_inside_one(tp: int) -> None:
    for path in LINK_VALUES[2:]:
        changed = scenario(tp).having({path: scenario(tp).value(path) * 2})
        np.testing.assert_allclose(times(changed), times(scenario(tp)), rtol=1e-12)


def test_software_and_links_are_all_of_a_collective() -> None:
    for tp in (8, 16):
        bare = scenario(tp).having({"stack.software_factor": 0.0})
        kept = times(scenario(tp)) >= law(scenario(tp))
        assert np.all(times(bare)[kept] <= law(scenario(tp))[kept] * (1 + 1e-12))
        np.testing.assert_allclose(times(bare)[SIZES <= 2**16], law(scenario(tp))[SIZES <= 2**16], rtol=1e-12)


def test_other_nodes_are_planned_for_as_they_are() -> None:
    # 8 ranks on nodes of 4: the price of two nodes, 9.4 us in one of four and two hops of 4.7 us, not that of one.
    four = scenario(8).having({"system.fabric.devices_per_node": 4})
    assert not is_measured(four)
    assert float(np.mean(all_reduce(four, 8.0).value)) == pytest.approx(19.0e-6, rel=0.05)


@pytest.mark.parametrize("tp", [2, 8, 16])
def test_arrays_and_scalars_take_the_same_time(tp: int) -> None:
    asked = scenario(tp).having({"system.fabric.intra_node.latency_s": 2e-6})
    for size, together in zip(SIZES.tolist(), times(asked), strict=True):
        assert all_reduce(asked, size).value == pytest.approx(together, rel=1e-12)
