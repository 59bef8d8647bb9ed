"""Sweeps: the same numbers as one scenario at a time, and much faster."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import nhalf
from nhalf.breakdown import columns
from nhalf.decide import workers
from nhalf.decide.grid import CHUNK, spots
from nhalf.loading import Request
from nhalf.loading.axes import grid

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.decide.grid import Grid

LATENCY = "system.fabric.intra_node.latency_s"


def made(*texts: str) -> Grid:
    return grid(Request(model="llama-3.1-70b", systems=("h100-sxm",), weights="fp8"), texts).grid


@pytest.mark.parametrize("points", [1, 5, CHUNK])
def test_every_point_is_what_decode_gives_alone(points: int) -> None:
    small = made("tp=1,8,16", "batch=1,64", f"{LATENCY}=0.5us,0.779us,4us")
    found = [spot for task, numbers in workers.here(small, small.tasks(points)) for spot in spots(small, task, numbers)]
    assert len(found) == 18
    for spot in found:
        alone = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=int(spot.axes["tp"]), weights="fp8")
        batch, latency = float(spot.axes["batch"]), float(spot.axes[LATENCY])
        step = nhalf.decode(alone.having({"workload.batch": batch, LATENCY: latency}))
        assert spot.step_s == pytest.approx(float(step.value), rel=1e-12)
        assert sum(spot.columns.values()) == pytest.approx(spot.step_s, rel=1e-12)
        for name, value in columns(step).items():
            assert spot.columns[name] == pytest.approx(float(value), rel=1e-12, abs=1e-18)


def test_a_point_of_a_sweep_costs_a_small_part_of_a_scenario_alone() -> None:
    scenario = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8, weights="fp8")
    many = made("tp=8", "batch=1:100", f"{LATENCY}=0.5us:5us:500")

    def seconds(work: Callable[[], object], count: int) -> float:
        start = time.process_time()
        for _ in range(count):
            work()
        return (time.process_time() - start) / count

    alone = min(seconds(lambda: nhalf.decode(scenario), 50) for _ in range(3))
    together = min(seconds(lambda: list(workers.here(many, many.tasks())), 1) for _ in range(3)) / many.points
    assert alone / together > 100
