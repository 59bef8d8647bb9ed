"""The engines: both give one answer, ports and protocols do what they say, and a path adds up to the time."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nhalf.errors import InputError, NoAnswerError
from nhalf.link import Link
from nhalf.simulate import all_ranks, network, rounds
from nhalf.simulate.building import Builder, together
from nhalf.simulate.engine import Conditions, run
from nhalf.simulate.path import by_cause, critical_path, utilisation
from nhalf.simulate.program import Program
from nhalf.simulate.programs import PROGRAMS, SEGMENTED, build
from nhalf.simulate.programs.shape import Shape

LINK = Link(5e-6, 50e9)
EVERY = [(op, name) for op, names in PROGRAMS.items() for name in names]
ALL_REDUCES = tuple(PROGRAMS["all-reduce"])

POWERS = ("all-gather", "recursive-doubling")
"""The program of powers of two only."""


def made(op: str, name: str, ranks: int = 8, size: float = 16384.0, **more: float) -> Program:
    return build(op, name, Shape(ranks=ranks, size_bytes=size, group=4, segments=3, **more))


def seconds(program: Program, **conditions: object) -> float:
    net = network.switch(program.ranks, LINK)
    return float(run(program, net, Conditions(**conditions)).time_s)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------- two engines, one result


@pytest.mark.parametrize(
    ("op", "name"), [pair for pair in EVERY if pair[1] not in {"double-tree", "binary-tree", "chain-tree"}]
)
@pytest.mark.parametrize("skewed", [False, True])
def test_arrays_and_events_agree(op: str, name: str, *, skewed: bool) -> None:
    program = made(op, name)
    starts = np.random.default_rng(7).exponential(3e-6, 8) if skewed else np.zeros(8)
    conditions = Conditions(starts_s=starts, reduction_s_per_byte=1e-12)
    try:
        arrays = run(program, network.switch(8, LINK), conditions, engine="arrays").finished_s
    except InputError:
        pytest.skip("messages of this program meet where arrays cannot hold it")
    events = run(program, network.switch(8, LINK), conditions, engine="events").finished_s
    assert arrays == pytest.approx(events, rel=1e-9)


SLOW = np.ones(8)
SLOW[3] = 2.0


@pytest.mark.parametrize(("op", "name"), [pair for pair in EVERY if pair[1] in {"direct", "one-shot", "two-shot"}])
@pytest.mark.parametrize("topology", ["switch", "mesh"])
@pytest.mark.parametrize("late", [0.0, 3e-6])
@pytest.mark.parametrize("port_slowness", [None, SLOW])
def test_arrays_and_events_agree_where_ranks_send_to_many(
    op: str, name: str, topology: str, late: float, port_slowness: np.ndarray[tuple[int], np.dtype[np.float64]] | None
) -> None:
    made_for = made(op, name, size=1e6, skew=0.7) if op.startswith("moe") else made(op, name, size=1e6)
    net = network.switch(8, LINK) if topology == "switch" else network.mesh(8, LINK)
    starts = np.random.default_rng(7).exponential(late, 8)
    conditions = Conditions(starts_s=starts, port_slowness=port_slowness, reduction_s_per_byte=1e-12)
    arrays = run(made_for, net, conditions, engine="arrays").finished_s
    events = run(made_for, net, conditions, engine="events").finished_s
    assert arrays == pytest.approx(events, rel=1e-9)


@pytest.mark.parametrize(("op", "name"), [pair for pair in EVERY if pair[1] not in SEGMENTED and pair != POWERS])
@pytest.mark.parametrize("nics", [4, 2, 1])
@pytest.mark.parametrize("port_slowness", [None, np.tile([1.0, 3.0, 1.5], 4)])
def test_arrays_and_events_agree_across_nodes(
    op: str, name: str, nics: int, port_slowness: np.ndarray[tuple[int], np.dtype[np.float64]] | None
) -> None:
    program = build(op, name, Shape(ranks=12, size_bytes=1e6, group=4))
    net = network.nodes(12, Link(2e-6, 400e9), Link(8e-6, 50e9), per_node=4, nics=nics)
    for late in (0.0, 3e-6, 50e-6):
        starts = np.random.default_rng(7).exponential(late, (12, 3))
        conditions = Conditions(starts_s=starts, port_slowness=port_slowness, reduction_s_per_byte=1e-12)
        assert program.rounds is not None
        if nics < 4 and sum(played.times for played in program.rounds()) > 1:
            with pytest.raises(InputError, match="messages may meet"):
                run(program, net, conditions, engine="arrays")
            continue
        arrays = run(program, net, conditions, engine="arrays").finished_s
        events = run(program, net, conditions, engine="events").finished_s
        assert arrays == pytest.approx(events, rel=1e-12)


def test_a_rank_adds_up_once_it_has_sent_too() -> None:
    # Rank 2 has its message after 2 ms, is done with sending to the slow port of rank 0 after 4, and adds up for 1 ms.
    program = build("reduce-scatter", "ring", Shape(ranks=3, size_bytes=3e6))
    conditions = Conditions(port_slowness=np.array([2.0, 1.0, 1.0]), reduction_s_per_byte=1e-9)
    for engine in ("arrays", "events"):
        found = run(program, network.switch(3, Link(0.0, 500e6)), conditions, engine=engine)
        assert found.finished_s == pytest.approx([10e-3, 10e-3, 10e-3])


@pytest.mark.parametrize("ranks", [2, 3, 4, 7])
@pytest.mark.parametrize("topology", ["switch", "mesh", "ring"])
@pytest.mark.parametrize("name", ["ring", "bidirectional-ring"])
@pytest.mark.parametrize("ports", ["fifo", "fair", "blocking"])
def test_rings_of_one_way_and_both_are_those_of_the_events(ranks: int, topology: str, name: str, ports: str) -> None:
    link, source = Link(2e-6, 50e9), np.random.default_rng(4)
    net = {"switch": network.switch, "mesh": network.mesh, "ring": network.ring}[topology](ranks, link)
    program = made("all-reduce", name, ranks, 1e6)
    meet = name == "bidirectional-ring" and (ranks == 2 or (topology == "switch" and ports != "fifo"))
    for late, slow in ((0.0, np.ones(ranks)), (3e-6, np.ones(ranks)), (3e-6, 1 + source.random(ranks))):
        conditions = Conditions(
            starts_s=source.exponential(late, (ranks, 2)), port_slowness=slow, ports=ports, reduction_s_per_byte=1e-12
        )
        if meet and (topology != "switch" or ports != "fifo"):
            with pytest.raises(InputError, match="messages may meet"):
                run(program, net, conditions, engine="arrays")
            continue
        if topology == "ring" and ranks == 2:
            continue
        arrays = run(program, net, conditions, engine="arrays").finished_s
        events = run(program, net, conditions, engine="events").finished_s
        assert arrays == pytest.approx(events, rel=1e-9)


@pytest.mark.parametrize("seed", [10, 15, 33])
def test_messages_that_nearly_tie_are_served_in_one_order_by_arrays_and_events(seed: int) -> None:
    # Two messages leave an ulp apart, which the sum with the latency rounds away: who is first shifts all that follow.
    program = made("all-reduce", "bidirectional-ring", size=2.0**22)
    starts, slowness = np.random.default_rng(seed).exponential(10e-6, 8), np.where(np.arange(8) == 4, 2.0, 1.0)
    conditions = Conditions(starts_s=starts, slowness=slowness, port_slowness=slowness, reduction_s_per_byte=1e-12)
    net = network.nodes(8, LINK, Link(12e-6, 25e9), per_node=1, nics=1)
    arrays = run(program, net, conditions, engine="arrays").finished_s
    assert arrays == pytest.approx(run(program, net, conditions, engine="events").finished_s, rel=1e-9)


def test_alike_ranks_of_two_rings_are_played_as_a_few() -> None:
    program, net = made("all-reduce", "bidirectional-ring", 9, 9e6), network.switch(9, LINK)
    told: list[int] = []
    found = run(program, net, progress=told.append)
    # Each port takes both halves of a step, one after the other.
    assert found.finished_s == pytest.approx(np.full(9, 16 * (5e-6 + 1e6 / 50e9)))
    assert sum(told) == program.messages


@pytest.mark.parametrize(("name", "most_bytes"), [("ring", 80), ("two-shot", 70), ("recursive-doubling", 110)])
def test_a_message_takes_few_bytes(name: str, most_bytes: float) -> None:
    pytest.importorskip("numba")
    program = made("all-reduce", name, 4096 if name == "recursive-doubling" else 256)
    net = network.switch(program.ranks, LINK)
    run(made("all-reduce", name), network.switch(8, LINK), engine="compiled events")  # numba's own memory comes first
    tracemalloc.start()
    try:
        run(program, net, engine="compiled events", record=False)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken / program.messages < most_bytes


@pytest.mark.parametrize("late", ["together", "one", "some", "all"])
@pytest.mark.parametrize("port_slowness", [None, np.where(np.arange(40) == 7, 2.5, 1.0)])
@pytest.mark.parametrize(
    ("op", "name", "skew"),
    [("all-reduce", "one-shot", 0.0), ("moe-dispatch", "direct", 1.5), ("moe-combine", "direct", 0.7)],
)
def test_all_pairs_without_a_list_are_those_of_the_events(
    op: str,
    name: str,
    skew: float,
    late: str,
    port_slowness: np.ndarray[tuple[int], np.dtype[np.float64]] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rank = np.arange(40)
    starts = {
        "together": np.zeros(40),
        "one": np.where(rank == 3, 2.5e-6, 0.0),
        "some": np.where(rank % 7 == 3, 1.7e-6, np.where(rank % 5 == 0, 4.3e-6, 0.0)),
        "all": np.random.default_rng(2).exponential(3e-6, 40),
    }[late]
    program, net = build(op, name, Shape(ranks=40, size_bytes=1e6, skew=skew)), network.switch(40, LINK)
    conditions = Conditions(starts_s=starts, port_slowness=port_slowness)
    events = run(program, net, conditions, engine="events").finished_s
    monkeypatch.setattr(rounds, "_WORTH_NO_LIST", 0)
    for cells in (2**24, 130):
        monkeypatch.setattr(all_ranks, "_CELLS", cells)
        assert run(program, net, conditions, engine="arrays").finished_s == pytest.approx(events, rel=1e-9)


def test_all_pairs_of_many_ranks_need_no_list_of_messages() -> None:
    program = made("all-reduce", "one-shot", 2**17)
    found = run(program, network.switch(2**17, LINK))
    assert found.messages == 2**17 * (2**17 - 1)
    assert found.time_s == pytest.approx(5e-6 + (2**17 - 1) * 16384 / 50e9)


@pytest.mark.parametrize("ports", ["fifo", "fair", "blocking"])
@pytest.mark.parametrize("name", ["ring", "two-shot", "double-tree"])
def test_compiled_and_plain_kernels_give_the_same_bits(name: str, ports: str) -> None:
    pytest.importorskip("numba")
    net = network.tree(8, LINK, leaf=4, oversubscription=2.0)
    starts = np.random.default_rng(3).exponential(3e-6, 8)
    conditions = Conditions(ports=ports, starts_s=starts)
    plain = run(made("all-reduce", name), net, conditions, engine="events").finished_s
    compiled = run(made("all-reduce", name), net, conditions, engine="compiled events").finished_s
    assert plain.tolist() == compiled.tolist()


@pytest.mark.parametrize("name", ["ring", "bidirectional-ring", "one-shot", "two-shot", "recursive-doubling"])
def test_draws_played_at_once_are_draws_played_one_by_one(name: str) -> None:
    starts = np.random.default_rng(5).exponential(4e-6, (8, 20))
    net = network.switch(8, LINK)
    together_s = np.asarray(run(made("all-reduce", name), net, Conditions(starts_s=starts)).time_s)
    alone = [float(run(made("all-reduce", name), net, Conditions(starts_s=starts[:, d]), engine="events").time_s)
             for d in range(20)]  # fmt: skip
    assert together_s == pytest.approx(np.array(alone), rel=1e-9)


def test_a_private_network_takes_any_ports() -> None:
    starts = np.random.default_rng(5).exponential(4e-6, 8)
    times = {
        ports: seconds(made("all-reduce", "ring"), ports=ports, starts_s=starts)
        for ports in ("fifo", "fair", "blocking")
    }
    assert len(set(times.values())) == 1


# -------------------------------------------------------------------------------------------------- what ranks wait for


@pytest.mark.parametrize("name", ["ring", "recursive-doubling", "rabenseifner", "one-shot", "two-shot"])
@pytest.mark.parametrize("delay", [20e-6, 1e-3])
def test_one_late_rank_delays_all_by_its_whole_delay(name: str, delay: float) -> None:
    # T = max(arrival) + T0, whatever the algorithm. FIFO ports serve a direct algorithm's messages in the order of
    # posting, which a late rank upsets by a few chunks; sharing ports do not care.
    starts = np.zeros(8)
    starts[3] = delay
    base, late = (
        seconds(made("all-reduce", name), ports="fair"),
        seconds(made("all-reduce", name), ports="fair", starts_s=starts),
    )
    assert late == pytest.approx(base + delay, rel=1e-9)
    assert seconds(made("all-reduce", name), starts_s=starts) == pytest.approx(base + delay, abs=4 * 2048 / 50e9)


@pytest.mark.parametrize("name", ALL_REDUCES)
def test_everyone_ends_after_the_late_rank_began(name: str) -> None:
    starts = np.zeros(8)
    starts[3] = 1e-3
    net = network.switch(8, LINK)
    assert run(made("all-reduce", name), net, Conditions(starts_s=starts)).finished_s.min() > 1e-3


def test_blocking_ports_are_slower_for_direct_algorithms_and_no_others() -> None:
    assert seconds(made("all-reduce", "ring"), ports="blocking") == pytest.approx(seconds(made("all-reduce", "ring")))
    assert seconds(made("all-reduce", "one-shot"), ports="blocking") == pytest.approx(7 * (5e-6 + 16384 / 50e9))


def test_an_eager_sender_does_not_wait_for_its_receiver() -> None:
    builder = Builder(2)
    send, receive = builder.step(0), builder.step(1, earliest_s=30e-6)
    builder.message(send, receive, 50e3)
    program = Program(op="schedule", algorithm="one", ranks=2, size_bytes=50e3, steps=builder.graph())
    for protocol, ended in (("rendezvous", 36e-6), ("eager", 6e-6)):
        record = run(program, network.switch(2, LINK), Conditions(protocol=protocol)).record
        assert record is not None
        assert record.ended_s == pytest.approx([ended])


def test_reduction_is_paid_per_byte_and_by_a_slow_rank_more() -> None:
    base = seconds(made("all-reduce", "ring"))
    paid = seconds(made("all-reduce", "ring"), reduction_s_per_byte=1e-10)
    assert paid - base == pytest.approx(7 * 2048 * 1e-10)
    slowness = np.ones(8)
    slowness[2] = 2.0
    assert seconds(made("all-reduce", "ring"), reduction_s_per_byte=1e-10, slowness=slowness) > paid


def test_a_slow_port_slows_what_goes_through_it() -> None:
    factors = np.ones(8)
    factors[2] = 4.0
    base, slow = seconds(made("all-reduce", "ring")), seconds(made("all-reduce", "ring"), port_slowness=factors)
    # Every step now waits for the slow port: a chunk takes four times as long.
    assert slow - base == pytest.approx(14 * 3 * 2048 / 50e9)


@pytest.mark.parametrize(("ports", "last"), [("fair", 3 * 50e3 / 50e9), ("fifo", 3 * 50e3 / 50e9)])
def test_incast_shares_or_queues_at_the_receiver(ports: str, last: float) -> None:
    program = made("reduce", "direct", ranks=4, size=50e3)
    record = run(program, network.switch(4, LINK), Conditions(ports=ports)).record
    assert record is not None
    ends = sorted(((record.ended_s - 5e-6) * 1e6).tolist())
    assert ends[-1] == pytest.approx(last * 1e6)
    assert ends[0] == pytest.approx(ends[-1] if ports == "fair" else ends[-1] / 3)


def test_per_hop_latency_is_added_beyond_the_first_hop() -> None:
    program = build("send-recv", "direct", Shape(ranks=2, size_bytes=50e3))
    apart = together([program], [[0, 3]], 8)
    for hop, expected in ((1e-6, 5e-6 + 2e-6), (None, 15e-6)):
        net = network.ring(8, LINK, hop_latency_s=hop)
        assert run(apart, net).time_s == pytest.approx(expected + 1e-6)


def test_a_faster_pair_overtakes_a_slow_one_on_other_links() -> None:
    slow, fast = made("all-reduce", "ring", ranks=4, size=1e6), made("all-reduce", "ring", ranks=4, size=1e3)
    net = network.switch(8, LINK)
    finished = run(together([slow, fast], [range(4), range(4, 8)], 8), net).finished_s
    assert finished[:4].max() == pytest.approx(seconds(slow))
    assert finished[4:].max() == pytest.approx(seconds(fast))


# --------------------------------------------------------------------------------------------------- path and links


@pytest.mark.parametrize("ports", ["fifo", "fair", "blocking"])
@pytest.mark.parametrize("name", ALL_REDUCES)
def test_the_critical_path_adds_up_to_the_time(name: str, ports: str) -> None:
    starts = np.random.default_rng(11).exponential(5e-6, 8)
    conditions = Conditions(ports=ports, starts_s=starts, reduction_s_per_byte=2e-11)
    played = run(made("all-reduce", name), network.tree(8, LINK, leaf=4, oversubscription=4.0), conditions)
    path = critical_path(played)
    assert sum(by_cause(path).values()) == pytest.approx(played.time_s, rel=1e-9)
    for earlier, later in pairwise(path):
        assert later.begin_s == pytest.approx(earlier.end_s, rel=1e-12)


def test_the_critical_path_names_the_late_rank() -> None:
    starts = np.zeros(8)
    starts[5] = 1e-4
    path = critical_path(run(made("all-reduce", "ring"), network.switch(8, LINK), Conditions(starts_s=starts)))
    assert (path[0].kind, path[0].rank, path[0].length_s) == ("start", 5, 1e-4)
    assert by_cause(path)["late start"] == 1e-4


def test_links_are_used_no_more_than_they_can() -> None:
    net = network.tree(16, LINK, leaf=4, oversubscription=4.0)
    used = utilisation(run(made("all-reduce", "two-shot", ranks=16, size=1e8), net, Conditions(ports="fair")))
    assert used[0].name.startswith("leaf")
    assert 0.99 < used[0].share <= 1.0
    assert used == sorted(used, key=lambda use: -use.share)


# ---------------------------------------------------------------------------------------------------- what is refused


def test_a_deadlock_names_the_rank_and_the_message() -> None:
    builder = Builder(2)
    there, back = builder.step(0), builder.step(1)
    away, home = builder.step(1), builder.step(0)
    builder.message(there, away, 8.0)
    builder.message(back, home, 8.0)
    builder.wait(away, back)  # rank 1 receives only once it has sent,
    builder.wait(home, there)  # and rank 0 likewise: nobody receives
    program = Program(op="schedule", algorithm="knot", ranks=2, size_bytes=8.0, steps=builder.graph())
    with pytest.raises(NoAnswerError, match=r"message 0: the schedule deadlocks: rank 0 waits for rank 1 to receive"):
        run(program, network.switch(2, LINK))
    assert run(program, network.switch(2, LINK), Conditions(protocol="eager")).time_s > 0


def test_more_ranks_than_the_network_has_are_refused() -> None:
    with pytest.raises(InputError, match="8 ranks do not fit a network of 4"):
        run(made("all-reduce", "ring"), network.switch(4, LINK))


@pytest.mark.parametrize(("ports", "protocol"), [("fifi", "eager"), ("fifo", "polite")])
def test_unknown_words_are_refused(ports: str, protocol: str) -> None:
    with pytest.raises(InputError, match="is not known"):
        Conditions(ports=ports, protocol=protocol)


def test_starts_of_another_number_of_ranks_are_refused() -> None:
    with pytest.raises(InputError, match="3 start times for 8 ranks"):
        run(made("all-reduce", "ring"), network.switch(8, LINK), Conditions(starts_s=np.zeros(3)))


# ----------------------------------------------------------------------------------------------------- physics


@given(
    name=st.sampled_from(ALL_REDUCES),
    ports=st.sampled_from(["fifo", "fair", "blocking"]),
    size=st.floats(1.0, 1e8),
    factor=st.floats(1.0, 100.0),
)
def test_time_never_falls_with_size_or_latency(name: str, ports: str, size: float, factor: float) -> None:
    def at(size: float, latency: float) -> float:
        net = network.switch(4, Link(latency, 50e9))
        return float(run(made("all-reduce", name, ranks=4, size=size), net, Conditions(ports=ports)).time_s)

    assert at(size * factor, 5e-6) >= at(size, 5e-6) * (1 - 1e-12)
    assert at(size, 5e-6 * factor) >= at(size, 5e-6) * (1 - 1e-12)


# --------------------------------------------------------------------------------------------- ranks that are all alike


@pytest.mark.parametrize("op", ["all-reduce", "all-gather", "reduce-scatter"])
@pytest.mark.parametrize("ranks", [2, 3, 8, 33])
@pytest.mark.parametrize("size", [8.0, 16384.0, 1e6 + 1])
@pytest.mark.parametrize("adding", [0.0, 3e-12])
def test_ranks_that_are_alike_end_where_each_alone_would(
    op: str, ranks: int, size: float, adding: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, net = made(op, "ring", ranks, size), network.switch(ranks, LINK)
    for starts in (np.full(ranks, 1.7e-6), np.full((ranks, 3), [0.0, 1e-6, 3.3e-3])):
        conditions = Conditions(starts_s=starts, reduction_s_per_byte=adding)
        short = run(program, net, conditions, record=False).finished_s
        with monkeypatch.context() as patch:
            patch.setattr(rounds, "_alike", lambda _: False)
            long = run(program, net, conditions, record=False).finished_s
        assert (short == long).all()


def test_a_ring_of_ranks_that_are_alike_costs_no_more_than_its_rounds() -> None:
    program, net = made("all-reduce", "ring", 131_072, 64 * 2.0**20), network.switch(131_072, LINK)
    told: list[int] = []
    found = run(program, net, progress=told.append)
    assert found.time_s == pytest.approx(2 * 131_071 * (LINK.latency_s + 512 / 50e9))
    assert sum(told) == program.messages
    assert len(told) <= 2  # a step for each phase, not for each round
