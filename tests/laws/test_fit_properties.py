"""What must hold for every fit: units do not matter, noise is covered, segments are optimal, bands grow with doubt."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from nhalf.collective import Op
from nhalf.curve import fit_line
from nhalf.curve.leastsquares import nonnegative, robust
from nhalf.evidence.fit import fit
from nhalf.evidence.lines import robust_line
from nhalf.evidence.segments import LEAST_POINTS, split
from nhalf.evidence.table import Point, Table

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.evidence.curvefit import CurveFit


def doublings(first: int, last: int) -> Array:
    """Return the powers of two from 2^first up to, and without, 2^last."""
    sizes: Array = np.exp2(np.arange(first, last, dtype=np.float64))
    return sizes


SIZES = doublings(3, 29)
LATENCY = st.floats(5e-7, 1e-3)
BANDWIDTH = st.floats(1e9, 1e12)


def curve(sizes: Array, times: Array) -> CurveFit:
    points = tuple(Point(size_bytes=float(n), seconds=float(t)) for n, t in zip(sizes, times, strict=True))
    (found,) = fit([Table(file="", tool="csv", op=Op.ALL_REDUCE, ranks=8, quantity="graph", points=points)]).curves
    return found


def noisy(times: Array, seed: int, spread: float) -> Array:
    noise: Array = times * np.exp(spread * np.random.default_rng(seed).standard_normal(len(times)))
    return noise


# ------------------------------------------------------------------------------------------------- least squares


@given(st.integers(0, 10_000), st.integers(1, 5))
def test_nonnegative_least_squares_agrees_with_lawson_and_hanson(seed: int, unknowns: int) -> None:
    random = np.random.default_rng(seed)
    columns, target = random.standard_normal((12, unknowns)), random.standard_normal(12)
    mine = nonnegative(columns.T @ columns, columns.T @ target)
    theirs, residual = nnls(columns, target)
    assert np.all(mine >= 0)
    assert np.linalg.norm(columns @ mine - target) == pytest.approx(residual, rel=1e-6, abs=1e-9)
    np.testing.assert_allclose(mine, theirs, atol=1e-6)


@given(LATENCY, BANDWIDTH)
def test_without_noise_the_robust_line_is_the_plain_one(latency: float, bandwidth: float) -> None:
    times = latency + SIZES / bandwidth
    plain, (line, weights) = fit_line(SIZES, times), robust_line(SIZES, times)
    assert line.latency_s == pytest.approx(plain.latency_s, rel=1e-6)
    assert line.bandwidth_bytes_per_s == pytest.approx(plain.bandwidth_bytes_per_s, rel=1e-6)
    assert np.all(weights == 1.0)


@given(st.integers(0, 25), st.floats(2.0, 1000.0))
def test_one_wild_point_moves_the_line_less_than_its_noise(at: int, factor: float) -> None:
    times = noisy(10e-6 + SIZES / 100e9, 1, 0.01)
    clean, _ = robust_line(SIZES, times)
    times[at] *= factor
    line, _ = robust_line(SIZES, times)
    assert line.latency_s == pytest.approx(clean.latency_s, rel=0.03)
    assert line.bandwidth_bytes_per_s == pytest.approx(clean.bandwidth_bytes_per_s, rel=0.06)


def test_weights_tell_who_was_far_off() -> None:
    columns, target = np.ones((9, 1)), np.array([1.0] * 8 + [3.0])
    found, weights = robust(columns, target)
    assert found[0] == pytest.approx(1.0, abs=0.01)
    assert weights[-1] < 0.01


# ------------------------------------------------------------------------------------------------- units


@given(LATENCY, BANDWIDTH, st.floats(1e-3, 1e3), st.integers(0, 100))
def test_slower_clocks_and_longer_units_change_nothing_else(
    latency: float, bandwidth: float, factor: float, seed: int
) -> None:
    times = noisy(latency + SIZES / bandwidth, seed, 0.01)
    line, slower, longer = (
        robust_line(SIZES, times)[0],
        robust_line(SIZES, factor * times)[0],
        robust_line(8 * SIZES, times)[0],
    )
    assert slower.latency_s == pytest.approx(factor * line.latency_s, rel=1e-6, abs=1e-15)
    assert longer.latency_s == pytest.approx(line.latency_s, rel=1e-6, abs=1e-15)
    assert 1 / slower.bandwidth_bytes_per_s == pytest.approx(factor / line.bandwidth_bytes_per_s, rel=1e-6, abs=1e-22)
    assert 1 / longer.bandwidth_bytes_per_s == pytest.approx(1 / line.bandwidth_bytes_per_s / 8, rel=1e-6, abs=1e-22)


@settings(max_examples=30)
@given(st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(random: object) -> None:
    rows = list(zip(SIZES, noisy(10e-6 + SIZES / 100e9, 2, 0.01), strict=True))
    one = curve(*map(np.array, zip(*rows, strict=True)))
    random.shuffle(rows)  # type: ignore[attr-defined]
    other = curve(*map(np.array, zip(*rows, strict=True)))
    assert one.to_dict() == other.to_dict()


# ------------------------------------------------------------------------------------------------- segments


def relative_error(sizes: Array, times: Array) -> float:
    columns = np.stack([1 / times, sizes / sizes[-1] / times], axis=1)
    return float(nnls(columns, np.ones(len(times)))[1] ** 2)


@given(st.integers(0, 1000), st.integers(4, 8), st.floats(1.2, 3.0))
def test_two_segments_are_cut_at_the_best_place(seed: int, cut: int, jump: float) -> None:
    sizes = doublings(8, 20)
    times = noisy(np.where(np.arange(12) < cut, 1.0, jump) * (10e-6 + sizes / 20e9), seed, 0.003)
    found = split(sizes, times)
    if len(found) != 2:
        return
    cuts = range(LEAST_POINTS, len(sizes) - LEAST_POINTS + 1)
    totals = {at: relative_error(sizes[:at], times[:at]) + relative_error(sizes[at:], times[at:]) for at in cuts}
    # One size earlier is taken where that explains the times as well (1 % of one point).
    assert totals[found[1].first] <= min(totals.values()) + 1e-4 + 1e-9


@given(LATENCY, BANDWIDTH, st.integers(0, 200))
def test_one_law_is_one_segment(latency: float, bandwidth: float, seed: int) -> None:
    assert len(split(SIZES, noisy(latency + SIZES / bandwidth, seed, 0.003))) == 1


@given(st.integers(4, 40), st.integers(0, 200))
def test_segments_cover_every_point_once_with_four_each(count: int, seed: int) -> None:
    sizes: Array = np.exp(0.4 * np.arange(1, count + 1, dtype=np.float64))
    times = np.exp(np.random.default_rng(seed).uniform(-12, -9, count))
    found = split(sizes, times)
    covered = list(itertools.chain.from_iterable(range(s.first, s.last + 1) for s in found))
    assert covered == list(range(count))
    assert len(found) <= 4
    assert all(s.last - s.first + 1 >= LEAST_POINTS for s in found)
    assert all(s.latency_s >= 0 and s.bandwidth_bytes_per_s > 0 for s in found)


# ------------------------------------------------------------------------------------------------- intervals


@pytest.mark.parametrize("spread", [0.003, 0.01, 0.02])
def test_intervals_cover_the_truth_at_their_level(spread: float) -> None:
    latency, bandwidth, runs = 12e-6, 150e9, 120
    inside = {"latency": 0, "bandwidth": 0}
    for seed in range(runs):
        found = curve(SIZES, noisy(latency + SIZES / bandwidth, seed, spread))
        for name, true in (("latency", latency), ("bandwidth", bandwidth)):
            estimate = getattr(found, name)
            inside[name] += estimate.low <= true <= estimate.high
    # 95 % nominal; three standard deviations of 120 draws are 6 %.
    assert inside["latency"] / runs > 0.89
    assert inside["bandwidth"] / runs > 0.89


@settings(max_examples=30)
@given(LATENCY, BANDWIDTH, st.integers(0, 100))
def test_every_interval_holds_its_value(latency: float, bandwidth: float, seed: int) -> None:
    found = curve(SIZES, noisy(latency + SIZES / bandwidth, seed, 0.02))
    for estimate in (found.latency, found.bandwidth):
        if estimate is not None:
            assert estimate.low is not None
            assert estimate.low <= estimate.value
            assert estimate.high is None or estimate.value <= estimate.high


@settings(max_examples=30)
@given(LATENCY, BANDWIDTH, st.integers(0, 100))
def test_half_size_is_where_the_line_doubles_its_latency(latency: float, bandwidth: float, seed: int) -> None:
    found = curve(SIZES, noisy(latency + SIZES / bandwidth, seed, 0.01))
    if found.half_size_bytes is None or found.latency is None or found.bandwidth is None:
        assert found.latency_refusal or found.bandwidth_refusal
        return
    at_half = found.latency.value + found.half_size_bytes / found.bandwidth.value
    assert at_half == pytest.approx(2 * found.latency.value)


@settings(max_examples=30)
@given(st.integers(1, 30), st.integers(0, 300))
def test_any_times_give_an_answer_or_a_reason(count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = np.unique(np.floor(np.exp(random.uniform(0, 21, count))) + 1)
    found = curve(sizes, np.exp(random.uniform(-14, 1, len(sizes))))
    for estimate, refusal in ((found.latency, found.latency_refusal), (found.bandwidth, found.bandwidth_refusal)):
        assert estimate is not None or refusal
        assert estimate is None or (math.isfinite(estimate.value) and estimate.value > 0)


# ------------------------------------------------------------------------------------------------- bands


@settings(max_examples=30)
@given(LATENCY, BANDWIDTH, st.integers(0, 50))
def test_bands_hold_their_value_and_grow_outwards(latency: float, bandwidth: float, seed: int) -> None:
    sizes = doublings(9, 25)
    times = noisy(latency + sizes / bandwidth, seed, 0.01)
    found = fit({"op": ["all-reduce"] * 16, "ranks": [8] * 16, "size_bytes": sizes, "seconds": times})
    asked = np.array([2.0, 2.0**5, 2.0**8, 2.0**25, 2.0**28, 2.0**31])
    time, low, high = found.predict(asked, 8)
    assert np.all((low > 0) & (low < time) & (time < high))
    width = np.log(high / low)
    assert width[0] >= width[1] >= width[2]
    assert width[3] <= width[4] <= width[5]
