"""Sweeps: the same numbers as one scenario at a time, in the order of the axes, much faster and in little memory."""

from __future__ import annotations

import time
import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest

import nhalf
from nhalf.breakdown import columns
from nhalf.decide.sweep import CHUNK, TENSOR_PARALLEL, sweep
from nhalf.errors import InputError

if TYPE_CHECKING:
    from nhalf.scenario import Scenario

LATENCY = "system.fabric.intra_node.latency_s"


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8, weights="fp8")


@pytest.mark.parametrize("chunk", [1, 7, CHUNK])
def test_every_point_is_what_decode_gives_alone(scenario: Scenario, chunk: int) -> None:
    axes = {"workload.batch": [1.0, 64.0], TENSOR_PARALLEL: [1.0, 8.0, 16.0], LATENCY: [0.5e-6, 0.779e-6, 4e-6]}
    answer = sweep(scenario, axes, chunk=chunk)
    assert answer.step_s.shape == (2, 3, 3)
    for i, batch in enumerate(axes["workload.batch"]):
        for j, degree in enumerate(axes[TENSOR_PARALLEL]):
            for k, latency in enumerate(axes[LATENCY]):
                alone = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=int(degree), weights="fp8")
                step = nhalf.decode(alone.having({"workload.batch": batch, LATENCY: latency}))
                assert answer.step_s[i, j, k] == pytest.approx(float(step.value), rel=1e-12)
                for name, value in columns(step).items():
                    assert answer.columns[name][i, j, k] == pytest.approx(float(value), rel=1e-12, abs=1e-18)


def test_columns_add_up_everywhere(scenario: Scenario) -> None:
    answer = sweep(scenario, {"workload.batch": np.arange(1.0, 300.0), TENSOR_PARALLEL: [2, 16]})
    assert np.allclose(sum(answer.columns.values()), answer.step_s, rtol=1e-12)


def test_a_sweep_without_a_tp_axis_keeps_the_scenario_s_own(scenario: Scenario) -> None:
    answer = sweep(scenario, {"workload.batch": [1.0]})
    assert answer.step_s.shape == (1,)
    assert answer.step_s[0] == pytest.approx(float(nhalf.decode(scenario).value))


def test_a_point_of_a_sweep_costs_a_small_part_of_a_scenario_alone(scenario: Scenario) -> None:
    def seconds(work: object, count: int) -> float:
        assert callable(work)
        start = time.process_time()
        for _ in range(count):
            work()
        return (time.process_time() - start) / count

    axes = {"workload.batch": np.arange(1.0, 101.0), LATENCY: np.linspace(0.5e-6, 5e-6, 500)}
    alone = min(seconds(lambda: nhalf.decode(scenario), 50) for _ in range(3))
    together = min(seconds(lambda: sweep(scenario, axes), 1) for _ in range(3)) / 50_000
    assert alone / together > 100


def test_a_sweep_holds_little_beyond_its_answer(scenario: Scenario) -> None:
    axes = {"workload.batch": np.arange(1.0, 201.0), LATENCY: np.linspace(0.5e-6, 5e-6, 500)}
    tracemalloc.start()
    answer = sweep(scenario, axes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    stored = answer.step_s.nbytes * (1 + len(answer.columns))
    assert peak < stored + 200 * CHUNK * 8


@pytest.mark.parametrize(
    ("axes", "part"),
    [
        ({"workload.batch": []}, "no values"),
        ({"workload.bach": [1.0]}, "Did you mean 'workload.batch'?"),
        ({TENSOR_PARALLEL: [3]}, "TP 3"),
    ],
)
def test_a_bad_axis_is_refused(scenario: Scenario, axes: dict[str, list[float]], part: str) -> None:
    with pytest.raises(InputError) as refusal:
        sweep(scenario, axes)
    assert part in str(refusal.value)
