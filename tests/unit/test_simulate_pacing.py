"""Pacing: a decode loop goes at the speed of its slowest rank, and without one at the speed that was predicted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from nhalf import loading
from nhalf.breakdown import columns
from nhalf.decide import pacing, straggler_remedies
from nhalf.errors import InputError
from nhalf.predict.step import decode
from nhalf.simulate import engine
from nhalf.simulate.engine import run
from nhalf.simulate.straggler import Straggler, parse


def made(**choices: object) -> pacing.Loop:
    given = {"tp": 8, "batch": 4, **choices}
    return pacing.loop(loading.load("llama-3.1-70b", on="h100-sxm", **given))  # type: ignore[arg-type]


def pace(text: str = "", *, tokens: int = 40, jitter_s: float = 0.0, loop: pacing.Loop | None = None) -> pacing.Pace:
    behind: tuple[Straggler, ...] = (parse(text, 8),) if text else ()
    return pacing.pace(loop or made(), behind, tokens=tokens, seed=1, jitter_s=jitter_s)


def test_the_undisturbed_loop_takes_the_predicted_step() -> None:
    scenario = loading.load("llama-3.1-70b", on="h100-sxm", tp=8, batch=4)
    assert pace().step_p50_s == pytest.approx(float(decode(scenario).value), rel=1e-9)
    assert pace().tokens_per_s == pytest.approx(4 / float(decode(scenario).value), rel=1e-9)
    assert pace().pace_rank is None


def test_a_throttled_rank_stretches_all_of_the_work_and_sets_the_pace() -> None:
    loop = made()
    found = pace("rank 3: 1.15x")
    assert found.step_p50_s == pytest.approx(loop.step_s + 0.15 * loop.collectives * loop.work_s, rel=1e-3)
    assert (found.pace_rank, found.pace_share) == (3, 1.0)


def test_the_reads_are_those_of_the_predicted_step() -> None:
    loop = made()
    owed = columns(decode(loop.scenario))
    reads_s = float(owed["weights"] + owed["kv"])
    assert loop.reads_share * loop.work_s * loop.collectives == pytest.approx(reads_s)
    assert 0 < loop.reads_share < 1


def test_a_late_start_is_paid_once_a_step() -> None:
    assert pace("rank 3: 100us").step_p50_s == pytest.approx(made().step_s + 100e-6, rel=1e-3)


def test_a_flapping_link_hurts_the_tail_only() -> None:
    found = pace("rank 2: link 20x 10%", tokens=200)
    assert found.step_p50_s == pytest.approx(made().step_s, rel=1e-9)
    assert found.step_p99_s > 1.02 * found.step_p50_s


def test_a_link_that_is_always_slow_sets_the_pace_and_a_faster_one_does_not() -> None:
    found = pace("rank 3: link 8x 100%")
    assert (found.pace_rank, found.pace_share, found.pace_by_link) == (3, 1.0, True)
    flapping = pace("rank 3: link 8x 50%")
    assert flapping.pace_share == flapping.behind / 40
    assert pace("rank 3: link 0.5x").pace_rank is None
    assert not pace("rank 3: 1.15x").pace_by_link


def test_jitter_costs_the_expected_slowest_of_eight_at_each_collective() -> None:
    loop = made()
    slowest = sum(1 / place for place in range(1, 9))
    assert pace(jitter_s=1e-6).step_p50_s == pytest.approx(loop.step_s + loop.collectives * slowest * 1e-6, rel=0.01)


def test_remedies_give_back_what_they_say() -> None:
    loop = made()
    behind = (parse("rank 3: 1.5x", 8),)
    found = {
        one.name: one.tokens_per_s
        for one in straggler_remedies.remedies(straggler_remedies.alternatives(loop), behind, tokens=10, seed=1)
    }
    assert found["remove or replace it"] == pytest.approx(pace().tokens_per_s)
    smaller = loading.load("llama-3.1-70b", on="h100-sxm", tp=4, batch=4)
    assert found["a smaller group without it: TP4"] == pytest.approx(4 / float(decode(smaller).value))
    assert found["ring instead of one-shot"] < found["two-shot instead of one-shot"]
    assert list(found.values()) == sorted(found.values(), reverse=True)


@pytest.mark.parametrize(
    ("text", "draws"), [("rank 3: 20us", {1}), ("rank 3: 2x 50%", {1}), ("rank 3: jitter 1us", {30})]
)
def test_tokens_that_are_alike_are_played_once(text: str, draws: set[int]) -> None:
    loop = made()
    seen: list[int] = []
    told: list[int] = []

    def watched(*arguments: Any, **more: Any) -> Any:  # noqa: ANN401  run's own
        if len(arguments) > 2:
            seen.append(arguments[2].starts_s.shape[1])
        return run(*arguments, **more)

    with mock.patch.object(pacing, "run", watched):
        pacing.pace(loop, (parse(text, 8),), tokens=30, seed=1, progress=told.append)
    assert set(seen) == draws
    assert sum(told) == 30 * loop.collectives


def test_no_remedy_is_an_algorithm_that_no_library_runs_across_nodes() -> None:
    names = [one.name for one in straggler_remedies.alternatives(made(tp=16))]
    assert "ring instead of hierarchical" in names
    assert not [name for name in names if "shot" in name]
    assert [one.name for one in straggler_remedies.alternatives(made()) if one.name.startswith("two-shot")]


def test_no_remedy_is_a_group_that_does_not_fit_in_memory() -> None:
    loop = pacing.loop(loading.load("llama-3.1-405b", on="h100-sxm", tp=16))
    assert not [one.name for one in straggler_remedies.alternatives(loop) if "smaller" in one.name]


@pytest.mark.parametrize(
    ("system", "tp", "algorithm"),
    [("mi300x", 8, "one-shot"), ("tpu-v5e", 4, "torus-2d"), ("tpu-v5e", 2, "ring"), ("h100-pcie", 16, "hierarchical")],
)
def test_the_loop_of_every_wiring_takes_the_predicted_step(system: str, tp: int, algorithm: str) -> None:
    loop = pacing.loop(loading.load("llama-3.1-8b", on=system, tp=tp))
    assert loop.algorithm == algorithm
    assert pacing.pace(loop, (), tokens=3, seed=1).step_p50_s == pytest.approx(loop.step_s, rel=1e-9)
    slow = pacing.pace(loop, (parse("rank 1: 1.5x", tp),), tokens=3, seed=1)
    assert slow.step_p50_s == pytest.approx(loop.step_s + 0.5 * loop.collectives * loop.work_s, rel=0.02)
    assert slow.pace_rank == 1


def test_a_torus_is_offered_algorithms_of_neighbours_only() -> None:
    names = [
        one.name
        for one in straggler_remedies.alternatives(pacing.loop(loading.load("llama-3.1-8b", on="tpu-v5e", tp=4)))
    ]
    assert [name for name in names if " instead of " in name] == ["ring instead of torus-2d"]


def test_jitter_across_nics_is_played_for_all_tokens_together() -> None:
    loop = pacing.loop(loading.load("llama-3.1-70b", on="h100-sxm", tp=16), "hierarchical")
    loop = replace(loop, algorithm="one-shot")
    with mock.patch.object(engine, "_by_events", wraps=engine._by_events) as by_events:
        found = pacing.pace(loop, (), tokens=20, seed=1, jitter_s=2e-6)
    assert [call.args[2].starts_s for call in by_events.call_args_list] == [None] * by_events.call_count
    # Together all ranks of a node send to the same rank of the other first; jitter spreads that, and saves time.
    assert 0.9 * loop.step_s < found.step_p50_s < found.step_p99_s < loop.step_s


def test_a_loop_on_three_axes_says_so_of_its_own_flag() -> None:
    with pytest.raises(InputError, match=r"--tp: a torus of 2 x 2 x 2 is not simulated.* fewer --tp"):
        pacing.loop(loading.load("llama-3.1-8b", on="tpu-v4", tp=8))


def test_across_nodes_the_loop_is_hierarchical() -> None:
    loop = pacing.loop(loading.load("llama-3.1-70b", on="h100-sxm", tp=16))
    assert loop.algorithm == "hierarchical"
    found = pacing.pace(loop, (parse("rank 9: 2x", 16),), tokens=5, seed=1)
    assert found.pace_rank == 9


def test_a_group_of_one_is_refused() -> None:
    with pytest.raises(InputError, match="nobody to wait for"):
        made(tp=1)
