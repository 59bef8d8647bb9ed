"""The study of made runs: what is known of them comes out, with clocks off, ranks missing and windows apart."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.trace_runs import NCCL, Plan, Run, make

from nhalf.collective import Op
from nhalf.errors import InputError, WeakEvidenceError
from nhalf.link import Link
from nhalf.trace import kineto, pricing
from nhalf.trace.difference import difference
from nhalf.trace.recognition import standard
from nhalf.trace.record import Kind
from nhalf.trace.study import Options, Study, study
from nhalf.trace.timeline import build

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

US = 1e-6
OFFSETS = {1: 40.0, 2: -25.0, 3: 300.0}


def studied(
    folder: Path, plan: Plan, change: Callable[[Run], object] | None = None, options: Options | None = None
) -> tuple[Run, Study]:
    run = make(plan)
    if change:
        change(run)
    return run, study(run.write(folder), options or Options())


def errors(run: Run, found: Study) -> tuple[float, float, float]:
    """Return the share of last ranks that are right, and the worst errors of lateness and wait [us]."""
    split, ranks = found.timeline.split, [trace.rank for trace in found.timeline.traces]
    last = [ranks[row] for row in split.last.tolist()]
    # Where two came within a tenth of a microsecond, clocks cannot say who was last.
    right = [a == b or late < 0.1 for a, b, late in zip(last, run.last, run.lateness, strict=True)]
    late = np.abs(split.lateness_s / US - run.lateness).max()
    waits = np.array([[wait[rank] for rank in ranks] for wait in run.wait]).T
    return float(np.mean(right)), float(late), float(np.abs(split.wait_s / US - waits).max())


@given(
    seed=st.integers(0, 10_000),
    ranks=st.integers(2, 6),
    flavour=st.sampled_from(["nccl", "graph"]),
    slow=st.dictionaries(st.integers(0, 1), st.floats(1.0, 20.0), max_size=2),
    offsets=st.dictionaries(st.integers(0, 5), st.floats(-300.0, 300.0), max_size=6),
    drifts=st.dictionaries(st.integers(1, 5), st.floats(-20.0, 20.0), max_size=5),
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_last_rank_lateness_and_wait_are_found_with_clocks_off(  # noqa: PLR0913, PLR0917  what a run may be
    tmp_path: Path, seed: int, ranks: int, flavour: Literal["nccl", "graph"], slow: dict[int, float],
    offsets: dict[int, float], drifts: dict[int, float],
) -> None:  # fmt: skip
    plan = Plan(
        ranks=ranks, steps=10, layers=6, flavour=flavour, slow=slow, offsets=offsets, drifts_ppm=drifts, seed=seed
    )
    run, found = studied(tmp_path / "run", plan)
    right, late, wait = errors(run, found)
    assert right >= 0.99
    assert late < 1.0
    assert wait < 1.0


def test_offsets_lie_in_their_bounds(tmp_path: Path) -> None:
    _, found = studied(tmp_path, Plan(offsets=OFFSETS, slow={2: 7.0}, flavour="graph"))
    for clock in found.timeline.aligned.clocks:
        truth = OFFSETS.get(clock.rank, 0.0) * US
        assert clock.low_s <= truth <= clock.high_s
        assert clock.offset_s == pytest.approx(truth, abs=0.1 * US)


def test_drift_is_found(tmp_path: Path) -> None:
    _, found = studied(tmp_path, Plan(steps=60, offsets={1: 100.0}, drifts_ppm={1: 40.0, 2: -15.0}))
    drifts = [clock.drift * 1e6 for clock in found.timeline.aligned.clocks]
    assert drifts == pytest.approx([0.0, 40.0, -15.0, 0.0], abs=0.5)


def test_the_budget_adds_up_to_the_step(tmp_path: Path) -> None:
    _, found = studied(tmp_path, Plan(slow={1: 6.0}))
    for one in (found.mean, *found.budgets):
        parts = one.compute_s + one.overlapped_s + one.exposed_s + one.gap_s + one.idle_s
        assert parts == pytest.approx(one.step_s, rel=1e-9)
        assert one.exposed_wait_s is not None
        assert one.exposed_transfer_s is not None
        assert one.exposed_wait_s + one.exposed_transfer_s == pytest.approx(one.exposed_s)
        assert min(one.compute_s, one.exposed_transfer_s, one.gap_s) > 0
        assert one.idle_s >= 0


def test_compute_beside_communication_is_overlapped(tmp_path: Path) -> None:
    def beside(run: Run) -> None:
        for document in run.documents.values():
            for event in [e for e in document["traceEvents"] if e["name"] == NCCL]:
                document["traceEvents"].append(
                    {
                        **event,
                        "name": "side_stream_gemm",
                        "args": {"stream": 9},
                        "ts": event["ts"] + event["dur"] - 4.0,
                        "dur": 4.0,
                    }
                )

    _, alone = studied(tmp_path / "a", Plan(ranks=2, slow={1: 3.0}))
    _, found = studied(tmp_path / "b", Plan(ranks=2, slow={1: 3.0}), beside)
    assert found.mean.overlapped_s == pytest.approx(16 * 4 * US, rel=1e-6)
    assert found.mean.exposed_s == pytest.approx(alone.mean.exposed_s - 16 * 4 * US, rel=1e-6)
    # What compute covers cannot be saved by a faster link.
    halves = {gain.name: gain.gain * found.mean.step_s for gain in found.replayed.gains}
    assert halves["latency halved"] <= found.mean.exposed_s


@pytest.mark.parametrize(
    ("how", "cause"), [("device", "uniformly slow device"), ("work", "extra work"), ("gap", "host gap")]
)
def test_the_cause_of_lateness_is_named(tmp_path: Path, how: Literal["device", "work", "gap"], cause: str) -> None:
    run, found = studied(tmp_path, Plan(slow={1: 6.0}, how=how))
    (one,) = found.verdict.stragglers
    truth = sum(late for late, last in zip(run.lateness, run.last, strict=True) if last == 1) / 6
    assert (one.rank, one.cause) == (1, cause)
    assert one.cost_s / US == pytest.approx(truth, rel=0.01)
    assert one.low_s <= truth * US <= one.high_s


def test_late_launches_are_told_from_gaps(tmp_path: Path) -> None:
    def launched(run: Run) -> None:
        for document in run.documents.values():
            document["traceEvents"] += [
                {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
                 "ts": event["ts"] - 5.0, "dur": 3.0, "args": {"correlation": event["args"]["correlation"]}}
                for event in document["traceEvents"] if event["name"] == NCCL
            ]  # fmt: skip

    _, found = studied(tmp_path, Plan(slow={1: 6.0}, how="gap"), launched)
    assert found.verdict.stragglers[0].cause == "late launch"


def test_nobody_is_named_when_nobody_is_slow(tmp_path: Path) -> None:
    _, found = studied(tmp_path, Plan(offsets=OFFSETS))
    assert found.verdict.stragglers == ()


def test_equal_ranks_wait_for_nobody_to_the_last_digit(tmp_path: Path) -> None:
    def equal(run: Run) -> None:
        first = run.documents[0]
        for rank, document in run.documents.items():
            run.documents[rank] = {**first, "distributedInfo": document["distributedInfo"]}

    _, found = studied(tmp_path, Plan(ranks=8), equal)
    assert [one.exposed_wait_s for one in (found.mean, *found.budgets)] == [0.0] * 9
    assert min(one.idle_s for one in found.budgets) >= 0.0


def test_two_ranks_that_are_late_together_are_both_named(tmp_path: Path) -> None:
    _, found = studied(tmp_path, Plan(slow={1: 6.0, 2: 6.0}))
    assert [(one.rank, one.together_with) for one in found.verdict.stragglers] == [(1, (2,)), (2, (1,))]
    assert found.verdict.stragglers[0].cost_s / US == pytest.approx(96.0, rel=0.02)
    assert any(gain.name == "stragglers removed (ranks 1, 2)" for gain in found.replayed.gains)


def test_chance_is_no_straggler(tmp_path: Path) -> None:
    named = 0
    for seed in range(20):
        _, found = studied(tmp_path / str(seed), Plan(ranks=2, layers=2, jitter=6.0, seed=seed))
        named += bool(found.verdict.stragglers)
        assert found.verdict.stragglers or "no rank is late systematically" in found.verdict.cannot_tell
    assert named <= 2


def test_lateness_that_durations_do_not_show_is_inside_the_clock_interval(tmp_path: Path) -> None:
    # A process that leaves a collective late by what it came late has calls as long as the others'; the calls that it
    # leaves on time bound the clock, and its middle makes the process seem late.
    def held(run: Run) -> None:
        for rank, document in run.documents.items():
            document["distributedInfo"]["backend"] = "gloo"
            for i, event in enumerate(document["traceEvents"]):
                if event["name"] == NCCL:
                    event |= {"cat": "user_annotation", "name": "gloo:all_reduce", "tid": 99, "args": {}}
                    event["dur"] += (2.0, 6.0, 10.0)[i % 3] if rank and i % 9 else 0.0
                elif event["cat"] == "kernel":
                    event["cat"] = "cpu_op"

    _, found = studied(tmp_path, Plan(ranks=2, slow={1: 6.0}, alpha=20.0), held)
    assert found.verdict.stragglers == ()
    assert "is inside the clock interval" in found.verdict.cannot_tell


def test_windows_that_differ_by_a_step(tmp_path: Path) -> None:
    def later(run: Run) -> None:
        document = run.documents[1]
        end = max(e["ts"] + e["dur"] for e in document["traceEvents"] if e["name"] == "ProfilerStep#3")
        document["traceEvents"] = [event for event in document["traceEvents"] if event["ts"] >= end]

    def unmarked(run: Run) -> None:
        later(run)
        for document in run.documents.values():
            document["traceEvents"] = [e for e in document["traceEvents"] if not e["name"].startswith("ProfilerStep")]

    plan = Plan(flavour="graph", slow={1: 6.0}, offsets=OFFSETS)
    for name, change in (("marked", later), ("unmarked", unmarked)):
        run, found = studied(tmp_path / name, plan, change)
        assert found.timeline.meetings.rate == 1.0
        assert len(found.timeline.meetings) == 80
        assert found.timeline.split.lateness_s / US == pytest.approx(run.lateness[16:], abs=0.1)
        assert found.verdict.stragglers[0].rank == 1
        assert found.verdict.stragglers[0].cause == "uniformly slow device"


def test_marks_of_the_host_that_cut_each_rank_elsewhere(tmp_path: Path) -> None:
    def ahead(run: Run) -> None:
        for event in run.documents[1]["traceEvents"]:
            if event["name"].startswith("ProfilerStep"):
                event["ts"] += 65.0

    plan = Plan(flavour="graph", slow={1: 6.0}, offsets=OFFSETS, pause=0.0, steps=8)
    run, found = studied(tmp_path, plan, ahead)
    index = found.timeline.meetings.index
    assert np.all(index == index[0])
    assert errors(run, found)[0] == 1.0


def test_a_dropped_event_leaves_the_rest_matched(tmp_path: Path) -> None:
    def drop(run: Run) -> None:
        events = run.documents[1]["traceEvents"]
        del events[[i for i, event in enumerate(events) if "cross_device" in event["name"]][40]]

    run, found = studied(tmp_path, Plan(flavour="graph", slow={1: 6.0}, offsets=OFFSETS), drop)
    assert found.timeline.meetings.rate == pytest.approx(95 / 96)
    assert "rank 1 has 15 calls" in found.timeline.meetings.where
    assert found.timeline.split.lateness_s / US == pytest.approx(run.lateness[:40] + run.lateness[41:], abs=0.1)


def test_ranks_that_disagree_are_refused_with_the_place(tmp_path: Path) -> None:
    def drop(run: Run) -> None:
        document = run.documents[1]
        document["traceEvents"] = [
            event for i, event in enumerate(document["traceEvents"]) if i % 3 or event["name"] != NCCL
        ]

    with pytest.raises(WeakEvidenceError, match=r"only \d+ % of the calls match .* sequence number") as caught:
        studied(tmp_path, Plan(), drop)
    assert caught.value.exit_code == 4


def test_ranks_of_different_runs_are_refused(tmp_path: Path) -> None:
    def other(run: Run) -> None:
        run.documents[1] = make(Plan(seed=9)).documents[1]

    with pytest.raises(WeakEvidenceError, match="can have happened together"):
        studied(tmp_path, Plan(jitter=8.0), other)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [("world_size", 8, "world size"), ("backend", "gloo", "backend"), ("rank", 0, "both hold rank 0")],
)
def test_two_runs_mixed_are_refused_by_what_they_say(tmp_path: Path, key: str, value: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        studied(tmp_path, Plan(ranks=2), lambda run: run.documents[1]["distributedInfo"].update({key: value}))


def test_two_runs_an_hour_apart_are_refused(tmp_path: Path) -> None:
    def later(run: Run) -> None:
        run.documents[1]["baseTimeNanoseconds"] += 3_600_000_000_000

    with pytest.raises(InputError, match="60 minutes apart"):
        studied(tmp_path, Plan(ranks=2), later)


def test_a_base_time_of_its_own_is_added(tmp_path: Path) -> None:
    def rebased(run: Run) -> None:
        run.documents[1]["baseTimeNanoseconds"] -= 5_000_000_000
        for event in run.documents[1]["traceEvents"]:
            event["ts"] += 5e6

    run, found = studied(tmp_path, Plan(ranks=2, slow={1: 6.0}), rebased)
    assert abs(found.timeline.aligned.clocks[1].offset_s) < 0.2 * US
    assert errors(run, found)[0] == 1.0


def test_a_missing_rank_makes_waits_lower_bounds(tmp_path: Path) -> None:
    run = make(Plan(slow={1: 6.0}))
    found = study(run.write(tmp_path, (0, 2, 3)), Options())
    assert any(note.startswith("rank 1 has no trace") and "at least" in note for note in found.notes)
    assert not found.timeline.meetings.whole
    truth = np.array([[wait[rank] for rank in (0, 2, 3)] for wait in run.wait]).T
    assert np.all(found.timeline.split.wait_s / US <= truth + 0.2)


def test_one_rank_alone_gets_bounds_and_is_told_what_is_missing(tmp_path: Path) -> None:
    run = make(Plan(slow={1: 6.0}))
    found = study(run.write(tmp_path, (2,)), Options())
    assert found.mean.exposed_wait_s is None
    assert found.mean.exposed_s > 0
    assert {gain.kind for gain in found.replayed.gains} == {"bound"}
    assert any("other ranks" in note for note in found.notes)
    assert all(row.transfer_s is None and row.at_most_s > 0 for row in found.rows)
    assert found.rows[0].at_most_s >= min(run.transfer) * US


def test_groups_are_kept_apart_with_and_without_names(tmp_path: Path) -> None:
    plan = Plan(groups=((0, 1), (2, 3)), slow={3: 5.0}, offsets={1: 12.0, 2: 100.0, 3: -200.0})
    for flavour in ("nccl", "graph"):
        _, found = studied(tmp_path / flavour, replace(plan, flavour=flavour))
        assert [one.rank for one in found.verdict.stragglers] == [3]
        assert (found.timeline.meetings.index >= 0).sum(axis=0).tolist() == [2] * 192
        clocks = found.timeline.aligned.clocks
        assert [clock.against for clock in clocks] == [0, 0, 2, 2]
        assert clocks[3].offset_s / US == pytest.approx(-300.0, abs=0.1)
        assert sum(row.count_per_step for row in found.rows) == 16


def test_group_names_of_each_rank_its_own_are_matched_by_members(tmp_path: Path) -> None:
    def renamed(run: Run) -> None:
        for rank, document in run.documents.items():
            for event in document["traceEvents"]:
                if event["name"] == NCCL:
                    event["args"]["Process Group Name"] = f"pg{rank}"

    _, found = studied(tmp_path, Plan(slow={2: 5.0}), renamed)
    assert len(found.timeline.meetings) == 96


def test_messages_are_matched_by_their_two_ends(tmp_path: Path) -> None:
    def piped(run: Run) -> None:
        for source, destination in ((0, 1), (1, 2), (2, 3)):
            for rank, name in ((source, "send"), (destination, "recv")):
                args = {"Collective name": name, "In msg nelems": 64, "dtype": "Float", "Group size": 4,
                        "Process Group Name": "3", "Process Group Ranks": "[0, 1, 2, 3]", "Src Rank": source,
                        "Dst Rank": destination, "stream": 30}  # fmt: skip
                run.documents[rank]["traceEvents"] += [
                    {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_SendRecv(x)", "pid": rank, "tid": 30,
                     "ts": 1100.0 + 1043.0 * step + 7 * source, "dur": 9.0 if name == "send" else 12.0, "args": args}
                    for step in range(3)
                ]  # fmt: skip

    _, found = studied(tmp_path, Plan(slow={2: 5.0}), piped)
    messages = [k for k, kind in enumerate(found.timeline.meetings.kinds) if kind.op is Op.SEND_RECV]
    chosen = np.isin(found.timeline.meetings.kind, messages)
    assert chosen.sum() == 9
    assert np.all((found.timeline.meetings.index[:, chosen] >= 0).sum(axis=0) == 2)
    assert found.verdict.stragglers[0].rank == 2


def test_coalesced_calls_share_a_number_and_keep_their_order(tmp_path: Path) -> None:
    def coalesced(run: Run) -> None:
        for document in run.documents.values():
            for event in document["traceEvents"]:
                if event["name"] == NCCL:
                    event["args"]["Seq"] = (event["args"]["Seq"] + 1) // 2

    run, found = studied(tmp_path, Plan(slow={2: 5.0}), coalesced)
    assert errors(run, found)[0] == 1.0


def test_no_communication_is_said_with_what_took_longest(tmp_path: Path) -> None:
    def silent(run: Run) -> None:
        for document in run.documents.values():
            document["traceEvents"] = [event for event in document["traceEvents"] if event["name"] != NCCL]

    with pytest.raises(WeakEvidenceError, match=r"no communication is found.*nvjet"):
        studied(tmp_path, Plan(ranks=2), silent)


def test_a_rank_without_communication_is_left_out(tmp_path: Path) -> None:
    def silent(run: Run) -> None:
        document = run.documents[3]
        document["traceEvents"] = [event for event in document["traceEvents"] if event["name"] != NCCL]

    _, found = studied(tmp_path, Plan(slow={1: 6.0}), silent)
    assert [trace.rank for trace in found.timeline.traces] == [0, 1, 2]
    assert any(note.startswith("rank3.json: no communication") for note in found.notes)


def test_a_few_calls_name_nobody(tmp_path: Path) -> None:
    _, found = studied(tmp_path, Plan(steps=1, layers=2, slow={1: 6.0}))
    assert found.verdict.stragglers == ()
    assert "too few" in found.verdict.cannot_tell


def test_messages_without_peers_are_counted_and_not_matched(tmp_path: Path) -> None:
    def messages(run: Run) -> None:
        for document in run.documents.values():
            for event in document["traceEvents"]:
                if event["name"] == NCCL:
                    event |= {"name": "ncclDevKernel_SendRecv(x)", "args": {}}

    _, found = studied(tmp_path, Plan(ranks=3), messages)
    assert found.mean.exposed_wait_s is None
    assert any("288 messages name no peers" in note for note in found.notes)
    assert any("no call could be matched" in note for note in found.notes)


def test_ranks_without_names_are_numbered_and_said(tmp_path: Path) -> None:
    run = make(Plan(ranks=2))
    names = []
    for rank, name in ((0, "a.json"), (1, "b.json")):
        del run.documents[rank]["distributedInfo"]
        (tmp_path / name).write_text(json.dumps(run.documents[rank]))
        names.append(str(tmp_path / name))
    found = study(names, Options())
    assert [trace.rank for trace in found.timeline.traces] == [0, 1]
    assert any("2 files: neither" in note or "neither the trace nor its name" in note for note in found.notes)


def test_latency_and_bandwidth_are_found_where_sizes_differ(tmp_path: Path) -> None:
    _, found = studied(tmp_path, Plan(sizes=(16384, 131_072, 4_194_304), slow={1: 6.0}))
    line = found.rows[0].line
    assert line is not None
    assert line.source == "trace"
    assert line.fixed_s / US == pytest.approx(9.1, abs=0.2)
    assert line.bandwidth_bytes_per_s == pytest.approx(150e9, rel=0.02)
    assert {row.kind.size_bytes: row.regime for row in found.rows} == {
        16384.0: "latency", 131_072.0: "latency", 4_194_304.0: "bandwidth"
    }  # fmt: skip
    assert not found.floor_is_bound
    assert found.floor_s / US == pytest.approx(16 * 9.1, rel=0.03)


def test_one_size_identifies_nothing_and_says_so(tmp_path: Path) -> None:
    _, found = studied(tmp_path, Plan())
    assert found.rows[0].line is None
    assert any("not identifiable" in note and "second batch size" in note for note in found.notes)
    assert found.floor_is_bound
    gains = {gain.name: gain.kind for gain in found.replayed.gains}
    assert gains["latency halved"] == gains["bandwidth doubled"] == "bound"


def test_links_price_what_one_size_cannot(tmp_path: Path) -> None:
    _, found = studied(tmp_path, Plan(slow={1: 6.0}), options=Options(price=pricing.of_link(Link("1us", "150GB/s"))))
    line = found.rows[0].line
    assert line is not None
    assert line.fixed_s == pytest.approx(6e-6)
    gains = {gain.name: gain for gain in found.replayed.gains}
    assert gains["latency halved"].kind == "modelled"
    assert gains["latency halved"].gain * found.mean.step_s / US == pytest.approx(16 * 3.0, rel=0.02)
    assert gains["one-shot instead of ring"].gain > 0


def test_a_fit_prices_its_own_operation_and_ranks_only() -> None:
    fit = {"op": "all-reduce", "ranks": 4, "latency_s": 9e-6, "bandwidth_bytes_per_s": 1e11}
    price = pricing.of_fits({"fits": [fit, {"op": "all-gather", "ranks": 4}]}, "fit.json")
    kind = Kind(name="x", family="nccl", op=Op.ALL_REDUCE, ranks=4)
    assert price(kind, None) is not None
    assert price(replace(kind, ranks=8), None) is None
    with pytest.raises(InputError, match="no fitted line"):
        pricing.of_fits({"fits": []}, "fit.json")


def test_the_replay_is_the_measured_step_and_removing_the_straggler_gains_its_cost(tmp_path: Path) -> None:
    _, found = studied(tmp_path, Plan(slow={1: 6.0}))
    assert found.replayed.error < 0.03
    gain = next(gain for gain in found.replayed.gains if gain.name == "straggler removed (rank 1)")
    assert gain.kind == "modelled"
    assert gain.gain * found.replayed.measured_s == pytest.approx(found.verdict.stragglers[0].cost_s, rel=0.03)
    bound = next(gain for gain in found.replayed.gains if gain.name == "no waits")
    assert bound.gain >= gain.gain


def test_calls_with_nothing_between_them_could_be_fused(tmp_path: Path) -> None:
    def doubled(run: Run) -> None:
        for document in run.documents.values():
            for event in [e for e in document["traceEvents"] if e["name"] == NCCL]:
                args = {**event["args"], "Seq": event["args"]["Seq"] * 2}
                event["args"]["Seq"] = args["Seq"] - 1
                event["dur"] -= 4.0
                document["traceEvents"].append(
                    {**event, "ts": event["ts"] + event["dur"] + 0.5, "dur": 3.5, "args": args}
                )

    _, found = studied(tmp_path, Plan(), doubled)
    gain = next(gain for gain in found.replayed.gains if gain.name == "small collectives fused")
    assert gain.gain * found.replayed.measured_s / US == pytest.approx(16 * 3.5, rel=0.1)


def test_sizes_come_from_the_model_where_the_trace_has_none(tmp_path: Path) -> None:
    _, found = studied(tmp_path, Plan(flavour="graph"), options=Options(sizes={Op.ALL_REDUCE: 65536.0}))
    assert (found.rows[0].kind.size_bytes, found.rows[0].kind.size_source) == (65536.0, "model")
    _, kept = studied(tmp_path / "kept", Plan(), options=Options(sizes={Op.ALL_REDUCE: 65536.0}))
    assert (kept.rows[0].kind.size_bytes, kept.rows[0].kind.size_source) == (16384.0, "argument")


def recorder(sizes: list[int]) -> dict[str, Any]:
    return {
        "version": "2.10", "pg_config": {}, "pg_status": {},
        "entries": [
            {"collective_seq_id": i + 1, "input_dtypes": ["BFloat16"], "input_sizes": [[size]], "is_p2p": False,
             "output_dtypes": ["BFloat16"], "output_sizes": [[size]], "p2p_seq_id": 0, "process_group": ["3", ""],
             "profiling_name": "nccl:all_reduce"}
            for i, size in enumerate(sizes)
        ],
    }  # fmt: skip


def test_sizes_come_from_a_flight_recorder(tmp_path: Path) -> None:
    run = make(Plan(ranks=2, flavour="graph"))
    names = run.write(tmp_path)
    for rank in (0, 1):
        path = tmp_path / f"fr_rank{rank}.json"
        path.write_text(json.dumps(recorder([4096] * 9)))
        names.append(str(path))
    found = study(names, Options())
    assert (found.rows[0].kind.size_bytes, found.rows[0].kind.size_source) == (8192.0, "flight recorder")
    with pytest.raises(WeakEvidenceError, match="no steps"):
        study(names[2:], Options())


def test_a_flight_recorder_of_many_sizes_says_nothing_about_calls_without_numbers(tmp_path: Path) -> None:
    names = make(Plan(ranks=2, flavour="graph")).write(tmp_path)
    (tmp_path / "fr_rank0.json").write_text(json.dumps(recorder([4096, 8192])))
    found = study([*names, str(tmp_path / "fr_rank0.json")], Options())
    assert found.rows[0].kind.size_bytes is None


def test_steps_by_a_mark_of_the_user_and_by_graph_replays(tmp_path: Path) -> None:
    def marked(run: Run) -> None:
        for document in run.documents.values():
            for event in document["traceEvents"]:
                if event["name"].startswith("ProfilerStep"):
                    event["name"] = "engine loop 7"

    def replayed(run: Run) -> None:
        for document in run.documents.values():
            document["traceEvents"] = [e for e in document["traceEvents"] if not e["name"].startswith("ProfilerStep")]
            for count, event in enumerate(document["traceEvents"]):
                event["args"] = {"correlation": count // 64, "graph node id": count}

    _, by_mark = studied(tmp_path / "a", Plan(slow={1: 5.0}), marked, Options(step="engine loop"))
    _, found = studied(tmp_path / "b", Plan(slow={1: 5.0}), marked)
    with pytest.raises(InputError, match=r"no mark fits 'nothing'.*engine loop #"):
        studied(tmp_path / "d", Plan(ranks=2), marked, Options(step="nothing"))
    _, graph = studied(tmp_path / "c", Plan(slow={1: 5.0}, flavour="graph"), replayed)
    assert len(by_mark.timeline.labels) == len(found.timeline.labels) == 6
    assert "engine loop" in found.timeline.traces[0].steps.marker
    assert graph.timeline.traces[0].steps.marker == "graph replays"
    assert len(graph.timeline.labels) == 6


def test_the_start_of_the_profilers_is_left_out(tmp_path: Path) -> None:
    def skewed(run: Run) -> None:
        first = next(event for event in run.documents[0]["traceEvents"] if event["name"] == NCCL)
        first["ts"] -= 30_000.0
        first["dur"] += 30_000.0
        step = next(event for event in run.documents[0]["traceEvents"] if event["name"] == "ProfilerStep#3")
        step["ts"] -= 31_000.0
        step["dur"] += 31_000.0

    _, found = studied(tmp_path, Plan(), skewed)
    assert len(found.timeline.labels) == 5
    assert found.verdict.stragglers == ()
    assert any("start of the profilers" in note for note in found.notes)


def test_a_change_of_two_microseconds_per_call_is_found(tmp_path: Path) -> None:
    _, before = studied(tmp_path / "a", Plan(slow={1: 6.0}))
    _, after = studied(tmp_path / "b", Plan(slow={2: 11.0}, alpha=11.0, seed=7))
    _, same = studied(tmp_path / "c", Plan(slow={3: 2.0}, seed=8))
    (moved,) = difference(before, after).changes
    assert moved.moved
    assert moved.change_s / US == pytest.approx(2.0, abs=0.15)
    assert moved.low_s < 2.0 * US < moved.high_s + 0.2 * US
    (still,) = difference(before, same).changes
    assert not still.moved
    assert abs(still.change_s) < 0.2 * US


def test_what_has_no_partner_is_listed(tmp_path: Path) -> None:
    _, before = studied(tmp_path / "a", Plan(sizes=(16384,)))
    _, after = studied(tmp_path / "b", Plan(sizes=(32768,)))
    assert difference(before, after).unpaired == (
        "before only: all-reduce of 16384 bytes",
        "after only: all-reduce of 32768 bytes",
    )


def test_ranks_read_in_processes_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = make(Plan(slow={1: 6.0})).write(tmp_path)
    serial = study(names, Options(workers=1))
    monkeypatch.setattr("nhalf.trace.study._WORTH_A_PROCESS_BYTES", 0)
    told: list[str] = []
    parallel = study(names, Options(workers=2, progress=told.append))
    assert parallel.mean == serial.mean
    assert sorted(told) == [f"rank{rank}.json" for rank in range(4)]


def test_a_timeline_of_one_rank_has_its_own_calls(tmp_path: Path) -> None:
    run = make(Plan(ranks=2))
    name = run.write(tmp_path, (0,))[0]
    timeline = build([kineto.read(tmp_path / name, standard())])
    assert not timeline.waits_known
    assert len(timeline.labels) == 6


def test_processes_that_leave_together_have_clocks_as_good_as_devices(tmp_path: Path) -> None:
    def gloo(run: Run) -> None:
        for document in run.documents.values():
            document["distributedInfo"]["backend"] = "gloo"
            for event in document["traceEvents"]:
                if event["name"] == NCCL:
                    event |= {"cat": "user_annotation", "name": "gloo:all_reduce", "tid": 99, "args": {}}
                elif event["cat"] == "kernel":
                    event["cat"] = "cpu_op"

    run, found = studied(tmp_path, Plan(slow={2: 7.0}, offsets=OFFSETS, drifts_ppm={1: 200.0}), gloo)
    right, late, wait = errors(run, found)
    assert right == 1.0
    assert max(late, wait) < 0.5
