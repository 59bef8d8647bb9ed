"""When nhalf doubts, warns or leaves out: a case just below each threshold of a fit and a table, and one just above."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nhalf
from nhalf.calibrate.derive import Constant, constants_of
from nhalf.calibrate.prior import prior
from nhalf.catalog import store
from nhalf.collective import Mode, Op
from nhalf.curve import CurveKey, MeasuredCurve
from nhalf.curve.leastsquares import robust
from nhalf.evidence.comparison import compare
from nhalf.evidence.fit import fit
from nhalf.evidence.identify import is_open
from nhalf.evidence.intervals import Estimate
from nhalf.evidence.series import spikes
from nhalf.evidence.table import Point, Table
from nhalf.loading.case_checks import findings
from nhalf.loading.case_table import Table as Rows
from nhalf.loading.cases import cases
from nhalf.loading.changes import bidirectional

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.evidence.curvefit import CurveFit
    from nhalf.evidence.fit import Fit

US, GB = 1e-6, 1e9
DOUBLINGS: Array = np.exp2(np.arange(3, 29, dtype=np.float64))  # 8 B to 128 MiB


def log(sizes: Array, times: Array, *, in_place: float | None = None, **fields: Any) -> Table:  # noqa: ANN401
    """Return a table of one sweep; `in_place` [1] is the time in place over the time out of place."""
    points = tuple(
        Point(size_bytes=n, seconds=t, in_place_s=None if in_place is None else t * in_place)
        for n, t in zip(sizes.tolist(), times.tolist(), strict=True)
    )
    known: dict[str, Any] = {
        "file": "a.log", "tool": "nccl-tests", "op": Op.ALL_REDUCE, "ranks": 8, "nodes": 1, "mode": Mode.HOST,
        "quantity": "back_to_back",
    }  # fmt: skip
    return Table(points=points, **(known | fields))


def of(latency_s: float, bandwidth: float, sizes: Array = DOUBLINGS, **fields: Any) -> Fit:  # noqa: ANN401
    return fit([log(sizes, latency_s + sizes / bandwidth, **fields)])


def codes(curve: CurveFit) -> list[str]:
    return [note.code for note in curve.notes]


# ------------------------------------------------------------------------------------------ which points are believed


@pytest.mark.parametrize(("times", "spiked"), [(1.45, False), (1.55, True)])
@pytest.mark.parametrize("at", [0, 5])
def test_a_point_half_again_as_high_as_its_neighbours_is_left_out_and_named(
    at: int, times: float, *, spiked: bool
) -> None:
    flat = np.full(12, 10 * US)
    flat[at] *= times
    (curve,) = fit([log(DOUBLINGS[:12], flat)]).curves
    assert ("spike" in codes(curve)) is spiked
    assert np.flatnonzero(curve.series.spikes).tolist() == [at] * spiked


@pytest.mark.parametrize(("times", "spiked"), [(4.7, False), (4.9, True)])
def test_a_spike_stands_a_fifth_above_the_larger_neighbour(times: float, *, spiked: bool) -> None:
    # Far above the line between its neighbours, 1 and 4, whichever it is.
    assert spikes(np.array([1.0, 2.0, 4.0, 8.0]), np.array([1.0, times, 4.0, 8.0])).tolist()[1] is spiked


@pytest.mark.parametrize(("deviations", "whole"), [(1.33, True), (1.37, False)])
def test_a_residual_loses_weight_beyond_1345_deviations(deviations: float, *, whole: bool) -> None:
    target = np.ones(2001)
    target[-1] += deviations * 0.01
    _, weights = robust(np.ones((2001, 1)), target, noise=0.01)
    assert weights[:-1].min() == 1.0
    assert (weights[-1] == 1.0) == whole


@pytest.mark.parametrize(("ratio", "doubted"), [(1.08, False), (1.13, True)])
def test_in_place_and_out_of_place_a_tenth_apart_are_said_to_differ(ratio: float, *, doubted: bool) -> None:
    (curve,) = of(10 * US, 100 * GB, in_place=ratio).curves
    assert ("in-place" in codes(curve)) is doubted


# --------------------------------------------------------------------------------------------- what a sweep can tell


@pytest.mark.parametrize(("smallest", "refused"), [(0.18, False), (0.22, True)])
def test_a_latency_needs_three_sizes_within_half_again_the_floor(smallest: float, *, refused: bool) -> None:
    # In units of latency and n_1/2 the first time is 1 + smallest and the third 1 + 4 smallest: 1.5 times at 0.2.
    sizes = np.exp2(np.arange(12.0)) * smallest * 1e6
    (curve,) = of(10 * US, 100 * GB, sizes).curves
    assert curve.on_floor is not refused
    assert curve.latency is not None
    assert curve.latency.low is not None
    assert curve.latency.low < 0.5 * curve.latency.value  # what is quicker below 180 KB was not run


@pytest.mark.parametrize(("smallest", "wide"), [(4096.0, False), (4097.0, True)])
def test_a_floor_of_sizes_above_4_kib_may_be_that_of_a_slower_protocol(smallest: float, *, wide: bool) -> None:
    (curve,) = of(10 * US, 100 * GB, np.exp2(np.arange(16.0)) * smallest).curves
    assert curve.on_floor
    assert curve.latency is not None
    assert (curve.latency.because == "sizes off the floor") is wide


@pytest.mark.parametrize(("largest", "refused"), [(15.0, True), (17.0, False)])
def test_a_bandwidth_needs_three_sizes_beyond_four_times_the_half_size(largest: float, *, refused: bool) -> None:
    sizes = np.exp2(-np.arange(16.0))[::-1] * largest * 1.01e6
    (curve,) = of(10 * US, 100 * GB, sizes).curves
    assert curve.on_ceiling is not refused


@pytest.mark.parametrize(("width", "wide"), [(9.5, False), (10.5, True)])
def test_an_interval_wider_than_a_decade_is_no_measurement(width: float, *, wide: bool) -> None:
    assert is_open(Estimate(value=2.0, low=1.0, high=width)) is wide


@pytest.mark.parametrize(("factor", "moved"), [(1.06, False), (1.12, True)])
def test_two_logs_differ_by_more_than_launches_do_before_a_value_has_moved(factor: float, *, moved: bool) -> None:
    changes = {change.name: change for change in compare(of(10 * US * factor, 100 * GB), of(10 * US, 100 * GB)).changes}
    assert changes["latency"].ratio == pytest.approx(factor, rel=1e-3)
    assert changes["latency"].moved is moved
    assert changes["bandwidth"].moved is False


# ------------------------------------------------------------------------------------------- what is not the link


@pytest.mark.parametrize(("latency", "doubted"), [(0.27 * US, True), (0.33 * US, False)])
def test_a_latency_below_any_links_is_called_too_fast(latency: float, *, doubted: bool) -> None:
    (curve,) = of(latency, 100 * GB).curves
    assert ("too-fast" in codes(curve)) is doubted


@pytest.mark.parametrize(("floor", "doubted"), [(140 * US, False), (165 * US, True)])
def test_a_floor_three_times_above_any_plausible_one_is_not_the_link(floor: float, *, doubted: bool) -> None:
    # 8 ranks of one node: 30 us and 14 steps of 1.5 us, three times 51 us.
    (curve,) = of(floor, 100 * GB).curves
    assert ("not-the-link" in codes(curve)) is doubted
    assert curve.misconfigured is doubted


@pytest.mark.parametrize(("floor", "doubted"), [(0.9, False), (1.1, True)])
def test_a_floor_above_a_second_is_an_error_of_units(floor: float, *, doubted: bool) -> None:
    (curve,) = of(floor, GB / 100, tool="").curves
    assert ("not-the-link" in codes(curve)) is doubted


@pytest.mark.parametrize(("bandwidth", "doubted"), [(4.8 * GB, True), (5.5 * GB, False)])
def test_a_slope_fifty_times_under_the_link_is_not_the_link(bandwidth: float, *, doubted: bool) -> None:
    # An all-reduce of 8 ranks sends 1.75 times its size over NVLink's 450 GB/s; a fiftieth of that is 9 GB/s.
    system = store.system("h100-sxm")[0]
    (curve,) = fit([log(DOUBLINGS, 20 * US + DOUBLINGS / bandwidth)], system=system).curves
    assert ("not-the-link" in codes(curve)) is doubted


# ---------------------------------------------------------------------------------------------------- bands of curves


SIZES = np.array([1e3, 1e4, 1e5, 1e6])


def measured(**fields: Any) -> MeasuredCurve:  # noqa: ANN401
    key = CurveKey(
        system="h100-sxm", library="vllm", version="1", mode=Mode.GRAPH, op=Op.ALL_REDUCE, dtype="bfloat16", kernel="k"
    )
    return MeasuredCurve(
        key=key, ranks=(8,), sizes_bytes=(SIZES,), times_s=(10 * US + SIZES / GB,), source="s", locator="l",
        date="2026-09", **fields,
    )  # fmt: skip


@pytest.mark.parametrize(("apart", "held"), [(1.15, True), (1.20, False)])
def test_the_band_of_a_siblings_curve_holds_what_siblings_differ_by(apart: float, *, held: bool) -> None:
    own, lent = measured(log_sd=0.01), measured(log_sd=0.01, lent_to="h200-sxm")
    assert (np.log(apart) <= lent.half_width(SIZES, 8)).all() == held
    assert (np.log(apart) > own.half_width(SIZES, 8)).all()


@pytest.mark.parametrize(("apart", "held"), [(1.06, True), (1.07, False)])
def test_the_band_at_a_measured_size_is_the_noise_of_a_median(apart: float, *, held: bool) -> None:
    # Runs that differ by 10 %: their median by half of it, and 80 % of medians lie within 1.28 times that.
    assert (np.log(apart) <= measured(log_sd=0.1).half_width(SIZES, 8)).all() == held


# ------------------------------------------------------------------------------------------------- inputs and tables


@pytest.mark.parametrize(("times", "warned"), [(1.25, False), (1.35, True)])
def test_a_bandwidth_well_above_the_known_one_is_asked_after(times: float, *, warned: bool) -> None:
    said = bidirectional(450 * GB * times, 450 * GB, "--set x")
    assert bool(said) is warned
    scenario = nhalf.load("llama-3.1-8b", on="h100-sxm")
    path = "system.fabric.intra_node.bandwidth_bytes_per_s"
    rate = float(scenario.value(path)) * times
    changed = nhalf.load("llama-3.1-8b", on="h100-sxm", set={path: f"{rate / GB:g}GB/s"})
    assert float(changed.value(path)) == pytest.approx(rate)  # it warns, and takes what was given


def rows_of(*tpot_s: float) -> list[str]:
    """Return the codes of what is found in a table of one curve, whose batch doubles from row to row."""
    header = ("model", "system", "engine", "weight_dtype", "isl", "osl", "concurrency", "tp")
    rows = [
        ["meta-llama/Llama-3.1-70B", "h100_sxm", "vllm", "fp8", "1024", "1024", str(16 << place), "8"]
        for place in range(len(tpot_s))
    ]
    return [finding.code for finding in findings(cases(Rows(path="r.csv", header=header, rows=rows)), np.array(tpot_s))]


@pytest.mark.parametrize(("falls", "found"), [(0.15, []), (0.21, ["falling"])])
def test_a_larger_batch_may_be_quicker_by_what_a_repeat_differs(falls: float, found: list[str]) -> None:
    assert rows_of(0.020, 0.020 * (1 - falls)) == found


@pytest.mark.parametrize(("seconds", "found"), [(1.9, ["waiting"]), (2.1, ["unit"])])
def test_two_seconds_a_token_are_doubted_to_be_seconds(seconds: float, found: list[str]) -> None:
    assert rows_of(0.020, 0.022, 0.024, seconds) == found


@pytest.mark.parametrize(("ratio", "moved"), [(1.008, False), (1.012, True), (0.992, False), (0.988, True)])
def test_a_constant_has_moved_beyond_a_hundredth(ratio: float, *, moved: bool) -> None:
    constant = Constant(name="step_time_s", value=ratio * US, low=0.0, high=1.0, prior=US, identified=True)
    assert constant.moved is moved


@pytest.mark.parametrize(("wide", "identified"), [(1.9, False), (2.1, True)])
def test_runs_identify_a_constant_whose_spread_they_halve(wide: float, *, identified: bool) -> None:
    deviations = dict.fromkeys(prior().free, 0.0) | {"step_time_s": prior().log_sd["step_time_s"] / wide}
    found = {each.name: each for each in constants_of(prior(), prior().centre, deviations, {})}
    assert found["step_time_s"].identified is identified
