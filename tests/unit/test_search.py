"""The search: every legal layout, memory first, ranked as one by one, with ties, limits and the Pareto front."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nhalf
from nhalf.decide.candidates import Wish, evaluate
from nhalf.decide.layouts import LONG_PROMPT, layouts
from nhalf.decide.ranking import front
from nhalf.decide.regime import TIE
from nhalf.decide.search import Plan, search
from nhalf.errors import InputError
from nhalf.layout import Layout, check
from nhalf.predict.memory import fits
from nhalf.predict.prefill import prefill

if TYPE_CHECKING:
    from nhalf.scenario import Scenario


@cache
def base(model: str = "llama-3.1-70b", on: str = "h100-sxm", isl: int = 2048, **choices: Any) -> Scenario:  # noqa: ANN401  as nhalf.load
    return nhalf.load(model, on=on, tp=1, isl=isl, osl=256, **choices)


@cache
def plan(gpus: int = 16, model: str = "llama-3.1-70b", on: str = "h100-sxm", **limits: float) -> Plan:
    scenario = base(model, on, weights="fp8") if model == "llama-3.1-70b" else base(model, on)
    return search(scenario, gpus, Wish(**limits))  # type: ignore[arg-type]


# --- which layouts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "on", "gpus"),
    [("llama-3.1-70b", "h100-sxm", 16), ("deepseek-v3", "h200-sxm", 16), ("llama-3.1-70b", "h100-sxm", 6)],
)
def test_every_legal_layout_that_uses_all_devices_is_there_once(model: str, on: str, gpus: int) -> None:
    scenario = base(model, on)
    found = [
        (each.tensor_parallel, each.pipeline_parallel, each.expert_parallel, each.attention_dp)
        for each in layouts(scenario, gpus, Wish(exchanges=("all-gather",)))
    ]
    expected = []
    for tp, pp, ep, dp in product(range(1, gpus + 1), repeat=4):
        if gpus % (tp * pp * dp):
            continue
        layout = Layout(tensor_parallel=tp, pipeline_parallel=pp, expert_parallel=ep, attention_dp=dp)
        quick = scenario.transformer.mixture is None and (ep > 1 or dp > 1)
        if quick or (tp * dp) % ep:
            continue
        try:
            check(layout, scenario.transformer, scenario.system.fabric)
        except InputError:
            continue
        expected.append((tp, pp, ep, dp))
    assert sorted(found) == sorted(expected)
    assert len(set(found)) == len(found)


def test_replicas_fill_the_devices() -> None:
    for layout in layouts(base(), 16, Wish()):
        assert layout.devices * layout.replicas == 16


def test_context_parallelism_is_looked_at_for_long_prompts_only() -> None:
    assert all(each.context_parallel == 1 for each in layouts(base(), 8, Wish()))
    assert any(each.context_parallel > 1 for each in layouts(base(isl=LONG_PROMPT), 8, Wish()))
    asked = Wish(degrees={"context_parallel": (2,)})
    assert all(each.context_parallel == 2 for each in layouts(base(), 8, asked))


def test_tokens_are_sent_only_where_every_device_has_experts_of_its_own() -> None:
    sent = [
        each for each in layouts(base("deepseek-v3", "h200-sxm"), 8, Wish()) if each.routed_exchange == "all-to-all"
    ]
    assert sent
    assert all(each.expert_parallel == each.expert_devices > each.tensor_parallel for each in sent)


def test_degrees_and_batches_narrow_the_search() -> None:
    wish = Wish(degrees={"tensor_parallel": (4, 8)}, batches=(16,))
    found = search(base(weights="fp8"), 16, wish)
    assert {row.layout.tensor_parallel for row in found.rows} == {4, 8}
    assert {row.batch for row in found.rows} == {16}


# --- each is predicted as decode would --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "on", "layout"),
    [
        ("llama-3.1-70b", "h100-sxm", Layout(tensor_parallel=8)),
        ("llama-3.1-70b", "h100-sxm", Layout(tensor_parallel=4, pipeline_parallel=2)),
        ("llama-3.1-70b", "h100-sxm", Layout(tensor_parallel=16)),
        ("deepseek-v3", "h200-sxm", Layout(attention_dp=8, expert_parallel=8)),
        ("deepseek-v3", "h200-sxm", Layout(attention_dp=8, expert_parallel=8, routed_exchange="all-to-all")),
        ("deepseek-v3", "h200-sxm", Layout(tensor_parallel=8, expert_parallel=8)),
    ],
)
@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_every_batch_is_what_decode_says_alone(model: str, on: str, layout: Layout, mode: str) -> None:
    scenario = replace(base(model, on, mode=mode), layout=layout)
    candidate = evaluate(scenario, Wish())
    assert candidate is not None
    for place in range(0, len(candidate.batches), 3):
        alone = scenario.having({"workload.batch": float(candidate.batches[place])})
        assert candidate.points.tpot_s[place] == pytest.approx(float(nhalf.decode(alone).value), rel=1e-9)
        assert fits(alone) == ("marginal" if candidate.marginal[place] else "yes")


def test_the_largest_batch_that_fits_is_among_them() -> None:
    candidate = evaluate(replace(base(weights="fp8"), layout=Layout(tensor_parallel=8)), Wish())
    assert candidate is not None
    sure = candidate.batches[~candidate.marginal]
    largest = float(sure.max())
    beyond = candidate.scenario.having({"workload.batch": largest + 1})
    assert fits(beyond) != "yes"


def test_what_does_not_fit_is_counted_and_never_predicted() -> None:
    found = plan(8, "deepseek-v3", "h100-sxm")
    assert found.candidates == ()
    assert sum(found.refused.values()) > 0
    assert found.chosen is None


@pytest.mark.parametrize("dp", [1, 8])
def test_splitting_experts_changes_nothing_while_tokens_are_gathered(dp: int) -> None:
    """The groups of `layouts.groups` rest on this; when a prediction tells them apart, they must go."""
    scenario = base("deepseek-v3", "h200-sxm")
    times = []
    for ep in (1, 2, 8):
        layout = Layout(tensor_parallel=8 // dp, attention_dp=dp, expert_parallel=ep)
        candidate = evaluate(replace(scenario, layout=layout), Wish(batches=(8, 64)))
        assert candidate is not None
        assert candidate.first_s is not None
        times.append(np.concatenate([candidate.points.tpot_s, *candidate.first_s]))
    assert times[1] == pytest.approx(times[0], rel=1e-9)
    assert times[2] == pytest.approx(times[0], rel=1e-9)


def test_the_first_token_takes_one_prompt_alone_up_to_the_burst_of_the_batch() -> None:
    candidate = evaluate(replace(base(weights="fp8"), layout=Layout(tensor_parallel=8)), Wish(batches=(1, 32)))
    assert candidate is not None
    assert candidate.first_s is not None
    low, high = candidate.first_s
    workload = replace(candidate.scenario.workload, batch=1.0, output_tokens=0.0)
    one = float(prefill(replace(candidate.scenario, workload=workload)).value)
    assert low.tolist() == [pytest.approx(one)] * 2
    assert high[0] == pytest.approx(one + candidate.points.tpot_s[0])
    assert high[1] > 20 * one


def test_without_prompts_there_is_no_first_token() -> None:
    scenario = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=1, weights="fp8", context=1000)
    found = search(scenario, 8, Wish())
    assert found.chosen is not None
    assert found.chosen.ttft_s is None


# --- ranking ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("goal", ["tokens-per-gpu", "latency", "cost"])
def test_the_chosen_one_is_within_the_tie_of_the_best_of_all_points(goal: str) -> None:
    found = search(base(weights="fp8"), 16, Wish(goal=goal, tpot_s=0.03, price_per_hour=2.0))  # type: ignore[arg-type]
    assert found.chosen is not None
    scores = [point.score for point in found.every() if point.meets != "no"]
    assert found.chosen.score >= max(scores) / (1 + TIE)
    assert found.chosen.tpot_s <= 0.03
    assert {row.score >= max(scores) / (1 + TIE) for row in found.rows if row.tied} == {True}


def test_limits_leave_out_what_breaks_them() -> None:
    found = plan(16, tpot_s=0.02, ttft_s=0.2)
    assert found.chosen is not None
    for row in found.rows:
        if row.meets != "no":
            assert row.tpot_s <= 0.02
            assert row.ttft_s is not None
            assert row.ttft_s[0] <= 0.2
            assert (row.meets == "yes") == (row.ttft_s[1] <= 0.2 and row.fits_memory == "yes")


def test_limits_that_nothing_holds_leave_the_nearest() -> None:
    found = plan(16, tpot_s=1e-3)
    assert found.chosen is None
    assert found.nearest is not None
    assert found.nearest.tpot_s == min(float(each.points.tpot_s.min()) for each in found.candidates)


def test_a_cost_is_what_a_gpu_costs_over_its_tokens() -> None:
    chosen = plan().chosen
    assert chosen is not None
    assert chosen.cost_per_mtoken(3.6) == pytest.approx(3.6 / 3600 / chosen.tokens_per_s_per_gpu * 1e6)
    assert chosen.cost_per_mtoken(None) is None


def test_the_front_holds_every_point_that_no_other_beats() -> None:
    found = plan()
    points = [(point.tokens_per_s_per_user, point.tokens_per_s_per_gpu) for point in found.every()]
    on = {(point.tokens_per_s_per_user, point.tokens_per_s_per_gpu) for point in found.pareto}
    assert on
    for user, gpu in points:
        beaten = any(u >= user and g >= gpu and (u, g) != (user, gpu) for u, g in points)
        assert beaten != ((user, gpu) in on)


def test_fronts_of_small_sets() -> None:
    one, other = np.array([1.0, 2.0, 2.0, 3.0, np.inf]), np.array([3.0, 2.0, 1.0, 1.0, 9.0])
    assert front(one, other).tolist() == [True, True, False, True, False]
    assert front(np.array([1.0, 1.0]), np.array([1.0, 1.0])).tolist() == [True, False]
    assert front(np.array([]), np.array([])).tolist() == []


def test_the_chosen_layout_is_one_that_the_engine_launches() -> None:
    found = search(base("deepseek-v3", "h200-sxm", engine="trtllm"), 16, Wish())
    assert found.chosen is not None
    layout = found.chosen.layout
    assert layout.attention_dp == 1 or layout.tensor_parallel == 1


# --- the rule of thumb ------------------------------------------------------------------------------------------------


def test_the_rule_is_judged_by_numbers_of_as_many_devices() -> None:
    found = plan(16)
    assert {rule.what for rule in found.rules} == {"throughput", "one stream"}
    for rule in found.rules:
        assert rule.devices == 16
        assert rule.inside.layout.stage_devices <= 8
        assert rule.inside.layout.pipeline_parallel > 1
        assert rule.across.layout.stage_devices == 16
        better = rule.inside.score > rule.across.score * (1 + TIE)
        worse = rule.across.score > rule.inside.score * (1 + TIE)
        assert rule.holds == (True if better else False if worse else None)


def test_the_rule_turns_where_links_between_nodes_cost_nothing() -> None:
    free = base(weights="fp8").having(
        {"system.fabric.inter_node.latency_s": 1e-9, "system.transport.doubt": 0.01, "stack.software_factor": 0.01}
    )
    one = next(rule for rule in search(free, 16, Wish()).rules if rule.what == "one stream")
    assert one.holds is False


def test_inside_one_node_there_is_no_rule() -> None:
    assert plan(8).rules == ()


def test_a_layout_is_judged_at_its_batch_and_at_its_best() -> None:
    found = search(base(weights="fp8"), 8, Wish(tpot_s=0.03), (Layout(tensor_parallel=4, replicas=2), 4))
    assert found.judged is not None
    assert found.judged_best is not None
    assert (found.judged.batch, found.judged.layout.tensor_parallel) == (4, 4)
    assert found.judged_best.score > found.judged.score


# --- the batch between those of the grid ------------------------------------------------------------------------------


def exhaustive(found: Plan, row: Any) -> float:  # noqa: ANN401  a Choice
    """Return the most tokens/s of a GPU that a layout gives within the time of a token, every batch tried."""
    candidate, group = row.candidate, row.layout.attention_dp
    sure = candidate.batches[~candidate.marginal]
    batches = tuple(np.arange(group, sure.max() + 1, group).tolist())
    every = evaluate(candidate.scenario, replace(found.wish, batches=batches))
    assert every is not None
    within = (every.points.tpot_s <= (found.wish.tpot_s or np.inf)) & ~every.marginal
    return float(np.max(np.where(within, every.points.tokens_per_s_per_gpu, 0.0)))


@pytest.mark.parametrize(
    ("model", "on", "tpot_s"),
    [("deepseek-v3", "h200-sxm", 0.03), ("llama-3.1-70b", "h100-sxm", 0.02), ("llama-3.1-70b", "h100-sxm", 0.05)],
)
def test_each_leading_layout_is_at_its_best_batch(model: str, on: str, tpot_s: float) -> None:
    found = plan(16, model, on, tpot_s=tpot_s)
    assert found.rows[0].meets == "yes"
    for row in found.rows[:6]:
        best = exhaustive(found, row)
        assert row.meets == "no" or row.tokens_per_s_per_gpu >= 0.985 * best
    assert found.rows[0].tokens_per_s_per_gpu == max(
        row.tokens_per_s_per_gpu for row in found.rows if row.meets != "no"
    )


def test_no_layout_that_was_not_refined_would_lead() -> None:
    found = plan(16, "deepseek-v3", "h200-sxm", tpot_s=0.03)
    last = found.rows[11].tokens_per_s_per_gpu
    assert len(found.rows) > 20
    assert all(exhaustive(found, row) <= last for row in found.rows[12:] if row.meets != "no")


def test_a_batch_that_was_asked_for_is_not_moved() -> None:
    found = search(base("deepseek-v3", "h200-sxm"), 16, Wish(tpot_s=0.03, batches=(64, 128)))
    assert {int(batch) for each in found.candidates for batch in each.batches} <= {64, 128}


def test_the_decoding_pool_is_at_its_best_batch_too() -> None:
    wish = Wish(tpot_s=0.03, pools=True)
    found = search(base("deepseek-v3", "h200-sxm"), 32, wish)
    assert found.pools is not None
    side = found.pools.decode
    group = side.candidate.layout.attention_dp
    more = (side.batch + max(1, round(0.03 * side.batch / group)) * group,)
    larger = evaluate(side.candidate.scenario, replace(wish, batches=more))
    assert found.pools.tpot_s <= 0.03
    assert larger is None or larger.marginal[0] or larger.decode_s[0] > 0.03
