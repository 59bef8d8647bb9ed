"""Elasticities: Euler's theorem, agreement with the tree of terms, and no input that is silently dead."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nhalf
from nhalf.breakdown import shares
from nhalf.decide.levers import elasticities

TIMES = (
    "system.fabric.intra_node.latency_s",
    "system.fabric.inter_node.latency_s",
    "system.fabric.switches.hop_latency_s",
    "stack.layer_time_s",
    "stack.step_time_s",
    "stack.sequence_time_s",
    "stack.collective_excess_s",
    "stack.host_launch_s",
    "stack.software_factor",  # stands for every time of a collective beyond the law of its links
)
RATES = (
    "system.device.memory_bandwidth_bytes_per_s",
    "system.device.bf16_flop_per_s",
    "system.device.fp8_flop_per_s",
    "system.device.fp4_flop_per_s",
    "system.fabric.intra_node.bandwidth_bytes_per_s",
    "system.fabric.inter_node.bandwidth_bytes_per_s",
)

if TYPE_CHECKING:
    from nhalf.scenario import Scenario
"""The inputs that count: scale every time by x and every rate by 1/x and the step is x times as long. Shares of a rate
(efficiencies, NICs) and amounts (bytes, tokens, batch) are left out, or a rate would count twice."""


@cache
def scenario(tp: int, **choices: Any) -> Scenario:  # noqa: ANN401  as nhalf.load
    return nhalf.load("llama-3.1-70b", on=choices.pop("on", "h100-sxm"), tp=tp, **choices)


def step_s(scenario: Scenario) -> float:
    return float(np.mean(nhalf.decode(scenario).value))


SERVING = {"isl": 1000, "osl": 200}


@pytest.mark.parametrize("tp", [1, 8, 16])
@pytest.mark.parametrize("batch", [1, 64])
@pytest.mark.parametrize("lengths", [{}, SERVING], ids=["context", "isl-osl"])
@pytest.mark.parametrize("weights", ["bf16", "fp8", "nvfp4"])
@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_times_less_rates_add_up_to_one(tp: int, batch: int, lengths: dict[str, int], weights: str, mode: str) -> None:
    found = elasticities(scenario(tp, batch=batch, weights=weights, mode=mode, **lengths))
    counted = sum(found[path] for path in TIMES) - sum(found[path] for path in RATES)
    assert counted == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("system", ["a100-sxm", "h200-sxm", "b200-sxm"])
@pytest.mark.parametrize("library", ["vllm", "nccl"])
@pytest.mark.parametrize("tp", [2, 4, 8, 16, 32])
def test_they_do_so_on_every_system_and_path(system: str, library: str, tp: int) -> None:
    found = elasticities(scenario(tp, on=system, library=library, batch=16))
    counted = sum(found[path] for path in TIMES) - sum(found[path] for path in RATES)
    assert counted == pytest.approx(1.0, abs=1e-5)


def test_no_time_and_no_rate_is_forgotten_in_the_sum() -> None:
    found = set(elasticities(scenario(16)))
    # What a network stack adds to a message beyond the law of the links is moved by stack.software_factor already.
    own = {path for path in found if not path.startswith("system.transport.")}
    times = {path for path in own if path.endswith("_s") and not path.endswith("_per_s")}
    assert times | {"stack.software_factor"} == set(TIMES)
    assert {path for path in own if path.endswith("_per_s")} == set(RATES)


@pytest.mark.parametrize("tp", [1, 8, 16])
@pytest.mark.parametrize("batch", [1, 64])
def test_times_never_help_and_rates_never_hurt(tp: int, batch: int) -> None:
    found = elasticities(scenario(tp, batch=batch, **SERVING))
    assert min(found[path] for path in TIMES) >= -1e-9
    assert max(found[path] for path in RATES if "fp8" not in path and "fp4" not in path) <= 1e-9


@pytest.mark.parametrize(
    ("path", "term"),
    [
        ("stack.layer_time_s", "/layers"),
        ("stack.step_time_s", "step/step"),
        ("stack.sequence_time_s", "/sequences"),
        ("stack.collective_excess_s", "/waiting inside the model"),
    ],
)
@pytest.mark.parametrize("tp", [8, 16])
def test_the_elasticity_to_a_time_is_the_share_of_its_term(path: str, term: str, tp: int) -> None:
    asked = scenario(tp, batch=16)
    owed = sum(share for name, share in shares(nhalf.decode(asked)).items() if name.endswith(term))
    assert elasticities(asked)[path] == pytest.approx(owed, abs=1e-6)


def test_reading_costs_what_its_rate_says() -> None:
    asked = scenario(8)
    owed = shares(nhalf.decode(asked))
    found = elasticities(asked)
    assert found["stack.memory_efficiency"] == pytest.approx(-owed["step/weights"], abs=1e-6)
    assert found["stack.kv_efficiency"] == pytest.approx(-owed["step/kv"], abs=1e-6)
    memory = found["system.device.memory_bandwidth_bytes_per_s"]
    assert memory == pytest.approx(-owed["step/weights"] - owed["step/kv"], abs=1e-6)


@pytest.mark.parametrize(("tp", "tier"), [(2, "intra_node"), (8, "intra_node"), (16, "inter_node"), (16, "intra_node")])
@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize("library", ["vllm", "nccl"])
def test_no_link_that_the_group_uses_is_silently_dead(tp: int, tier: str, batch: int, library: str) -> None:
    found = elasticities(scenario(tp, batch=batch, library=library))
    assert found[f"system.fabric.{tier}.latency_s"] > 1e-4
    assert found[f"system.fabric.{tier}.bandwidth_bytes_per_s"] < -1e-5


@pytest.mark.parametrize("tp", [1, 8])
def test_a_link_that_the_group_does_not_use_has_none(tp: int) -> None:
    found = elasticities(scenario(tp))
    unused = ["inter_node"] if tp == 8 else ["inter_node", "intra_node"]
    for tier in unused:
        assert found[f"system.fabric.{tier}.latency_s"] == 0.0
        assert found[f"system.fabric.{tier}.bandwidth_bytes_per_s"] == 0.0


@pytest.mark.parametrize(
    "path",
    [
        "system.device.memory_bandwidth_bytes_per_s",
        "system.fabric.inter_node.latency_s",
        "workload.batch",
        "stack.layer_time_s",
    ],
)
def test_they_agree_with_a_small_change_that_is_predicted(path: str) -> None:
    asked = scenario(16, batch=16)
    moved = asked.having({path: asked.value(path) * 1.001})
    assert elasticities(asked)[path] == pytest.approx(np.log(step_s(moved) / step_s(asked)) / np.log(1.001), abs=2e-4)


def test_what_is_zero_or_counts_whole_things_has_none() -> None:
    found = elasticities(scenario(8))
    for path in ("workload.prompt_tokens", "workload.output_tokens", "system.fabric.devices_per_node"):
        assert path not in found
    assert "workload.prompt_tokens" in elasticities(scenario(8, **SERVING))
