"""Measured curves: what holds between, below and above the points, between ranks, and what a line makes of them."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from nhalf.breakdown import Array, audit, leaf
from nhalf.collective import Mode, Op
from nhalf.curve import CurveKey, MeasuredCurve, fit_line
from nhalf.errors import InputError
from nhalf.sample import Sample

KEY = CurveKey(
    system="h100-sxm", library="vllm", version="0.24.0", mode=Mode.GRAPH, op=Op.ALL_REDUCE, dtype="bfloat16", kernel="k"
)
SIZES = np.array([512.0, 1024.0, 2048.0, 4096.0, 16384.0, 65536.0, 1048576.0])
TIMES_2 = np.array([9.0, 4.0, 4.4, 4.2, 5.0, 6.0, 20.0]) * 1e-6
TIMES_8 = np.array([6.0, 5.0, 5.2, 5.4, 12.0, 9.0, 40.0]) * 1e-6  # a switch of algorithm: it falls after 16 KiB


def curve(**changes: Any) -> MeasuredCurve:  # noqa: ANN401  any field of the class
    fields: dict[str, Any] = {
        "key": KEY,
        "ranks": (2, 8),
        "sizes_bytes": (SIZES, SIZES),
        "times_s": (TIMES_2, TIMES_8),
        "log_sd": 0.02,
        "source": "a paper",
        "locator": "table 1",
        "date": "2026-09",
    }
    return MeasuredCurve(**(fields | changes))


def of_points(sizes: Array, times: Array) -> MeasuredCurve:
    return curve(ranks=(8,), sizes_bytes=(sizes,), times_s=(times,))


# ---------------------------------------------------------------------------------------------------- time and size


@pytest.mark.parametrize(("ranks", "times"), [(2, TIMES_2), (8, TIMES_8)])
def test_the_curve_passes_through_every_point_above_the_smallest(ranks: int, times: Array) -> None:
    for size, time in zip(SIZES[1:], times[1:], strict=True):
        assert curve().time_s(float(size), ranks) == pytest.approx(time, rel=1e-12)


def test_three_points_are_joined_by_straight_lines_in_log_log() -> None:
    few = of_points(SIZES[-3:], TIMES_8[-3:])
    assert few.time_s(math.sqrt(65536 * 1048576), 8) == pytest.approx(math.sqrt(9e-6 * 40e-6), rel=1e-12)


def law(sizes: Array, ranks: int) -> Array:
    """Return the times [s] of a smooth curve: steps, and bytes at 200 GB/s."""
    return np.asarray(3e-6 + 0.5e-6 * (ranks - 1) + 2 * (ranks - 1) / ranks * sizes / 200e9)


def of_law(*ranks: int) -> MeasuredCurve:
    sizes: Array = 1024.0 * np.power(8.0, np.arange(7, dtype=np.float64))
    return curve(ranks=ranks, sizes_bytes=(sizes,) * len(ranks), times_s=tuple(law(sizes, k) for k in ranks))


def worst(predicted: Array, measured: Array) -> float:
    return float(np.abs(np.asarray(predicted) / measured - 1).max())


def test_between_points_it_bends_as_a_floor_and_a_ceiling_do() -> None:
    sizes = of_law(8).sizes_bytes[0]
    middles: Array = np.sqrt(sizes[1:] * sizes[:-1])
    straight = np.exp(np.interp(np.log(middles), np.log(sizes), np.log(law(sizes, 8))))
    bent = worst(np.asarray(of_law(8).time_s(middles, 8)), law(middles, 8))
    assert bent < 0.03
    assert worst(straight, law(middles, 8)) > 5 * bent


def test_it_may_fall() -> None:
    assert curve().time_s(65536.0, 8) < curve().time_s(16384.0, 8)


def test_the_floor_is_the_median_of_the_small_messages() -> None:
    assert curve().floor_s(2) == pytest.approx(4.4e-6)
    assert curve().floor_s(8) == pytest.approx(5.2e-6)


def test_the_floor_of_a_curve_without_small_messages_is_its_first_time() -> None:
    assert of_points(SIZES[4:], TIMES_8[4:]).floor_s(8) == pytest.approx(12e-6)


@pytest.mark.parametrize("size", [0.0, 1.0, 511.0, 512.0])
def test_the_floor_holds_at_and_below_the_smallest_size(size: float) -> None:
    assert curve().time_s(size, 8) == pytest.approx(5.2e-6)
    assert np.asarray(curve().time_s(np.array([size]), 8)) == pytest.approx([5.2e-6])


@pytest.mark.parametrize("factor", [2.0, 1000.0, 2.0**40])
def test_the_bandwidth_of_the_last_point_holds_above_it(factor: float) -> None:
    assert curve().time_s(1048576 * factor, 8) == pytest.approx(40e-6 * factor, rel=1e-9)


@given(st.lists(st.floats(0, 1e15), min_size=1, max_size=20), st.integers(1, 8))
def test_an_array_gives_what_its_scalars_give(sizes: list[float], ranks: int) -> None:
    at = curve().at(ranks)
    array = at(np.array(sizes))
    assert isinstance(array, np.ndarray)
    assert array == pytest.approx([at(size) for size in sizes], rel=1e-12)


def test_a_number_in_gives_a_float_out_and_an_array_keeps_its_shape() -> None:
    assert type(curve().time_s(16384, 8)) is float
    assert type(curve().time_s(16384.0, 1)) is float
    for ranks in (1, 8):
        array = curve().time_s(np.full((2, 3), 16384.0), ranks)
        assert isinstance(array, np.ndarray)
        assert array.shape == (2, 3)


# ------------------------------------------------------------------------------------------------------------ ranks


def test_one_rank_waits_for_nobody() -> None:
    assert curve().time_s(16384.0, 1) == 0
    assert not np.any(curve().time_s(SIZES, 1))
    assert curve().floor_s(1) == 0


def test_ranks_between_measured_ones_follow_the_steps_that_all_share() -> None:
    several, sizes = of_law(2, 4, 8), of_law(8).sizes_bytes[0]
    straight = np.sqrt(law(sizes, 4) * law(sizes, 8))  # 5.7 is half-way from 4 to 8 in the logarithm
    for ranks in (3, 5, 6, 7):
        assert worst(np.asarray(several.time_s(sizes, ranks)), law(sizes, ranks)) < 0.03
    assert worst(straight, law(sizes, 6)) > 0.02
    assert [several.is_measured(ranks) for ranks in (1, 2, 6, 8)] == [False, True, False, True]


@given(st.floats(1, 1e12), st.integers(3, 7))
def test_ranks_of_unlike_sizes_give_a_time_at_every_size(size: float, ranks: int) -> None:
    both = curve(sizes_bytes=(SIZES[::2], SIZES[1:]), times_s=(TIMES_2[::2], TIMES_8[1:]))
    assert 1e-6 < float(both.time_s(size, ranks)) < 1e-4 * max(1.0, size / 1e6)


def test_the_band_is_narrow_at_a_point_and_wider_the_less_is_known() -> None:
    several = of_law(2, 8)
    sizes = several.sizes_bytes[0]
    at, between = several.half_width(sizes, 8), several.half_width(np.sqrt(sizes[1:] * sizes[:-1]), 8)
    beyond = several.half_width(np.array([sizes[-1] * 2.0, sizes[-1] * 16.0]), 8)
    assert at == pytest.approx(at[0])
    assert 0.01 < at[0] < 0.05
    assert between.max() > 2 * at[0]
    assert at[0] < beyond[0] < beyond[1]
    assert (several.half_width(sizes, 4) > at).all()
    assert (several.half_width(np.array([0.0, 1e-300]), 8) > at[0]).all()


def test_the_band_between_ranks_that_are_far_apart_is_wide() -> None:
    sizes = of_law(2).sizes_bytes[0]
    apart = curve(ranks=(2, 8), sizes_bytes=(sizes, sizes), times_s=(law(sizes, 2), 10 * law(sizes, 8)))
    assert (apart.half_width(sizes, 4) > 1.5 * of_law(2, 8).half_width(sizes, 4)).all()


def test_eager_points_are_noisier() -> None:
    eager = curve(key=dataclasses.replace(KEY, mode=Mode.EAGER))
    assert (eager.half_width(SIZES, 8) > curve().half_width(SIZES, 8)).all()


@pytest.mark.parametrize("ranks", [0, -1, 9, 16])
def test_ranks_that_were_not_measured_around_are_refused(ranks: int) -> None:
    with pytest.raises(InputError, match=r"vllm 0\.24\.0.*outside what was measured \(2, 8\).*1, or 2 to 8"):
        curve().time_s(16384.0, ranks)


def test_ranks_below_the_smallest_measured_are_refused() -> None:
    with pytest.raises(InputError, match="3 ranks lie outside"):
        of_points(SIZES, TIMES_8).floor_s(3)


def test_a_kernel_for_even_counts_says_nothing_of_odd_ones() -> None:
    even = curve(even_only=True)
    assert [ranks for ranks in range(1, 10) if even.covers(ranks)] == [1, 2, 4, 6, 8]
    with pytest.raises(InputError, match="even ones"):
        even.time_s(16384.0, 5)


# ------------------------------------------------------------------------------------------------------- crossovers


def test_the_time_at_the_double_floor_size_is_twice_the_floor() -> None:
    for ranks in (2, 3, 8):
        size = curve().double_floor_size_bytes(ranks)
        assert curve().time_s(size, ranks) == pytest.approx(2 * curve().floor_s(ranks), rel=1e-9)


def test_a_stretch_that_falls_back_below_does_not_count_as_the_crossover() -> None:
    # 12 us at 16 KiB is above twice the floor of 5.2 us, 9 us at 64 KiB is not.
    assert 65536 < curve().double_floor_size_bytes(8) < 1048576


def test_a_curve_that_never_doubles_is_followed_at_its_last_bandwidth() -> None:
    flat = of_points(np.array([1024.0, 4096.0]), np.array([4e-6, 5e-6]))
    assert flat.double_floor_size_bytes(8) == pytest.approx(4096 * 8 / 5)


@pytest.mark.parametrize("method", ["double_floor_size_bytes", "line"])
def test_one_rank_has_no_crossover_and_no_line(method: str) -> None:
    with pytest.raises(InputError, match="one rank"):
        getattr(curve(), method)(1)


# ------------------------------------------------------------------------------------------------------------- line

POSITIVE = st.floats(1e-7, 1e-3)
LISTS = st.lists(st.tuples(st.floats(1, 1e9), POSITIVE), min_size=2, max_size=12)


@given(st.floats(0, 1e-3), st.floats(1e6, 1e13))
def test_a_line_comes_back_from_its_own_points(alpha: float, beta: float) -> None:
    line = fit_line(SIZES, alpha + SIZES / beta)
    assert alpha + SIZES / beta == pytest.approx(line.latency_s + SIZES / line.bandwidth_bytes_per_s, rel=1e-6)
    assert line.misfit_max < 1e-6


@given(LISTS)
def test_the_line_is_the_non_negative_least_squares_solution(points: list[tuple[float, float]]) -> None:
    sizes, times = np.array(points).T
    line = fit_line(sizes, times)
    scale = float(sizes.max())
    columns = np.stack([1 / times, sizes / scale / times], axis=1)
    _, residual = nnls(columns / np.abs(columns).max(axis=0), np.ones(len(times)))
    error = (line.latency_s + sizes / line.bandwidth_bytes_per_s) / times - 1
    assert line.latency_s >= 0
    assert line.bandwidth_bytes_per_s > 0
    assert math.sqrt(float(error @ error)) == pytest.approx(float(residual), rel=1e-5, abs=1e-6)
    assert line.misfit_max == pytest.approx(float(np.abs(error).max()), abs=1e-9)


def test_a_time_that_falls_with_size_has_no_bandwidth_and_one_through_zero_no_latency() -> None:
    falling = fit_line(np.array([1e3, 1e6]), np.array([4e-6, 2e-6]))
    assert falling.bandwidth_bytes_per_s == math.inf
    assert falling.half_size_bytes == math.inf
    steep = fit_line(np.array([1e3, 1e6]), np.array([1e-6, 3e-3]))
    assert steep.latency_s == 0
    assert steep.half_size_bytes == 0


def test_the_line_weighs_small_and_large_messages_alike() -> None:
    # Plain least squares would follow the largest message to the letter and lose the fixed time.
    line = fit_line(np.array([1e3, 1e4, 1e9, 2e9]), np.array([5e-6, 5e-6, 10e-3, 22e-3]))
    assert line.latency_s == pytest.approx(5e-6, rel=0.05)


def test_the_line_of_a_curve_uses_its_measured_points() -> None:
    assert curve().line(8) == fit_line(SIZES, TIMES_8)
    between = curve().line(4)
    assert curve().line(2).latency_s < between.latency_s < curve().line(8).latency_s


@pytest.mark.parametrize(
    ("sizes", "times"), [([], []), ([1.0], [1.0, 2.0]), ([1.0, 2.0], [1.0, 0.0]), ([1.0], [math.nan])]
)
def test_points_that_give_no_line_are_refused(sizes: list[float], times: list[float]) -> None:
    with pytest.raises(InputError, match="give no line"):
        fit_line(np.array(sizes), np.array(times))


# --------------------------------------------------------------------------------------------------- names and uses


def test_a_curve_is_an_input_of_a_formula() -> None:
    at = curve().at(8)
    term = leaf("all-reduce", "curve(n)", {"curve": at, "n": SIZES})
    assert term.value is not None
    assert np.array_equal(np.asarray(term.value), np.asarray(at(SIZES)))
    assert audit(term) == []
    assert str(term.inputs["curve"]) == "h100-sxm/vllm 0.24.0/graph/all-reduce/bfloat16 x8"


def test_the_curve_at_some_ranks_is_made_once() -> None:
    one = curve()
    assert one.at(8) is one.at(8)


def test_a_key_can_be_compared_and_looked_up() -> None:
    assert str(KEY) == "h100-sxm/vllm 0.24.0/graph/all-reduce/bfloat16"
    assert {KEY: 1}[dataclasses.replace(KEY)] == 1
    assert dataclasses.replace(KEY, mode=Mode.EAGER) != KEY


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ranks": ()}, "one array of sizes"),
        ({"ranks": (2,)}, "one array of sizes"),
        ({"ranks": (8, 2)}, "do not rise"),
        ({"ranks": (1, 8)}, "do not rise"),
        ({"log_sd": -0.1}, "noise"),
        ({"log_sd": math.nan}, "noise"),
        ({"sizes_bytes": (SIZES, SIZES[:-1])}, "x8: 6 sizes and 7 times do not pair"),
        ({"sizes_bytes": (SIZES, SIZES[::-1])}, "the sizes do not rise"),
        ({"sizes_bytes": (SIZES - 512, SIZES)}, "x2: the sizes do not rise from above 0"),
        ({"times_s": (TIMES_2, TIMES_8 * 0)}, "not positive"),
        ({"times_s": (TIMES_2 * math.inf, TIMES_8)}, "not positive and finite"),
    ],
)
def test_points_that_make_no_curve_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        curve(**changes)


# ---------------------------------------------------------------------------------------------------------- samples


def test_a_sample_says_nothing_that_it_does_not_know() -> None:
    sample = Sample(op=Op.ALL_REDUCE, size_bytes=16384, ranks=8, seconds=5e-6)
    assert (sample.nodes, sample.mode, sample.quantity, sample.environment, sample.repeat) == (
        None,
        None,
        "isolated",
        {},
        0,
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"size_bytes": -1},
        {"size_bytes": math.inf},
        {"seconds": 0},
        {"seconds": math.nan},
        {"ranks": 0},
        {"nodes": 0},
        {"repeat": -1},
        {"quantity": "guessed"},
    ],
)
def test_a_sample_that_cannot_have_been_measured_is_refused(changes: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"op": Op.ALL_REDUCE, "size_bytes": 16384, "ranks": 8, "seconds": 5e-6}
    with pytest.raises(InputError, match="sample of all-reduce") as caught:
        Sample(**(fields | changes))
    assert caught.value.allowed
