"""What collective laws share: the symbols of their formulas, and a law as the sum of fixed time and transfer.

`n` is the full vector [bytes] (the size that nccl-tests prints), `k` the ranks of one node or of a flat fabric, `m` the
nodes, `g` the time [s/byte] to reduce one byte. Latency is charged per step and per tier: `alpha_i`, `beta_i` inside a
node, `alpha_x`, `beta_x` between nodes, where `rails` NICs of a node work side by side. Every law costs nothing for one
rank.

Ports are those of LogGP unless a law says otherwise: a port is held while bytes pass, not while they fly. Reduction
takes no time of its own unless `reduce_s_per_byte` says so: a kernel hides it behind the transfer.

References
----------
R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH", Int. J. High
Perform. Comput. Appl. 19 (2005), for the symbols; A. Alexandrov et al., "LogGP", SPAA (1995), for the ports.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from nhalf.breakdown import Input, Quantity, Term, leaf, total

if TYPE_CHECKING:
    from nhalf.fabric import Span
    from nhalf.link import Link

FLOOR_POWER = "2 ** log2_floor(k)"
"""The largest power of two that is not above `k`."""
IS_MORE = f"minimum(k - {FLOOR_POWER}, 1)"
"""1 where `k` is no power of two, else 0."""
IS_SEVERAL = "minimum(k - 1, 1)"
"""1 for two ranks and more, 0 for one."""


def law(name: str, fixed: str, transfer: str, terms: dict[str, Input], reduction: str = "") -> Term:
    """Return a law as the sum of its fixed time, its transfer and, where reducing takes time, its arithmetic.

    The arithmetic goes by bytes as the transfer does, and counts in its column.
    """
    parts = [leaf("steps", fixed, terms, column="fixed"), leaf("transfer", transfer, terms, column="transfer")]
    gamma = terms.get("g", 0.0)
    if reduction and (isinstance(gamma, np.ndarray) or gamma):
        parts.append(leaf("reduction", f"{reduction} * n * g", terms, column="transfer"))
    return total(name, *parts)


def flat(size_bytes: Quantity, ranks: Quantity, link: Link, reduce_s_per_byte: Quantity = 0.0) -> dict[str, Input]:
    """Return the inputs of a law on one tier, by the symbols of its formula."""
    return {
        "n": size_bytes,
        "k": ranks,
        "alpha": link.latency_s,
        "beta": link.bandwidth_bytes_per_s,
        "g": reduce_s_per_byte,
    }


def pipelined(terms: dict[str, Input], steady: str, fill: str, segments: Quantity | None) -> str:
    """Return the transfer of a vector in `segments` segments, which are then among the terms as `s`.

    A full pipeline moves `steady` vectors; while it fills, `fill` segments pass one after another. Without `segments`
    the filling is not charged.
    """
    if segments is None:
        return f"{steady} * n / beta"
    terms["s"] = segments
    return f"({steady} * (1 - 1 / s) + {fill} / s) * n / beta"


def tiered(size_bytes: Quantity, span: Span, reduce_s_per_byte: Quantity = 0.0) -> dict[str, Input]:
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
        "g": reduce_s_per_byte,
    }


SLOWEST = "maximum(1 / beta_i, 1 / (rails * beta_x))"
"""The time [s/byte] of a byte that passes through both tiers at once, as in a ring: that of the slower one."""


def slow_ring_steps(span: Span, *, turns: int) -> float:
    """Return how many steps of a flat ring of `turns` turns (all-reduce 2, all-gather 1) wait for the slow link.

    A block goes through `turns` x K hops less `turns`. Those between nodes are slow; the hops left out are fast ones
    where a node has that many in a row.
    """
    if span.nodes == 1:
        return 0.0
    left_out = max(turns - (span.ranks_per_node - 1), 0)
    return float(turns * span.nodes - left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubling:
    """Rounds of doubling: how many stay in a node, the ranks of the busiest node that send in each of those across.

    `near` rounds come first. Of the ranks beyond a power of two each hands its vector to the next rank before and takes
    the result after: `folds` rounds in the node or `far_folds` across, 2 or 0.
    """

    near: int
    loads: tuple[int, ...]
    folds: int
    far_folds: int

    @property
    def terms(self) -> dict[str, Input]:
        """Return the counts as inputs of a law."""
        return {
            "near": float(self.near),
            "far": float(len(self.loads)),
            "folds": float(self.folds),
            "far_folds": float(self.far_folds),
        }


@lru_cache(maxsize=1024)
def doubling_rounds(per_node: int, nodes: int) -> Doubling:
    """Return the rounds of doubling of ranks that are numbered node by node.

    A round in which some partners are on different nodes counts as across.

    References
    ----------
    The fold and the numbering after it: MPICH, allreduce_intra_recursive_doubling.c.
    """
    ranks = per_node * nodes
    rounds = ranks.bit_length() - 1
    extra = ranks - (1 << rounds)
    node = np.concatenate([2 * np.arange(extra) + 1, np.arange(2 * extra, ranks)]) // per_node
    index = np.arange(1 << rounds)
    sent = [node[node[index ^ (1 << bit)] != node] for bit in range(rounds)]
    split = bool(np.any(2 * np.arange(extra) // per_node != node[:extra]))
    inside, across = (0, 2) if split else (2, 0)
    loads = tuple(int(np.bincount(nodes_of).max()) for nodes_of in sent if len(nodes_of))
    return Doubling(
        near=rounds - len(loads),
        loads=loads,
        folds=inside if extra else 0,
        far_folds=across if extra else 0,
    )


@lru_cache(maxsize=1024)
def tree_rounds(per_node: int, nodes: int) -> dict[str, Input]:
    """Return of the rounds of a binomial tree how many stay in a node (`near`) and cross nodes (`far`).

    Ranks are numbered node by node. `far` is the most messages across nodes that any rank waits for, one after the
    other; all other rounds are charged as in the node. Exact for powers of two of ranks a node; else an upper bound,
    by up to 5 % for 16 ranks a node or fewer on 2 to 9 nodes.
    """
    ranks = per_node * nodes
    rounds = (ranks - 1).bit_length()
    node = np.arange(ranks) // per_node
    waited = np.zeros(ranks, dtype=np.int64)
    for bit in reversed(range(rounds)):
        source = np.arange(0, ranks - (1 << bit), 2 << bit)
        target = source + (1 << bit)
        waited[source] += node[source] != node[target]
        waited[target] = waited[source]
    far = int(waited.max())
    return {"near": float(rounds - far), "far": float(far)}


def pipeline_segments(size_bytes: Quantity, depth: Quantity, link: Link) -> Quantity:
    """Return into how many segments [1] to cut a tree's bytes: sqrt(depth x n / n_1/2), from 1 to 64.

    References
    ----------
    P. Sanders, J. Speck and J. L. Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
    Parallel Computing 35 (2009): the best number grows with the root of n log p / (alpha beta).
    """
    best = np.sqrt(np.asanyarray(depth) * size_bytes / np.maximum(link.half_size_bytes, 1.0))
    cut = np.minimum(np.maximum(np.rint(best), 1.0), 64.0)
    return cut if cut.ndim else float(cut)
