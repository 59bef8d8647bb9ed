"""Every law against its published closed form, written out anew, and against the bounds that physics sets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nhalf.breakdown import Quantity, Term, audit, columns
from nhalf.collective import Algorithm, Op
from nhalf.errors import InputError
from nhalf.fabric import Span
from nhalf.laws.collective import (
    all_gather,
    all_reduce,
    all_to_all,
    barrier,
    broadcast,
    reduce,
    reduce_scatter,
    tiers,
    torus,
    trees,
)
from nhalf.laws.collective.base import pipeline_segments, slow_ring_steps
from nhalf.laws.collective.table import LAWS, candidates
from nhalf.laws.point_to_point import log_gp, rendezvous
from nhalf.link import Link

if TYPE_CHECKING:
    from nhalf.laws.collective.table import Law

Flat: TypeAlias = Callable[[Quantity, Quantity, Link], Term]
Form: TypeAlias = Callable[[int], tuple[float, float]]

ALPHA, BETA = 2e-6, 1e11
LINK = Link(ALPHA, BETA)
RANKS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17, 31, 32, 64)


def down(k: int) -> int:
    return k.bit_length() - 1


def up(k: int) -> int:
    return (k - 1).bit_length()


def extra(k: int) -> int:
    return int(k & (k - 1) != 0)


# Latencies and vectors that a law charges, from the table of closed forms: Thakur et al. 2005, Patarasuk and Yuan 2009,
# Rabenseifner 2004 (with P the power of two below K), Sanders et al. 2009, Bruck et al. 1997, Hensgen et al. 1988.
FORMS: dict[str, tuple[Flat, Form]] = {
    "all-reduce ring": (all_reduce.ring_all_reduce, lambda k: (2 * (k - 1), 2 * (k - 1) / k)),
    "all-reduce bidirectional-ring": (
        all_reduce.bidirectional_ring_all_reduce,
        lambda k: (2 * (k - 1), 2 * (k - 1) / k),
    ),
    "all-reduce recursive-doubling": (
        all_reduce.recursive_doubling_all_reduce,
        lambda k: (down(k) + 2 * extra(k), down(k) + 2 * extra(k)),
    ),
    "all-reduce rabenseifner": (
        all_reduce.rabenseifner_all_reduce,
        lambda k: (2 * down(k) + 2 * extra(k), 2 * (2 ** down(k) - 1) / 2 ** down(k) + 2 * extra(k)),
    ),
    "all-reduce binomial": (all_reduce.binomial_all_reduce, lambda k: (2 * up(k), 2 * up(k))),
    "all-reduce binary-tree": (trees.binary_tree_all_reduce, lambda k: (2 * up(k), min(k - 1, 3))),
    "all-reduce double-tree": (trees.double_tree_all_reduce, lambda k: (2 * up(k), 2 * (k > 1))),
    "all-reduce chain-tree": (trees.chain_all_reduce, lambda k: (2 * (k - 1), 2 * (k > 1))),
    "all-reduce one-shot": (all_reduce.one_shot_all_reduce, lambda k: (k > 1, k - 1)),
    "all-reduce two-shot": (all_reduce.two_shot_all_reduce, lambda k: (2 * (k > 1), 2 * (k - 1) / k)),
    "all-reduce nvls": (all_reduce.nvls_all_reduce, lambda k: (2 * (k > 1), (1 + 1 / k) * (k > 1))),
    "all-gather ring": (all_gather.ring_all_gather, lambda k: (k - 1, (k - 1) / k)),
    "all-gather recursive-doubling": (all_gather.recursive_doubling_all_gather, lambda k: (up(k), (k - 1) / k)),
    "all-gather bruck": (all_gather.bruck_all_gather, lambda k: (up(k), (k - 1) / k)),
    "all-gather direct": (all_gather.direct_all_gather, lambda k: (k > 1, (k - 1) / k)),
    "all-gather nvls": (all_gather.nvls_all_gather, lambda k: (k > 1, k > 1)),
    "reduce-scatter ring": (reduce_scatter.ring_reduce_scatter, lambda k: (k - 1, (k - 1) / k)),
    "reduce-scatter recursive-doubling": (
        reduce_scatter.recursive_halving_reduce_scatter,
        lambda k: (up(k), (k - 1) / k),
    ),
    "reduce-scatter pairwise": (reduce_scatter.pairwise_reduce_scatter, lambda k: (k - 1, (k - 1) / k)),
    "reduce-scatter direct": (reduce_scatter.direct_reduce_scatter, lambda k: (k > 1, (k - 1) / k)),
    "reduce-scatter nvls": (reduce_scatter.nvls_reduce_scatter, lambda k: (k > 1, k > 1)),
    "broadcast binomial": (broadcast.binomial_broadcast, lambda k: (up(k), up(k))),
    "broadcast scatter-ring": (broadcast.scatter_ring_broadcast, lambda k: (up(k) + k - 1, 2 * (k - 1) / k)),
    "broadcast scatter-doubling": (broadcast.scatter_doubling_broadcast, lambda k: (2 * up(k), 2 * (k - 1) / k)),
    "broadcast ring": (broadcast.chain_broadcast, lambda k: (k - 1, k > 1)),
    "broadcast double-tree": (broadcast.double_tree_broadcast, lambda k: (up(k), k > 1)),
    "broadcast direct": (broadcast.direct_broadcast, lambda k: (k > 1, k - 1)),
    "reduce binomial": (reduce.binomial_reduce, lambda k: (up(k), up(k))),
    "reduce rabenseifner": (reduce.rabenseifner_reduce, lambda k: (2 * up(k), 2 * (k - 1) / k)),
    "reduce ring": (reduce.chain_reduce, lambda k: (k - 1, k > 1)),
    "reduce direct": (reduce.direct_reduce, lambda k: (k > 1, k - 1)),
    "all-to-all direct": (all_to_all.direct_all_to_all, lambda k: (k > 1, (k - 1) / k)),
    "all-to-all pairwise": (all_to_all.pairwise_all_to_all, lambda k: (k - 1, (k - 1) / k)),
    "all-to-all bruck": (
        all_to_all.bruck_all_to_all,
        lambda k: (up(k), sum(distance.bit_count() for distance in range(k)) / k),
    ),
    "barrier dissemination": (barrier.dissemination_barrier, lambda k: (up(k), 0)),
    "barrier binomial": (barrier.binomial_barrier, lambda k: (2 * up(k), 0)),
    "barrier direct": (barrier.direct_barrier, lambda k: (k > 1, 0)),
}
"""By operation and algorithm, as the register of laws names them."""
IN_SEGMENTS = {"broadcast ring", "broadcast double-tree", "reduce ring"}
ON_EIGHT: dict[str, tuple[float, float]] = {
    "all-reduce torus-2d": (8, 14 / 8),
    "all-reduce torus-3d": (6, 14 / 8),
    "send-recv direct": (1, 1),
    "send-recv rendezvous": (3, 1),
}
"""The laws that take no ranks as a number: latencies and vectors on 8 ranks, on a torus of 4 x 2 and of 2 x 2 x 2."""
ACROSS: dict[str, Callable[[int, int], tuple[float, float, float, float]]] = {
    "all-reduce hierarchical": lambda k, m: (2 * (k - 1), 2 * (m - 1), 2 * (k - 1) / k, 2 * (m - 1) / (m * k)),
    "all-reduce sharp": lambda k, _: (2, 1, 2 * (k - 1) / k, 1 / k),
    "all-gather hierarchical": lambda k, m: (k - 1, m - 1, (k - 1) / k, (m - 1) / (m * k)),
    "reduce-scatter hierarchical": lambda k, m: (k - 1, m - 1, (k - 1) / k, (m - 1) / (m * k)),
    "all-to-all hierarchical": lambda k, m: (1, m - 1, (k - 1) / k, (m - 1) / m),
    "barrier hierarchical": lambda k, m: (2 * up(k), up(m), 0, 0),
}
"""Laws for several nodes alone: latencies in a node and across, vectors in a node and across, a NIC for each rank."""


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("ranks", RANKS)
def test_a_law_is_its_published_form(name: str, ranks: int) -> None:
    law, form = FORMS[name]
    steps, vectors = form(ranks)
    owed = columns(law(1e6, float(ranks), LINK))
    assert owed["fixed"] == pytest.approx(steps * ALPHA, rel=1e-12)
    assert owed["transfer"] == pytest.approx(vectors * 1e6 / BETA, rel=1e-12)


@pytest.mark.parametrize("name", FORMS)
def test_a_law_takes_arrays_of_every_input_and_audits(name: str) -> None:
    law, _ = FORMS[name]
    sizes, ranks = np.array([1.0, 1e4, 1e8]), np.array([2.0, 8.0, 17.0])
    links = Link(np.array([1e-6, 2e-6, 5e-6]), np.array([1e10, 1e11, 9e11]))
    together = law(sizes, ranks, links)
    assert audit(together) == []
    for index in range(3):
        link = Link(float(links.latency_s[index]), float(links.bandwidth_bytes_per_s[index]))  # type: ignore[index]
        alone = law(float(sizes[index]), float(ranks[index]), link)
        assert np.asarray(together.value)[index] == pytest.approx(float(np.mean(alone.value)), rel=1e-14)


def test_brucks_all_to_all_moves_half_the_vector_a_step_for_powers_of_two() -> None:
    for ranks in (2, 4, 8, 64):
        assert all_to_all.bruck_blocks(ranks) / ranks == pytest.approx(math.log2(ranks) / 2)
    assert all_to_all.bruck_blocks(5) / 5 < 3 / 2  # n / 2 a step would be 46 % too much at the worst


# ----------------------------------------------------------------------------------------------------------- reducing

# How many vectors a rank adds up; K - 1 whole ones in a one-shot, (K - 1) / K in all that split.
REDUCED: dict[str, tuple[Callable[..., Term], Callable[[int], float]]] = {
    "ring": (all_reduce.ring_all_reduce, lambda k: (k - 1) / k),
    "doubling": (all_reduce.recursive_doubling_all_reduce, lambda k: down(k) + extra(k)),
    "Rabenseifner": (
        all_reduce.rabenseifner_all_reduce,
        lambda k: (2 ** down(k) - 1) / 2 ** down(k) + extra(k),
    ),
    "binomial": (all_reduce.binomial_all_reduce, up),
    "one-shot": (all_reduce.one_shot_all_reduce, lambda k: k - 1),
    "two-shot": (all_reduce.two_shot_all_reduce, lambda k: (k - 1) / k),
    "reduce-scatter": (reduce_scatter.ring_reduce_scatter, lambda k: (k - 1) / k),
    "reduce": (reduce.binomial_reduce, up),
}


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 17])
def test_gamma_is_paid_for_each_vector_that_is_added(name: str, ranks: int) -> None:
    law, vectors = REDUCED[name]
    free, paid = law(1e6, float(ranks), LINK), law(1e6, float(ranks), LINK, reduce_s_per_byte=1e-12)
    assert float(np.mean(paid.value - free.value)) == pytest.approx(vectors(ranks) * 1e6 * 1e-12, abs=1e-18)
    assert [part.name for part in paid.parts] == ["steps", "transfer", "reduction"]
    assert [part.name for part in free.parts] == ["steps", "transfer"]


# ------------------------------------------------------------------------------------------------------------ pipelines


@pytest.mark.parametrize(
    ("law", "bytes_filled", "hops_of_one_segment"),
    [(trees.binary_tree_all_reduce, 3, 6), (trees.double_tree_all_reduce, 2, 3), (trees.chain_all_reduce, 2, 14)],
)
def test_a_tree_in_one_segment_pays_each_hop_and_in_many_the_pipeline(
    law: Callable[..., Term], bytes_filled: float, hops_of_one_segment: float
) -> None:
    byte = 1e6 / BETA
    whole = columns(law(1e6, 8.0, LINK, segments=1.0))["transfer"]
    assert whole == pytest.approx(hops_of_one_segment * byte)
    many = columns(law(1e6, 8.0, LINK, segments=1e9))["transfer"]
    assert many == pytest.approx(bytes_filled * byte, rel=1e-6)
    assert columns(law(1e6, 8.0, LINK))["transfer"] == pytest.approx(bytes_filled * byte)


def test_segments_grow_with_the_root_of_the_size_between_one_and_64() -> None:
    assert pipeline_segments(1.0, 3.0, LINK) == 1.0
    half = float(np.mean(LINK.half_size_bytes))
    assert pipeline_segments(12 * half, 3.0, LINK) == 6.0
    assert pipeline_segments(1e12, 3.0, LINK) == 64.0
    assert np.array_equal(pipeline_segments(np.array([1.0, 12 * half]), 3.0, LINK), [1.0, 6.0])


# ---------------------------------------------------------------------------------------------------------------- tiers


def span(per_node: int, nodes: int, rails: float | None = None) -> Span:
    inter = Link(8e-6, 5e10)
    rails = float(per_node) if rails is None else rails
    return Span(ranks=per_node * nodes, nodes=nodes, intra=LINK, inter=inter, rails=rails)


def test_a_ring_waits_for_the_slow_link_as_often_as_its_blocks_cross_it() -> None:
    # Patterns of hops of one block, counted by hand: f fast, s slow, two nodes.
    assert slow_ring_steps(span(8, 2), turns=1) == 2.0  # fffffff s fffffff: one s left out only if it must be
    assert slow_ring_steps(span(1, 4), turns=1) == 3.0
    assert slow_ring_steps(span(2, 4), turns=2) == 7.0
    assert slow_ring_steps(span(1, 4), turns=2) == 6.0
    assert slow_ring_steps(span(8, 1), turns=2) == 0.0


def test_hierarchical_all_reduce_is_reduce_scatter_and_all_gather() -> None:
    for nodes in (1, 2, 4):
        at = span(8, nodes)
        parts = [tiers_of(1e6, at).value for tiers_of in
                 (reduce_scatter.hierarchical_reduce_scatter, all_gather.hierarchical_all_gather)]  # fmt: skip
        whole = tiers.hierarchical_all_reduce(1e6, at).value
        assert float(np.mean(parts[0] + parts[1])) == pytest.approx(float(np.mean(whole)))


def test_one_nic_a_node_carries_the_bytes_of_all_its_devices() -> None:
    own, shared = (columns(tiers.hierarchical_all_reduce(1e9, span(8, 4, rails)))["transfer"] for rails in (8.0, 1.0))
    inside = 2 * 7 / 8 * 1e9 / BETA
    assert float(np.mean(shared - inside)) == pytest.approx(8 * float(np.mean(own - inside)))


def test_rabenseifner_across_nodes_moves_what_hierarchical_does_in_fewer_steps() -> None:
    at = span(8, 4)
    halving, rings = (columns(law(1e6, at)) for law in
                      (tiers.tiered_rabenseifner_all_reduce, tiers.hierarchical_all_reduce))  # fmt: skip
    assert halving["transfer"] == pytest.approx(rings["transfer"])
    assert halving["fixed"] == pytest.approx(2 * 3 * ALPHA + 2 * 2 * 8e-6)
    assert rings["fixed"] == pytest.approx(2 * 7 * ALPHA + 2 * 3 * 8e-6)


def test_sharp_sends_each_byte_once_where_a_large_ring_sends_it_twice() -> None:
    at = span(1, 64)
    sharp, ring = (columns(law(1e9, at))["transfer"] for law in (tiers.sharp_all_reduce, tiers.flat_ring_all_reduce))
    assert ring / sharp == pytest.approx(2 * 63 / 64)
    assert columns(tiers.sharp_all_reduce(1.0, at, levels=3.0))["fixed"] == pytest.approx(3 * 8e-6)


def test_a_direct_all_to_all_across_nodes_is_as_slow_as_its_nics() -> None:
    found = columns(all_to_all.tiered_direct_all_to_all(1e9, span(8, 4, 4.0)))
    assert found["transfer"] == pytest.approx(3 / 4 * 8 * 1e9 / (4 * 5e10))
    assert found["fixed"] == pytest.approx(8e-6)


# ---------------------------------------------------------------------------------------------------------------- torus


@pytest.mark.parametrize(("sides", "steps"), [((4, 4), 12), ((2, 8), 16), ((4, 4, 4), 18), ((1, 8), 14)])
def test_a_torus_takes_the_steps_of_its_sides_and_the_bytes_of_a_ring(sides: tuple[int, ...], steps: int) -> None:
    owed = columns(torus.torus_all_reduce(1e6, sides, LINK))
    ranks = math.prod(sides)
    assert owed["fixed"] == pytest.approx(steps * ALPHA)
    assert owed["transfer"] == pytest.approx(2 * (ranks - 1) / ranks * 1e6 / BETA)


def test_two_colours_halve_the_bytes_of_a_link() -> None:
    one, two = (columns(torus.torus_all_reduce(1e6, (4, 4), LINK, colours=c))["transfer"] for c in (1.0, 2.0))
    assert one == pytest.approx(2 * two)


def test_the_squarest_torus_has_the_fewest_steps() -> None:
    assert torus.squarest(16, 2) == (4, 4)
    assert torus.squarest(8, 2) == (2, 4)
    assert torus.squarest(64, 3) == (4, 4, 4)
    assert torus.squarest(7, 2) == (1, 7)


@pytest.mark.parametrize("sides", [(8,), (2, 2, 2, 2), (0, 4)])
def test_what_is_no_torus_is_refused(sides: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="is no torus"):
        torus.torus_all_reduce(1e6, sides, LINK)


# --------------------------------------------------------------------------------------------------------- one message


def test_loggp_and_rendezvous_are_their_forms() -> None:
    assert log_gp(1001.0, LINK, overhead_s=1e-6).value == pytest.approx(ALPHA + 2e-6 + 1000 / BETA)
    assert log_gp(0.0, LINK).value == pytest.approx(ALPHA)
    assert rendezvous(1e6, LINK).value == pytest.approx(3 * ALPHA + 1e6 / BETA)


# ------------------------------------------------------------------------------------------------------ the whole table

TABLE = [(op, name, law) for op, laws in LAWS.items() for name, law in laws.items()]
IDS = [f"{op} {name}" for op, name, _ in TABLE]


def time_s(law: Law, size: float, at: Span) -> float | None:
    applied = law.on(at)
    return None if applied is None else float(np.mean(applied(size, at, 0.0).value))


@pytest.mark.parametrize(("op", "name", "law"), TABLE, ids=IDS)
def test_a_law_of_the_table_goes_by_its_name_and_its_columns_are_known(op: Op, name: str, law: Law) -> None:
    for at in (span(8, 1), span(8, 2)):
        applied = law.on(at)
        if applied is None:
            continue
        term = applied(1e5, at, 1e-13)
        assert term.name in {name, "message"}
        assert set(columns(term)) <= {"fixed", "transfer"}
        assert audit(term) == []
        assert float(np.mean(term.value)) > 0, op


@pytest.mark.parametrize(("op", "name", "law"), TABLE, ids=IDS)
@settings(max_examples=25)
@given(
    small=st.floats(1.0, 1e9),
    factor=st.floats(1.0, 1e3),
    per_node=st.sampled_from([1, 2, 4, 8]),
    nodes=st.sampled_from([1, 2, 3, 4]),
)
def test_no_law_falls_with_the_size(  # noqa: PLR0913  one strategy each
    *, op: Op, name: str, law: Law, small: float, factor: float, per_node: int, nodes: int
) -> None:
    at = span(per_node, nodes)
    now, then = (time_s(law, size, at) for size in (small, small * factor))
    if now is not None and then is not None and at.ranks > 1:
        assert then >= now * (1 - 1e-9), (op, name)


@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 8, 16])
def test_no_law_beats_the_bytes_that_must_move(ranks: int) -> None:
    """Without help from a switch, a port takes in all it lacks; an all-reduce 2 (K - 1) / K (Patarasuk and Yuan)."""
    least = {
        Op.ALL_REDUCE: 2 * (ranks - 1) / ranks,
        Op.ALL_GATHER: (ranks - 1) / ranks,
        Op.REDUCE_SCATTER: (ranks - 1) / ranks,
        Op.ALL_TO_ALL: (ranks - 1) / ranks,
        Op.BROADCAST: 1.0,
        Op.REDUCE: (ranks - 1) / ranks,
    }
    at = Span(ranks=ranks, nodes=1, intra=LINK, inter=LINK, rails=1.0)
    for op, vectors in least.items():
        for name, law in candidates(op, at).items():
            if law.needs in ("", "peer memory"):
                found = time_s(law, 1e9, at)
                assert found is not None
                assert found >= vectors * 1e9 / BETA * (1 - 1e-12), (op, name)


@pytest.mark.parametrize("ranks", [3, 5, 6, 12])
def test_what_is_only_for_powers_of_two_is_no_candidate_for_others(ranks: int) -> None:
    at = Span(ranks=ranks, nodes=1, intra=LINK, inter=LINK, rails=1.0)
    assert "recursive-doubling" not in candidates(Op.ALL_GATHER, at)
    assert "recursive-doubling" in candidates(Op.ALL_REDUCE, at)  # folds the rest in


@pytest.mark.parametrize(("op", "name", "law"), TABLE, ids=IDS)
def test_every_law_of_the_register_has_a_form(op: Op, name: str, law: Law) -> None:
    assert isinstance(name, Algorithm), "one key names an algorithm everywhere"
    key, size = f"{op} {name}", 1e6
    if key in FORMS:
        line = law.filled or law.in_node
        assert line is not None
        owed, form = columns(line(size, span(8, 1), 0.0)), columns(FORMS[key][0](size, 8.0, LINK))
        assert owed["fixed"] == pytest.approx(form["fixed"])
        # The register cuts the bytes into segments and charges what fills the pipeline; the form takes it as filled.
        filling = 1 if key in IN_SEGMENTS else 0
        assert form["transfer"] <= owed["transfer"] * (1 + 1e-12) <= form["transfer"] * (1 + 1e-9 + filling)
    elif key in ON_EIGHT:
        steps, vectors = ON_EIGHT[key]
        assert law.in_node is not None
        owed = columns(law.in_node(size, span(8, 1), 0.0))
        assert (owed["fixed"], owed["transfer"]) == pytest.approx((steps * ALPHA, vectors * size / BETA))
    else:
        assert law.across_nodes is not None
        for ranks, nodes in ((2, 3), (8, 2), (4, 8)):
            inside, across, vectors, crossing = ACROSS[key](ranks, nodes)
            at = replace(span(ranks, nodes), intra=Link(1e-6, 4e11), inter=Link(8e-6, 5e10))
            owed = columns(law.across_nodes(size, at, 0.0))
            assert owed["fixed"] == pytest.approx(inside * 1e-6 + across * 8e-6)
            assert owed["transfer"] == pytest.approx(vectors * size / 4e11 + crossing * size / 5e10)
