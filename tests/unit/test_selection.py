"""NCCL's tuner as a cited model: golden latencies, its bandwidth rules, its corrections, and what it chooses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nhalf.breakdown import audit, columns
from nhalf.catalog import store
from nhalf.collective import Algorithm, Op
from nhalf.fabric import Span
from nhalf.laws import tuner
from nhalf.laws.selection import tuner_all_reduce
from nhalf.library import Correction, Library, Plateau, octave
from nhalf.link import Link

LIBRARIES = {name: store.library("nccl", architecture=name)[0] for name in ("ampere", "hopper", "blackwell")}
BUS, NIC = 450e9, 50e9


def span(nodes: int, per_node: int = 8) -> Span:
    return Span(
        ranks=per_node * nodes, nodes=nodes, intra=Link(1e-6, BUS), inter=Link(5e-6, NIC), rails=float(per_node)
    )


def paths(op: Op, size: float, at: Span, library: Library, has: str = "") -> dict[str, float]:
    names = frozenset(has.split(","))
    return {term.name: float(np.mean(term.value)) for _, term in tuner.plan(op, size, at, library, has=names)}


def fixed_us(op: Op, at: Span, library: Library, path: str, has: str = "nvls,sharp") -> float:
    found = {term.name: term for _, term in tuner.plan(op, 1.0, at, library, has=frozenset(has.split(",")))}
    return 1e6 * float(np.mean(columns(found[path])["fixed"]))


# --- latencies, worked out by hand from the constants of 2.30.7 -------------------------------------------------------


@pytest.mark.parametrize("nodes", [2, 3])
def test_two_and_three_nodes_of_8_h100_take_25_2_us_by_tree_ll(nodes: int) -> None:
    assert fixed_us(Op.ALL_REDUCE, span(nodes), LIBRARIES["hopper"], "chain-tree/LL") == pytest.approx(25.20)
    term = tuner_all_reduce(8.0, span(nodes), LIBRARIES["hopper"])
    assert min(term.parts, key=lambda part: float(np.mean(part.value))).name == "chain-tree/LL"


def test_four_nodes_take_one_more_doubling() -> None:
    assert fixed_us(Op.ALL_REDUCE, span(4), LIBRARIES["hopper"], "chain-tree/LL") == pytest.approx(35.20)


@pytest.mark.parametrize(
    ("op", "nodes", "path", "expected_us"),
    [
        (Op.ALL_REDUCE, 1, "ring/LL", 6.6 + 14 * 0.6),  # no NIC overhead inside a node
        (Op.ALL_REDUCE, 1, "ring/Simple", 8.4 + 14 * 3.4),
        (Op.ALL_REDUCE, 1, "chain-tree/LL128", 14.0 + 14 * 1.25),
        (Op.ALL_REDUCE, 1, "nvls/Simple", 25.0),  # its base is ignored
        (Op.ALL_REDUCE, 2, "ring/LL", 6.6 + 28 * 1.0 + 2 * 2.7),  # the NIC overhead is the floor of a step
        (Op.ALL_REDUCE, 2, "ring/LL128", 14.0 + 28 * 1.9 + 2 * 4.0),
        (Op.ALL_REDUCE, 2, "nvls/Simple", 25.0 + 18.0),
        (Op.ALL_REDUCE, 2, "nvls-tree/Simple", 25.0 + 2 * 20.9),
        (Op.ALL_REDUCE, 4, "nvls-tree/Simple", 25.0 + 4 * 20.9),
        (Op.ALL_REDUCE, 2, "collnet-direct/Simple", 2 * (3.7 + 7 * 0.4) + 31.0),
        (Op.ALL_REDUCE, 2, "collnet-chain/Simple", 2 * 7 * 2.8 + 30.0),
        (Op.ALL_GATHER, 1, "ring/LL", 6.6 + 7 * 0.6),
        (Op.ALL_GATHER, 2, "ring/LL", 6.6 + 14 * 1.0 + 2.7),
        (Op.REDUCE_SCATTER, 2, "ring/LL128", 14.0 + 14 * 1.9 + 4.0),
        (Op.BROADCAST, 1, "ring/LL", 6.6 + 0.6),
        (Op.BROADCAST, 2, "ring/LL", 6.6 + 2.7),
    ],
)
def test_a_latency_is_that_of_the_formula(op: Op, nodes: int, path: str, expected_us: float) -> None:
    assert fixed_us(op, span(nodes), LIBRARIES["hopper"], path) == pytest.approx(expected_us)


def test_pat_runs_only_with_one_rank_a_node() -> None:
    library = LIBRARIES["hopper"]
    assert "pat/Simple" not in paths(Op.ALL_GATHER, 1.0, span(2), library)
    lone = span(8, per_node=1)
    assert fixed_us(Op.ALL_GATHER, lone, library, "pat/Simple") == pytest.approx(8.0 + 3 * 14 / 3.5 + 2.8 * 8)
    assert "pat/Simple" not in paths(Op.ALL_REDUCE, 1.0, lone, library)


# --- who may run ------------------------------------------------------------------------------------------------------


def test_nvls_needs_switches_and_crosses_nodes_only_with_sharp() -> None:
    hopper = LIBRARIES["hopper"]
    assert "nvls/Simple" not in paths(Op.ALL_REDUCE, 1e9, span(1), hopper)
    assert "nvls/Simple" in paths(Op.ALL_REDUCE, 1e9, span(1), hopper, "nvls")
    assert "nvls/Simple" not in paths(Op.ALL_REDUCE, 1e9, span(2), hopper, "nvls")
    assert "nvls-tree/Simple" in paths(Op.ALL_REDUCE, 1e9, span(2), hopper, "nvls")
    assert "nvls-tree/Simple" not in paths(Op.ALL_REDUCE, 1e9, span(1), hopper, "nvls")
    assert not [name for name in paths(Op.ALL_REDUCE, 1e9, span(2), LIBRARIES["ampere"], "nvls") if "nvls" in name]


def test_what_nobody_plans_has_no_paths() -> None:
    for op in (Op.ALL_TO_ALL, Op.SEND_RECV, Op.BARRIER):
        assert op not in tuner.PLANNED
        assert tuner.plan(op, 1.0, span(1), LIBRARIES["hopper"]) == []


# --- bandwidth rules --------------------------------------------------------------------------------------------------


def transfer_rate(op: Op, at: Span, library: Library, path: str, size: float = 2.0**30) -> float:
    """Return n over the time that the bytes take: what NCCL calls algBw, where no tree is corrected."""
    found = {term.name: term for _, term in tuner.plan(op, size, at, library, has=frozenset({"nvls", "sharp"}))}
    return size / float(np.mean(columns(found[path])["transfer"]))


@pytest.mark.parametrize(
    ("nodes", "path", "bus"),
    [
        (1, "ring/LL", min(141e9, 0.5 * BUS)),
        (2, "ring/LL", min(39e9, 0.5 * 400e9)),
        (3, "ring/LL", min(20.4e9, 0.5 * 400e9)),
        (1, "ring/LL128", 0.92 * BUS),
        (2, "ring/LL128", 0.92 * 400e9),
        (1, "ring/Simple", BUS),
        (2, "ring/Simple", 400e9),  # 8 NICs of 50 GB/s below the bus
        (1, "nvls/Simple", 0.85 * BUS),
    ],
)
def test_a_ring_carries_its_share_of_the_bus_up_to_its_limit(nodes: int, path: str, bus: float) -> None:
    ranks = 8 * nodes
    expected = bus * ranks / (2 * (ranks - 1))
    assert transfer_rate(Op.ALL_REDUCE, span(nodes), LIBRARIES["hopper"], path) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("nodes", "path", "bus"),
    [
        (1, "chain-tree/LL", 0.92 * BUS / 3.8),
        (2, "chain-tree/LL", 39e9),
        (1, "chain-tree/LL128", 0.92 * BUS * 7 / 9),
        (2, "chain-tree/LL128", 0.92 * BUS * 120 / 128),
        (3, "chain-tree/LL128", min(0.92 * 400e9 * 120 / 128, 16 * 29e9)),
        (1, "chain-tree/Simple", 0.92 * BUS),
    ],
)
def test_a_tree_carries_half_of_its_share(nodes: int, path: str, bus: float) -> None:
    # At 1 GiB nothing is corrected any more.
    found = transfer_rate(Op.ALL_REDUCE, span(nodes), LIBRARIES["hopper"], path)
    assert found == pytest.approx(bus / 2, rel=1e-3)


def test_blackwell_switches_carry_their_own_share() -> None:
    assert transfer_rate(Op.ALL_REDUCE, span(1), LIBRARIES["blackwell"], "nvls/Simple") == pytest.approx(
        0.74 * BUS * 8 / 14
    )


# --- corrections ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "expected"),
    [(1, 1.0), (64, 1.0), (1023, 1.0), (1024, 0.9), (2048, 0.8), (16384, 0.7), (2**18, 0.4), (2**19 - 1, 0.4),
     (2**20, 0.5), (2**24, 0.9), (2**28, 1.0), (2**29, 1.0), (2**40, 1.0)],
)  # fmt: skip
def test_trees_are_corrected_by_the_power_of_two_below_the_size(size: int, expected: float) -> None:
    tree = LIBRARIES["hopper"].tuner.tree_ll
    assert tree is not None
    assert tree.correction(octave(float(size))) == expected
    assert np.array_equal(np.asarray(tree.correction(octave(np.array([float(size)])))), [expected])


def test_the_octave_says_what_it_is() -> None:
    # It is an input of a formula, so it stands in documents: no address of memory may.
    assert str(octave) == "floor(log2(n / 64 B))"


def test_the_octave_of_an_array_is_that_of_its_elements() -> None:
    sizes = np.array([1.0, 63.9, 64.0, 65.0, 127.999, 128.0, 16384.0, 1e9, 2.0**30])
    expected = [math.floor(math.log2(size / 64)) for size in sizes]
    assert np.asarray(octave(sizes)).tolist() == expected
    assert [octave(float(size)) for size in sizes] == expected


def test_a_correction_and_a_plateau_say_what_they_are() -> None:
    assert str(Correction((0.4, 1.0))) == "0.4 to 1 by size"
    assert str(Plateau(1.4)) == "1.4 from 64 bytes a rank and channel"


def test_the_plateau_of_a_ring_begins_at_64_bytes_a_rank_and_channel() -> None:
    at, library = span(2), LIBRARIES["hopper"]
    start = 64 * 16 * 16  # bytes x channels x ranks
    low, high = (
        columns(next(term for _, term in tuner.plan(Op.ALL_REDUCE, size, at, library) if term.name == "ring/Simple"))
        for size in (start - 1.0, float(start))
    )
    assert high["fixed"] == pytest.approx(1.4 * low["fixed"])
    alone = columns(next(term for _, term in tuner.plan(Op.ALL_REDUCE, 1e9, span(1), library)
                         if term.name == "ring/Simple"))  # fmt: skip
    assert alone["fixed"] == pytest.approx(8.4e-6 + 14 * 3.4e-6)


# --- the choice -------------------------------------------------------------------------------------------------------


def test_trees_win_small_messages_across_nodes_and_rings_large_ones() -> None:
    term = {size: paths(Op.ALL_REDUCE, size, span(4), LIBRARIES["hopper"]) for size in (1024.0, 2.0**30)}
    assert min(term[1024.0], key=term[1024.0].__getitem__) == "chain-tree/LL"
    assert min(term[2.0**30], key=term[2.0**30].__getitem__) == "ring/Simple"


def test_a_plan_is_a_sum_that_can_be_checked_and_takes_arrays() -> None:
    sizes = np.array([8.0, 16384.0, 2.0**21, 2.0**28])
    for op in sorted(tuner.PLANNED):
        for nodes in (1, 2, 5):
            for _, term in tuner.plan(op, sizes, span(nodes), LIBRARIES["hopper"], has=frozenset({"nvls", "sharp"})):
                assert audit(term) == []
                alone = [float(np.mean(each.value)) for size in sizes for _, each in
                         tuner.plan(op, float(size), span(nodes), LIBRARIES["hopper"], has=frozenset({"nvls", "sharp"}))
                         if each.name == term.name]  # fmt: skip
                assert np.asarray(term.value) == pytest.approx(alone, rel=1e-14)


def test_every_constant_has_an_origin_and_those_that_can_be_set_are_among_them() -> None:
    every = store.library_values("nccl", architecture="hopper")
    settable = store.library("nccl", architecture="hopper")[1]
    assert set(settable) < set(every)
    assert every["stack.library.tuner.nvls_simple.intra_step_s"].value == pytest.approx(25e-6)
    assert every["stack.library.tuner.tree_ll.many_nodes.bandwidth_limit_bytes_per_s"].value == 20.4e9
    assert {datum.source for datum in every.values()} <= set(store.sources())


# --- other tuners -----------------------------------------------------------------------------------------------------


def test_mi300x_plans_by_rccls_constants() -> None:
    library, origins = store.library("vllm", architecture="cdna3")
    tree = library.tuner.tree_ll
    assert tree is not None
    assert (tree.base_s, tree.intra_step_s, tree.inter_step_s) == pytest.approx((12e-6, 0.9e-6, 10.5e-6))
    assert origins["stack.library.tuner.tree_ll.base_s"].source == "rccl"
    assert library.tuner.tree_ll128 is None  # gfx942 does not use it
    rates = [tree.rate(nodes).share for nodes in (1, 2, 3)]
    assert rates == [0.06, 0.06, 0.06]
    simple = library.tuner.tree_simple
    assert simple is not None
    assert [simple.rate(nodes).share for nodes in (2, 3)] == [0.11, 0.59]


def test_an_architecture_of_the_catalogue_without_a_tuner_plans_by_its_own_links() -> None:
    library, _ = store.library("vllm", architecture="tpu-v5e")
    slow = Span(ranks=16, nodes=2, intra=Link(2e-6, 1e11), inter=Link(50e-6, 1e10), rails=1.0)
    (tree, ring) = library.tuner.paths
    assert (tree.algorithm, ring.algorithm) == (Algorithm.CHAIN_TREE, Algorithm.RING)
    found = paths(Op.ALL_REDUCE, 1.0, slow, library)
    assert found["chain-tree/-"] == pytest.approx(5e-6 + 2 * (7 * 2e-6 + 50e-6), rel=1e-3)
