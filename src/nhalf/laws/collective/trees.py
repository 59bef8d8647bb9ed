"""All-reduce over trees that are cut into segments: up to the root and down again, segment after segment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.laws.collective.base import IS_SEVERAL, flat, law, pipelined

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity, Term
    from nhalf.link import Link


def binary_tree_all_reduce(
    size_bytes: Quantity,
    ranks: Quantity,
    link: Link,
    *,
    segments: Quantity | None = None,
    reduce_s_per_byte: Quantity = 0.0,
) -> Term:
    """Return the time [s] of an all-reduce over one binary tree of depth ceil(log2 k), in `segments` segments.

    An inner rank carries the vector three times each way (two children up, one parent down), so a pipeline moves
    3 n / beta, not 2 (less for two and three ranks, whose root has no parent). Each of the 2 ceil(log2 k) hops waits
    for one segment while the pipeline fills; that is not charged without `segments`. Exact for small messages; up to
    17 % below a simulation for large ones, which block each other.

    References
    ----------
    P. Sanders, J. Speck and J. L. Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
    Parallel Computing 35 (2009), for the pipeline; the factor of 3 is counted, and checked by simulation.
    """
    terms = flat(size_bytes, ranks, link, reduce_s_per_byte)
    transfer = pipelined(terms, "minimum(k - 1, 3)", "2 * log2_ceil(k)", segments)
    return law("binary-tree", "2 * log2_ceil(k) * alpha", transfer, terms, f"2 * {IS_SEVERAL}")


def double_tree_all_reduce(
    size_bytes: Quantity,
    ranks: Quantity,
    link: Link,
    *,
    segments: Quantity | None = None,
    reduce_s_per_byte: Quantity = 0.0,
) -> Term:
    """Return the time [s] of an all-reduce over two pipelined binary trees, each carrying half of `size_bytes`.

    A rank is an inner one in at most one of the trees, so 2 n / beta is moved. The fixed time is exact for small
    messages; without `segments` the filling of the pipeline at large ones (10-15 %) is not charged, with them each of
    the 2 ceil(log2 k) hops waits for one segment of half the vector.

    References
    ----------
    P. Sanders, J. Speck and J. L. Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
    Parallel Computing 35 (2009).
    """
    terms = flat(size_bytes, ranks, link, reduce_s_per_byte)
    transfer = pipelined(terms, f"2 * {IS_SEVERAL}", "log2_ceil(k)", segments)
    return law("double-tree", "2 * log2_ceil(k) * alpha", transfer, terms, IS_SEVERAL)


def chain_all_reduce(
    size_bytes: Quantity,
    ranks: Quantity,
    link: Link,
    *,
    segments: Quantity | None = None,
    reduce_s_per_byte: Quantity = 0.0,
) -> Term:
    """Return the time [s] of an all-reduce up and down a chain, which is what NCCL's tree is inside one node.

    Without `segments` the filling of the pipeline is not charged.

    References
    ----------
    NVIDIA/nccl at 5067397c (2.30.7), src/graph/tuning.cc, latency of the tree all-reduce on one node.
    """
    terms = flat(size_bytes, ranks, link, reduce_s_per_byte)
    transfer = pipelined(terms, f"2 * {IS_SEVERAL}", "2 * (k - 1)", segments)
    return law("chain-tree", "2 * (k - 1) * alpha", transfer, terms, IS_SEVERAL)
