"""All-gather: every rank ends with the parts of all; `n` is the whole result, of which a rank brings n / k."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.laws.collective.base import IS_SEVERAL, SLOWEST, flat, law, slow_ring_steps, tiered
from nhalf.laws.collective.nics import hidden, through_one

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity, Term
    from nhalf.fabric import Span
    from nhalf.link import Link

_BYTES = "(k - 1) / k * n / beta"


def ring_all_gather(size_bytes: Quantity, ranks: Quantity, link: Link) -> Term:
    """Return the time [s] of a ring all-gather; exact for every number of ranks.

    References
    ----------
    R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH" (2005).
    """
    return law("ring", "(k - 1) * alpha", _BYTES, flat(size_bytes, ranks, link))


def recursive_doubling_all_gather(size_bytes: Quantity, ranks: Quantity, link: Link) -> Term:
    """Return the time [s] of an all-gather at distances 1, 2, 4, ...; exact for powers of two, else not run.

    References
    ----------
    R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH" (2005).
    """
    return law("recursive-doubling", "log2_ceil(k) * alpha", _BYTES, flat(size_bytes, ranks, link))


def bruck_all_gather(size_bytes: Quantity, ranks: Quantity, link: Link) -> Term:
    """Return the time [s] of Bruck's all-gather; exact for every number of ranks.

    References
    ----------
    J. Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems", IEEE
    Trans. Parallel Distrib. Syst. 8 (1997).
    """
    return law("bruck", "log2_ceil(k) * alpha", _BYTES, flat(size_bytes, ranks, link))


def direct_all_gather(size_bytes: Quantity, ranks: Quantity, link: Link) -> Term:
    """Return the time [s] in which every rank reads the part of each peer at once; exact where ports overlap latency.

    References
    ----------
    The second stage of a two-shot all-reduce: vllm-project/vllm, csrc/custom_all_reduce.cuh.
    """
    return law("direct", f"{IS_SEVERAL} * alpha", _BYTES, flat(size_bytes, ranks, link))


def nvls_all_gather(size_bytes: Quantity, ranks: Quantity, link: Link) -> Term:
    """Return the time [s] of an all-gather inside an NVLink switch: every rank writes its part once, the switch copies.

    A rank's port sends n / k and receives n, its own part among it, so the bytes take as long as a direct all-gather's;
    what the switch saves is the sending. Not simulated.

    References
    ----------
    NVIDIA/nccl at 5067397c (2.30.7), src/sym_kernels.cc: the multicast half of its all-reduce, n bus bytes.
    """
    return law("nvls", f"{IS_SEVERAL} * alpha", f"{IS_SEVERAL} * n / beta", flat(size_bytes, ranks, link))


def flat_ring_all_gather(size_bytes: Quantity, span: Span) -> Term:
    """Return the time [s] of one ring through every rank of several nodes; of its K - 1 steps m are slow.

    With one rank a node all of them are. See `flat_ring_all_reduce`.

    References
    ----------
    LogGP ports: A. Alexandrov et al., "LogGP", SPAA (1995).
    """
    terms = {**tiered(size_bytes, span), "slow": slow_ring_steps(span, turns=1)}
    fixed = "(k * m - 1 - slow) * alpha_i + slow * alpha_x"
    return law("ring", fixed, f"(k * m - 1) / (k * m) * n * {SLOWEST}", terms)


def hierarchical_all_gather(size_bytes: Quantity, span: Span) -> Term:
    """Return the time [s] of a ring all-gather per rail across nodes, then one in the node.

    Exact, also where `c` devices share a NIC: all but one of the latencies across nodes then hide behind their queue.

    References
    ----------
    M. Cho et al., "BlueConnect", MLSys (2019): its last two phases.
    """
    fixed = f"(k - 1) * alpha_i + (m - 1) * alpha_x - {hidden('(m - 1)')}"
    transfer = "(k - 1) / k * n / beta_i + (m - 1) * c / (k * m) * n / beta_x"
    terms = {**tiered(size_bytes, span), "c": through_one(span, span.ranks_per_node)}
    return law("hierarchical", fixed, transfer, terms)
