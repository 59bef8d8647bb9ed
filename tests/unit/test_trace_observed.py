"""Observed: the transfers of a trace, fitted as a benchmark's would be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.trace_runs import Plan, make

from nhalf.collective import Op
from nhalf.decide.observed import fit_of, samples_of
from nhalf.trace.study import Options, Study, study

if TYPE_CHECKING:
    from pathlib import Path

SIZES = (16384, 65536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864, 268_435_456)


def studied(folder: Path, plan: Plan, ranks: tuple[int, ...] | None = None) -> Study:
    return study(make(plan).write(folder, ranks), Options())


def test_the_fit_of_a_trace_finds_what_made_it(tmp_path: Path) -> None:
    found = studied(tmp_path, Plan(sizes=SIZES, slow={1: 6.0}, offsets={2: 200.0}))
    fit = fit_of(found)
    assert fit is not None
    (curve,) = fit.curves
    assert (curve.series.key.op, curve.series.key.ranks) == (Op.ALL_REDUCE, 4)
    assert curve.latency is not None
    assert curve.latency.value == pytest.approx(9.1e-6, rel=0.03)
    assert curve.latency.low is not None
    assert curve.latency.high is not None
    assert curve.latency.low < 9.2e-6 < curve.latency.high * 1.05
    assert curve.bandwidth is not None
    assert curve.bandwidth.value == pytest.approx(150e9, rel=0.03)


def test_samples_leave_waiting_out(tmp_path: Path) -> None:
    samples = samples_of(studied(tmp_path, Plan(slow={1: 60.0})))
    assert {sample.size_bytes for sample in samples} == {16384.0}
    assert max(sample.seconds for sample in samples) < 12e-6
    assert len(samples) == 48


def test_nothing_is_fitted_from_one_size_or_one_rank(tmp_path: Path) -> None:
    assert fit_of(studied(tmp_path / "a", Plan())) is None
    assert fit_of(studied(tmp_path / "b", Plan(sizes=SIZES), (0,))) is None
