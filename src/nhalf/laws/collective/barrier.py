"""Barrier: nobody leaves before everybody has come; messages without bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.laws.collective.base import IS_SEVERAL, flat, law, tiered

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity, Term
    from nhalf.fabric import Span
    from nhalf.link import Link

_NOTHING = "0 * n"


def dissemination_barrier(size_bytes: Quantity, ranks: Quantity, link: Link) -> Term:
    """Return the time [s] of a dissemination barrier; exact for every number of ranks. `size_bytes` does not matter.

    References
    ----------
    D. Hensgen, R. Finkel and U. Manber, "Two algorithms for barrier synchronization", Int. J. Parallel Program. 17
    (1988).
    """
    return law("dissemination", "log2_ceil(k) * alpha", _NOTHING, flat(size_bytes, ranks, link))


def binomial_barrier(size_bytes: Quantity, ranks: Quantity, link: Link) -> Term:
    """Return the time [s] of a barrier up and down a binomial tree; an upper bound where k is no power of two.

    References
    ----------
    R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH" (2005).
    """
    return law("binomial", "2 * log2_ceil(k) * alpha", _NOTHING, flat(size_bytes, ranks, link))


def direct_barrier(size_bytes: Quantity, ranks: Quantity, link: Link) -> Term:
    """Return the time [s] in which each rank sets a flag at every peer: one latency where ports overlap it.

    References
    ----------
    vllm-project/vllm, csrc/custom_all_reduce.cuh, its signals (described, not copied).
    """
    return law("direct", f"{IS_SEVERAL} * alpha", _NOTHING, flat(size_bytes, ranks, link))


def tiered_barrier(size_bytes: Quantity, span: Span) -> Term:
    """Return the time [s] of a barrier in each node, dissemination among their leaders, and a release in each node.

    References
    ----------
    D. Hensgen, R. Finkel and U. Manber, "Two algorithms for barrier synchronization" (1988), on two tiers.
    """
    fixed = "2 * log2_ceil(k) * alpha_i + log2_ceil(m) * alpha_x"
    return law("hierarchical", fixed, _NOTHING, tiered(size_bytes, span))
