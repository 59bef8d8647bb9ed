"""Scores and limits of `nhalf validate`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nhalf.errors import InputError, NoAnswerError
from nhalf.loading.case_table import Table
from nhalf.loading.cases import cases
from nhalf.loading.predictions import predictions
from nhalf.validate import Validation, gate, require, validate

HEADER = ("model", "system", "engine", "isl", "osl", "concurrency", "tp")
ROWS = [
    ["llama-3.1-8b", "h100-sxm", "vllm", "1024", "1024", "1", "1"],
    ["llama-3.1-8b", "h100-sxm", "vllm", "1024", "1024", "16", "1"],
    ["llama-3.1-8b", "h100-sxm", "sglang", "1024", "1024", "16", "1"],
    ["llama-9", "h100-sxm", "vllm", "1024", "1024", "16", "1"],
]


def judged(*factors: float) -> Validation:
    """Return the validation of rows that were measured at so many times their prediction."""
    found = predictions(cases(Table(path="rows", header=HEADER, rows=ROWS)))
    measured = np.where(np.isfinite(found.tpot_s), found.tpot_s, 1.0) * np.array(factors)
    return validate(found, measured)


def test_errors_are_relative_to_what_was_measured() -> None:
    overall = judged(1.25, 1.25, 1.25, 1.0).overall
    assert overall.median_error == pytest.approx(0.2)
    assert overall.p90_error == pytest.approx(0.2)
    assert overall.bias == pytest.approx(-0.2)
    assert (overall.rows, overall.refused) == (4, 1)


def test_every_group_has_its_score_and_a_refused_one_has_none() -> None:
    groups = {(each.system, each.engine, each.model): each for each in judged(1.0, 2.0, 1.0, 1.0).groups}
    assert groups["h100-sxm", "vllm", "llama-3.1-8b"].median_error == pytest.approx(0.25)
    assert groups["h100-sxm", "sglang", "llama-3.1-8b"].median_error == pytest.approx(0.0)
    refused = groups["h100-sxm", "vllm", "llama-9"]
    assert (refused.rows, refused.refused) == (1, 1)
    assert math.isnan(refused.median_error)


def test_the_band_holds_times_near_the_prediction_only() -> None:
    assert judged(1.0, 1.0, 1.0, 1.0).overall.coverage == 1.0
    assert judged(3.0, 1.0, 1.0, 1.0).overall.coverage == pytest.approx(2 / 3)


def test_the_worst_rows_come_first_by_ratio() -> None:
    worst = judged(1.1, 0.3, 1.0, 1.0).worst
    assert [miss.line for miss in worst] == [3, 2, 4]


def test_rows_without_a_measured_time_do_not_count() -> None:
    assert judged(1.0, math.nan, 1.0, math.nan).overall.rows == 2


@pytest.mark.parametrize(
    ("text", "trips"),
    [
        ("median>10%", True), ("median>30%", False), ("p90>0.1", True), ("bias>10%", True), ("coverage<50%", True),
        ("coverage<10%", False), ("refused>20%", True), ("refused>30%", False), ("P90 >= 15 %", True),
        ("median<=0.3", True),
    ],
)  # fmt: skip
def test_a_limit_trips_beyond_its_value(text: str, trips: bool) -> None:  # noqa: FBT001  a table
    overall = judged(1.25, 1.25, 1.25, 1.0).overall if "coverage" not in text else judged(3.0, 3.0, 1.0, 1.0).overall
    if trips:
        with pytest.raises(NoAnswerError, match="--fail-if"):
            require([gate(text)], overall)
    else:
        require([gate(text)], overall)


def test_a_limit_on_nothing_trips() -> None:
    with pytest.raises(NoAnswerError, match="no row could be scored"):
        require([gate("median>10%")], judged(math.nan, math.nan, math.nan, 1.0).overall)


@pytest.mark.parametrize("text", ["median", "median>", "median>x%", "medium>10%", ">10%", "median>1.2.3"])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--fail-if"):
        gate(text)


def test_ratios_pair_loads_that_differ_in_the_devices_alone() -> None:
    rows = [["llama-3.1-8b", "h100-sxm", "vllm", "1024", "1024", "16", tp] for tp in ("1", "2", "4")]
    found = predictions(cases(Table(path="rows", header=HEADER, rows=rows)))
    measured = found.tpot_s * np.array([1.0, 1.1, 1.1])
    one, two = validate(found, measured).ratios
    assert (one.fewer, one.more, one.pairs) == (1, 2, 1)
    assert one.median_error == pytest.approx(1 - 1 / 1.1)
    assert one.bias == pytest.approx(1 / 1.1 - 1)
    assert two.median_error == pytest.approx(0.0)


def test_runs_that_differ_in_library_mode_or_fabric_alone_are_pairs() -> None:
    header = (*HEADER, "library", "mode")
    load = ["llama-3.1-8b", "h100-sxm", "vllm", "1024", "1024", "16", "4"]
    other = [load[0], "h100-sxm-efa", *load[2:]]
    rows = [[*load, "", ""], [*load, "nccl", ""], [*load, "", "eager"], [*other, "", ""]]
    found = predictions(cases(Table(path="rows", header=header, rows=rows)))
    measured = found.tpot_s * np.array([1.0, 1.2, 1.0, 1.0])
    switches = {switch.column: switch for switch in validate(found, measured).switches}
    assert set(switches) == {"library", "mode", "system"}
    library = switches["library"]
    assert (library.before, library.after, library.pairs) == ("nccl", "vllm", 1)
    assert library.predicted == pytest.approx(1.2 * library.measured)
    assert library.predicted < 1  # its own all-reduce is faster than NCCL's
    assert (switches["mode"].before, switches["mode"].after) == ("eager", "graph")
    assert switches["system"].median_error == pytest.approx(0.0)


def test_other_devices_are_no_pair() -> None:
    rows = [["llama-3.1-8b", system, "vllm", "1024", "1024", "16", "4"] for system in ("h100-sxm", "b200-sxm")]
    found = predictions(cases(Table(path="rows", header=HEADER, rows=rows)))
    assert not validate(found, found.tpot_s).switches
