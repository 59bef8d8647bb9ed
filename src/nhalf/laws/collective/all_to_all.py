"""All-to-all: every rank has something else for every other; `n` is what one rank sends, its own part included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nhalf.laws.collective.base import IS_SEVERAL, flat, law, tiered

if TYPE_CHECKING:
    from nhalf.breakdown import Input, Quantity, Term
    from nhalf.fabric import Span
    from nhalf.link import Link


def direct_all_to_all(size_bytes: Quantity, ranks: Quantity, link: Link) -> Term:
    """Return the time [s] of an all-to-all in which each rank sends to all at once; exact where ports overlap latency.

    References
    ----------
    R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH" (2005).
    """
    return law("direct", f"{IS_SEVERAL} * alpha", "(k - 1) / k * n / beta", flat(size_bytes, ranks, link))


def pairwise_all_to_all(size_bytes: Quantity, ranks: Quantity, link: Link) -> Term:
    """Return the time [s] of k - 1 exchanges, in the i-th with the rank i away; exact for every number of ranks.

    References
    ----------
    R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH" (2005).
    """
    return law("pairwise", "(k - 1) * alpha", "(k - 1) / k * n / beta", flat(size_bytes, ranks, link))


def bruck_all_to_all(size_bytes: Quantity, ranks: Quantity, link: Link) -> Term:
    """Return the time [s] of Bruck's all-to-all: ceil(log2 k) steps, in each of which blocks are passed on.

    In step j the blocks go whose distance has bit j: k / 2 of them for a power of two, so n / 2 a step; counted one by
    one for others, where n / 2 would be up to 46 % too much. Exact for powers of two.

    References
    ----------
    J. Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems", IEEE
    Trans. Parallel Distrib. Syst. 8 (1997).
    """
    terms = {**flat(size_bytes, ranks, link), "blocks": bruck_blocks(ranks)}
    return law("bruck", "log2_ceil(k) * alpha", "blocks / k * n / beta", terms)


def bruck_blocks(ranks: Quantity) -> Quantity:
    """Return how many blocks a rank passes on in Bruck's all-to-all: the set bits of the distances 1 to k - 1."""
    if isinstance(ranks, np.ndarray):
        return np.array([bruck_blocks(float(each)) for each in ranks.flat]).reshape(ranks.shape)
    return float(sum(distance.bit_count() for distance in range(1, int(ranks))))


def tiered_direct_all_to_all(size_bytes: Quantity, span: Span) -> Term:
    """Return the time [s] of a direct all-to-all across nodes: both tiers at once, the slower one counts.

    Of what a rank sends, (m - 1) / m leaves the node, through `rails` NICs for all k ranks.

    References
    ----------
    Counted; exact where ports overlap latency and every rank has a NIC.
    """
    inside, across = "(k - 1) / (k * m) * n / beta_i", "(m - 1) / m * k * n / (rails * beta_x)"
    return law("direct", "maximum(alpha_i, alpha_x)", f"maximum({inside}, {across})", _everywhere(size_bytes, span))


def tiered_pairwise_all_to_all(size_bytes: Quantity, span: Span) -> Term:
    """Return the time [s] of an all-to-all in K - 1 exchanges, each of which waits for its slowest pair.

    All but k - 1 of them have every rank's partner in another node; in those some have.

    References
    ----------
    R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH" (2005);
    an upper bound.
    """
    transfer = "(k * m - 1) / (k * m) * n * maximum(1 / beta_i, k / (rails * beta_x))"
    return law("pairwise", "(k * m - 1) * maximum(alpha_i, alpha_x)", transfer, _everywhere(size_bytes, span))


def hierarchical_all_to_all(size_bytes: Quantity, span: Span) -> Term:
    """Return the time [s] of an all-to-all that first gathers, in the node, what leaves by the same rail.

    One direct exchange in the node, then m - 1 messages a rank along its rail instead of K - k. Not simulated.

    References
    ----------
    NVIDIA/nccl (PXN: a NIC is used through the device next to it); deepseek-ai/DeepEP, its kernels across nodes.
    """
    fixed = "minimum(k - 1, 1) * alpha_i + (m - 1) * alpha_x"
    transfer = "(k - 1) / k * n / beta_i + (m - 1) / m * k * n / (rails * beta_x)"
    return law("hierarchical", fixed, transfer, _everywhere(size_bytes, span))


def _everywhere(size_bytes: Quantity, span: Span) -> dict[str, Input]:
    """Return the inputs of a law in which every node sends to every other: an oversubscribed tree counts in full."""
    return {**tiered(size_bytes, span), "beta_x": span.inter_all.bandwidth_bytes_per_s}
