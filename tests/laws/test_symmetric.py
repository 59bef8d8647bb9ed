"""NCCL's model of its symmetric kernels against its published constants."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nhalf.breakdown import audit
from nhalf.catalog import store
from nhalf.laws.symmetric import symmetric_all_reduce

GIB = 2.0**30


@pytest.mark.parametrize(
    ("architecture", "low", "base", "peak", "multicast"),
    [("hopper", 4.5, 7.8, 320, 480), ("blackwell", 11.0, 19.5, 600, 1000), ("blackwell-ultra", 11.0, 19.5, 600, 1000)],
)
def test_each_kernel_is_its_model(architecture: str, low: float, base: float, peak: float, multicast: float) -> None:
    kernels, _ = store.symmetric(architecture)
    assert kernels is not None
    size, ranks = 2.0**20, 8
    found = symmetric_all_reduce(size, ranks, kernels, multicast=True)
    bytes_of = {
        "AGxLL_R": (low, 9 * ranks * size, peak),
        "RSxLD_AGxST": (base, 2 * size * 7 / 8, peak),
        "RSxLDMC_AGxSTMC": (base, size * 9 / 8, multicast),
    }
    assert set(found) == set(bytes_of)
    for name, (fixed, moved, rate) in bytes_of.items():
        hidden = math.log1p(math.exp(moved / (rate * GIB) * 1e6 - 1))
        assert float(np.mean(found[name].value)) == pytest.approx((fixed + hidden) * 1e-6, rel=1e-3)
        assert audit(found[name]) == []


def test_small_messages_cost_the_fixed_time_and_large_ones_their_bytes() -> None:
    kernels, _ = store.symmetric("hopper")
    assert kernels is not None
    times = symmetric_all_reduce(np.array([8.0, 2.0**33]), 8, kernels, multicast=False)
    assert set(times) == {"AGxLL_R", "RSxLD_AGxST"}
    small, large = np.asarray(times["RSxLD_AGxST"].value)
    assert small == pytest.approx(7.8e-6 + 0.313e-6, rel=1e-3)  # ln(1 + 1 / e) of a microsecond
    assert large == pytest.approx(1.75 * 2.0**33 / (320 * GIB), rel=1e-3)


def test_an_architecture_without_such_kernels_has_none() -> None:
    assert store.symmetric("cdna3") == (None, {})
