"""Broadcast: what one rank has, all shall have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.laws.collective.base import IS_SEVERAL, SLOWEST, flat, law, pipelined, tiered, tree_rounds

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity, Term
    from nhalf.fabric import Span
    from nhalf.link import Link


def binomial_broadcast(size_bytes: Quantity, ranks: Quantity, link: Link) -> Term:
    """Return the time [s] of a binomial broadcast: who has it passes it on, twice as many each step.

    Exact for every number of ranks where a message holds its port (Hockney), for powers of two where latency overlaps.

    References
    ----------
    R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH" (2005).
    """
    terms = flat(size_bytes, ranks, link)
    return law("binomial", "log2_ceil(k) * alpha", "log2_ceil(k) * n / beta", terms)


def scatter_ring_broadcast(size_bytes: Quantity, ranks: Quantity, link: Link) -> Term:
    """Return the time [s] of a binomial scatter, then a ring all-gather: the broadcast of large messages.

    Exact for powers of two.

    References
    ----------
    M. Barnett et al., "Interprocessor collective communication library", SHPCC (1994) (van de Geijn's algorithm);
    Thakur et al. (2005).
    """
    fixed = "(log2_ceil(k) + k - 1) * alpha"
    return law("scatter-ring", fixed, "2 * (k - 1) / k * n / beta", flat(size_bytes, ranks, link))


def scatter_doubling_broadcast(size_bytes: Quantity, ranks: Quantity, link: Link) -> Term:
    """Return the time [s] of a binomial scatter, then an all-gather by recursive doubling; exact for powers of two.

    References
    ----------
    R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH" (2005).
    """
    terms = flat(size_bytes, ranks, link)
    return law("scatter-doubling", "2 * log2_ceil(k) * alpha", "2 * (k - 1) / k * n / beta", terms)


def chain_broadcast(size_bytes: Quantity, ranks: Quantity, link: Link, *, segments: Quantity | None = None) -> Term:
    """Return the time [s] of a broadcast along a chain in `segments` segments, which is what NCCL's ring does.

    Without `segments` the filling of the pipeline is not charged.

    References
    ----------
    NVIDIA/nccl, PERFORMANCE.md of nccl-tests: a broadcast is limited by one link, S / B.
    """
    terms = flat(size_bytes, ranks, link)
    transfer = pipelined(terms, IS_SEVERAL, "(k - 1)", segments)
    return law("ring", "(k - 1) * alpha", transfer, terms)


def double_tree_broadcast(
    size_bytes: Quantity, ranks: Quantity, link: Link, *, segments: Quantity | None = None
) -> Term:
    """Return the time [s] of a broadcast over two pipelined binary trees, each with half of the bytes.

    The root feeds both; each hop after the first waits for one segment of half the vector, which is not charged without
    `segments`.

    References
    ----------
    P. Sanders, J. Speck and J. L. Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
    Parallel Computing 35 (2009).
    """
    terms = flat(size_bytes, ranks, link)
    transfer = f"{IS_SEVERAL} * n / beta"
    if segments is not None:
        terms["s"] = segments
        transfer = f"{IS_SEVERAL} * (1 + (log2_ceil(k) - 1) / (2 * s)) * n / beta"
    return law("double-tree", "log2_ceil(k) * alpha", transfer, terms)


def direct_broadcast(size_bytes: Quantity, ranks: Quantity, link: Link) -> Term:
    """Return the time [s] in which the root sends to each peer itself, all through its one port.

    References
    ----------
    Counted; exact where ports overlap latency.
    """
    return law("direct", f"{IS_SEVERAL} * alpha", "(k - 1) * n / beta", flat(size_bytes, ranks, link))


def tiered_binomial_broadcast(size_bytes: Quantity, span: Span) -> Term:
    """Return the time [s] of a binomial broadcast to the nodes, then in each of them; through one NIC a node.

    Exact for powers of two of ranks a node and every number of nodes; else an upper bound, by up to 5 %.

    References
    ----------
    R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH" (2005).
    """
    terms = {**tiered(size_bytes, span), **tree_rounds(span.ranks_per_node, span.nodes)}
    return law("binomial", "near * alpha_i + far * alpha_x", "near * n / beta_i + far * n / beta_x", terms)


def tiered_chain_broadcast(size_bytes: Quantity, span: Span) -> Term:
    """Return the time [s] of pipelined chains through all nodes, one for each NIC; the filling is not charged.

    References
    ----------
    NVIDIA/nccl, PERFORMANCE.md of nccl-tests: a broadcast is limited by one link, S / B.
    """
    fixed = "(k * m - m) * alpha_i + (m - 1) * alpha_x"
    return law("ring", fixed, f"n * {SLOWEST}", tiered(size_bytes, span))
