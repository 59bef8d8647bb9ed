"""Collectives: what must hold for every law, and where two laws must be one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nhalf.breakdown import Quantity, Term, audit, columns, leaf
from nhalf.catalog import store
from nhalf.collective import Algorithm, Op
from nhalf.fabric import Fabric, Span
from nhalf.laws import selection
from nhalf.laws.collective.all_reduce import one_shot_all_reduce, ring_all_reduce, two_shot_all_reduce
from nhalf.laws.collective.table import LAWS, Law
from nhalf.laws.collective.tiers import flat_ring_all_reduce
from nhalf.laws.collective.trees import chain_all_reduce, double_tree_all_reduce
from nhalf.laws.point_to_point import hockney
from nhalf.link import Link

if TYPE_CHECKING:
    from nhalf.library import Library

FlatLaw: TypeAlias = Callable[[Quantity, Quantity, Link], Term]
FLAT: dict[str, FlatLaw] = {
    "ring": ring_all_reduce,
    "double-tree": double_tree_all_reduce,
    "chain-tree": chain_all_reduce,
    "one-shot": one_shot_all_reduce,
    "two-shot": two_shot_all_reduce,
}
SIZES = st.floats(1.0, 1e10)
RANKS = st.integers(1, 1024)
LATENCIES = st.floats(1e-8, 1e-3)
BANDWIDTHS = st.floats(1e6, 1e13)
LINKS = st.builds(Link, LATENCIES, BANDWIDTHS)
FACTORS = st.floats(1.0, 1e3)
UP = 1 - 1e-12  # a rounding error is no fall


def flat(law: FlatLaw, size: Quantity, ranks: Quantity, link: Link) -> float:
    return float(np.mean(law(size, ranks, link).value))


def span(per_node: int, nodes: int, intra: Link, inter: Link, rails: float | None = None) -> Span:
    return Span(ranks=per_node * nodes, nodes=nodes, intra=intra, inter=inter, rails=rails or float(per_node))


# ------------------------------------------------------------------------------------------------- the link itself


@given(LINKS)
def test_a_message_of_half_size_pays_its_latency_twice(link: Link) -> None:
    assert hockney(link.half_size_bytes, link).value == pytest.approx(2 * float(np.mean(link.latency_s)), rel=1e-12)


@given(LINKS, st.floats(1.01, 100))
def test_below_half_size_latency_is_the_larger_part_and_above_it_bandwidth(link: Link, factor: float) -> None:
    below, above = (columns(hockney(link.half_size_bytes * by, link)) for by in (1 / factor, factor))
    assert np.all(below["fixed"] > below["transfer"])
    assert np.all(above["fixed"] < above["transfer"])


def test_a_link_of_arrays_has_an_array_of_half_sizes() -> None:
    link = Link(np.array([1e-6, 5e-6]), np.array([1e11, 4e11]))
    assert np.asarray(link.half_size_bytes) == pytest.approx([1e5, 2e6])
    assert np.asarray(hockney(link.half_size_bytes, link).value) == pytest.approx([2e-6, 10e-6])


# -------------------------------------------------------------------------------------------------------- one tier


@pytest.mark.parametrize("law", FLAT.values(), ids=FLAT)
@given(size=SIZES, link=LINKS)
def test_one_rank_pays_nothing(law: FlatLaw, size: float, link: Link) -> None:
    for ranks in (1, 1.0, np.array([1.0])):
        assert flat(law, size, ranks, link) == 0.0


@pytest.mark.parametrize("law", FLAT.values(), ids=FLAT)
@given(size=SIZES, ranks=RANKS, link=LINKS, factor=FACTORS)
def test_a_law_never_falls_with_size_or_latency_and_never_rises_with_bandwidth(
    law: FlatLaw, size: float, ranks: int, link: Link, factor: float
) -> None:
    now = flat(law, size, ranks, link)
    alpha, beta = float(np.mean(link.latency_s)), float(np.mean(link.bandwidth_bytes_per_s))
    assert flat(law, size * factor, ranks, link) >= now * UP
    assert flat(law, size, ranks, Link(alpha * factor, beta)) >= now * UP
    assert flat(law, size, ranks, Link(alpha, beta * factor)) <= now / UP


@pytest.mark.parametrize("law", [ring_all_reduce, one_shot_all_reduce, two_shot_all_reduce, chain_all_reduce])
@given(size=SIZES, ranks=RANKS, more=st.integers(1, 100), link=LINKS)
def test_it_never_falls_with_ranks(law: FlatLaw, size: float, ranks: int, more: int, link: Link) -> None:
    assert flat(law, size, ranks + more, link) >= flat(law, size, ranks, link) * UP


@pytest.mark.parametrize("law", FLAT.values(), ids=FLAT)
@given(size=SIZES, ranks=st.integers(2, 1024), link=LINKS, factor=FACTORS)
def test_fixed_time_is_linear_in_latency_and_transfer_in_bytes_over_bandwidth(
    law: FlatLaw, size: float, ranks: int, link: Link, factor: float
) -> None:
    owed = columns(law(size, ranks, link))
    alpha, beta = float(np.mean(link.latency_s)), float(np.mean(link.bandwidth_bytes_per_s))
    scaled = columns(law(size * factor, ranks, Link(alpha * factor, beta)))
    assert scaled["fixed"] == pytest.approx(owed["fixed"] * factor)
    assert scaled["transfer"] == pytest.approx(owed["transfer"] * factor)
    assert columns(law(size, ranks, Link(alpha, beta * factor)))["transfer"] * factor == pytest.approx(owed["transfer"])


@pytest.mark.parametrize("law", FLAT.values(), ids=FLAT)
def test_arrays_of_sizes_ranks_and_links_give_what_their_elements_give(law: FlatLaw) -> None:
    sizes, ranks = np.array([1.0, 16384.0, 1e9]), np.array([1.0, 6.0, 8.0])
    alphas, betas = np.array([1e-6, 2e-6, 5e-6]), np.array([1e10, 4e11, 9e11])
    together = law(sizes, ranks, Link(alphas, betas))
    rows = np.stack([sizes, ranks, alphas, betas], axis=1).tolist()
    alone = [flat(law, size, k, Link(alpha, beta)) for size, k, alpha, beta in rows]
    assert np.asarray(together.value) == pytest.approx(alone, rel=1e-15)
    assert audit(together) == []


def in_bytes(law: FlatLaw, ranks: float) -> float:
    """Return the bytes per byte of the vector that a law moves through one port."""
    return float(np.mean(columns(law(1.0, ranks, Link(1.0, 1.0)))["transfer"]))


def in_steps(law: FlatLaw, ranks: float) -> float:
    """Return the messages that a law waits for, one after the other."""
    return float(np.mean(columns(law(1.0, ranks, Link(1.0, 1.0)))["fixed"]))


@given(st.integers(2, 10**6))
def test_the_volume_of_a_ring_tends_to_twice_the_vector_from_below(ranks: int) -> None:
    volume = in_bytes(ring_all_reduce, float(ranks))
    assert 1.0 <= volume < 2.0
    assert 2.0 - volume == pytest.approx(2.0 / ranks, rel=1e-6)


@given(st.integers(2, 4096))
def test_who_takes_few_steps_and_who_moves_few_bytes(ranks: int) -> None:
    k = float(ranks)
    assert in_steps(one_shot_all_reduce, k) == 1
    assert in_steps(two_shot_all_reduce, k) == 2
    assert in_steps(double_tree_all_reduce, k) == 2 * np.ceil(np.log2(ranks))
    assert in_steps(ring_all_reduce, k) == in_steps(chain_all_reduce, k) == 2 * (ranks - 1)
    assert in_bytes(ring_all_reduce, k) == in_bytes(two_shot_all_reduce, k)
    assert in_bytes(ring_all_reduce, k) < in_bytes(double_tree_all_reduce, k) == 2
    assert in_bytes(one_shot_all_reduce, k) == ranks - 1


def test_on_two_ranks_ring_and_direct_reduction_move_the_same_bytes() -> None:
    assert in_bytes(ring_all_reduce, 2.0) == in_bytes(one_shot_all_reduce, 2.0) == 1.0


# -------------------------------------------------------------------------------------------------------- two tiers

ACROSS_NODES = (Algorithm.RING, Algorithm.CHAIN_TREE, Algorithm.HIERARCHICAL)


def across(name: Algorithm, size: Quantity, asked: Span) -> Term:
    law = LAWS[Op.ALL_REDUCE][name].across_nodes
    assert law is not None
    return law(size, asked, 0.0)


PER_NODE, NODES = st.integers(1, 16), st.integers(2, 64)


@pytest.mark.parametrize("name", ACROSS_NODES)
@given(size=SIZES, intra=LINKS, inter=LINKS)
def test_one_rank_pays_nothing_in_a_law_of_two_tiers(name: Algorithm, size: float, intra: Link, inter: Link) -> None:
    assert across(name, size, span(1, 1, intra, inter)).value == 0.0


SAME_IN_ONE_NODE = {
    Algorithm.RING: ring_all_reduce,
    Algorithm.CHAIN_TREE: chain_all_reduce,
    Algorithm.HIERARCHICAL: ring_all_reduce,
}


@pytest.mark.parametrize("name", ACROSS_NODES)
@given(size=SIZES, ranks=st.integers(2, 16), intra=LINKS, inter=LINKS)
def test_on_one_node_it_is_the_law_inside_a_node(
    name: Algorithm, size: float, ranks: int, intra: Link, inter: Link
) -> None:
    # As many NICs as make the network no bottleneck: nothing crosses it.
    alone = span(ranks, 1, intra, inter, rails=1e12)
    expected = flat(SAME_IN_ONE_NODE[name], size, float(ranks), intra)
    assert across(name, size, alone).value == pytest.approx(expected, rel=1e-9)


SAME_ON_LONE_RANKS = {
    Algorithm.RING: ring_all_reduce,
    Algorithm.CHAIN_TREE: double_tree_all_reduce,
    Algorithm.HIERARCHICAL: ring_all_reduce,
}


@pytest.mark.parametrize("name", ACROSS_NODES)
@given(size=SIZES, nodes=NODES, inter=LINKS)
def test_with_one_rank_a_node_it_is_the_law_between_the_nodes(
    name: Algorithm, size: float, nodes: int, inter: Link
) -> None:
    lone = span(1, nodes, Link(0.0, 1e30), inter)  # a link inside a node that costs nothing: no rank uses it
    expected = flat(SAME_ON_LONE_RANKS[name], size, float(nodes), inter)
    assert across(name, size, lone).value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ACROSS_NODES)
@given(size=SIZES, per_node=PER_NODE, nodes=NODES, intra=LINKS, inter=LINKS, factor=FACTORS)
def test_two_tiers_never_fall_with_size_or_latency_and_never_rise_with_bandwidth_or_rails(  # noqa: PLR0913  one strategy each
    *, name: Algorithm, size: float, per_node: int, nodes: int, intra: Link, inter: Link, factor: float
) -> None:
    def time(size: float, intra: Link, inter: Link, rails: float = 1.0) -> float:
        return float(np.mean(across(name, size, span(per_node, nodes, intra, inter, per_node * rails)).value))

    def having(link: Link, latency: float, bandwidth: float) -> Link:
        return Link(link.latency_s * latency, link.bandwidth_bytes_per_s * bandwidth)

    now = time(size, intra, inter)
    assert time(size * factor, intra, inter) >= now * UP
    assert time(size, having(intra, factor, 1), inter) >= now * UP
    assert time(size, intra, having(inter, factor, 1)) >= now * UP
    assert time(size, having(intra, 1, factor), inter) <= now / UP
    assert time(size, intra, having(inter, 1, factor)) <= now / UP
    assert time(size, intra, inter, factor) <= now / UP


@given(size=SIZES, per_node=PER_NODE, nodes=NODES, intra=LINKS, slower=st.floats(1.0, 100.0))
def test_a_flat_ring_never_falls_with_nodes(size: float, per_node: int, nodes: int, intra: Link, slower: float) -> None:
    inter = Link(intra.latency_s * slower, intra.bandwidth_bytes_per_s / slower)
    few, more = (flat_ring_all_reduce(size, span(per_node, m, intra, inter)).value for m in (nodes, nodes + 1))
    assert np.all(more >= few * UP)


@pytest.mark.parametrize(("per_node", "nodes", "expected_us"), [(8, 2, 84), (8, 4, 172), (4, 2, 52), (2, 8, 150)])
def test_the_fixed_time_of_a_flat_ring_is_that_of_a_simulated_one(
    per_node: int, nodes: int, expected_us: float
) -> None:
    # Message-level simulation with pipelined latency: 2 us inside a node, 8 us between nodes.
    asked = span(per_node, nodes, Link(2e-6, 1e12), Link(8e-6, 1e12))
    assert columns(flat_ring_all_reduce(0.0, asked))["fixed"] == pytest.approx(expected_us * 1e-6)


@pytest.mark.parametrize("name", ACROSS_NODES)
def test_arrays_of_two_tiers_give_what_their_elements_give(name: Algorithm) -> None:
    sizes, alphas, betas = np.array([64.0, 16384.0, 1e9]), np.array([1e-6, 5e-6, 9e-6]), np.array([1e10, 5e10, 1e11])
    intra = Link(5e-7, 4.5e11)
    together = across(name, sizes, span(8, 4, intra, Link(alphas, betas)))
    alone = [
        float(np.mean(across(name, size, span(8, 4, intra, Link(alpha, beta))).value))
        for size, alpha, beta in np.stack([sizes, alphas, betas], axis=1).tolist()
    ]
    assert np.asarray(together.value) == pytest.approx(alone, rel=1e-15)
    assert audit(together) == []


# -------------------------------------------------------------------------------------------------------- selection

DIRECT = {Algorithm.ONE_SHOT, Algorithm.TWO_SHOT, Algorithm.NVLS}
LIBRARIES = {name: store.library(name, architecture="hopper")[0] for name in store.names("library")}


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
@given(size=SIZES, per_node=st.integers(2, 8), nodes=st.integers(1, 8), intra=LINKS, inter=LINKS)
def test_the_selection_is_one_of_its_candidates_and_no_slower_than_any(
    *, library: Library, size: float, per_node: int, nodes: int, intra: Link, inter: Link
) -> None:
    asked = span(per_node, nodes, intra, inter)
    for term in (selection.all_reduce(size, asked, library), selection.tuner_all_reduce(size, asked, library)):
        assert term.value == min(float(np.mean(part.value)) for part in term.parts)
        assert sum(float(np.mean(value)) for value in columns(term).values()) == pytest.approx(
            float(np.mean(term.value))
        )


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
def test_only_what_the_library_can_run_there_is_a_candidate(library: Library) -> None:
    link = Link(1e-6, 1e11)
    inside = selection.all_reduce(16384.0, span(8, 1, link, link), library)
    across = selection.all_reduce(16384.0, span(8, 2, link, link), library)
    assert [part.name for part in inside.parts] == list(library.in_node)
    assert [part.name for part in across.parts] == list(library.across_nodes)
    assert not DIRECT & set(library.across_nodes)


def law_of(name: str) -> Law:
    """Return a law that a library can list and that is faster than every other."""
    return Law(
        in_node=lambda size, *_: leaf(name, "1e-12 * n", {"n": size}, column="transfer"),
        across_nodes=lambda size, *_: leaf(name, "1e-12 * n", {"n": size}, column="transfer"),
        unchecked="a law of this test",
        usual=True,
    )


def test_a_law_in_the_register_is_a_candidate_where_a_library_lists_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LAWS[Op.ALL_REDUCE], Algorithm.BRUCK, law_of("bruck"))
    link = Link(1e-6, 1e11)
    listing = replace(LIBRARIES["nccl"], in_node=(Algorithm.RING, Algorithm.BRUCK))
    inside, across = span(8, 1, link, link), span(8, 2, link, link)
    assert [part.name for part in selection.fastest(Op.ALL_REDUCE, 1e6, inside, listing).parts] == ["ring", "bruck"]
    assert selection.fastest(Op.ALL_REDUCE, 1e6, inside, listing).value == pytest.approx(1e-6)
    # Nobody runs what no library lists, and what is listed for a node is not run across nodes.
    for asked, library in ((inside, LIBRARIES["nccl"]), (across, listing)):
        assert "bruck" not in {part.name for part in selection.fastest(Op.ALL_REDUCE, 1e6, asked, library).parts}


def test_a_usual_law_is_a_candidate_of_every_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LAWS[Op.ALL_GATHER], Algorithm.PAIRWISE, law_of("pairwise"))
    link = Link(1e-6, 1e11)
    for nodes in (1, 2):
        found = selection.fastest(Op.ALL_GATHER, 1e6, span(8, nodes, link, link), LIBRARIES["vllm"])
        assert [part.name for part in found.parts] == ["ring", "pairwise"]


def test_every_operation_has_a_usual_law_in_a_node_and_across() -> None:
    link = Link(1e-6, 1e11)
    for op in Op:
        for nodes in (1, 2):
            assert float(np.mean(selection.fastest(op, 1e6, span(8, nodes, link, link), LIBRARIES["nccl"]).value)) > 0


def test_a_library_that_lists_nothing_with_a_law_is_refused() -> None:
    listing = replace(LIBRARIES["nccl"], in_node=(Algorithm.HIERARCHICAL,))
    link = Link(1e-6, 1e11)
    with pytest.raises(ValueError, match="no law"):
        selection.all_reduce(1e6, span(8, 1, link, link), listing)


def test_few_steps_win_small_messages_and_little_volume_wins_large_ones() -> None:
    asked = Fabric(
        intra_node=Link(1e-6, 4e11), inter_node=Link(5e-6, 5e10), devices_per_node=8, nics_per_node=8.0
    ).span(8)
    for size, fastest in ((1024.0, "one-shot"), (1e9, "two-shot")):
        term = selection.all_reduce(size, asked, LIBRARIES["vllm"])
        assert min(term.parts, key=lambda part: float(np.mean(part.value))).name == fastest
