"""Every law by operation and algorithm: where it applies, where it is exact, and what hardware it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from nhalf.collective import Op
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

    With `neighbours`, ranks speak to their neighbours alone, so that it also holds on a torus; `dimensions` are those
    of the torus that it is for.
    """

    in_node: TimeOnSpan | None = None
    across_nodes: TimeOnSpan | None = None
    exact: Exact
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


def _message(law: Callable[[Quantity, Link], Term]) -> Law:
    """Return a law of one message: over the link of the slowest tier."""
    return Law(
        in_node=lambda size, span, _: law(size, span.intra),
        across_nodes=lambda size, span, _: law(size, span.inter),
        exact="every",
    )


LAWS: dict[Op, dict[str, Law]] = {
    Op.ALL_REDUCE: {
        "ring": Law(
            in_node=_reducing(all_reduce.ring_all_reduce),
            across_nodes=_reducing_across(tiers.flat_ring_all_reduce),
            exact="every",
            neighbours=True,
        ),
        "bidirectional-ring": Law(
            in_node=_reducing(all_reduce.bidirectional_ring_all_reduce), exact="every", neighbours=True
        ),
        "recursive-doubling": Law(
            in_node=_reducing(all_reduce.recursive_doubling_all_reduce),
            across_nodes=_reducing_across(tiers.tiered_doubling_all_reduce),
            exact="powers of two",
        ),
        "rabenseifner": Law(
            in_node=_reducing(all_reduce.rabenseifner_all_reduce),
            across_nodes=_reducing_across(tiers.tiered_rabenseifner_all_reduce),
            exact="powers of two",
        ),
        "binomial": Law(
            in_node=_reducing(all_reduce.binomial_all_reduce),
            across_nodes=_reducing_across(tiers.tiered_binomial_all_reduce),
            exact="powers of two",
        ),
        "binary-tree": Law(
            in_node=_segmented(trees.binary_tree_all_reduce, reduces=True),
            exact="small messages",
        ),
        "double-tree": Law(in_node=_segmented(trees.double_tree_all_reduce, reduces=True), exact="small messages"),
        "chain-tree": Law(
            in_node=_segmented(trees.chain_all_reduce, chain=True, reduces=True),
            across_nodes=_reducing_across(tiers.chain_tree_all_reduce),
            exact="small messages",
        ),
        "one-shot": Law(in_node=_reducing(all_reduce.one_shot_all_reduce), exact="every", needs="peer memory"),
        "two-shot": Law(in_node=_reducing(all_reduce.two_shot_all_reduce), exact="every", needs="peer memory"),
        "nvls": Law(in_node=_plain(all_reduce.nvls_all_reduce), exact="unchecked", needs="nvls"),
        "hierarchical": Law(across_nodes=_reducing_across(tiers.hierarchical_all_reduce), exact="every"),
        "sharp": Law(across_nodes=_reducing_across(tiers.sharp_all_reduce), exact="unchecked", needs="sharp"),
        "torus-2d": Law(in_node=_torus(2), exact="every", needs="torus", neighbours=True, dimensions=2),
        "torus-3d": Law(in_node=_torus(3), exact="every", needs="torus", neighbours=True, dimensions=3),
    },
    Op.ALL_GATHER: {
        "ring": Law(
            in_node=_plain(all_gather.ring_all_gather),
            across_nodes=_across(all_gather.flat_ring_all_gather),
            exact="every",
            neighbours=True,
        ),
        "recursive-doubling": Law(
            in_node=_plain(all_gather.recursive_doubling_all_gather),
            exact="powers of two",
            only_powers_of_two=True,
        ),
        "bruck": Law(in_node=_plain(all_gather.bruck_all_gather), exact="every"),
        "direct": Law(in_node=_plain(all_gather.direct_all_gather), exact="every", needs="peer memory"),
        "nvls": Law(in_node=_plain(all_gather.nvls_all_gather), exact="unchecked", needs="nvls"),
        "hierarchical": Law(across_nodes=_across(all_gather.hierarchical_all_gather), exact="every"),
    },
    Op.REDUCE_SCATTER: {
        "ring": Law(
            in_node=_reducing(reduce_scatter.ring_reduce_scatter),
            across_nodes=_reducing_across(reduce_scatter.flat_ring_reduce_scatter),
            exact="every",
            neighbours=True,
        ),
        "recursive-doubling": Law(
            in_node=_reducing(reduce_scatter.recursive_halving_reduce_scatter),
            exact="powers of two",
            only_powers_of_two=True,
        ),
        "pairwise": Law(in_node=_reducing(reduce_scatter.pairwise_reduce_scatter), exact="every"),
        "direct": Law(in_node=_reducing(reduce_scatter.direct_reduce_scatter), exact="every", needs="peer memory"),
        "nvls": Law(in_node=_plain(reduce_scatter.nvls_reduce_scatter), exact="unchecked", needs="nvls"),
        "hierarchical": Law(across_nodes=_reducing_across(reduce_scatter.hierarchical_reduce_scatter), exact="every"),
    },
    Op.BROADCAST: {
        "ring": Law(
            in_node=_segmented(broadcast.chain_broadcast, chain=True),
            across_nodes=_across(broadcast.tiered_chain_broadcast),
            exact="small messages",
            neighbours=True,
        ),
        "binomial": Law(
            in_node=_plain(broadcast.binomial_broadcast),
            across_nodes=_across(broadcast.tiered_binomial_broadcast),
            exact="powers of two",
        ),
        "scatter-doubling": Law(
            in_node=_plain(broadcast.scatter_doubling_broadcast), exact="powers of two", only_powers_of_two=True
        ),
        "scatter-ring": Law(in_node=_plain(broadcast.scatter_ring_broadcast), exact="powers of two"),
        "double-tree": Law(in_node=_segmented(broadcast.double_tree_broadcast), exact="small messages"),
        "direct": Law(in_node=_plain(broadcast.direct_broadcast), exact="every"),
    },
    Op.REDUCE: {
        "ring": Law(
            in_node=_segmented(reduce.chain_reduce, chain=True, reduces=True),
            across_nodes=_reducing_across(reduce.tiered_chain_reduce),
            exact="small messages",
            neighbours=True,
        ),
        "binomial": Law(
            in_node=_reducing(reduce.binomial_reduce),
            across_nodes=_reducing_across(reduce.tiered_binomial_reduce),
            exact="powers of two",
        ),
        "rabenseifner": Law(
            in_node=_reducing(reduce.rabenseifner_reduce), exact="powers of two", only_powers_of_two=True
        ),
        "direct": Law(in_node=_reducing(reduce.direct_reduce), exact="every"),
    },
    Op.ALL_TO_ALL: {
        "direct": Law(
            in_node=_plain(all_to_all.direct_all_to_all),
            across_nodes=_across(all_to_all.tiered_direct_all_to_all),
            exact="every",
        ),
        "pairwise": Law(
            in_node=_plain(all_to_all.pairwise_all_to_all),
            across_nodes=_across(all_to_all.tiered_pairwise_all_to_all),
            exact="every",
        ),
        "bruck": Law(in_node=_plain(all_to_all.bruck_all_to_all), exact="powers of two"),
        "hierarchical": Law(across_nodes=_across(all_to_all.hierarchical_all_to_all), exact="unchecked"),
    },
    Op.BARRIER: {
        "dissemination": Law(in_node=_plain(barrier.dissemination_barrier), exact="every"),
        "binomial": Law(in_node=_plain(barrier.binomial_barrier), exact="powers of two"),
        "direct": Law(in_node=_plain(barrier.direct_barrier), exact="every", needs="peer memory"),
        "hierarchical": Law(across_nodes=_across(barrier.tiered_barrier), exact="powers of two"),
    },
    Op.SEND_RECV: {
        "direct": _message(point_to_point.hockney),
        "rendezvous": _message(point_to_point.rendezvous),
    },
}
"""Every law, the usual algorithm of an operation first."""


def candidates(op: Op, span: Span) -> dict[str, Law]:
    """Return the laws of an operation that apply to a span, by the name of the algorithm."""
    return {name: law for name, law in LAWS[op].items() if law.on(span) is not None}
