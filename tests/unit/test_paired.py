"""Pairs: odds against draws made anew, what cancels, and the load at which the order flips."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nhalf
from nhalf.decide.paired import SHARED, links_doubt, pair, sides
from nhalf.points import points
from nhalf.predict.band import draws

if TYPE_CHECKING:
    from nhalf.decide.paired import Pair
    from nhalf.scenario import Scenario

COUNT = 100_000
Z80 = 1.2815515655446004
"""The upper decile of the standard normal."""


def load(model: str = "llama-3.1-70b", on: str = "h100-sxm", **choices: Any) -> Scenario:  # noqa: ANN401  as nhalf.load
    return nhalf.load(model, on=on, **{"weights": "fp8", "kv": "bf16", **choices})


def paired(first: Scenario, second: Scenario, users: int | None = None) -> Pair:
    a, b = sides([first, second], ["a", "b"])
    return pair(a, b, users)


def brute(first: Scenario, second: Scenario) -> float:
    """Return the odds that the first is faster by draws of our own: seeds and formulas are of this test."""
    dice = np.random.default_rng(5)
    common, found = dice.standard_normal(COUNT), []
    for scenario in (first, second):
        here = points(scenario)
        time, low, high = (float(value[0]) for value in (here.tpot_s, here.tpot_low_s, here.tpot_high_s))
        below, above = scenario.residual
        links = [
            math.sqrt(max(width**2 - known**2, 0.0))
            for width, known in ((math.log(time / low), below), (math.log(high / time), above))
        ]
        own = math.sqrt(SHARED) * common + math.sqrt(1 - SHARED) * dice.standard_normal(COUNT)
        link = dice.standard_normal(COUNT)
        off = own * np.where(own < 0, below, above) + link * np.where(link < 0, links[0], links[1])
        found.append(math.log(time) + off / Z80)
    return float(np.mean(found[0] < found[1]))


CASES = {
    "one node and two": (load(tp=8, batch=4), load(tp=16, batch=4)),
    "TP and PP": (load(tp=8, batch=64), load(tp=4, pp=2, batch=64)),
    "two systems": (load(tp=8, batch=8, engine="vllm"), load(on="h200-sxm", tp=8, batch=8, engine="vllm")),
    "two engines": (load(tp=8, batch=8, engine="sglang"), load(tp=8, batch=8, engine="trtllm")),
}


@pytest.mark.parametrize("case", CASES)
def test_odds_are_those_of_independent_draws_within_two_points(case: str) -> None:
    first, second = CASES[case]
    assert paired(first, second).odds_a_faster == pytest.approx(brute(first, second), abs=0.02)


def test_odds_where_no_run_was_compared_are_those_of_inputs_drawn_once_for_both() -> None:
    first, second = (load(tp=tp, batch=4, stack="priors") for tp in (4, 8))
    assert not any(first.residual)
    times = []
    for scenario in (first, second):
        drawn = draws(scenario, COUNT, seed=99, among=lambda path, _: path != "stack.library.tuner_factor")
        assert drawn
        times.append(points(scenario, drawn).tpot_s)
    found = paired(first, second)
    assert found.odds_a_faster == pytest.approx(float(np.mean(times[0] < times[1])), abs=0.02)
    low, high = np.quantile(times[0] / times[1], (0.1, 0.9))
    assert (found.ratio_low, found.ratio_high) == pytest.approx((low, high), rel=0.02)


def test_the_order_of_a_pair_is_only_its_order() -> None:
    a, b = sides([load(tp=8, batch=4), load(tp=16, batch=4)], ["a", "b"])
    one, other = pair(a, b), pair(b, a)
    assert one.ratio == a.tpot_s / b.tpot_s
    assert one.ratio * other.ratio == pytest.approx(1)
    assert one.ratio_low == pytest.approx(1 / other.ratio_high)
    assert one.odds_a_faster + other.odds_a_faster == pytest.approx(1)
    assert one.flips_at_users == other.flips_at_users
    assert one.ratio_low <= one.ratio <= one.ratio_high


@pytest.mark.parametrize("system", ["h100-sxm", "h200-sxm"])
def test_what_both_share_cancels(system: str) -> None:
    first, second = load(tp=4, batch=4), load(on=system, tp=8, batch=4)
    found = paired(first, second)
    apart = math.sqrt(sum(sum(each.residual) ** 2 for each in (first, second)))
    assert math.log(found.ratio_high / found.ratio_low) == pytest.approx(apart * math.sqrt(1 - SHARED), rel=0.1)


def test_modelled_communication_is_a_doubt_of_each_alone() -> None:
    inside = paired(load(tp=4), load(tp=8))
    across = paired(load(tp=16, library="nccl-plan"), load(tp=32, library="nccl-plan"))
    assert links_doubt(load(tp=8)) == (0.0, 0.0)
    width = math.log(across.ratio_high / across.ratio_low)
    assert width > 1.5 * math.log(inside.ratio_high / inside.ratio_low)


def test_the_constants_of_one_fabric_are_a_doubt_that_both_share() -> None:
    assert links_doubt(load(tp=16)) == (0.0, 0.0)
    across, one = paired(load(tp=16), load(tp=32)), paired(load(tp=8), load(tp=16))
    assert math.log(one.ratio_high / one.ratio_low) > 1.05 * math.log(across.ratio_high / across.ratio_low)


def test_a_deployment_against_itself_is_even() -> None:
    found = paired(load(tp=8), load(tp=8))
    assert (found.ratio_low, found.odds_a_faster, found.ratio_high) == (1.0, 0.5, 1.0)
    assert found.flips_at_users is None


def test_what_one_deployment_is_off_by_cancels_where_only_its_load_or_a_number_differs() -> None:
    busier = paired(load(tp=16, batch=4), load(tp=16, batch=8))
    assert busier.odds_a_faster > 0.99
    change: dict[str, Any] = {"set": {"system.fabric.inter_node.latency_s": "1us"}}
    quicker = paired(load(tp=16, batch=4, **change), load(tp=16, batch=4))
    assert quicker.odds_a_faster > 0.99
    assert quicker.ratio_high < 1


@pytest.mark.parametrize("users", [64, 400])
def test_the_order_flips_at_the_nearest_load_where_it_does(users: int) -> None:
    split, spread = {"tp": 8}, {"attention_dp": 8, "ep": 8}

    def at(load_of: int) -> float:
        first, second = (load("deepseek-v3", "h200-sxm", **one, users=load_of) for one in (split, spread))
        return float(points(first).tpot_s[0] - points(second).tpot_s[0])

    first, second = (load("deepseek-v3", "h200-sxm", **one, users=users) for one in (split, spread))
    found = paired(first, second, users).flips_at_users
    assert found is not None
    assert at(found) * at(users) < 0
    step = 1 if found < users else -1
    assert all(at(each) * at(users) > 0 for each in range(found + step, users + step, step))


def test_replicas_share_the_load_rounded_up() -> None:
    first, second = load(tp=4, replicas=2, users=7), load(tp=8, users=7)
    assert (first.workload.batch, second.workload.batch) == (4, 7)
    a, _ = sides([first, second], ["a", "b"])
    assert a.users == 8
