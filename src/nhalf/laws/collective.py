"""Collective laws: the time of one all-reduce by each algorithm, as fixed time and transfer.

`n` is the full vector [bytes] (the size that nccl-tests prints), `k` the ranks of one node or of a flat fabric, `m` the
nodes. Times charge latency per step, and per tier: `alpha_i`, `beta_i` inside a node, `alpha_x`, `beta_x` between
nodes. Every law costs nothing for one rank. Reduction arithmetic is not charged here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.breakdown import Input, Quantity, Term, leaf, total
from nhalf.collective import Algorithm

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.fabric import Span
    from nhalf.link import Link


def _law(name: str, fixed: str, transfer: str, terms: dict[str, Input]) -> Term:
    """Return a law as the sum of its fixed time and its transfer."""
    return total(
        name, leaf("steps", fixed, terms, column="fixed"), leaf("transfer", transfer, terms, column="transfer")
    )


def _flat(size_bytes: Quantity, ranks: Quantity, link: Link) -> dict[str, Input]:
    """Return the inputs of a law on one tier, by the symbols of its formula."""
    return {"n": size_bytes, "k": ranks, "alpha": link.latency_s, "beta": link.bandwidth_bytes_per_s}


def ring_all_reduce(size_bytes: Quantity, ranks: Quantity, link: Link) -> Term:
    """Return the time [s] of a ring all-reduce of `size_bytes` [bytes]; exact for every number of ranks.

    References
    ----------
    P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", J. Parallel
    Distrib. Comput. 69 (2009).
    """
    return _law("ring", "2 * (k - 1) * alpha", "2 * (k - 1) / k * n / beta", _flat(size_bytes, ranks, link))


def double_tree_all_reduce(size_bytes: Quantity, ranks: Quantity, link: Link) -> Term:
    """Return the time [s] of an all-reduce over two pipelined binary trees, each carrying half of `size_bytes`.

    The fixed time is exact for small messages; the filling of the pipeline at large ones (10-15 %) is not charged.

    References
    ----------
    P. Sanders, J. Speck and J. L. Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
    Parallel Computing 35 (2009).
    """
    terms = _flat(size_bytes, ranks, link)
    return _law("double-tree", "2 * log2_ceil(k) * alpha", "2 * minimum(k - 1, 1) * n / beta", terms)


def chain_all_reduce(size_bytes: Quantity, ranks: Quantity, link: Link) -> Term:
    """Return the time [s] of an all-reduce up and down a chain, which is what NCCL's tree is inside one node.

    References
    ----------
    NVIDIA/nccl at 5067397c (2.30.7), src/graph/tuning.cc, latency of the tree all-reduce on one node.
    """
    terms = _flat(size_bytes, ranks, link)
    return _law("chain-tree", "2 * (k - 1) * alpha", "2 * minimum(k - 1, 1) * n / beta", terms)


def one_shot_all_reduce(size_bytes: Quantity, ranks: Quantity, link: Link) -> Term:
    """Return the time [s] of a one-shot all-reduce: every rank reads the whole vector of each peer in one step.

    Exact where ports overlap latency (LogGP); a rank receives k - 1 vectors through its own port.

    References
    ----------
    vllm-project/vllm, csrc/custom_all_reduce.cuh, one-stage kernel (described, not copied).
    """
    terms = _flat(size_bytes, ranks, link)
    return _law("one-shot", "minimum(k - 1, 1) * alpha", "(k - 1) * n / beta", terms)


def two_shot_all_reduce(size_bytes: Quantity, ranks: Quantity, link: Link) -> Term:
    """Return the time [s] of a two-shot all-reduce: a direct reduce-scatter, then a direct all-gather.

    Exact where ports overlap latency (LogGP).

    References
    ----------
    vllm-project/vllm, csrc/custom_all_reduce.cuh, two-stage kernel (described, not copied).
    """
    terms = _flat(size_bytes, ranks, link)
    return _law("two-shot", "2 * minimum(k - 1, 1) * alpha", "2 * (k - 1) / k * n / beta", terms)


def _tiered(size_bytes: Quantity, span: Span) -> dict[str, Input]:
    """Return the inputs of a law that crosses nodes, by the symbols of its formula."""
    return {
        "n": size_bytes,
        "k": float(span.ranks_per_node),
        "m": float(span.nodes),
        "rails": span.rails,
        "alpha_i": span.intra.latency_s,
        "beta_i": span.intra.bandwidth_bytes_per_s,
        "alpha_x": span.inter.latency_s,
        "beta_x": span.inter.bandwidth_bytes_per_s,
    }


def hierarchical_all_reduce(size_bytes: Quantity, span: Span) -> Term:
    """Return the time [s] of reduce-scatter in the node, ring all-reduce across nodes per rail, all-gather in the node.

    Exact with one NIC per device; with fewer (`rails` < k) a rail carries the traffic of k / rails devices, which is
    exact for large messages.

    References
    ----------
    M. Cho et al., "BlueConnect: decomposing all-reduce for deep learning on heterogeneous network hierarchy",
    MLSys (2019).
    """
    fixed = "2 * (k - 1) * alpha_i + 2 * (m - 1) * alpha_x"
    transfer = "2 * (k - 1) / k * n / beta_i + 2 * (m - 1) / m * n / (rails * beta_x)"
    return _law("hierarchical", fixed, transfer, _tiered(size_bytes, span))


def flat_ring_all_reduce(size_bytes: Quantity, span: Span) -> Term:
    """Return the time [s] of one ring through every rank of several nodes, where latency pipelines.

    A rank waits for the slow link only when its chunk comes over it: of the 2 (K - 1) steps 2 m are slow, not all
    (exact for three or more ranks a node; 2 m - 1 for two; every step is slow with one rank a node). `rails` rings
    through different NICs share the bytes.

    References
    ----------
    LogGP ports: A. Alexandrov et al., "LogGP", SPAA (1995); the count is checked by message-level simulation.
    """
    terms = {**_tiered(size_bytes, span), "slow": _slow_ring_steps(span)}
    fixed = "(2 * (k * m - 1) - slow) * alpha_i + slow * alpha_x"
    transfer = "2 * (k * m - 1) / (k * m) * n * maximum(1 / beta_i, 1 / (rails * beta_x))"
    return _law("ring", fixed, transfer, terms)


def _slow_ring_steps(span: Span) -> float:
    """Return how many of a flat ring's steps wait for the link between nodes."""
    few = {1: 2 * (span.nodes - 1), 2: 2 * span.nodes - 1}
    return float(few.get(span.ranks_per_node, 2 * span.nodes))


def chain_tree_all_reduce(size_bytes: Quantity, span: Span) -> Term:
    """Return the time [s] of NCCL's tree: a chain inside each node, a double binary tree between nodes.

    Each byte goes up and down once through both tiers, one after the other: exact for a message too small to be cut
    into a pipeline, and up to twice too long for a large one, where the ring is the faster algorithm.

    References
    ----------
    NVIDIA/nccl at 5067397c (2.30.7), src/graph/tuning.cc, latency of the tree all-reduce.
    """
    fixed = "2 * (k - 1) * alpha_i + 2 * log2_ceil(m) * alpha_x"
    transfer = "2 * n / beta_i + 2 * n / (rails * beta_x)"
    return _law("chain-tree", fixed, transfer, _tiered(size_bytes, span))


def _on_one_tier(law: Callable[[Quantity, Quantity, Link], Term]) -> Callable[[Quantity, Span], Term]:
    """Return a law of one tier as a law of a span that stays inside a node."""
    return lambda size_bytes, span: law(size_bytes, float(span.ranks), span.intra)


IN_NODE: dict[Algorithm, Callable[[Quantity, Span], Term]] = {
    Algorithm.RING: _on_one_tier(ring_all_reduce),
    Algorithm.DOUBLE_TREE: _on_one_tier(double_tree_all_reduce),
    Algorithm.CHAIN_TREE: _on_one_tier(chain_all_reduce),
    Algorithm.ONE_SHOT: _on_one_tier(one_shot_all_reduce),
    Algorithm.TWO_SHOT: _on_one_tier(two_shot_all_reduce),
}
"""The all-reduce laws inside a node."""
ACROSS_NODES: dict[Algorithm, Callable[[Quantity, Span], Term]] = {
    Algorithm.RING: flat_ring_all_reduce,
    Algorithm.CHAIN_TREE: chain_tree_all_reduce,
    Algorithm.HIERARCHICAL: hierarchical_all_reduce,
}
"""The all-reduce laws across nodes."""
