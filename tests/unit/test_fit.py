"""The fit of a sweep: what it finds, what it refuses and why, and what it says about odd rows."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from nhalf import units
from nhalf.catalog import store
from nhalf.collective import Mode, Op
from nhalf.errors import InputError
from nhalf.evidence.advice import advise
from nhalf.evidence.commands import command
from nhalf.evidence.fit import Fit, fit
from nhalf.evidence.identify import is_open
from nhalf.evidence.intervals import Estimate
from nhalf.evidence.segments import Segment
from nhalf.evidence.series import spikes
from nhalf.evidence.table import Figure, Note, Point, Table
from nhalf.evidence.verdict import of_curve
from nhalf.report.fit import _segment

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.breakdown import Array
    from nhalf.evidence.curvefit import CurveFit


def doublings(first: int, last: int) -> Array:
    """Return the powers of two from 2^first up to, and without, 2^last."""
    sizes: Array = np.exp2(np.arange(first, last, dtype=np.float64))
    return sizes


DOUBLINGS = doublings(3, 29)  # 8 B to 256 MiB


def line(latency_s: float, bandwidth: float) -> Callable[[Array], Array]:
    return lambda sizes: latency_s + sizes / bandwidth


def two_regimes(sizes: Array) -> Array:
    """15.6 us and 118 GB/s below 1 MiB, 27 us and 262 GB/s from there."""
    small, large = line(15.6e-6, 118e9)(sizes), line(27e-6, 262e9)(sizes)
    return np.where(sizes < 2**20, small, large)


def table(sizes: Array, times: Array, **changes: Any) -> Table:  # noqa: ANN401  any field of the class
    points = tuple(
        Point(size_bytes=float(size), seconds=float(time), line=number)
        for number, (size, time) in enumerate(zip(sizes, times, strict=True), start=1)
    )
    fields: dict[str, Any] = {
        "file": "a.log",
        "tool": "nccl-tests",
        "op": Op.ALL_REDUCE,
        "ranks": 8,
        "nodes": 1,
        "mode": Mode.HOST,
        "quantity": "back_to_back",
        "points": points,
    }
    return Table(**(fields | changes))


def noisy(times: Array, seed: int, spread: float = 0.01) -> Array:
    noise: Array = times * np.exp(spread * np.random.default_rng(seed).standard_normal(len(times)))
    return noise


def one(*tables: Table) -> CurveFit:
    (curve,) = fit(list(tables)).curves
    return curve


def codes(curve: CurveFit) -> list[str]:
    return [note.code for note in curve.notes]


# ------------------------------------------------------------------------------------------------- what it finds


def test_latency_comes_from_the_first_segment_and_bandwidth_from_the_last() -> None:
    curve = one(table(DOUBLINGS, noisy(two_regimes(DOUBLINGS), 1)))
    assert curve.latency is not None
    assert curve.bandwidth is not None
    assert curve.latency.value == pytest.approx(15.6e-6, rel=0.02)
    assert curve.bandwidth.value == pytest.approx(262e9, rel=0.03)
    assert [switch.size_bytes for switch in curve.switches] == [2.0**20]
    assert curve.half_size_bytes == pytest.approx(15.6e-6 * 262e9, rel=0.04)
    assert curve.floor_s == pytest.approx(15.6e-6, rel=0.02)


def test_every_segment_and_the_switch_between_them_have_intervals_that_hold_the_truth() -> None:
    hits = np.zeros(5)
    for seed in range(40):
        curve = one(table(DOUBLINGS, noisy(two_regimes(DOUBLINGS), seed)))
        (low, high), (switch,) = curve.segment_estimates, curve.switches
        found = [low[0], low[1], high[0], high[1]]
        for place, (estimate, truth) in enumerate(zip(found, (15.6e-6, 118e9, 27e-6, 262e9), strict=True)):
            assert estimate is not None
            assert estimate.low is not None
            assert estimate.high is not None
            assert estimate.low <= estimate.value <= estimate.high
            hits[place] += estimate.low <= truth <= estimate.high
        hits[4] += switch.low_bytes < 2**20 <= switch.high_bytes
        assert switch.high_bytes <= 4 * 2**20
    assert (hits >= 34).all(), hits  # of 40: 95 % less three standard deviations


def test_a_small_step_has_a_wide_place() -> None:
    step = np.where(DOUBLINGS < 2**20, 1.0, 1.10)
    noise = [one(table(DOUBLINGS, noisy(step * 20e-6 + DOUBLINGS / 200e9, seed, 0.04))) for seed in range(12)]
    widths = [switch.high_bytes / switch.low_bytes for curve in noise for switch in curve.switches]
    sharp = one(table(DOUBLINGS, noisy(np.where(DOUBLINGS < 2**20, 1.0, 2.0) * (20e-6 + DOUBLINGS / 200e9), 1)))
    assert all(switch.high_bytes == 2 * switch.low_bytes for switch in sharp.switches)
    assert max(widths) > 2


def test_a_segment_without_bytes_has_no_bandwidth_interval() -> None:
    curve = one(table(DOUBLINGS, np.where(DOUBLINGS < 2**14, 10e-6, 14e-6 + DOUBLINGS / 200e9)))
    assert curve.to_dict()["segments"][0]["bandwidth_low_bytes_per_s"] is None
    assert curve.to_dict()["switches"][0]["size_bytes"] == 2**14


def test_a_gap_in_which_the_floor_is_doubled_is_a_range_and_no_size() -> None:
    sizes = np.concatenate([doublings(3, 9), doublings(24, 28)])
    curve = one(table(sizes, noisy(line(23.1e-6, 50e9)(sizes), 3)))
    assert curve.double_floor_size_bytes is None
    assert curve.double_floor_between_bytes == (256.0, 2.0**24)
    assert "gap" in codes(curve)
    assert "up to 256 B" in of_curve(curve)
    assert "bytes from 16 MiB on; no size between was run" in of_curve(curve)
    advice = advise(curve)
    assert advice is not None
    assert advice.sizes_bytes == tuple(2.0**n for n in (10, 12, 14, 16, 18, 20, 22))
    found = curve.to_dict()
    keys = ("double_floor_size_low_bytes", "double_floor_size_bytes", "double_floor_size_high_bytes")
    assert [found[key] for key in keys] == [256.0, None, 2.0**24]


def test_advice_that_is_followed_closes_the_gap() -> None:
    sizes = np.concatenate([doublings(3, 9), 2.0 ** np.array([10, 12, 14, 16, 18, 20, 22]), doublings(24, 28)])
    curve = one(table(sizes, noisy(line(23.1e-6, 50e9)(sizes), 3)))
    assert curve.double_floor_size_bytes == pytest.approx(23.1e-6 * 50e9, rel=0.15)
    assert advise(curve) is None


def test_half_size_and_double_floor_size_have_ends() -> None:
    curve = one(table(DOUBLINGS, noisy(two_regimes(DOUBLINGS), 1)))
    found = curve.to_dict()
    low, high = found["half_size_low_bytes"], found["half_size_high_bytes"]
    assert low < found["half_size_bytes"] < high
    assert low == pytest.approx(found["half_size_bytes"], rel=0.2)
    ends = found["double_floor_size_low_bytes"], found["double_floor_size_high_bytes"]
    assert ends == (2.0**20, 2.0**21)
    assert ends[0] < found["double_floor_size_bytes"] < ends[1]


def test_several_times_of_one_size_give_the_smallest() -> None:
    curve = one(table(np.array([2.0**23] * 4), np.array([149e-6, 62e-6, 159e-6, 51e-6])))
    assert curve.floor_s == 51e-6
    assert "smallest time 51 us" in of_curve(curve)


def test_what_no_program_measures_is_not_sent_to_all_reduce_perf() -> None:
    figure = Figure(of="time", value=157e-6)
    no_size = one(table(np.array([]), np.array([]), op=None, test="moe-dispatch", tool="DeepEP", figures=(figure,)))
    advice = advise(no_size)
    assert advice is not None
    assert advice.sizes_bytes == ()
    assert "the same benchmark (DeepEP)" in advice.command
    assert advise(one(table(np.array([]), np.array([]), op=Op.BARRIER, figures=(figure,)))) is None


def test_double_floor_size_is_where_the_curve_itself_doubles() -> None:
    curve = one(table(DOUBLINGS, two_regimes(DOUBLINGS)))
    assert curve.double_floor_size_bytes is not None
    at = curve.double_floor_size_bytes
    assert 2**20 < at < 2**21
    assert two_regimes(np.array([at]))[0] == pytest.approx(2 * 15.6e-6, rel=0.03)  # straight in log-log between points


def test_intervals_hold_the_truth_and_name_their_widest_doubt() -> None:
    curve = one(table(DOUBLINGS, noisy(two_regimes(DOUBLINGS), 2)))
    for found, true in ((curve.latency, 15.6e-6), (curve.bandwidth, 262e9)):
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        assert found.low < true < found.high
        assert found.because in {"residuals", "one line"}


def test_the_time_in_place_widens_the_interval() -> None:
    times = line(10e-6, 100e9)(DOUBLINGS)
    rows = tuple(
        Point(size_bytes=float(n), seconds=float(t), in_place_s=float(t) * 1.2)
        for n, t in zip(DOUBLINGS, times, strict=True)
    )
    curve = one(table(DOUBLINGS, times, points=rows))
    assert curve.latency is not None
    assert curve.latency.high == pytest.approx(12e-6, rel=1e-3)
    assert curve.latency.because == "in place"
    assert "in-place" in codes(curve)


def test_rounding_widens_the_interval() -> None:
    times = line(10e-6, 100e9)(DOUBLINGS)
    rows = tuple(
        Point(size_bytes=float(n), seconds=float(t), low_s=float(t) - 2e-6, high_s=float(t) + 2e-6)
        for n, t in zip(DOUBLINGS, times, strict=True)
    )
    exact, rounded = one(table(DOUBLINGS, times)), one(table(DOUBLINGS, times, points=rows))
    assert exact.latency is not None
    assert rounded.latency is not None
    assert rounded.latency.noise > 2 * exact.latency.noise
    assert rounded.latency.because == "rounding"


def test_repeated_points_are_one_point_each_and_their_median_counts() -> None:
    times = line(10e-6, 100e9)(DOUBLINGS)
    rows = [
        Point(size_bytes=float(n), seconds=float(t) * factor, repeat=repeat)
        for n, t in zip(DOUBLINGS, times, strict=True)
        for repeat, factor in enumerate((0.99, 1.0, 1.01, 5.0, 0.98))
    ]
    curve = one(table(DOUBLINGS, times, points=tuple(rows)))
    assert curve.latency is not None
    assert curve.latency.value == pytest.approx(10e-6, rel=1e-6)
    assert curve.to_dict()["points"] == 5 * len(DOUBLINGS)
    assert curve.series.repeats == 5


def test_the_verdict_names_floor_half_size_and_advice() -> None:
    verdict = of_curve(one(table(DOUBLINGS, two_regimes(DOUBLINGS), mode=None)))
    assert verdict.startswith("all-reduce on 8 ranks, 1 node (back to back): 15.6 us floor, bandwidth 262 GB/s (")
    assert verdict.endswith(" GB/s), n_1/2 3.9 MiB; latency counts more than bytes up to 1.04 MiB.")


def test_the_document_has_the_keys_of_the_contract() -> None:
    document = fit([table(DOUBLINGS, noisy(two_regimes(DOUBLINGS), 3))]).to_dict()
    (found,) = document["fits"]
    keys = "op ranks nodes mode quantity points half_size_bytes floor_s double_floor_size_bytes segments misfit_median"
    keys += " misfit_max identifiable verdict notes skipped latency_s latency_low_s latency_high_s"
    keys += " bandwidth_bytes_per_s bandwidth_low_bytes_per_s bandwidth_high_bytes_per_s"
    assert set(keys.split()) <= set(found)
    assert found["identifiable"] == {"latency": True, "bandwidth": True}
    assert {"from_bytes", "to_bytes", "latency_s", "bandwidth_bytes_per_s"} <= set(found["segments"][0])
    assert document["skipped"] == []


# ------------------------------------------------------------------------------------------------- what it refuses


def refusals(sizes: Array, times: Array, **changes: Any) -> tuple[str, str]:  # noqa: ANN401
    curve = one(table(sizes, times, **changes))
    assert (curve.latency is None) or not curve.latency_refusal or curve.latency.low is None
    return curve.latency_refusal, curve.bandwidth_refusal


def test_large_sizes_alone_hold_no_latency() -> None:
    sizes = doublings(29, 34)
    latency, bandwidth = refusals(sizes, line(20e-6, 500e9)(sizes))
    assert latency.startswith("anywhere from ")
    assert latency.endswith(" to 1.09 ms, as the sweep starts at 512 MiB, where bytes already cost")
    assert bandwidth == ""


def test_a_fine_sweep_of_large_sizes_holds_no_latency_either() -> None:
    sizes = np.linspace(2**29, 2**30, 12)
    latency, _ = refusals(sizes, line(20e-6, 500e9)(sizes))
    assert "where bytes already cost" in latency


def test_small_sizes_alone_hold_no_bandwidth() -> None:
    sizes = doublings(3, 13)
    latency, bandwidth = refusals(sizes, noisy(line(20e-6, 500e9)(sizes), 4))
    assert latency == ""
    assert bandwidth


def test_flat_times_hold_no_bandwidth() -> None:
    sizes = doublings(3, 13)
    _, bandwidth = refusals(sizes, np.full(len(sizes), 20e-6))
    assert bandwidth == "the time does not grow with the size up to 4 KiB: every size lies on the floor"


def test_one_size_identifies_nothing() -> None:
    curve = one(table(np.array([2.0**25]), np.array([155e-6])))
    assert curve.latency is curve.bandwidth is None
    assert curve.latency_refusal == curve.bandwidth_refusal
    assert curve.latency_refusal.startswith("one size only (32 MiB)")
    assert of_curve(curve).endswith("identifies neither a latency nor a bandwidth.")
    assert "one time 155 us" in of_curve(curve)


@pytest.mark.parametrize("sizes", [[8.0, 2.0**30], [8.0, 2.0**15, 2.0**30], [2.0**10, 2.0**20, 2.0**24, 2.0**28]])
def test_a_line_through_few_points_is_a_line(sizes: list[float]) -> None:
    found = np.array(sizes)
    curve = one(table(found, noisy(line(20e-6, 400e9)(found), 1, 0.002)))
    for each, truth in ((curve.latency, 20e-6), (curve.bandwidth, 400e9)):
        assert each is not None
        assert each.low is not None
        assert each.high is not None
        assert each.low <= truth <= each.high <= 1.5 * each.low
    assert curve.to_dict()["identifiable"] == {"latency": True, "bandwidth": True}
    assert curve.half_size_bytes == pytest.approx(8e6, rel=0.1)


def test_an_interval_wider_than_a_decade_is_a_bound_and_no_value() -> None:
    sizes = doublings(29, 34)
    curve = one(table(sizes, line(20e-6, 500e9)(sizes)))
    found = curve.to_dict()
    assert found["identifiable"] == {"latency": False, "bandwidth": True}
    assert found["latency_s"] is None
    assert found["latency_high_s"] == pytest.approx(2**29 / 500e9, rel=0.05)
    assert found["half_size_bytes"] is None
    small = one(table(doublings(3, 8), line(20e-6, 500e9)(doublings(3, 8)))).to_dict()
    assert small["bandwidth_bytes_per_s"] is None


def test_few_points_hold_the_truth_at_the_level_that_is_said() -> None:
    random = np.random.default_rng(11)
    held, wide = {"latency": 0, "bandwidth": 0}, {"latency": 0, "bandwidth": 0}
    for _ in range(200):
        latency, bandwidth = 10 ** random.uniform(-5.5, -4), 10 ** random.uniform(10, 11.7)
        sizes = np.exp2(np.sort(random.choice(np.arange(10, 31), int(random.integers(3, 6)), replace=False)))
        times = line(latency, bandwidth)(sizes) * np.exp(0.01 * random.standard_normal(len(sizes)))
        curve = one(table(sizes, times))
        for name, truth in (("latency", latency), ("bandwidth", bandwidth)):
            found = getattr(curve, name) or curve.limits.get(name)
            wide[name] += getattr(curve, name) is None
            held[name] += found is None or ((found.low or 0.0) <= truth <= (found.high or math.inf))
    assert min(held.values()) >= 181, held  # of 200: 95 % less three standard deviations
    assert max(wide.values()) <= 100, wide


def test_a_stream_holds_no_latency() -> None:
    latency, bandwidth = refusals(DOUBLINGS, line(2e-6, 48e9)(DOUBLINGS), streamed=True, tool="OSU")
    assert latency.startswith("OSU keeps many messages under way")
    assert bandwidth == ""


def test_one_rank_sent_nothing() -> None:
    latency, bandwidth = refusals(DOUBLINGS, line(4e-6, 1e12)(DOUBLINGS), ranks=1)
    assert latency == bandwidth
    assert "each process ran alone (n = 1)" in latency


def test_numbers_without_a_size_are_a_bandwidth_a_latency_or_a_time() -> None:
    def of(kind: Any, *values: float) -> CurveFit:  # noqa: ANN401  the literal of Figure
        return one(table(DOUBLINGS, DOUBLINGS, points=(), figures=tuple(Figure(of=kind, value=v) for v in values)))

    bandwidth, latency, time = of("bandwidth", 270e9, 274e9, 280e9), of("latency", 2e-6), of("time", 17.6e-6)
    assert bandwidth.bandwidth is not None
    assert (bandwidth.bandwidth.value, bandwidth.bandwidth.low, bandwidth.bandwidth.high) == (274e9, 270e9, 280e9)
    assert bandwidth.latency_refusal.startswith("only a bandwidth is printed")
    assert latency.latency is not None
    assert latency.latency.value == 2e-6
    assert latency.bandwidth_refusal
    assert (time.latency, time.bandwidth, time.floor_s) == (None, None, 17.6e-6)
    assert time.to_dict()["points"] == 1


def test_nothing_to_fit_is_an_error() -> None:
    with pytest.raises(InputError, match="there is nothing to fit"):
        fit([])


# ------------------------------------------------------------------------------------------------- what it notices


@pytest.mark.parametrize("at", [0, 7, 12])
def test_a_lone_spike_is_left_out_and_named(at: int) -> None:
    times = noisy(two_regimes(DOUBLINGS), 5)
    clean = one(table(DOUBLINGS, times))
    times[at] *= 10
    curve = one(table(DOUBLINGS, times))
    assert clean.latency is not None
    assert curve.latency is not None
    assert np.flatnonzero(curve.series.spikes).tolist() == [at]
    assert curve.latency.value == pytest.approx(clean.latency.value, rel=0.01)
    (text,) = [note.text for note in curve.notes if note.code == "spike"]
    size = units.format_size(float(DOUBLINGS[at]))
    assert re.match(rf"{size} is (9|10|11|9\.\d) times over its neighbours: left out of the fit, so repeat it", text)


def test_two_high_points_in_a_row_are_real() -> None:
    sizes = doublings(10, 22)
    times = np.array([8, 8, 8, 8.1, 8.3, 8.6, 9, 10, 26, 26, 17, 20]) * 1e-6
    assert not spikes(sizes, times).any()
    assert one(table(sizes, times)).series.spikes.sum() == 0


def test_rows_with_wrong_results_are_counted_named_and_left_out() -> None:
    times = two_regimes(DOUBLINGS)
    rows = tuple(
        Point(size_bytes=float(n), seconds=float(t) * (3 if n == 2**16 else 1), wrong=n == 2**16)
        for n, t in zip(DOUBLINGS, times, strict=True)
    )
    curve = one(table(DOUBLINGS, times, points=rows))
    assert 2.0**16 not in curve.series.sizes_bytes
    assert curve.to_dict()["points"] == len(DOUBLINGS)
    assert "wrong-results" in codes(curve)


def test_a_slope_far_under_the_link_is_not_the_link() -> None:
    system, _ = store.system("h100-sxm")
    (curve,) = fit([table(DOUBLINGS, line(30e-6, 1e9)(DOUBLINGS))], system=system).curves
    assert curve.misconfigured
    assert codes(curve)[0] == "not-the-link"
    assert "not the link" in of_curve(curve)
    assert "n_1/2" not in of_curve(curve)
    assert "P2P" in curve.notes[0].text


def test_a_floor_far_above_any_plausible_one_is_not_the_link() -> None:
    curve = one(table(DOUBLINGS, line(2e-3, 100e9)(DOUBLINGS)))
    assert curve.misconfigured
    assert "configuration or software" in of_curve(curve)


def test_faster_than_the_link_is_in_network_reduction() -> None:
    system, _ = store.system("h100-sxm")
    (curve,) = fit([table(DOUBLINGS, line(20e-6, 275e9)(DOUBLINGS))], system=system).curves
    assert not curve.misconfigured
    text = next(note.text for note in curve.notes if note.code == "above-the-link")
    assert "in-network reduction" in text


def test_a_latency_that_no_link_has_is_an_error_of_units() -> None:
    assert "too-fast" in codes(one(table(DOUBLINGS, line(1e-8, 100e9)(DOUBLINGS))))


def test_an_unknown_quantity_is_said() -> None:
    assert "quantity-unknown" in codes(one(table(DOUBLINGS, two_regimes(DOUBLINGS), quantity=None)))


def test_the_notes_of_a_reader_come_first_and_are_not_repeated() -> None:
    own = Note(code="quantity-unknown", text="the reader's own words")
    curve = one(table(DOUBLINGS, two_regimes(DOUBLINGS), quantity=None, notes=(own,)))
    assert curve.notes[0] == own
    assert codes(curve).count("quantity-unknown") == 1


# ------------------------------------------------------------------------------------------------- what to run next


def test_a_full_sweep_needs_nothing_more() -> None:
    assert advise(one(table(DOUBLINGS, two_regimes(DOUBLINGS)))) is None


def test_a_sweep_without_small_sizes_is_told_which_to_add() -> None:
    sizes = doublings(29, 34)
    advice = advise(one(table(sizes, line(20e-6, 500e9)(sizes))))
    assert advice is not None
    assert advice.sizes_bytes[0] == 8
    assert max(advice.sizes_bytes) <= 4096
    assert advice.command == "all_reduce_perf -b 8 -e 8G -f 2 -g 8"


@pytest.mark.parametrize(
    ("tool", "op", "expected"),
    [
        ("NetPIPE", Op.SEND_RECV,
         "nhalf measure --connect OTHER_HOST  # after nhalf measure --listen HOST there"),
        ("Gloo benchmark", Op.ALL_REDUCE,
         "torchrun --nproc-per-node 4 -m nhalf measure --backend gloo --ops all-reduce --sizes 8B:1GiB"),
        ("IMB", Op.ALL_REDUCE, "mpirun -np 4 IMB-MPI1 Allreduce -npmin 4 -msglog 3:30"),
        ("OSU", Op.BROADCAST, "mpirun -np 4 osu_bcast -m 8:1073741824"),
        ("UCC perftest", Op.ALL_REDUCE, "# the same benchmark (UCC perftest) once more, at these sizes"),
        ("rccl-tests", Op.ALL_REDUCE, "all_reduce_perf -b 8 -e 1G -f 2 -g 4"),
    ],
)  # fmt: skip
def test_what_to_run_next_measures_the_path_of_the_log(tool: str, op: Op, expected: str) -> None:
    sizes = doublings(3, 22)
    advice = advise(one(table(sizes, line(20e-6, 400e9)(sizes), ranks=4, tool=tool, op=op)))
    assert advice is not None
    assert advice.command == expected


def test_sizes_of_a_command_are_exact() -> None:
    series = one(table(DOUBLINGS, two_regimes(DOUBLINGS), tool="NetPIPE")).series
    assert "--sizes 8B:1000003B " in command(series, largest=1000003.0)
    assert "--sizes 8B:24MiB " in command(series, largest=24.0 * 2**20)


def test_the_advised_sizes_settle_the_bandwidth() -> None:
    law = line(20e-6, 400e9)
    sizes = doublings(3, 22)
    advice = advise(one(table(sizes, law(sizes), nodes=2, ranks=16)))
    assert advice is not None
    assert advice.command.startswith("mpirun -np 16 all_reduce_perf")
    more = np.concatenate([sizes, advice.sizes_bytes])
    assert one(table(more, law(more))).bandwidth_refusal == ""


def test_ranks_that_never_met_are_told_to_build_with_mpi() -> None:
    advice = advise(one(table(DOUBLINGS, line(4e-6, 1e12)(DOUBLINGS), ranks=1)))
    assert advice is not None
    assert "MPI=1" in advice.why


# ------------------------------------------------------------------------------------------------- several curves


def test_two_runs_of_one_operation_are_two_curves() -> None:
    tables = [
        table(DOUBLINGS, two_regimes(DOUBLINGS), label="run 1"),
        table(DOUBLINGS, 2 * two_regimes(DOUBLINGS), label="run 2"),
    ]
    found: Fit = fit(tables)
    assert [curve.series.key.label for curve in found.curves] == ["run 1", "run 2"]
    assert found.select(label="run 2").curves[0].floor_s == pytest.approx(2 * 15.6e-6, rel=0.01)


def test_many_runs_of_one_sweep_are_repeats_and_a_few_are_not() -> None:
    runs = [table(DOUBLINGS, noisy(two_regimes(DOUBLINGS), seed), label=f"run {seed}") for seed in range(40)]
    curve = one(*runs)
    assert "many-runs" in codes(curve)
    assert curve.series.repeats == 40
    assert curve.series.key.label == ""
    assert len(fit(runs[:3]).curves) == 3


def test_select_refuses_what_no_curve_has() -> None:
    found = fit([table(DOUBLINGS, two_regimes(DOUBLINGS))])
    with pytest.raises(InputError, match=r"no curve has ranks=4\. Allowed: all-reduce on 8 ranks"):
        found.select(ranks=4)
    with pytest.raises(InputError, match="a curve has no 'rank'"):
        found.select(rank=8)


def test_series_keys_are_hashable_and_frozen() -> None:
    key = one(table(DOUBLINGS, two_regimes(DOUBLINGS))).series.key
    assert len({key, dataclasses.replace(key)}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        key.ranks = 4  # type: ignore[misc]


def test_a_chart_has_a_mark_for_every_point() -> None:
    pytest.importorskip("altair")
    chart = fit([table(DOUBLINGS, two_regimes(DOUBLINGS))]).plot().to_dict()
    points = chart["vconcat"][0]["layer"][0]["data"]["values"]
    assert len(points) == len(DOUBLINGS)
    assert all(math.isfinite(point["residual"]) for point in points)


# --- what a page says of odd values ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("low", "high"), [(0.0, 2.0), (None, 2.0), (1.0, None), (0.2, 2.1)])
def test_an_interval_that_is_open_or_wider_than_a_decade_is_open(low: float | None, high: float | None) -> None:
    assert is_open(Estimate(value=1.0, low=low, high=high))
    assert not is_open(Estimate(value=1.0, low=0.5, high=4.9))


def test_a_segment_without_a_latency_shows_a_dash() -> None:
    found = Segment(from_bytes=2.0**20, to_bytes=2.0**23, latency_s=0.0, bandwidth_bytes_per_s=1e9, first=0, last=3)
    assert _segment(found, (None, None))[2:4] == ["-", "cannot tell"]
    told = _segment(dataclasses.replace(found, latency_s=5e-6), (None, None))
    assert told[2] == "5 us"
