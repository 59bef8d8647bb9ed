"""Fair sharing: rates are max-min fair, bytes are conserved, and the order of events is that of physics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nhalf.link import Link
from nhalf.simulate import network
from nhalf.simulate.building import Builder
from nhalf.simulate.engine import Conditions, Record, run
from nhalf.simulate.machine import Wiring, from_links
from nhalf.simulate.program import Indices, Program
from nhalf.simulate.programs import build
from nhalf.simulate.programs.shape import Shape

if TYPE_CHECKING:
    from nhalf.breakdown import Array

LINK, SLOW = Link(1e-6, 1e9), Link(4e-6, 2e8)
RANKS = 12
FLOWS = st.lists(
    st.tuples(st.integers(0, RANKS - 1), st.integers(1, RANKS - 1), st.floats(1e3, 1e6), st.floats(0, 1e-3)),
    min_size=1,
    max_size=25,
)


def played(flows: list[tuple[int, int, float, float]], net: network.Network) -> Record:
    builder = Builder(RANKS)
    for source, ahead, size, start in flows:
        ends = [builder.step(rank, earliest_s=start) for rank in (source, (source + ahead) % RANKS)]
        builder.message(ends[0], ends[1], size)
    program = Program(op="flows", algorithm="flows", ranks=RANKS, size_bytes=1.0, steps=builder.graph())
    record = run(program, net, Conditions(ports="fair")).record
    assert record is not None
    return record


def reference(record: Record, capacity: Array) -> list[float]:
    """Return when each flow ends, from the definition alone: new rates for all at every event, nothing remembered."""
    ways = record.paths
    routes = [ways.links[ways.start[r] : ways.start[r + 1]] for r in ways.of]
    return ends_of(routes, record.posted_s + ways.latency_s[ways.of], record.graph.size_bytes, capacity)


def ends_of(routes: list[Indices], begin: Array, size: Array, capacity: Array) -> list[float]:
    """Return when each flow ends that begins at some time on a route of links."""
    left = size.copy()
    ended = np.full(len(left), np.nan)
    now = float(begin.min())
    while np.isnan(ended).any():
        active = [m for m in range(len(left)) if begin[m] <= now and np.isnan(ended[m])]
        rates = max_min([routes[m] for m in active], capacity)
        ends = [now + left[m] / rate for m, rate in zip(active, rates, strict=True)]
        later = [float(t) for t in begin if t > now]
        then = min([*ends, *later])
        for m, rate, end in zip(active, rates, ends, strict=True):
            left[m] -= rate * (then - now)
            if end <= then * (1 + 1e-13):
                ended[m] = then
        now = then
    return ended.tolist()


def max_min(routes: list[Indices], capacity: Array) -> list[float]:
    """Return max-min fair rates by filling the narrowest link first."""
    rates = [0.0] * len(routes)
    open_flows = set(range(len(routes)))
    room = capacity.copy()
    while open_flows:
        users = {link: [f for f in open_flows if link in routes[f]] for link in range(len(capacity))}
        level, link = min((room[link] / len(flows), link) for link, flows in users.items() if flows)
        for flow in users[link]:
            rates[flow] = level
            room[routes[flow]] -= level
            open_flows.remove(flow)
    return rates


@given(flows=FLOWS, oversubscription=st.sampled_from([1.0, 2.0, 4.0, 12.0]))
def test_every_flow_ends_as_the_definition_says(
    flows: list[tuple[int, int, float, float]], oversubscription: float
) -> None:
    net = network.tree(RANKS, LINK, leaf=4, oversubscription=oversubscription)
    record = played(flows, net)
    assert record.ended_s.tolist() == pytest.approx(reference(record, net.capacity_bytes_per_s), rel=1e-9)


@given(flows=FLOWS)
def test_a_torus_shares_its_links_by_the_same_rule(flows: list[tuple[int, int, float, float]]) -> None:
    net = network.torus(4, 3, LINK)
    record = played(flows, net)
    assert record.ended_s.tolist() == pytest.approx(reference(record, net.capacity_bytes_per_s), rel=1e-9)


def way_on_rails(source: int, target: int, pod: int) -> list[str]:
    """Return the links between two ranks of nodes of four with two NICs, `pod` nodes a leaf, by their names."""
    (node, at), (other, to) = divmod(source, 4), divmod(target, 4)
    if node == other:
        return [f"rank {source} out", f"rank {target} in"]
    leaf, beyond = (node // pod, at // 2), (other // pod, to // 2)
    spine = (
        [] if leaf == beyond else [f"leaf {leaf[0]} of rail {leaf[1]} up", f"leaf {beyond[0]} of rail {beyond[1]} down"]
    )
    return [f"node {node} NIC {at // 2} out", *spine, f"node {other} NIC {to // 2} in"]


@given(flows=FLOWS, pod=st.sampled_from([1, 3]), oversubscription=st.sampled_from([0.5, 2.0]))
def test_rails_share_their_leaves_by_the_same_rule(
    flows: list[tuple[int, int, float, float]], pod: int, oversubscription: float
) -> None:
    wiring = Wiring(
        topology="rails", group=4, nics=2, pod=pod, inter=SLOW, oversubscription=oversubscription, hop_latency_s=3e-6
    )
    record = played(flows, from_links(RANKS, LINK, wiring).network)
    capacity = {"rank": 1e9, "node": 2e8, "leaf": pod * 2e8 / oversubscription}
    ways = [
        way_on_rails(*ends, pod)
        for ends in zip(record.graph.source.tolist(), record.graph.target.tolist(), strict=True)
    ]
    named = sorted({link for way in ways for link in way})
    at = [np.array([named.index(link) for link in way], dtype=np.int32) for way in ways]
    latency = [{True: 1e-6, False: 4e-6 + 6e-6 * (len(way) > 2)}[way[0].startswith("rank")] for way in ways]
    begins = record.posted_s + latency
    ended = ends_of(at, begins, record.graph.size_bytes, np.array([capacity[link.split()[0]] for link in named]))
    assert record.ended_s.tolist() == pytest.approx(ended, rel=1e-9)


@pytest.mark.parametrize("ports", ["fifo", "fair"])
def test_what_keeps_to_its_rail_never_sees_a_spine(ports: str) -> None:
    program = build("all-reduce", "hierarchical", Shape(ranks=12, size_bytes=3e5, group=4))
    starts = np.random.default_rng(2).exponential(1e-5, 12)
    plain = Wiring(topology="nodes", group=4, inter=SLOW)
    railed = Wiring(topology="rails", group=4, inter=SLOW, oversubscription=8.0, hop_latency_s=1e-3)
    nets = [from_links(12, LINK, wiring).network for wiring in (plain, railed)]
    conditions = Conditions(ports=ports, starts_s=starts)
    times = [run(program, net, conditions, engine="events").finished_s.tolist() for net in nets]
    assert times[0] == times[1]


def test_two_flows_into_one_port_get_half_each_and_then_all_of_it() -> None:
    ended = played([(0, 3, 1e6, 0.0), (1, 2, 5e5, 0.0)], network.switch(RANKS, LINK)).ended_s
    assert sorted((ended - 1e-6).tolist()) == pytest.approx([1e-3, 1.5e-3])


def test_latency_takes_no_share() -> None:
    # Where a tool weighs flows by 1 / latency the near flow would get more than half.
    net = network.ring(RANKS, LINK, hop_latency_s=50e-6)
    near, far = played([(2, 1, 1e6, 0.0), (0, 3, 1e6, 0.0)], net).ended_s
    # The near one is alone from 1 to 101 us and has half of the link from then on: 1 + 100 + 1,800 us.
    assert (near, far) == pytest.approx((1.901e-3, 2.001e-3), rel=1e-9)


@pytest.mark.parametrize("oversubscription", [1.0, 4.0])
@pytest.mark.parametrize("protocol", ["rendezvous", "eager"])
@pytest.mark.parametrize("name", ["rabenseifner", "recursive-doubling", "double-tree"])
def test_flows_of_a_program_end_as_the_definition_says(name: str, protocol: str, oversubscription: float) -> None:
    # Here many links get new levels at once, and many ends move.
    program = build("all-reduce", name, Shape(ranks=16, size_bytes=3e5, segments=3))
    net = network.tree(16, LINK, leaf=4, oversubscription=oversubscription)
    for seed in range(3):
        starts = np.random.default_rng(seed).exponential(2e-5, 16)
        conditions = Conditions(ports="fair", protocol=protocol, starts_s=starts, reduction_s_per_byte=1e-11)
        record = run(program, net, conditions, engine="events").record
        assert record is not None
        assert record.ended_s == pytest.approx(np.array(reference(record, net.capacity_bytes_per_s)), rel=1e-9)
