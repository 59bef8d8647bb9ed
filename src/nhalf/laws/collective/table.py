"""Every law by operation and algorithm: where it applies, where it is exact, and what hardware it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from nhalf.collective import Algorithm, Op
from nhalf.laws import point_to_point
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
from nhalf.laws.collective.base import pipeline_segments

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.breakdown import Quantity, Term
    from nhalf.fabric import Span
    from nhalf.link import Link

TimeOnSpan: TypeAlias = "Callable[[Quantity, Span, Quantity], Term]"
"""A law as a function of the size [bytes], the span and the time to reduce a byte [s/byte]."""
Needs: TypeAlias = Literal["", "peer memory", "nvls", "sharp", "torus"]
"""Hardware beyond a link: memory of peers that a kernel can read, switches that add up, or a torus."""
Exact: TypeAlias = Literal["every", "powers of two", "small messages", "large messages", "upper bound", "unchecked"]
"""Where a message-level simulation gives the same: for every number of ranks, for powers of two only, ..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """One law: its time on a span inside a node or across nodes, None where it is not defined.

    `unchecked` says why no simulation pins its latency and its transfer, and `unchecked_across` why none does across
    nodes. `filled` is the law inside a node with its pipeline taken as filled, a straight line, where that differs.
    A library that lists no algorithms of the operation is taken to run the `usual` ones. With `neighbours`, ranks speak
    to their neighbours alone, so that it also holds on a torus; `dimensions` are those of the torus that it is for.
    """

    in_node: TimeOnSpan | None = None
    across_nodes: TimeOnSpan | None = None
    exact: Exact = "unchecked"
    unchecked: str = ""
    unchecked_across: str = ""
    filled: TimeOnSpan | None = None
    usual: bool = False
    needs: Needs = ""
    only_powers_of_two: bool = False
    neighbours: bool = False
    dimensions: int = 0

    def on(self, span: Span) -> TimeOnSpan | None:
        """Return the law for a span, or None when it does not apply there."""
        if self.only_powers_of_two and span.ranks & (span.ranks - 1):
            return None
        if self.dimensions and span.box and len(span.box) != self.dimensions:
            return None
        return self.in_node if span.nodes == 1 else self.across_nodes

    def filled_on(self, span: Span) -> TimeOnSpan | None:
        """Return the law for a span with its pipeline taken as filled, or None when it does not apply there."""
        time = self.on(span)
        return self.filled if time is not None and self.filled is not None and span.nodes == 1 else time

    def why_unchecked(self, span: Span) -> str:
        """Return why no simulation checks the law on a span; empty where one does."""
        return self.unchecked or (self.unchecked_across if span.nodes > 1 else "")

    def exact_on(self, span: Span) -> Exact:
        """Return where the law is exact, as far as a simulation on such a span tells."""
        return "unchecked" if self.why_unchecked(span) else self.exact


def _plain(law: Callable[[Quantity, Quantity, Link], Term]) -> TimeOnSpan:
    """Return a law of one tier that does not reduce as a law of a span inside a node."""
    return lambda size, span, _: law(size, float(span.ranks), span.intra)


def _reducing(law: Callable[..., Term]) -> TimeOnSpan:
    """Return a law of one tier that reduces as a law of a span inside a node."""
    return lambda size, span, gamma: law(size, float(span.ranks), span.intra, reduce_s_per_byte=gamma)


def _across(law: Callable[[Quantity, Span], Term]) -> TimeOnSpan:
    """Return a law across nodes that does not reduce."""
    return lambda size, span, _: law(size, span)


def _reducing_across(law: Callable[..., Term]) -> TimeOnSpan:
    """Return a law across nodes that reduces."""
    return lambda size, span, gamma: law(size, span, reduce_s_per_byte=gamma)


def _segmented(law: Callable[..., Term], *, chain: bool = False, reduces: bool = False) -> TimeOnSpan:
    """Return a pipelined law of one tier, cut into the number of segments that suits the size."""

    def time(size_bytes: Quantity, span: Span, reduce_s_per_byte: Quantity) -> Term:
        depth = float(span.ranks - 1) if chain else float((span.ranks - 1).bit_length())
        segments = pipeline_segments(size_bytes, depth, span.intra)
        gamma = {"reduce_s_per_byte": reduce_s_per_byte} if reduces else {}
        return law(size_bytes, float(span.ranks), span.intra, segments=segments, **gamma)

    return time


def _torus(dimensions: int) -> TimeOnSpan:
    """Return the torus law: on the box that the span takes of a torus, or else on the squarest torus of its ranks.

    On a box every link of a device carries a part of the vector; else one link does, that to a neighbour.
    """

    def time(size_bytes: Quantity, span: Span, reduce_s_per_byte: Quantity) -> Term:
        sides = span.box or torus.squarest(span.ranks, dimensions)
        return torus.torus_all_reduce(size_bytes, sides, span.intra, reduce_s_per_byte=reduce_s_per_byte)

    return time


def _message(law: Callable[[Quantity, Link], Term], *, unchecked: str = "", usual: bool = False) -> Law:
    """Return a law of one message: over the link of the slowest tier."""
    return Law(
        in_node=lambda size, span, _: law(size, span.intra),
        across_nodes=lambda size, span, _: law(size, span.inter),
        exact="unchecked" if unchecked else "every",
        unchecked=unchecked,
        usual=usual,
    )


_NO_PROGRAM: Final = "counted; no program plays it message by message"
_SWITCH: Final = "counted; the simulation has no switch that adds up"
_OTHER_TREE: Final = "across nodes it is NCCL's, a chain in each node and a tree between; the program is one chain"
LAWS: dict[Op, dict[str, Law]] = {
    Op.ALL_REDUCE: {
        Algorithm.RING: Law(
            in_node=_reducing(all_reduce.ring_all_reduce),
            across_nodes=_reducing_across(tiers.flat_ring_all_reduce),
            exact="every",
            neighbours=True,
        ),
        Algorithm.BIDIRECTIONAL_RING: Law(
            in_node=_reducing(all_reduce.bidirectional_ring_all_reduce), exact="every", neighbours=True
        ),
        Algorithm.RECURSIVE_DOUBLING: Law(
            in_node=_reducing(all_reduce.recursive_doubling_all_reduce),
            across_nodes=_reducing_across(tiers.tiered_doubling_all_reduce),
            exact="powers of two",
        ),
        Algorithm.RABENSEIFNER: Law(
            in_node=_reducing(all_reduce.rabenseifner_all_reduce),
            across_nodes=_reducing_across(tiers.tiered_rabenseifner_all_reduce),
            exact="powers of two",
        ),
        Algorithm.BINOMIAL: Law(
            in_node=_reducing(all_reduce.binomial_all_reduce),
            across_nodes=_reducing_across(tiers.tiered_binomial_all_reduce),
            exact="powers of two",
        ),
        Algorithm.BINARY_TREE: Law(
            in_node=_segmented(trees.binary_tree_all_reduce, reduces=True),
            exact="small messages",
            filled=_reducing(trees.binary_tree_all_reduce),
        ),
        Algorithm.DOUBLE_TREE: Law(
            in_node=_segmented(trees.double_tree_all_reduce, reduces=True),
            exact="small messages",
            filled=_reducing(trees.double_tree_all_reduce),
        ),
        Algorithm.CHAIN_TREE: Law(
            in_node=_segmented(trees.chain_all_reduce, chain=True, reduces=True),
            across_nodes=_reducing_across(tiers.chain_tree_all_reduce),
            exact="small messages",
            unchecked_across=_OTHER_TREE,
            filled=_reducing(trees.chain_all_reduce),
        ),
        Algorithm.ONE_SHOT: Law(in_node=_reducing(all_reduce.one_shot_all_reduce), exact="every", needs="peer memory"),
        Algorithm.TWO_SHOT: Law(in_node=_reducing(all_reduce.two_shot_all_reduce), exact="every", needs="peer memory"),
        Algorithm.NVLS: Law(in_node=_plain(all_reduce.nvls_all_reduce), needs="nvls", unchecked=_SWITCH),
        Algorithm.HIERARCHICAL: Law(across_nodes=_reducing_across(tiers.hierarchical_all_reduce), exact="every"),
        Algorithm.SHARP: Law(across_nodes=_reducing_across(tiers.sharp_all_reduce), needs="sharp", unchecked=_SWITCH),
        Algorithm.TORUS_2D: Law(in_node=_torus(2), exact="every", needs="torus", neighbours=True, dimensions=2),
        Algorithm.TORUS_3D: Law(
            in_node=_torus(3),
            needs="torus",
            neighbours=True,
            dimensions=3,
            unchecked="the simulation has no torus of three dimensions",
        ),
    },
    Op.ALL_GATHER: {
        Algorithm.RING: Law(
            in_node=_plain(all_gather.ring_all_gather),
            across_nodes=_across(all_gather.flat_ring_all_gather),
            exact="every",
            neighbours=True,
            usual=True,
        ),
        Algorithm.RECURSIVE_DOUBLING: Law(
            in_node=_plain(all_gather.recursive_doubling_all_gather),
            exact="powers of two",
            only_powers_of_two=True,
        ),
        Algorithm.BRUCK: Law(in_node=_plain(all_gather.bruck_all_gather), exact="every"),
        Algorithm.DIRECT: Law(in_node=_plain(all_gather.direct_all_gather), exact="every", needs="peer memory"),
        Algorithm.NVLS: Law(in_node=_plain(all_gather.nvls_all_gather), needs="nvls", unchecked=_SWITCH),
        Algorithm.HIERARCHICAL: Law(across_nodes=_across(all_gather.hierarchical_all_gather), unchecked=_NO_PROGRAM),
    },
    Op.REDUCE_SCATTER: {
        Algorithm.RING: Law(
            in_node=_reducing(reduce_scatter.ring_reduce_scatter),
            across_nodes=_reducing_across(reduce_scatter.flat_ring_reduce_scatter),
            exact="every",
            neighbours=True,
            usual=True,
        ),
        Algorithm.RECURSIVE_DOUBLING: Law(
            in_node=_reducing(reduce_scatter.recursive_halving_reduce_scatter),
            only_powers_of_two=True,
            unchecked=_NO_PROGRAM,
        ),
        Algorithm.PAIRWISE: Law(in_node=_reducing(reduce_scatter.pairwise_reduce_scatter), exact="every"),
        Algorithm.DIRECT: Law(
            in_node=_reducing(reduce_scatter.direct_reduce_scatter), exact="every", needs="peer memory"
        ),
        Algorithm.NVLS: Law(in_node=_plain(reduce_scatter.nvls_reduce_scatter), needs="nvls", unchecked=_SWITCH),
        Algorithm.HIERARCHICAL: Law(
            across_nodes=_reducing_across(reduce_scatter.hierarchical_reduce_scatter), unchecked=_NO_PROGRAM
        ),
    },
    Op.BROADCAST: {
        Algorithm.RING: Law(
            in_node=_segmented(broadcast.chain_broadcast, chain=True),
            across_nodes=_across(broadcast.tiered_chain_broadcast),
            neighbours=True,
            unchecked=_NO_PROGRAM,
            usual=True,
        ),
        Algorithm.BINOMIAL: Law(
            in_node=_plain(broadcast.binomial_broadcast),
            across_nodes=_across(broadcast.tiered_binomial_broadcast),
            exact="powers of two",
        ),
        Algorithm.SCATTER_DOUBLING: Law(
            in_node=_plain(broadcast.scatter_doubling_broadcast), only_powers_of_two=True, unchecked=_NO_PROGRAM
        ),
        Algorithm.SCATTER_RING: Law(in_node=_plain(broadcast.scatter_ring_broadcast), unchecked=_NO_PROGRAM),
        Algorithm.DOUBLE_TREE: Law(in_node=_segmented(broadcast.double_tree_broadcast), unchecked=_NO_PROGRAM),
        Algorithm.DIRECT: Law(in_node=_plain(broadcast.direct_broadcast), exact="every", usual=True),
    },
    Op.REDUCE: {
        Algorithm.RING: Law(
            in_node=_segmented(reduce.chain_reduce, chain=True, reduces=True),
            across_nodes=_reducing_across(reduce.tiered_chain_reduce),
            neighbours=True,
            unchecked=_NO_PROGRAM,
            usual=True,
        ),
        Algorithm.BINOMIAL: Law(
            in_node=_reducing(reduce.binomial_reduce),
            across_nodes=_reducing_across(reduce.tiered_binomial_reduce),
            exact="powers of two",
        ),
        Algorithm.RABENSEIFNER: Law(
            in_node=_reducing(reduce.rabenseifner_reduce), only_powers_of_two=True, unchecked=_NO_PROGRAM
        ),
        Algorithm.DIRECT: Law(in_node=_reducing(reduce.direct_reduce), exact="every", usual=True),
    },
    Op.ALL_TO_ALL: {
        Algorithm.DIRECT: Law(
            in_node=_plain(all_to_all.direct_all_to_all),
            across_nodes=_across(all_to_all.tiered_direct_all_to_all),
            exact="every",
            usual=True,
        ),
        Algorithm.PAIRWISE: Law(
            in_node=_plain(all_to_all.pairwise_all_to_all),
            across_nodes=_across(all_to_all.tiered_pairwise_all_to_all),
            exact="every",
        ),
        Algorithm.BRUCK: Law(in_node=_plain(all_to_all.bruck_all_to_all), exact="powers of two"),
        Algorithm.HIERARCHICAL: Law(across_nodes=_across(all_to_all.hierarchical_all_to_all), unchecked=_NO_PROGRAM),
    },
    Op.BARRIER: {
        Algorithm.DISSEMINATION: Law(in_node=_plain(barrier.dissemination_barrier), exact="every", usual=True),
        Algorithm.BINOMIAL: Law(in_node=_plain(barrier.binomial_barrier), unchecked=_NO_PROGRAM),
        Algorithm.DIRECT: Law(in_node=_plain(barrier.direct_barrier), needs="peer memory", unchecked=_NO_PROGRAM),
        Algorithm.HIERARCHICAL: Law(across_nodes=_across(barrier.tiered_barrier), unchecked=_NO_PROGRAM, usual=True),
    },
    Op.SEND_RECV: {
        Algorithm.DIRECT: _message(point_to_point.hockney, usual=True),
        Algorithm.RENDEZVOUS: _message(point_to_point.rendezvous, unchecked=_NO_PROGRAM),
    },
}
"""Every law, the usual algorithm of an operation first."""


def candidates(op: Op, span: Span) -> dict[str, Law]:
    """Return the laws of an operation that apply to a span, by the name of the algorithm."""
    return {str(name): law for name, law in LAWS[op].items() if law.on(span) is not None}
