"""Laws against simulation: two ways to one number that share nothing but the names of their inputs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from nhalf.collective import Op
from nhalf.decide.agreement import ROUNDED_BYTES, Outcome, outcome, shape_for
from nhalf.decide.skewed import expected_latest, spread
from nhalf.link import Link
from nhalf.simulate.engine import Conditions, run
from nhalf.simulate.machine import Machine, Wiring, from_links
from nhalf.simulate.programs import GROUPED, PROGRAMS, SEGMENTED, build
from nhalf.simulate.straggler import parse_skew

if TYPE_CHECKING:
    from nhalf.simulate.program import Program

LINK = Link(5e-6, 50e9)
SLOW = Link(8e-6, 50e9)
FAST = Link(2e-6, 400e9)
SIZES = (1.0, 1025.0, 16384.0, 1048576.0, 67108864.0)
COUNTS = (*range(2, 34), 64, 128)
MANY = 33
"""Beyond this many ranks only one size is tried for programs of K^2 messages."""
EVERY = [(str(op), name) for op in Op for name in PROGRAMS[op]]
EXACT = [(op, name) for op, name in EVERY if name not in SEGMENTED and op != "send-recv"]
"""All that is not pipelined agrees for every number of ranks, but for whole bytes."""


def groups(name: str, ranks: int) -> list[int]:
    """Return the group sizes to try: one in the middle of the divisors for nested rings, none otherwise."""
    if name not in GROUPED:
        return [0]
    divisors = [width for width in range(2, ranks) if ranks % width == 0]
    return divisors[len(divisors) // 2 : len(divisors) // 2 + 1]


def cases(op: str, name: str, counts: tuple[int, ...] = COUNTS) -> list[tuple[Machine, Program]]:
    found = []
    for ranks in counts:
        if (op, name) == ("all-gather", "recursive-doubling") and ranks & (ranks - 1):
            continue
        for group in groups(name, ranks):
            machine = from_links(ranks, LINK, Wiring(group=group))
            sizes = SIZES[2:3] if ranks > MANY and name in {"two-shot", "one-shot", "direct"} else SIZES
            found += [(machine, build(op, name, shape_for(name, ranks, size, machine))) for size in sizes]
    return found


def quick(machine: Machine, program: Program, **conditions: object) -> Outcome:
    played = run(program, machine.network, Conditions(**conditions), record=False)  # type: ignore[arg-type]
    return outcome(played, machine, replay=False)


@pytest.mark.parametrize(("op", "name"), EXACT)
def test_a_law_is_exact_but_for_whole_bytes(op: str, name: str) -> None:
    for machine, program in cases(op, name):
        found = quick(machine, program)
        if found.law_s is None:
            assert name in GROUPED  # a torus that is not the squarest has no law
            continue
        bound = ROUNDED_BYTES * program.ranks / LINK.bandwidth_bytes_per_s + 1e-9 * found.law_s
        assert abs(float(found.run.time_s) - found.law_s) <= bound, (program.ranks, program.size_bytes, found.reason)


@pytest.mark.parametrize(("op", "name"), EXACT)
def test_a_law_is_exact_where_ranks_divide_the_bytes(op: str, name: str) -> None:
    for ranks in (2, 4, 6, 8, 12, 16):
        if (op, name) == ("all-gather", "recursive-doubling") and ranks & (ranks - 1):
            continue
        for group in groups(name, ranks):
            machine = from_links(ranks, LINK, Wiring(group=group))
            size = 48.0 * ranks * ranks * math.lcm(*range(1, 9))
            found = quick(machine, build(op, name, shape_for(name, ranks, size, machine)))
            if found.law_s is not None and op != "barrier":  # a barrier's message of one byte has no bytes in the law
                assert float(found.run.time_s) == pytest.approx(found.law_s, rel=1e-9)
                assert found.reason == "the same"


@pytest.mark.parametrize(
    ("name", "below", "above"), [("double-tree", 0.49, 0.25), ("binary-tree", 0.62, 0.31), ("chain-tree", 0.44, 0.09)]
)
def test_a_pipelined_tree_is_near_its_law_and_says_why_it_is_not(name: str, below: float, above: float) -> None:
    # Far below only for two and three ranks, where a tree is one edge whose two ways run at the same time; above where
    # segments of both ways meet at the ports of the inner ranks.
    for machine, program in cases("all-reduce", name):
        found = quick(machine, program)
        assert found.difference is not None
        assert -below < found.difference < above, (program.ranks, program.size_bytes)
        if program.ranks > 3:
            assert found.difference > -0.02, (program.ranks, program.size_bytes)
        if program.size_bytes <= 1025:
            assert abs(found.difference) < 0.01
        elif abs(found.difference) > 0.01:
            assert "pipeline" in found.reason


def test_a_hand_over_is_a_message_for_each_boundary() -> None:
    for machine, program in cases("send-recv", "direct", (2, 3, 9)):
        found = quick(machine, program)
        assert found.law_s is not None
        assert found.run.time_s == pytest.approx((program.ranks - 1) * found.law_s)


@pytest.mark.parametrize("reduction", [1e-12, 1e-9])
@pytest.mark.parametrize("name", [name for name in PROGRAMS["all-reduce"] if name not in SEGMENTED])
def test_reduction_costs_what_the_law_says(name: str, reduction: float) -> None:
    for ranks in (4, 8, 16):
        for group in groups(name, ranks):
            machine = from_links(ranks, LINK, Wiring(group=group))
            program = build("all-reduce", name, shape_for(name, ranks, 2.0**20, machine))
            found = quick(machine, program, reduction_s_per_byte=reduction)
            if found.law_s is not None:
                assert found.run.time_s == pytest.approx(found.law_s, rel=1e-9)


@pytest.mark.parametrize(("per_node", "nodes"), [(8, 2), (8, 4), (4, 2), (2, 8), (3, 5)])
@pytest.mark.parametrize("size", [16384.0, 2.0**26])
def test_a_hierarchy_with_a_nic_for_each_device_is_exact(per_node: int, nodes: int, size: float) -> None:
    ranks = per_node * nodes
    machine = from_links(ranks, FAST, Wiring(topology="nodes", group=per_node, inter=SLOW))
    found = quick(machine, build("all-reduce", "hierarchical", shape_for("hierarchical", ranks, size * ranks, machine)))
    assert found.run.time_s == pytest.approx(found.law_s, rel=1e-9)


ACROSS = [
    ("all-reduce", "recursive-doubling"),
    ("all-reduce", "rabenseifner"),
    ("all-reduce", "binomial"),
    ("broadcast", "binomial"),
    ("reduce", "binomial"),
]


def across(op: str, name: str, per_node: int, nodes: int, size: float, *, nics: int = 0) -> float:
    """Return the law over the simulation, less 1, with a NIC for each rank where not said otherwise."""
    ranks = per_node * nodes
    machine = from_links(ranks, FAST, Wiring(topology="nodes", group=per_node, nics=nics, inter=SLOW))
    found = quick(machine, build(op, name, shape_for(name, ranks, size, machine)))
    assert found.law_s is not None
    return found.law_s / float(found.run.time_s) - 1


@pytest.mark.parametrize("per_node", [8, 4, 2, 1])
@pytest.mark.parametrize(("op", "name"), ACROSS)
def test_doubling_and_trees_across_nodes_are_exact_for_powers_of_two_a_node(op: str, name: str, per_node: int) -> None:
    for nodes in (2, 3, 4, 5, 6, 7, 8):
        for size in (8.0, 16384.0, 2.0**21, 2.0**26):
            # Whole bytes: 8 of them do not divide among the ranks.
            assert across(op, name, per_node, nodes, size) == pytest.approx(0.0, abs=1e-9 if size > 8 else 5e-5)


@pytest.mark.parametrize("size", [16384.0, 2.0**26])
@pytest.mark.parametrize(
    ("op", "name", "most"),
    [(op, name, {"recursive-doubling": 0.34, "rabenseifner": 0.52, "binomial": 0.051}[name]) for op, name in ACROSS],
)
def test_for_other_numbers_a_node_they_are_upper_bounds(op: str, name: str, most: float, size: float) -> None:
    for per_node in (3, 5, 6, 9, 12, 13):
        for nodes in (2, 3, 4, 7):
            assert -1e-4 < across(op, name, per_node, nodes, size) < most, (per_node, nodes)


@pytest.mark.parametrize(("per_node", "nodes", "us"), [(8, 2, 84.15), (8, 4, 172.15), (4, 2, 52.22), (2, 8, 150.35)])
def test_a_flat_ring_pipelines_its_slow_links_with_eager_senders_only(per_node: int, nodes: int, us: float) -> None:
    ranks = per_node * nodes
    machine = from_links(ranks, FAST, Wiring(topology="nodes", group=per_node, inter=SLOW))
    program = build("all-reduce", "ring", shape_for("ring", ranks, 16384.0, machine))
    eager, held = quick(machine, program, protocol="eager"), quick(machine, program)
    assert float(eager.run.time_s) * 1e6 == pytest.approx(us, abs=0.01)
    # The law charges all bytes at the slower tier, which a step inside a node does not pay.
    assert eager.law_s is not None
    assert abs(float(eager.run.time_s) - eager.law_s) < 0.01 * eager.law_s
    assert held.run.time_s == pytest.approx(2 * (ranks - 1) * (8e-6 + 16384 / ranks / 50e9))
    assert "every step takes the slow link" in held.reason


@pytest.mark.parametrize(("per_node", "nics"), [(8, 1), (8, 2), (8, 3), (8, 4), (6, 4), (2, 1), (16, 8)])
def test_a_hierarchy_whose_ranks_share_nics_is_exact(per_node: int, nics: int) -> None:
    # Latency hides behind the queue of a NIC but once: from where the law divided the bandwidth it was 52 % too long.
    for nodes in (2, 3, 5, 8):
        for size in (16384.0, 65536.0, 2.0**20, 2.0**26):
            size_bytes = size * per_node * nodes / 16
            assert across("all-reduce", "hierarchical", per_node, nodes, size_bytes, nics=nics) == pytest.approx(
                0, abs=2e-5
            )


@pytest.mark.parametrize(("per_node", "nics"), [(8, 1), (8, 2), (8, 4), (4, 1), (4, 2), (2, 1), (16, 8)])
@pytest.mark.parametrize("name", ["recursive-doubling", "rabenseifner", "binomial"])
def test_doubling_whose_ranks_share_nics_is_exact_for_powers_of_two(name: str, per_node: int, nics: int) -> None:
    for nodes in (2, 4, 8):
        for size in (16384.0, 2.0**20, 2.0**26):
            assert across("all-reduce", name, per_node, nodes, size, nics=nics) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "most", "median"), [("recursive-doubling", 0.25, 0.001), ("rabenseifner", 0.31, 0.001)]
)
def test_doubling_whose_ranks_share_nics_and_fold_is_an_upper_bound(name: str, most: float, median: float) -> None:
    # Nodes of ranks that fold send half of what the others do; the law charges the busiest in each round, and it is not
    # the same node in all of them. On 3, 5 and 7 nodes it hardly matters; on 6 two nodes are busy while others wait.
    found = {
        (per_node, nics, nodes, size): across("all-reduce", name, per_node, nodes, size, nics=nics)
        for per_node, nics in ((8, 1), (8, 2), (8, 4), (4, 1), (2, 1), (16, 4))
        for nodes in (3, 5, 6, 7)
        for size in (16384.0, 2.0**20, 2.0**26)
    }
    assert min(found.values()) > -1e-9
    assert 0.9 * most < max(found.values()) < most
    assert float(np.median(list(found.values()))) < median
    assert max(found, key=found.__getitem__)[2] == 6


def test_ranks_that_share_nics_and_fold_have_their_reason() -> None:
    machine = from_links(48, FAST, Wiring(topology="nodes", group=8, nics=1, inter=SLOW))
    name = "recursive-doubling"
    found = quick(machine, build("all-reduce", name, shape_for(name, 48, 2.0**20, machine)))
    assert "48 ranks fold into a power of two, so that nodes differ in what they send" in found.reason


@pytest.mark.parametrize(
    ("wiring", "conditions", "words"),
    [
        (Wiring(topology="tree", group=4, oversubscription=4.0), {}, "the law is for a switch"),
        (Wiring(), {"ports": "blocking"}, "held for the latency too"),
        (Wiring(), {"starts_s": np.arange(8.0) * 1e-6}, "start at different times"),
        (Wiring(), {"port_slowness": np.array([1.0] * 7 + [2.0])}, "slower than the others"),
    ],
)
def test_a_difference_has_its_reason(wiring: Wiring, conditions: dict[str, object], words: str) -> None:
    machine = from_links(8, LINK, wiring)
    found = quick(machine, build("all-reduce", "two-shot", shape_for("two-shot", 8, 2.0**20, machine)), **conditions)
    assert words in found.reason


@pytest.mark.parametrize("text", ["exponential:10us", "normal:10us", "hiccup:2%:1ms", "pareto:3:10us"])
@pytest.mark.parametrize("name", ["ring", "one-shot"])
@pytest.mark.parametrize("ranks", [2, 8, 24])
def test_skew_costs_the_expected_latest_arrival(text: str, name: str, ranks: int) -> None:
    skew = parse_skew(text)
    machine = from_links(ranks, LINK, Wiring())
    program = build("all-reduce", name, shape_for(name, ranks, 16384.0, machine))
    draws = 40_000 if name == "ring" else 4_000
    starts = skew.draw(ranks, draws, seed=2)
    played = run(program, machine.network, Conditions(starts_s=starts))
    found = spread(played, run(program, machine.network), skew)
    # One part of theory: the draws themselves, within four standard errors; the other: a ring passes the delay on.
    error = 4 * float(starts.max(axis=0).std()) / draws**0.5
    assert found.latest_s == pytest.approx(found.expected_s, abs=error)
    slack = 0.01 if text.startswith(("exponential", "normal")) else 0.04
    assert found.cost_s == pytest.approx(found.latest_s, rel=slack, abs=0.01 * found.base_s)


def test_the_mean_largest_of_normals_is_the_tabulated_one() -> None:
    # Order statistics of the standard normal, e.g. H. Leon Harter, Biometrika 48 (1961): 0.564, 1.029, 1.424, 1.766.
    skew = parse_skew("normal:1s")
    found = [expected_latest(skew, ranks)[0] for ranks in (2, 4, 8, 16)]
    assert found == pytest.approx([0.56419, 1.02938, 1.42360, 1.76599], abs=1e-4)
