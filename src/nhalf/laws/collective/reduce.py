"""Reduce: the sum of all, at one rank; a broadcast backwards, with arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.laws.collective.base import IS_SEVERAL, SLOWEST, flat, law, pipelined, tiered, tree_rounds

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity, Term
    from nhalf.fabric import Span
    from nhalf.link import Link


def binomial_reduce(size_bytes: Quantity, ranks: Quantity, link: Link, *, reduce_s_per_byte: Quantity = 0.0) -> Term:
    """Return the time [s] of a binomial reduce; exact for powers of two, otherwise an upper bound.

    References
    ----------
    R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH" (2005).
    """
    terms = flat(size_bytes, ranks, link, reduce_s_per_byte)
    return law("binomial", "log2_ceil(k) * alpha", "log2_ceil(k) * n / beta", terms, "log2_ceil(k)")


def rabenseifner_reduce(
    size_bytes: Quantity, ranks: Quantity, link: Link, *, reduce_s_per_byte: Quantity = 0.0
) -> Term:
    """Return the time [s] of reduce-scatter by recursive halving, then a binomial gather; for powers of two.

    References
    ----------
    R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH" (2005).
    """
    terms = flat(size_bytes, ranks, link, reduce_s_per_byte)
    return law("rabenseifner", "2 * log2_ceil(k) * alpha", "2 * (k - 1) / k * n / beta", terms, "(k - 1) / k")


def chain_reduce(
    size_bytes: Quantity,
    ranks: Quantity,
    link: Link,
    *,
    segments: Quantity | None = None,
    reduce_s_per_byte: Quantity = 0.0,
) -> Term:
    """Return the time [s] of a reduce along a chain in `segments` segments, which is what NCCL's ring does.

    Without `segments` the filling of the pipeline is not charged.

    References
    ----------
    NVIDIA/nccl, PERFORMANCE.md of nccl-tests: a reduce is limited by one link, S / B.
    """
    terms = flat(size_bytes, ranks, link, reduce_s_per_byte)
    transfer = pipelined(terms, IS_SEVERAL, "(k - 1)", segments)
    return law("ring", "(k - 1) * alpha", transfer, terms, IS_SEVERAL)


def direct_reduce(size_bytes: Quantity, ranks: Quantity, link: Link, *, reduce_s_per_byte: Quantity = 0.0) -> Term:
    """Return the time [s] in which the root receives from each peer at once: an incast through its one port.

    References
    ----------
    Counted; exact where ports overlap latency.
    """
    terms = flat(size_bytes, ranks, link, reduce_s_per_byte)
    return law("direct", f"{IS_SEVERAL} * alpha", "(k - 1) * n / beta", terms, "(k - 1)")


def tiered_binomial_reduce(size_bytes: Quantity, span: Span, *, reduce_s_per_byte: Quantity = 0.0) -> Term:
    """Return the time [s] of a binomial reduce in each node, then across them; through one NIC a node.

    Exact for powers of two of ranks a node and every number of nodes; else an upper bound, by up to 5 %.

    References
    ----------
    R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH" (2005).
    """
    terms = {**tiered(size_bytes, span, reduce_s_per_byte), **tree_rounds(span.ranks_per_node, span.nodes)}
    transfer = "near * n / beta_i + far * n / beta_x"
    return law("binomial", "near * alpha_i + far * alpha_x", transfer, terms, "(near + far)")


def tiered_chain_reduce(size_bytes: Quantity, span: Span, *, reduce_s_per_byte: Quantity = 0.0) -> Term:
    """Return the time [s] of pipelined chains through all nodes, one for each NIC; the filling is not charged.

    References
    ----------
    NVIDIA/nccl, PERFORMANCE.md of nccl-tests: a reduce is limited by one link, S / B.
    """
    fixed = "(k * m - m) * alpha_i + (m - 1) * alpha_x"
    return law("ring", fixed, f"n * {SLOWEST}", tiered(size_bytes, span, reduce_s_per_byte), "1")
