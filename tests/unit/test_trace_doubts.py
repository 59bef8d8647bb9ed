"""When a trace names a rank and a cause: a made run just below each threshold, and one just above."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.trace_runs import KERNELS, NCCL, Plan, Run, make

from nhalf.errors import InputError, WeakEvidenceError
from nhalf.trace.fixed_time import rows
from nhalf.trace.study import Options, Study, study

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

US = 1e-6
QUIET = Plan(jitter=0.0, skew=0.01)
"""A run without chance: what its ranks differ in is what was put in."""


def studied(folder: Path, plan: Plan, change: Callable[[Run], object] | None = None) -> Study:
    run = make(plan)
    if change:
        change(run)
    return study(run.write(folder), Options())


def cause(found: Study) -> str:
    (one,) = found.verdict.stragglers
    assert one.rank == 1
    return one.cause


# --------------------------------------------------------------------------------------------------- who is named


@pytest.mark.parametrize(("share", "named"), [(0.004, []), (0.0065, [1])])
def test_a_rank_is_named_from_half_a_per_cent_of_the_step_on(tmp_path: Path, share: float, named: list[int]) -> None:
    halves = 2 * QUIET.layers
    step = studied(tmp_path / "even", QUIET).mean.step_s / US
    found = studied(tmp_path / "slow", replace(QUIET, slow={1: share * step / halves}, how="gap"))
    assert [one.rank for one in found.verdict.stragglers] == named


@pytest.mark.parametrize(("layers", "told"), [(2, False), (3, True)])
def test_fewer_than_five_calls_tell_nobody_from_chance(tmp_path: Path, layers: int, *, told: bool) -> None:
    found = studied(tmp_path, replace(QUIET, steps=1, layers=layers, slow={1: 6.0}))
    assert ("too few to tell" in found.verdict.cannot_tell) is not told
    assert [one.rank for one in found.verdict.stragglers] == [1] * told


@pytest.mark.parametrize(("held", "named"), [(0.79, [1]), (0.84, [])])
def test_lateness_inside_the_clocks_interval_needs_two_fifths_of_it_in_the_durations(
    tmp_path: Path, held: float, named: list[int]
) -> None:
    # A process that leaves most calls late by a share of what it came late has calls that are nearly as long as the
    # others': the durations show 44 % of its lead, or 35 %.
    def late(run: Run) -> None:
        for rank, document in run.documents.items():
            document["distributedInfo"]["backend"] = "gloo"
            for i, event in enumerate(document["traceEvents"]):
                if event["name"] == NCCL:
                    event |= {"cat": "user_annotation", "name": "gloo:all_reduce", "tid": 99, "args": {}}
                    event["dur"] += held * (2.0, 6.0, 10.0)[i % 3] if rank and i % 9 else 0.0
                elif event["cat"] == "kernel":
                    event["cat"] = "cpu_op"

    found = studied(tmp_path, Plan(ranks=2, slow={1: 6.0}, alpha=20.0), late)
    assert [one.rank for one in found.verdict.stragglers] == named
    assert found.verdict.cannot_tell.endswith("the durations alone do not show it") == (not named)


@pytest.mark.parametrize(("dropped", "believed"), [(4, True), (7, False)])
def test_ranks_of_which_a_twentieth_of_the_calls_do_not_match_are_refused(
    tmp_path: Path, dropped: int, *, believed: bool
) -> None:
    def drop(run: Run) -> None:
        events = run.documents[1]["traceEvents"]
        calls = [i for i, event in enumerate(events) if event["name"] == NCCL]
        for i in reversed(calls[:: len(calls) // dropped][:dropped]):
            del events[i]

    plan = replace(QUIET, steps=10, layers=5)
    if believed:
        assert studied(tmp_path, plan, drop).timeline.meetings.rate == pytest.approx((99 - dropped + 1) / 99, abs=0.01)
        return
    with pytest.raises(WeakEvidenceError, match="calls match across the ranks"):
        studied(tmp_path, plan, drop)


@pytest.mark.parametrize(("apart", "refused"), [(540, False), (660, True)])
def test_clocks_more_than_ten_minutes_apart_are_of_two_runs(tmp_path: Path, apart: int, *, refused: bool) -> None:
    def later(run: Run) -> None:
        run.documents[1]["baseTimeNanoseconds"] += apart * 1_000_000_000

    with pytest.raises(InputError, match="11 minutes apart") if refused else nullcontext():
        studied(tmp_path, replace(QUIET, slow={1: 6.0}), later)


# ------------------------------------------------------------------------------------------------ why it is late


@pytest.mark.parametrize(("idle", "named"), [(0.55, "extra work"), (0.65, "host gap")])
def test_the_cause_is_a_gap_where_it_is_most_of_the_lateness(tmp_path: Path, idle: float, named: str) -> None:
    def busy(run: Run) -> None:
        events: list[dict[str, Any]] = run.documents[1]["traceEvents"]
        last = [event for event in events if event["name"] == KERNELS[2]]
        events += [
            {**event, "name": "hot_expert", "ts": event["ts"] + event["dur"] + 0.1, "dur": 6.0 * (1.0 - idle)}
            for event in last
        ]

    assert cause(studied(tmp_path, replace(QUIET, slow={1: 6.0}, how="gap"), busy)) == named


def launches(early: Callable[[int], float]) -> Callable[[Run], None]:
    """Return a change that records the launch of every call, the i-th so many microseconds before it starts."""

    def change(run: Run) -> None:
        for document in run.documents.values():
            calls = [event for event in document["traceEvents"] if event["name"] == NCCL]
            document["traceEvents"] += [
                {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
                 "ts": call["ts"] - early(i), "dur": 1.0, "args": {"correlation": call["args"]["correlation"]}}
                for i, call in enumerate(calls)
            ]  # fmt: skip

    return change


@pytest.mark.parametrize(("before", "named"), [(27.0, "late launch"), (33.0, "host gap")])
def test_a_call_that_starts_within_30_us_of_its_launch_was_waited_for(
    tmp_path: Path, before: float, named: str
) -> None:
    plan = replace(QUIET, slow={1: 6.0}, how="gap")
    assert cause(studied(tmp_path, plan, launches(lambda _: before))) == named


@pytest.mark.parametrize(("share", "named"), [(0.55, "host gap"), (0.65, "late launch")])
def test_launches_are_late_where_most_calls_start_with_theirs(tmp_path: Path, share: float, named: str) -> None:
    plan = replace(QUIET, slow={1: 6.0}, how="gap")
    change = launches(lambda i: 5.0 if i % 20 < 20 * share else 50.0)
    assert cause(studied(tmp_path, plan, change)) == named


@pytest.mark.parametrize(("slower", "named"), [(0.015, "unknown"), (0.025, "uniformly slow device")])
def test_kernels_are_slower_from_two_per_cent_on(tmp_path: Path, slower: float, named: str) -> None:
    plan = replace(QUIET, slow={1: slower * 38.0 * 1.15}, how="device")
    assert cause(studied(tmp_path, plan)) == named


@pytest.mark.parametrize(
    ("kernels", "times", "named"), [((0, 2), 1.12, "uniformly slow device"), ((0, 1), 1.2, "extra work")]
)
def test_a_device_is_slow_where_four_fifths_of_its_compute_are(
    tmp_path: Path, kernels: tuple[int, ...], times: float, named: str
) -> None:
    # Of 20, 3 and 15 us of a half layer the first and the last are 92 %, the first two 61 %; they fill most of the gap.
    def slow(run: Run) -> None:
        later = 0.0
        for event in run.documents[1]["traceEvents"]:
            if event["name"] == NCCL:
                later = 0.0
            elif event["name"] in KERNELS:
                event["ts"] += later
                more = event["dur"] * (times - 1.0) * (KERNELS.index(event["name"]) in kernels)
                event["dur"] += more
                later += more

    assert cause(studied(tmp_path, replace(QUIET, slow={1: 6.0}, how="gap"), slow)) == named


# ---------------------------------------------------------------------------------------------- what a call costs


@pytest.mark.parametrize(("quick", "low"), [(0.05, 20.0), (0.15, 10.0)])
def test_the_quickest_tenth_of_the_calls_says_what_one_costs(tmp_path: Path, quick: float, low: float) -> None:
    timeline = studied(tmp_path, replace(QUIET, steps=10, layers=10)).timeline
    count = len(timeline.split.transfer_s)
    transfer = np.where(np.arange(count) < quick * count, 10 * US, 20 * US)
    (row,), _ = rows(replace(timeline, split=replace(timeline.split, transfer_s=transfer)), None)
    assert row.transfer_low_s == pytest.approx(low * US)
    assert row.transfer_s == pytest.approx(20 * US)
