"""Collective laws by family: the time of each algorithm, as fixed time and transfer.

The names below, and the two tables of all-reduces that a library can choose from, are what other rooms use;
`table.LAWS` holds every law of every operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.collective import Algorithm
from nhalf.laws.collective.all_gather import bruck_all_gather as bruck_all_gather
from nhalf.laws.collective.all_gather import direct_all_gather as direct_all_gather
from nhalf.laws.collective.all_gather import recursive_doubling_all_gather as recursive_doubling_all_gather
from nhalf.laws.collective.all_gather import ring_all_gather as ring_all_gather
from nhalf.laws.collective.all_reduce import bidirectional_ring_all_reduce as bidirectional_ring_all_reduce
from nhalf.laws.collective.all_reduce import binomial_all_reduce as binomial_all_reduce
from nhalf.laws.collective.all_reduce import nvls_all_reduce as nvls_all_reduce
from nhalf.laws.collective.all_reduce import one_shot_all_reduce as one_shot_all_reduce
from nhalf.laws.collective.all_reduce import rabenseifner_all_reduce as rabenseifner_all_reduce
from nhalf.laws.collective.all_reduce import recursive_doubling_all_reduce as recursive_doubling_all_reduce
from nhalf.laws.collective.all_reduce import ring_all_reduce as ring_all_reduce
from nhalf.laws.collective.all_reduce import two_shot_all_reduce as two_shot_all_reduce
from nhalf.laws.collective.all_to_all import bruck_all_to_all as bruck_all_to_all
from nhalf.laws.collective.all_to_all import direct_all_to_all as direct_all_to_all
from nhalf.laws.collective.all_to_all import pairwise_all_to_all as pairwise_all_to_all
from nhalf.laws.collective.barrier import dissemination_barrier as dissemination_barrier
from nhalf.laws.collective.broadcast import binomial_broadcast as binomial_broadcast
from nhalf.laws.collective.reduce import binomial_reduce as binomial_reduce
from nhalf.laws.collective.reduce_scatter import direct_reduce_scatter as direct_reduce_scatter
from nhalf.laws.collective.reduce_scatter import pairwise_reduce_scatter as pairwise_reduce_scatter
from nhalf.laws.collective.reduce_scatter import ring_reduce_scatter as ring_reduce_scatter
from nhalf.laws.collective.tiers import chain_tree_all_reduce as chain_tree_all_reduce
from nhalf.laws.collective.tiers import flat_ring_all_reduce as flat_ring_all_reduce
from nhalf.laws.collective.tiers import hierarchical_all_reduce as hierarchical_all_reduce
from nhalf.laws.collective.tiers import sharp_all_reduce as sharp_all_reduce
from nhalf.laws.collective.torus import torus_all_reduce as torus_all_reduce
from nhalf.laws.collective.trees import binary_tree_all_reduce as binary_tree_all_reduce
from nhalf.laws.collective.trees import chain_all_reduce as chain_all_reduce
from nhalf.laws.collective.trees import double_tree_all_reduce as double_tree_all_reduce

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.breakdown import Quantity, Term
    from nhalf.fabric import Span


def _on_one_tier(law: Callable[..., Term]) -> Callable[[Quantity, Span], Term]:
    """Return a law of one tier as a law of a span that stays inside a node."""
    return lambda size_bytes, span: law(size_bytes, float(span.ranks), span.intra)


IN_NODE: dict[Algorithm, Callable[[Quantity, Span], Term]] = {
    Algorithm.RING: _on_one_tier(ring_all_reduce),
    Algorithm.DOUBLE_TREE: _on_one_tier(double_tree_all_reduce),
    Algorithm.CHAIN_TREE: _on_one_tier(chain_all_reduce),
    Algorithm.ONE_SHOT: _on_one_tier(one_shot_all_reduce),
    Algorithm.TWO_SHOT: _on_one_tier(two_shot_all_reduce),
    Algorithm.RECURSIVE_DOUBLING: _on_one_tier(recursive_doubling_all_reduce),
    Algorithm.RABENSEIFNER: _on_one_tier(rabenseifner_all_reduce),
    Algorithm.BINOMIAL: _on_one_tier(binomial_all_reduce),
    Algorithm.NVLS: _on_one_tier(nvls_all_reduce),
}
"""The all-reduce laws inside a node that a library can be said to run; pipelines are taken as filled."""
ACROSS_NODES: dict[Algorithm, Callable[[Quantity, Span], Term]] = {
    Algorithm.RING: flat_ring_all_reduce,
    Algorithm.CHAIN_TREE: chain_tree_all_reduce,
    Algorithm.HIERARCHICAL: hierarchical_all_reduce,
}
"""The all-reduce laws across nodes that a library can be said to run."""
