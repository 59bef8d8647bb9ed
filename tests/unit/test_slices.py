"""Slices of a sweep: they hold what the sweep holds, and every axis is drawn."""

from __future__ import annotations

import itertools

import pytest

from nhalf.decide.grid import Grid, Tally
from nhalf.decide.grid_slices import MOST, centre, cut, idle, names, scenario, values
from nhalf.decide.workers import here
from nhalf.loading import Degrees, Request
from nhalf.loading.axes import Loaded, grid
from nhalf.predict.step import decode

AXES = ("tp=1,2,3,8,16", "batch=1:256:x4", "system.fabric.inter_node.latency_s=1us:50us:200")


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    return grid(Request(model="llama-3.1-70b", systems=("h100-sxm",), weights="fp8", degrees=Degrees()), AXES)


def tallied(made: Grid) -> Tally:
    tally = Tally()
    for task, answers in here(made, made.tasks()):
        tally.add(made, task, answers)
    return tally


def test_the_centre_is_the_fastest_point_and_its_scenario_is_that_point(loaded: Loaded) -> None:
    tally = tallied(loaded.grid)
    at = centre(loaded.grid, tally)
    base = scenario(loaded.grid, at)
    assert base is not None
    assert tally.best is not None
    assert float(decode(base).value) == pytest.approx(tally.best.step_s, rel=1e-12)
    assert base.layout.tensor_parallel == at["tp"]


def test_a_slice_holds_the_points_of_the_sweep_along_its_axes(loaded: Loaded) -> None:
    at = centre(loaded.grid, tallied(loaded.grid))
    spots = cut(loaded.grid, at, ["tp", "batch"])
    assert [(spot.axes["tp"], spot.axes["batch"]) for spot in spots] == list(
        itertools.product(values(loaded.grid, "tp"), values(loaded.grid, "batch"))
    )
    assert {spot.axes["system.fabric.inter_node.latency_s"] for spot in spots} == {1e-6}
    for spot in spots:
        if spot.axes["tp"] == 3:
            assert (spot.numbers, spot.binding) == ({}, "")
            assert "does not divide" in spot.reason
            continue
        base = scenario(loaded.grid, spot.axes)
        assert base is not None
        assert spot.step_s == pytest.approx(float(decode(base).value), rel=1e-12)
        assert sum(spot.columns.values()) == pytest.approx(spot.step_s)
        assert spot.tokens_per_s_per_gpu == pytest.approx(
            float(spot.axes["batch"]) * spot.tokens_per_s_per_user / base.layout.devices
        )


def test_a_long_axis_is_thinned_and_keeps_its_ends(loaded: Loaded) -> None:
    at = centre(loaded.grid, tallied(loaded.grid))
    name = names(loaded.grid)[-1]
    spots = cut(loaded.grid, at, [name])
    assert len(values(loaded.grid, name)) == 200
    assert len(spots) == MOST
    assert [float(spot.axes[name]) for spot in (spots[0], spots[-1])] == pytest.approx([1e-6, 5e-5])


def test_where_nothing_fits_the_first_legal_point_is_the_centre() -> None:
    made = grid(Request(model="llama-3.1-405b", systems=("h100-sxm",)), ("tp=3,1", "batch=4,8")).grid
    tally = tallied(made)
    assert tally.best is None
    assert centre(made, tally) == {"tp": 1, "batch": 4.0}


def test_an_axis_that_moves_nothing_at_a_point_is_idle_there_and_only_there(loaded: Loaded) -> None:
    latency = "system.fabric.inter_node.latency_s"
    at = centre(loaded.grid, tallied(loaded.grid))
    assert at["tp"] == 8
    assert idle(loaded.grid, at) == [latency]
    assert idle(loaded.grid, {**at, "tp": 16}) == []


def test_an_axis_is_not_idle_where_it_decides_what_fits_or_is_legal() -> None:
    request = Request(model="llama-3.1-70b", systems=("h100-sxm",), weights="fp8", degrees=Degrees())
    made = grid(request, ("tp=8,3", "system.device.memory_bytes=8GB,80GB", "batch=1")).grid
    assert idle(made, {"tp": 8, "system.device.memory_bytes": 80e9, "batch": 1.0}) == []
