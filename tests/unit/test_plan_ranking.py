"""The ranking of a plan: its bars and bands are those of the layouts that it ranks, on one axis for all systems."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import pytest
from tests.ends import band

import nhalf
from nhalf.decide.candidates import Wish
from nhalf.decide.search import Plan, search
from nhalf.report.plan_page import rankings

pytest.importorskip("altair", reason="the extra [report] is not installed")


def plan(on: str, goal: Literal["tokens-per-gpu", "latency"] = "tokens-per-gpu") -> Plan:
    base = nhalf.load("llama-3.1-70b", on=on, tp=1, isl=2048, osl=256, weights="fp8")
    return search(base, 8, Wish(goal=goal, tpot_s=30e-3))


@pytest.mark.parametrize("goal", ["tokens-per-gpu", "latency"])
def test_a_bar_is_what_a_token_costs_and_its_band_that_of_the_step(goal: Literal["tokens-per-gpu", "latency"]) -> None:
    found = plan("h100-sxm", goal)
    assert found.chosen is not None
    (drawn,) = rankings([found])
    row = next(row for row in drawn.rows if str(row["layout"]).endswith(f"batch {found.chosen.batch}*"))
    whole, low, high = (float(str(row[name])) for name in ("whole_s", "low_s", "high_s"))
    devices = 1 if goal == "latency" else found.chosen.layout.devices / found.chosen.batch
    assert whole == pytest.approx(found.chosen.tpot_s * devices)
    assert low < whole < high
    ends = band(found.chosen.scenario)
    assert (low / whole, high / whole) == pytest.approx([end / found.chosen.tpot_s for end in ends])


def test_plans_share_an_axis_that_reaches_beyond_the_longest_band() -> None:
    drawn = rankings([plan("h100-sxm"), plan("b200-sxm")])
    ends = [
        layer["encoding"]["x"]["scale"]["domain"][1]
        for figure in drawn
        for layer in figure.chart.to_dict()["layer"]
        if layer["mark"]["type"] == "bar"
    ]
    assert all(one == pytest.approx(other) for one, other in pairwise(ends))
    assert ends[0] > max(float(str(row["high_s"])) for figure in drawn for row in figure.rows)
