"""The odds of a pair against runs that ship: the faster of two is named as often as the odds say."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from itertools import combinations
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from tests.cli.command import invoke
from tools.derive_calibration import RUNS

from nhalf.decide.paired import SHARED

LOAD = ("model", "isl", "osl", "concurrency")
BINS = ((0.5, 0.6), (0.6, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 1.01))
Z80 = NormalDist().inv_cdf(0.9)


@pytest.fixture(scope="module")
def pairs() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return every pair of runs of one model at one load."""
    predicted = invoke("predict", str(RUNS), "--json").document["rows"]
    groups = defaultdict(list)
    with RUNS.open(encoding="utf-8", newline="") as file:
        for run, row in zip(csv.DictReader(file), predicted, strict=True):
            if not row["refused"]:
                groups[tuple(run[name] for name in LOAD)].append({**row, **run})
    return [pair for group in groups.values() for pair in combinations(group, 2)]


def ratio(pair: tuple[dict[str, Any], dict[str, Any]], key: str) -> float:
    return math.log(float(pair[0][key]) / float(pair[1][key]))


def test_the_faster_of_two_that_differ_is_named(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    apart = [pair for pair in pairs if abs(ratio(pair, "tpot_s")) > math.log(1.1)]
    right = [ratio(pair, "tpot_s") * ratio(pair, "predicted_tpot_s") > 0 for pair in apart]
    assert len(apart) > 2000
    assert np.mean(right) > 0.9


def test_odds_come_true_within_ten_points_in_five_bins(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    odds, right = [], []
    for pair in pairs:
        widths = [math.log(float(row["high_s"]) / float(row["predicted_tpot_s"])) / Z80 for row in pair]
        apart = abs(ratio(pair, "predicted_tpot_s")) / (math.hypot(*widths) * math.sqrt(1 - SHARED))
        odds.append(NormalDist().cdf(apart))
        right.append(ratio(pair, "tpot_s") * ratio(pair, "predicted_tpot_s") > 0)
    said, true = np.array(odds), np.array(right)
    for low, high in BINS:
        inside = (said >= low) & (said < high)
        assert np.sum(inside) > 100
        assert np.mean(true[inside]) == pytest.approx(np.mean(said[inside]), abs=0.10), (low, high)
