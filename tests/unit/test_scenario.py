"""Scenarios: every number has a path, can be replaced without touching the original, and knows where it came from."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.tensor_group import is_measured

import nhalf
from nhalf.errors import InputError

if TYPE_CHECKING:
    from nhalf.scenario import Scenario


@cache
def scenario() -> Scenario:
    return nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8, weights="fp8")


PATHS = [path for path, _ in scenario().inputs()]


def test_paths_are_unique_and_name_the_numbers_of_every_noun() -> None:
    assert len(PATHS) == len(set(PATHS))
    for path in (
        "system.device.memory_bandwidth_bytes_per_s",
        "system.fabric.intra_node.latency_s",
        "system.fabric.inter_node.bandwidth_bytes_per_s",
        "system.fabric.nics_per_node",
        "stack.layer_time_s",
        "stack.library.tuner.tree_ll.base_s",
        "workload.batch",
    ):
        assert path in PATHS


def test_counts_that_a_model_or_a_layout_fixes_and_measurements_are_no_inputs() -> None:
    assert not [
        path for path in PATHS if path.startswith(("transformer", "layout", "system.measured_fabric", "system.curves"))
    ]
    with pytest.raises(InputError):
        scenario().having({"layout.tensor_parallel": 4})


@pytest.mark.parametrize("path", PATHS)
def test_having_replaces_one_number_and_no_other(path: str) -> None:
    before = dict(scenario().inputs())
    value = before[path]
    given = 16 if isinstance(value, int) else float(value) * 2 + 1
    after = dict(scenario().having({path: given}).inputs())
    assert after == before | {path: given}
    assert dict(scenario().inputs()) == before


def test_having_takes_several_changes_of_one_noun_and_of_several() -> None:
    changes = {
        "system.fabric.inter_node.latency_s": 1e-6,
        "system.fabric.inter_node.bandwidth_bytes_per_s": 1e11,
        "system.fabric.intra_node.latency_s": 2e-6,
        "stack.step_time_s": 1e-3,
        "workload.batch": 7.0,
    }
    changed = scenario().having(changes)
    assert {path: changed.value(path) for path in changes} == changes


def test_having_takes_arrays() -> None:
    batches = np.array([1.0, 2.0, 3.0])
    assert scenario().having({"workload.batch": batches}).value("workload.batch") is batches


def test_having_nothing_changes_nothing() -> None:
    assert dict(scenario().having({}).inputs()) == dict(scenario().inputs())
    assert is_measured(scenario().having({}))


def test_an_unknown_path_is_refused_with_a_suggestion_and_what_there_is() -> None:
    for ask in (lambda path: scenario().value(path), lambda path: scenario().having({path: 1.0})):
        with pytest.raises(InputError) as caught:
            ask("system.device.memory_bandwith_bytes_per_s")
        assert "memory_bandwith_bytes_per_s" in caught.value.what
        assert "system.device.memory_bandwidth_bytes_per_s" in caught.value.do
        assert "system.device.*" in caught.value.allowed
        assert "stack.*" in caught.value.allowed


@pytest.mark.parametrize("path", ["", "system", "system.fabric.intra_node", "workload.batch.", "workload.weight_dtype"])
def test_a_path_that_is_no_number_is_refused(path: str) -> None:
    with pytest.raises(InputError):
        scenario().value(path)


@pytest.mark.parametrize(
    ("end", "value"), [("latency_s", -1e-6), ("latency_s", np.inf), ("bandwidth_bytes_per_s", 0.0)]
)
def test_an_impossible_link_is_refused_wherever_it_comes_from(end: str, value: float) -> None:
    with pytest.raises(InputError):
        scenario().having({f"system.fabric.intra_node.{end}": value})


def test_a_scenario_cannot_be_changed_in_place() -> None:
    with pytest.raises(FrozenInstanceError):
        scenario().workload = scenario().workload  # type: ignore[misc]


@pytest.mark.parametrize(
    "path", [path for path in PATHS if path.startswith(("system.", "stack.")) and ".remedies." not in path]
)
def test_every_number_of_the_catalogue_has_an_origin_with_the_same_value(path: str) -> None:
    origin = scenario().origins[path]
    assert origin.value == scenario().value(path)
    assert origin.source
    assert origin.locator


def test_a_number_set_by_the_user_is_of_kind_given() -> None:
    path = "system.device.memory_bandwidth_bytes_per_s"
    changed = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8, set={path: "4TB/s"})
    assert changed.value(path) == 4e12
    assert changed.origins[path].kind == "given"
    assert changed.origins[path].value == 4e12
