"""The decode loop of a model: its messages, collectives over sockets, waits and transfers, and what follows."""

from __future__ import annotations

import functools
import socket
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nhalf
from nhalf.collective import Algorithm, Op
from nhalf.decide.decode_loop import HAND_OVER, RETURN, program, work
from nhalf.errors import InputError
from nhalf.evidence.probe.cell import LADDER, Cell, Program, Step
from nhalf.evidence.probe.loop_answer import of_run
from nhalf.evidence.probe.loop_times import played
from nhalf.evidence.probe.socket_group import SocketAction, SocketGroup
from nhalf.evidence.probe.streams import PeerGoneError, Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.points import Points

MICRO = 1000.0


def in_all(ranks: int, body: Callable[[SocketGroup], Any]) -> list[Any]:
    """Return what a body returns on each rank of a group over sockets."""
    ends: dict[tuple[int, int], Stream] = {}
    for low in range(ranks):
        for high in range(low + 1, ranks):
            first, second = socket.socketpair()
            ends[low, high], ends[high, low] = Stream(first, 8, 10.0), Stream(second, 8, 10.0)
    found: list[Any] = [None] * ranks

    def run(rank: int) -> None:
        streams = {other: ends[rank, other] for other in range(ranks) if other != rank}
        found[rank] = body(SocketGroup(streams, tuple(range(ranks)), rank, 10.0))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30.0)
    for each in ends.values():
        each.close()
    return found


@pytest.mark.parametrize("ranks", [2, 3, 4, 5])
@pytest.mark.parametrize("op", [Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_TO_ALL, Op.BARRIER])
def test_collectives_over_sockets_are_right(op: Op, ranks: int) -> None:
    for size in (1, 64, 3_000_000):  # the largest is beyond what the system buffers of both directions
        cell = Cell(channel="tcp", op=op, size_bytes=size, ranks=tuple(range(ranks)))
        assert in_all(ranks, functools.partial(_checked, cell)) == [True] * ranks


def _checked(cell: Cell, group: SocketGroup) -> bool:
    return SocketAction(group, cell).check()


@pytest.mark.parametrize("algorithm", [Algorithm.RING, Algorithm.RECURSIVE_DOUBLING])
def test_both_algorithms_sum_alike(algorithm: str) -> None:
    def summed(group: SocketGroup) -> list[float]:
        values = np.arange(7, dtype=np.float32) + group.place
        group.all_reduce(values, algorithm)()
        return list(map(float, values))

    assert in_all(4, summed) == [[4.0 * value + 6.0 for value in range(7)]] * 4


def test_doubling_wants_a_power_of_two_and_a_lost_peer_is_told() -> None:
    def asked(group: SocketGroup) -> str:
        with pytest.raises(InputError, match="2, 4, 8") as caught:
            group.all_reduce(np.zeros(3, dtype=np.float32), Algorithm.RECURSIVE_DOUBLING)
        return caught.value.where

    assert in_all(3, asked) == ["algorithm"] * 3
    first, second = socket.socketpair()
    group = SocketGroup({1: Stream(first, 8, 0.5)}, (0, 1), 0, 0.5)
    second.close()
    with pytest.raises(PeerGoneError):
        group.barrier()
    first.close()


def test_the_messages_of_a_token_are_those_of_the_prediction() -> None:
    scenario = nhalf.load("llama-3.1-8b", on="h100-sxm", tp=4, batch=16)
    found = program(scenario)
    reduces = [step for step in found.steps if step.op is Op.ALL_REDUCE]
    assert len(reduces) == 2 * 32
    assert {step.size_bytes for step in reduces} == {16 * 4096 * 2}
    assert [step.name for step in found.steps[-1:]] == ["logits all-gather"]
    assert found.steps[-1].size_bytes == 16 * 128_256 * 2
    assert {step.size_bytes for step in program(scenario, floor=True).steps} == {4}
    assert work(scenario)[:2] == (16, 4096)
    assert 4 * 64 * 4096 * work(scenario)[2] == pytest.approx(6.98e9, rel=0.01)  # the parameters of its blocks


def test_stages_hand_over_and_the_last_gives_the_token_back() -> None:
    found = program(nhalf.load("llama-3.1-8b", on="h100-sxm", tp=2, pp=2, batch=8))
    assert found.passes == 2
    assert sum(step.share for step in found.steps if step.op is Op.ALL_REDUCE) == pytest.approx(2 * 32)
    assert sum(step.share for step in found.steps if step.name == HAND_OVER) == pytest.approx(1)
    over = {(step.ranks, step.size_bytes) for step in found.steps if step.name == HAND_OVER}
    assert over == {((0, 2), 4 * 4096 * 2), ((1, 3), 4 * 4096 * 2)}
    assert {step.ranks for step in found.steps if step.name == RETURN} == {(2, 0), (3, 1)}


def test_experts_are_reached_and_left_in_each_layer() -> None:
    found = program(nhalf.load("mixtral-8x7b", on="h100-sxm", tp=2, attention_dp=2, ep=4, exchange="all-to-all"))
    names = [step.name for step in found.steps]
    assert names.count("dispatch") == names.count("combine") == 32
    assert {step.ranks for step in found.steps if step.name == "dispatch"} == {(0, 1, 2, 3)}
    assert {step.ranks for step in found.steps if step.name == "all-reduce"} == {(0, 1), (2, 3)}


# --- waits and transfers ----------------------------------------------------------------------------------------------


def steps(count: int) -> Program:
    step = Step(name="all-reduce", op=Op.ALL_REDUCE, size_bytes=8, ranks=(0, 1))
    return Program(tp=2, pp=1, ep=1, batch=1, steps=(step,) * count)


def answers(late_ns: float, flight_ns: float, count: int, offset_ns: float = 0.0) -> dict[int, Any]:
    """Return two ranks whose messages take so long, of which rank 1 comes later by `late_ns` at each step."""
    begun = [0.0, offset_ns]
    marks: dict[int, list[float]] = {0: [], 1: []}
    for _ in range(count):
        ends = [max(begun[0], begun[1] + flight_ns), max(begun[1], begun[0] + flight_ns)]
        for rank in (0, 1):
            marks[rank] += [begun[rank], ends[rank]]
        begun = [ends[0], ends[1] + late_ns]
    return {rank: {"tokens": [marks[rank][-1]], "marks": marks[rank], "own": False} for rank in (0, 1)}


def test_a_rank_that_is_always_late_is_waited_for() -> None:
    found = played(steps(40), answers(50 * MICRO, 5 * MICRO, 40), {})
    (transfer, wait) = found["steps"]["all-reduce"]
    assert found["late"][1] > 0.9 * 40 * 45 * MICRO
    assert found["late"][0] == 0.0
    assert wait > 5 * transfer


def test_ranks_that_are_late_in_turn_wait_for_nobody() -> None:
    found = played(steps(40), answers(0.0, 1000 * MICRO, 40, offset_ns=400 * MICRO), {})
    (transfer, wait) = found["steps"]["all-reduce"]
    assert transfer == pytest.approx(40 * 1000 * MICRO, rel=0.02)
    assert wait < 0.02 * transfer
    assert found["calls"]["all-reduce"] == pytest.approx(1000 * MICRO, rel=0.02)


def test_a_clock_that_is_ahead_is_put_back() -> None:
    given = answers(0.0, 10 * MICRO, 20)
    given[1]["marks"] = [mark + 777 * MICRO for mark in given[1]["marks"]]
    assert played(steps(20), given, {1: round(777 * MICRO)}) == played(steps(20), answers(0.0, 10 * MICRO, 20), {})


def test_without_marks_there_is_the_token_and_with_a_devices_clock_no_wait() -> None:
    bare = {rank: {"tokens": [5.0, 7.0, 9.0], "marks": [], "own": True} for rank in (0, 1)}
    assert played(steps(2), bare, {})["token"] == 7.0
    assert played(steps(2), bare, {})["steps"] == {}
    given = answers(50 * MICRO, 5 * MICRO, 10)
    for each in given.values():
        each["own"] = True
    assert played(steps(10), given, {})["waits"] is False
    assert played(steps(10), given, {})["steps"]["all-reduce"][1] == 0.0


# --- what follows -----------------------------------------------------------------------------------------------------


def loop(batch: int, each_ns: float, *, wait_ns: float = 0.0, late: float = 0.0, variant: str = "") -> dict[str, Any]:
    message = {"name": "all-reduce", "op": "all-reduce", "size_bytes": max(8192 * batch, 4), "ranks": 2,
               "count_per_token": 64}  # fmt: skip
    visit = {"token": 64 * (each_ns + wait_ns), "steps": {"all-reduce": [64 * each_ns, 64 * wait_ns]},
             "calls": {"all-reduce": each_ns}, "late": {"0": 0.0, "1": late}, "waits": True}  # fmt: skip
    return {"tp": 2, "pp": 1, "ep": 1, "batch": batch, "ranks": 2, "variant": variant, "computes": False,
            "number": "f32", "messages": [message], "rounds": [visit] * 6}  # fmt: skip


def run(*loops: dict[str, Any]) -> dict[str, Any]:
    curve = {"op": "all-reduce", "ranks": 2, "label": "", "points": [{"size_bytes": 8192, "median_s": 60e-6}]}
    hosts = [{"rank": rank, "host": f"host-{rank}"} for rank in (0, 1)]
    return {"loops": list(loops), "curves": [curve], "ranks": hosts}


def test_a_row_is_floor_bytes_and_waiting() -> None:
    answer = of_run(run(loop(0, 40 * MICRO), loop(1, 50 * MICRO, wait_ns=8 * MICRO)))
    assert answer is not None
    row = answer.lead
    assert (row.fixed_s, row.transfer_s, row.wait_s) == pytest.approx((64 * 40e-6, 64 * 10e-6, 64 * 8e-6))
    assert row.time_s == pytest.approx(64 * 58e-6)
    assert row.alone_s == pytest.approx(64 * 60e-6)
    assert (row.low_s, row.high_s) == pytest.approx((row.time_s, row.time_s))


def test_the_batch_at_which_it_doubles_is_between_two_rungs() -> None:
    rungs = [loop(batch, (40 + 2.5 * batch) * MICRO, variant=LADDER) for batch in (0, 1, 4, 8, 16, 64)]
    answer = of_run(run(loop(0, 40 * MICRO), loop(1, 42.5 * MICRO), *rungs))
    assert answer is not None
    assert answer.batch_at_double_floor == pytest.approx(16.0)
    short = of_run(run(loop(0, 40 * MICRO), loop(1, 42.5 * MICRO), *rungs[:3]))
    assert short is not None
    assert short.batch_at_double_floor is None


@pytest.mark.parametrize(("share", "named"), [(0.09, False), (0.11, True)])
def test_a_rank_is_slow_from_a_tenth_on(share: float, named: bool) -> None:  # noqa: FBT001
    answer = of_run(run(loop(0, 40 * MICRO), loop(1, 50 * MICRO, late=share * 64 * 50 * MICRO)))
    assert answer is not None
    assert (answer.slow is not None) is named
    if answer.slow is not None:
        assert (answer.slow.rank, answer.slow.host) == (1, "host-1")


def test_no_loop_was_played_to_the_end_of_a_visit() -> None:
    assert of_run(run({**loop(1, 1.0), "rounds": []})) is None


def test_the_point_of_a_prediction_knows_its_communication() -> None:
    from nhalf.loading.looping import loops
    from nhalf.loading.request import keywords
    from nhalf.points import points

    request = keywords("llama-3.1-8b", "h100-sxm", {"tp": 2})
    found = loops(request, on=True, compute=False, variants=("fuse 4",)).predicted[2, 1, 1, 1]
    whole: Points = points(nhalf.load("llama-3.1-8b", on="h100-sxm", tp=2))
    assert found.communication_s + found.rest_s == pytest.approx(float(whole.step_s[0]))
    with pytest.raises(InputError, match="one rank has nobody"):
        loops(keywords("llama-3.1-8b", "h100-sxm", {"tp": 1}), on=True, compute=False, variants=())
