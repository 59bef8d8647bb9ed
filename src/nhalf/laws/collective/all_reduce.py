"""All-reduce on one tier: rings, halving and doubling, and kernels that read their peers' memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.laws.collective.base import FLOOR_POWER, IS_MORE, IS_SEVERAL, flat, law

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity, Term
    from nhalf.link import Link


def ring_all_reduce(size_bytes: Quantity, ranks: Quantity, link: Link, *, reduce_s_per_byte: Quantity = 0.0) -> Term:
    """Return the time [s] of a ring all-reduce of `size_bytes` [bytes]; exact for every number of ranks.

    References
    ----------
    P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", J. Parallel
    Distrib. Comput. 69 (2009).
    """
    terms = flat(size_bytes, ranks, link, reduce_s_per_byte)
    return law("ring", "2 * (k - 1) * alpha", "2 * (k - 1) / k * n / beta", terms, "(k - 1) / k")


def bidirectional_ring_all_reduce(
    size_bytes: Quantity, ranks: Quantity, link: Link, *, ports: Quantity = 1.0, reduce_s_per_byte: Quantity = 0.0
) -> Term:
    """Return the time [s] of two rings, one each way, each with half of `size_bytes`; exact for every number of ranks.

    `ports` is 2 where a rank has a link of its own to each neighbour (torus, mesh), and 1 where both ways share a port
    (a switch): two rings are then no faster than one.

    References
    ----------
    jax-ml/scaling-book at 0819a7d8, sharding: both ways of a ring carry half of the bytes each.
    """
    terms = {**flat(size_bytes, ranks, link, reduce_s_per_byte), "ports": ports}
    transfer = "2 * (k - 1) / k * n / (ports * beta)"
    return law("bidirectional-ring", "2 * (k - 1) * alpha", transfer, terms, "(k - 1) / k")


def recursive_doubling_all_reduce(
    size_bytes: Quantity, ranks: Quantity, link: Link, *, reduce_s_per_byte: Quantity = 0.0
) -> Term:
    """Return the time [s] of an all-reduce in which partners exchange the whole vector, at distances 1, 2, 4, ...

    Exact for powers of two. For others a rank more folds in before and is told after, two more steps: an upper bound,
    by up to one latency where sends are buffered.

    References
    ----------
    R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH" (2005).
    """
    terms = flat(size_bytes, ranks, link, reduce_s_per_byte)
    steps = f"(log2_floor(k) + 2 * {IS_MORE})"
    reductions = f"(log2_floor(k) + {IS_MORE})"
    return law("recursive-doubling", f"{steps} * alpha", f"{steps} * n / beta", terms, reductions)


def rabenseifner_all_reduce(
    size_bytes: Quantity, ranks: Quantity, link: Link, *, reduce_s_per_byte: Quantity = 0.0
) -> Term:
    """Return the time [s] of reduce-scatter by recursive halving, then all-gather by recursive doubling.

    Exact for powers of two; for others P = 2^floor(log2 k) ranks do the work and a whole vector is folded in before and
    handed out after. Exact there too, unless early messages block a partner's port (up to 17 % more, at k = 17).

    References
    ----------
    R. Rabenseifner, "Optimization of collective reduction operations", ICCS (2004); the fraction uses P, not k.
    """
    terms = flat(size_bytes, ranks, link, reduce_s_per_byte)
    fixed = f"2 * (log2_floor(k) + {IS_MORE}) * alpha"
    share = f"({FLOOR_POWER} - 1) / ({FLOOR_POWER})"
    return law("rabenseifner", fixed, f"2 * ({share} + {IS_MORE}) * n / beta", terms, f"({share} + {IS_MORE})")


def binomial_all_reduce(
    size_bytes: Quantity, ranks: Quantity, link: Link, *, reduce_s_per_byte: Quantity = 0.0
) -> Term:
    """Return the time [s] of a binomial reduce, then a binomial broadcast, of the whole vector.

    Exact for powers of two; for others an upper bound (a rank is at most floor(log2 k) hops away).

    References
    ----------
    R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH" (2005).
    """
    terms = flat(size_bytes, ranks, link, reduce_s_per_byte)
    steps = "2 * log2_ceil(k)"
    return law("binomial", f"{steps} * alpha", f"{steps} * n / beta", terms, "log2_ceil(k)")


def one_shot_all_reduce(
    size_bytes: Quantity, ranks: Quantity, link: Link, *, reduce_s_per_byte: Quantity = 0.0
) -> Term:
    """Return the time [s] of a one-shot all-reduce: every rank reads the whole vector of each peer in one step.

    Exact where ports overlap latency (LogGP); a rank receives k - 1 vectors through its own port.

    References
    ----------
    vllm-project/vllm, csrc/custom_all_reduce.cuh, one-stage kernel (described, not copied).
    """
    terms = flat(size_bytes, ranks, link, reduce_s_per_byte)
    return law("one-shot", f"{IS_SEVERAL} * alpha", "(k - 1) * n / beta", terms, "(k - 1)")


def two_shot_all_reduce(
    size_bytes: Quantity, ranks: Quantity, link: Link, *, reduce_s_per_byte: Quantity = 0.0
) -> Term:
    """Return the time [s] of a two-shot all-reduce: a direct reduce-scatter, then a direct all-gather.

    Exact where ports overlap latency (LogGP).

    References
    ----------
    vllm-project/vllm, csrc/custom_all_reduce.cuh, two-stage kernel (described, not copied).
    """
    terms = flat(size_bytes, ranks, link, reduce_s_per_byte)
    return law("two-shot", f"2 * {IS_SEVERAL} * alpha", "2 * (k - 1) / k * n / beta", terms, "(k - 1) / k")


def nvls_all_reduce(size_bytes: Quantity, ranks: Quantity, link: Link) -> Term:
    """Return the time [s] of an all-reduce inside an NVLink switch: reduced reads of n / k, then multicast writes.

    A rank's port carries n (1 + 1/k) each way instead of 2 n (k - 1) / k; the switch adds up. Not simulated. Measured,
    it is 1.29 times as fast as a ring on 8 H200, of the 1.56 that the bytes allow, and no faster on 4
    (stas00/ml-engineering at 744d01e1, network/README.md).

    References
    ----------
    NVIDIA/nccl at 5067397c (2.30.7), src/sym_kernels.cc: n + n / K bus bytes of its multicast kernel.
    """
    terms = flat(size_bytes, ranks, link)
    return law("nvls", f"2 * {IS_SEVERAL} * alpha", f"{IS_SEVERAL} * (1 + 1 / k) * n / beta", terms)
