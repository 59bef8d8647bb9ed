"""Reduce-scatter: the mirror image of an all-gather, with arithmetic; `n` is the whole vector of a rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.laws.collective.base import IS_SEVERAL, SLOWEST, flat, law, slow_ring_steps, tiered
from nhalf.laws.collective.nics import hidden, through_one

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity, Term
    from nhalf.fabric import Span
    from nhalf.link import Link

_BYTES = "(k - 1) / k * n / beta"
_REDUCED = "(k - 1) / k"


def ring_reduce_scatter(
    size_bytes: Quantity, ranks: Quantity, link: Link, *, reduce_s_per_byte: Quantity = 0.0
) -> Term:
    """Return the time [s] of a ring reduce-scatter; exact for every number of ranks.

    References
    ----------
    R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH" (2005).
    """
    return law("ring", "(k - 1) * alpha", _BYTES, flat(size_bytes, ranks, link, reduce_s_per_byte), _REDUCED)


def recursive_halving_reduce_scatter(
    size_bytes: Quantity, ranks: Quantity, link: Link, *, reduce_s_per_byte: Quantity = 0.0
) -> Term:
    """Return the time [s] of recursive halving: recursive doubling backwards; exact for powers of two, else not run.

    References
    ----------
    R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH" (2005).
    """
    terms = flat(size_bytes, ranks, link, reduce_s_per_byte)
    return law("recursive-doubling", "log2_ceil(k) * alpha", _BYTES, terms, _REDUCED)


def pairwise_reduce_scatter(
    size_bytes: Quantity, ranks: Quantity, link: Link, *, reduce_s_per_byte: Quantity = 0.0
) -> Term:
    """Return the time [s] of k - 1 exchanges, in the i-th with the rank i away; exact for every number of ranks.

    References
    ----------
    R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH" (2005).
    """
    return law("pairwise", "(k - 1) * alpha", _BYTES, flat(size_bytes, ranks, link, reduce_s_per_byte), _REDUCED)


def direct_reduce_scatter(
    size_bytes: Quantity, ranks: Quantity, link: Link, *, reduce_s_per_byte: Quantity = 0.0
) -> Term:
    """Return the time [s] in which every rank reads its part from each peer at once; exact where ports overlap latency.

    References
    ----------
    The first stage of a two-shot all-reduce: vllm-project/vllm, csrc/custom_all_reduce.cuh.
    """
    terms = flat(size_bytes, ranks, link, reduce_s_per_byte)
    return law("direct", f"{IS_SEVERAL} * alpha", _BYTES, terms, _REDUCED)


def nvls_reduce_scatter(size_bytes: Quantity, ranks: Quantity, link: Link) -> Term:
    """Return the time [s] of a reduce-scatter inside an NVLink switch: every rank reads its part, added up on the way.

    A rank's port sends n, its own part among it, and receives n / k, so the bytes take as long as a direct
    reduce-scatter's; what the switch saves is the receiving and the arithmetic. Not simulated.

    References
    ----------
    NVIDIA/nccl at 5067397c (2.30.7), src/sym_kernels.cc: the reducing half of its all-reduce, n / k bus bytes read.
    """
    return law("nvls", f"{IS_SEVERAL} * alpha", f"{IS_SEVERAL} * n / beta", flat(size_bytes, ranks, link))


def flat_ring_reduce_scatter(size_bytes: Quantity, span: Span, *, reduce_s_per_byte: Quantity = 0.0) -> Term:
    """Return the time [s] of one ring through every rank of several nodes; of its K - 1 steps m are slow.

    References
    ----------
    LogGP ports: A. Alexandrov et al., "LogGP", SPAA (1995).
    """
    terms = {**tiered(size_bytes, span, reduce_s_per_byte), "slow": slow_ring_steps(span, turns=1)}
    fixed = "(k * m - 1 - slow) * alpha_i + slow * alpha_x"
    return law("ring", fixed, f"(k * m - 1) / (k * m) * n * {SLOWEST}", terms, "(k * m - 1) / (k * m)")


def hierarchical_reduce_scatter(size_bytes: Quantity, span: Span, *, reduce_s_per_byte: Quantity = 0.0) -> Term:
    """Return the time [s] of a ring reduce-scatter in the node, then one per rail across nodes.

    Exact, also where `c` devices share a NIC: all but one of the latencies across nodes then hide behind their queue.

    References
    ----------
    M. Cho et al., "BlueConnect", MLSys (2019): its first two phases.
    """
    fixed = f"(k - 1) * alpha_i + (m - 1) * alpha_x - {hidden('(m - 1)')}"
    transfer = "(k - 1) / k * n / beta_i + (m - 1) * c / (k * m) * n / beta_x"
    terms = {**tiered(size_bytes, span, reduce_s_per_byte), "c": through_one(span, span.ranks_per_node)}
    return law("hierarchical", fixed, transfer, terms, "((k - 1) / k + (m - 1) / m / k)")
