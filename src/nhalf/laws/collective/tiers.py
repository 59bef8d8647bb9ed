"""All-reduce across nodes: which steps and which bytes each tier pays for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.laws.collective.base import SLOWEST, doubling_rounds, law, slow_ring_steps, tiered, tree_rounds
from nhalf.laws.collective.nics import Rounds, hidden, through_one

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity, Term
    from nhalf.fabric import Span


def hierarchical_all_reduce(size_bytes: Quantity, span: Span, *, reduce_s_per_byte: Quantity = 0.0) -> Term:
    """Return the time [s] of reduce-scatter in the node, ring all-reduce across nodes per rail, all-gather in the node.

    Exact, also where `c` devices share a NIC: all but one of the latencies across nodes then hide behind their queue.

    References
    ----------
    M. Cho et al., "BlueConnect: decomposing all-reduce for deep learning on heterogeneous network hierarchy",
    MLSys (2019).
    """
    steps = "2 * (m - 1)"
    fixed = f"2 * (k - 1) * alpha_i + {steps} * alpha_x - {hidden(steps)}"
    transfer = f"2 * (k - 1) / k * n / beta_i + {steps} * c / (k * m) * n / beta_x"
    terms = {**tiered(size_bytes, span, reduce_s_per_byte), "c": through_one(span, span.ranks_per_node)}
    return law("hierarchical", fixed, transfer, terms, "((k - 1) / k + (m - 1) / m / k)")


def flat_ring_all_reduce(size_bytes: Quantity, span: Span, *, reduce_s_per_byte: Quantity = 0.0) -> Term:
    """Return the time [s] of one ring through every rank of several nodes, where latency pipelines.

    A rank waits for the slow link only when its chunk comes over it: of the 2 (K - 1) steps 2 m are slow, not all
    (exact for three or more ranks a node; 2 m - 1 for two; every step is slow with one rank a node). `rails` rings
    through different NICs share the bytes.

    References
    ----------
    LogGP ports: A. Alexandrov et al., "LogGP", SPAA (1995); the count is checked by message-level simulation.
    """
    terms = {**tiered(size_bytes, span, reduce_s_per_byte), "slow": slow_ring_steps(span, turns=2)}
    fixed = "(2 * (k * m - 1) - slow) * alpha_i + slow * alpha_x"
    transfer = f"2 * (k * m - 1) / (k * m) * n * {SLOWEST}"
    return law("ring", fixed, transfer, terms, "(k * m - 1) / (k * m)")


def chain_tree_all_reduce(size_bytes: Quantity, span: Span, *, reduce_s_per_byte: Quantity = 0.0) -> Term:
    """Return the time [s] of NCCL's tree: a chain inside each node, a double binary tree between nodes.

    Each byte goes up and down once through both tiers, one after the other: exact for a message too small to be cut
    into a pipeline, and up to twice too long for a large one, where the ring is the faster algorithm.

    References
    ----------
    NVIDIA/nccl at 5067397c (2.30.7), src/graph/tuning.cc, latency of the tree all-reduce.
    """
    fixed = "2 * (k - 1) * alpha_i + 2 * log2_ceil(m) * alpha_x"
    transfer = "2 * minimum(k - 1, 1) * n / beta_i + 2 * minimum(m - 1, 1) * n / (rails * beta_x)"
    return law("chain-tree", fixed, transfer, tiered(size_bytes, span, reduce_s_per_byte), "2")


def tiered_doubling_all_reduce(size_bytes: Quantity, span: Span, *, reduce_s_per_byte: Quantity = 0.0) -> Term:
    """Return the time [s] of recursive doubling, near partners first: `near` rounds in the node, `far` across nodes.

    In a round across, the ranks of a node send the whole vector through its NICs, `c0`, `c1`, ... through the busiest.
    Ranks beyond a power of two fold in before and are told after, `folds` and `far_folds` more rounds. It is exact for
    powers of two of ranks a node, on every number of nodes with a NIC for each rank, and on powers of two of nodes
    where ranks share NICs. Else it is an upper bound, as each round is charged what the busiest node takes for it: by
    up to 33 % (13 ranks on each of 3 nodes), or 25 % where powers of two share NICs (6 nodes).

    References
    ----------
    R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH" (2005).
    """
    doubling = doubling_rounds(span.ranks_per_node, span.nodes)
    across = Rounds.of(span, doubling.loads, [0] * len(doubling.loads), times=1)
    fixed = f"(near + folds) * alpha_i + (far + far_folds) * alpha_x{across.hidden}"
    transfer = f"(near + folds) * n / beta_i + ({across.transfer} + far_folds) * n / beta_x"
    terms = {**tiered(size_bytes, span, reduce_s_per_byte), **doubling.terms, **across.terms}
    return law("recursive-doubling", fixed, transfer, terms, "(near + far + (folds + far_folds) / 2)")


def tiered_rabenseifner_all_reduce(size_bytes: Quantity, span: Span, *, reduce_s_per_byte: Quantity = 0.0) -> Term:
    """Return the time [s] of halving and doubling with the near partners first: the large pieces stay in the node.

    For powers of two it moves the bytes of the hierarchical algorithm in fewer rounds. For others whole vectors fold in
    before and are handed out after, as inside a node. It is exact where recursive doubling is, and else an upper bound,
    by up to 51 % (9 ranks on each of 3 nodes), or 31 % where powers of two share NICs (6 nodes).

    References
    ----------
    R. Rabenseifner, "Optimization of collective reduction operations", ICCS (2004); near partners first as in MPICH,
    allreduce_intra_reduce_scatter_allgather.c, and Open MPI, coll_base_allreduce.c (redscat_allgather).
    """
    doubling = doubling_rounds(span.ranks_per_node, span.nodes)
    halvings = [doubling.near + place + 1 for place in range(len(doubling.loads))]
    across = Rounds.of(span, doubling.loads, halvings, times=2)
    fixed = f"(2 * near + folds) * alpha_i + (2 * far + far_folds) * alpha_x{across.hidden}"
    transfer = f"(2 * (1 - 2 ** -near) + folds) * n / beta_i + ({across.transfer} + far_folds) * n / beta_x"
    terms = {**tiered(size_bytes, span, reduce_s_per_byte), **doubling.terms, **across.terms}
    return law("rabenseifner", fixed, transfer, terms, "(1 - 2 ** -(near + far) + (folds + far_folds) / 2)")


def tiered_binomial_all_reduce(size_bytes: Quantity, span: Span, *, reduce_s_per_byte: Quantity = 0.0) -> Term:
    """Return the time [s] of a binomial reduce and broadcast, node leaders across: the vector goes through one NIC.

    Exact for powers of two of ranks a node and every number of nodes; else an upper bound, by up to 5 %.

    References
    ----------
    R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH" (2005).
    """
    terms = {**tiered(size_bytes, span, reduce_s_per_byte), **tree_rounds(span.ranks_per_node, span.nodes)}
    fixed = "2 * near * alpha_i + 2 * far * alpha_x"
    return law("binomial", fixed, "2 * near * n / beta_i + 2 * far * n / beta_x", terms, "(near + far)")


def sharp_all_reduce(
    size_bytes: Quantity, span: Span, *, levels: Quantity = 1.0, reduce_s_per_byte: Quantity = 0.0
) -> Term:
    """Return the time [s] of an all-reduce whose part across nodes is added up in `levels` levels of switches.

    In the node a direct reduce-scatter and all-gather; across, each rail sends its part up once and receives the sum
    once, both ways at a time: n / (rails beta_x), half of a large ring's. `alpha_x` is up to a switch and down again.
    Not simulated.

    References
    ----------
    R. L. Graham et al., "Scalable hierarchical aggregation protocol (SHArP)", COM-HPC (2016).
    """
    terms = {**tiered(size_bytes, span, reduce_s_per_byte), "levels": levels}
    fixed = "2 * minimum(k - 1, 1) * alpha_i + levels * minimum(m - 1, 1) * alpha_x"
    transfer = "2 * (k - 1) / k * n / beta_i + minimum(m - 1, 1) * n / (rails * beta_x)"
    return law("sharp", fixed, transfer, terms, "(k - 1) / k")
