"""Crossings of two measured curves: the size where they cross is held by its interval, and what is alike is said so."""

from __future__ import annotations

import numpy as np
import pytest

from nhalf.collective import Op
from nhalf.evidence.crossing import contests, names
from nhalf.evidence.fit import Fit, fit
from nhalf.evidence.table import Point, Table
from nhalf.loading.devices import system_of_device
from nhalf.report.fit_parts import faster

SIZES = np.exp2(np.arange(10.0, 29.0))


def log(file: str, latency_s: float, bandwidth: float, seed: int, **changes: object) -> Table:
    """Return a sweep with 1 % noise of each point and 3 % of the launch."""
    random = np.random.default_rng(seed)
    noise = 0.01 * random.standard_normal(len(SIZES)) + 0.03 * random.standard_normal()
    times = (latency_s + SIZES / bandwidth) * np.exp(noise)
    points = tuple(Point(size_bytes=float(n), seconds=float(t)) for n, t in zip(SIZES, times, strict=True))
    fields = {"tool": "csv", "op": Op.ALL_REDUCE, "ranks": 8, "quantity": "graph", "points": points} | changes
    return Table(file=file, **fields)  # type: ignore[arg-type]


def both(*tables: Table) -> Fit:
    return fit(list(tables))


def test_the_interval_of_a_crossing_holds_the_truth_at_its_level() -> None:
    held = 0
    for run in range(120):
        random = np.random.default_rng(1000 + run)
        small, large = 10 ** random.uniform(10, 11), random.uniform(1.5, 8.0)
        slow = 5e-6 * random.uniform(1.5, 8.0)
        truth = (slow - 5e-6) / (1 / small - 1 / (small * large))
        (contest,) = contests(both(log("a", 5e-6, small, 2 * run), log("b", slow, small * large, 2 * run + 1)).curves)
        held += any(
            (each.low_bytes or 0.0) <= truth <= each.high_bytes and (each.a, each.b) == ("a", "b")
            for each in contest.crossings
        )
    assert held >= 107  # of 120: 95 % less three standard deviations


def test_a_model_makes_a_batch_of_a_size() -> None:
    (contest,) = contests(both(log("a", 5e-6, 1e10, 1), log("b", 2e-5, 8e10, 2)).curves, message_bytes=16384.0)
    (crossing,) = contest.crossings
    assert crossing.batch == int(np.ceil(crossing.size_bytes / 16384))
    assert f": batch {crossing.batch}" in faster(contest)


def test_curves_that_differ_by_no_more_than_launches_do_not_cross() -> None:
    (contest,) = contests(both(log("a", 5e-6, 1e11, 1), log("b", 5e-6, 1e11, 2)).curves)
    assert (contest.crossings, contest.stretches) == ((), ())
    assert faster(contest) == "a and b do not differ outside the noise, 1 KiB to 256 MiB"


def test_where_small_sizes_are_alike_the_crossing_has_no_lower_end() -> None:
    (contest,) = contests(both(log("a", 5e-6, 1e11, 1), log("b", 5e-6, 1e10, 1)).curves)
    (crossing,) = contest.crossings
    assert (crossing.a, crossing.b, crossing.low_bytes) == ("b", "a", None)
    assert "alike below" in faster(contest)


def test_one_that_is_faster_everywhere_is_said_to_be() -> None:
    (contest,) = contests(both(log("a", 5e-6, 1e11, 1), log("b", 2e-5, 1e10, 2)).curves)
    assert faster(contest) == "a is faster than b at every size, 1 KiB to 256 MiB"


def test_only_like_is_set_against_like() -> None:
    assert contests(both(log("a", 5e-6, 1e11, 1), log("b", 5e-6, 1e11, 2, op=Op.ALL_GATHER)).curves) == []
    assert contests(both(log("a", 5e-6, 1e11, 1), log("b", 5e-6, 1e11, 2, streamed=True)).curves) == []
    assert contests(both(log("a", 5e-6, 1e11, 1), log("a", 9e-6, 1e11, 2, ranks=4)).curves) == []


def test_names_are_as_short_as_they_can_be() -> None:
    assert names(both(log("x/a.txt", 5e-6, 1e11, 1), log("x/b.txt", 5e-6, 1e11, 2)).curves) == ["a.txt", "b.txt"]
    assert names(both(log("a", 5e-6, 1e11, 1, label="run 1"), log("a", 5e-6, 1e11, 2, label="run 2")).curves) == [
        "run 1", "run 2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("device", "system"),
    [
        ("NVIDIA B200", "b200-sxm"), ("NVIDIA H100 80GB HBM3", "h100-sxm"), ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA GH200 120GB", "gh200"), ("NVIDIA GB200", "gb200-nvl72"), ("NVIDIA A100-SXM4-80GB", "a100-sxm"),
        ("AMD Instinct MI300X", "mi300x"), ("NVIDIA GeForce RTX 4090", "rtx-4090-pair"), ("NVIDIA L40S", "l40s"),
        ("Tesla V100-SXM2-32GB", "v100-sxm"), ("NVIDIA H100 NVL", "h100-nvl-pair"), ("NVIDIA A100-PCIE-40GB", ""),
        ("NVIDIA Q9000", ""), ("", ""),
    ],
)  # fmt: skip
def test_the_device_that_a_log_names_is_a_system_of_the_catalogue(device: str, system: str) -> None:
    assert system_of_device(device) == system
