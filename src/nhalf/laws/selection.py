"""Selection: which algorithm a library runs, and what its own tuner predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.breakdown import Quantity, Term, leaf, smallest, total
from nhalf.collective import Algorithm
from nhalf.laws.collective import ACROSS_NODES, IN_NODE

if TYPE_CHECKING:
    from nhalf.fabric import Span
    from nhalf.library import Library, TunerPath


def all_reduce(size_bytes: Quantity, span: Span, library: Library) -> Term:
    """Return the time [s] of the fastest all-reduce that the library can run on the span.

    Only what it can run *there* is a candidate: no direct-access kernel across a NIC.
    """
    laws, names = (IN_NODE, library.in_node) if span.nodes == 1 else (ACROSS_NODES, library.across_nodes)
    return smallest("law", *(laws[name](size_bytes, span) for name in names))


def tuner_all_reduce(size_bytes: Quantity, span: Span, library: Library) -> Term:
    """Return the time [s] that NCCL's tuner predicts for an all-reduce, by its own constants.

    It is the library's plan, not a measurement: two nodes of 8 H100 take 6.8 + 2 (7 x 0.6 + 1 x 5.0) = 25.20 us by
    Tree/LL before any byte moves, and so do three: the tuner takes the floor of log2(nodes).

    References
    ----------
    NVIDIA/nccl at 5067397c (2.30.7), src/graph/tuning.cc: baseLatencies, hwLatencies, bandwidth rules.
    """
    return smallest("tuner", *(_tuner_path(size_bytes, span, path) for path in library.tuner.paths))


def _tuner_path(size_bytes: Quantity, span: Span, path: TunerPath) -> Term:
    """Return the tuner's time for one algorithm and protocol."""
    terms = {
        "n": size_bytes,
        "k": float(span.ranks_per_node),
        "m": float(span.nodes),
        "base": path.base_s,
        "intra": path.intra_step_s,
        "inter": path.inter_step_s,
        "bus": span.intra.bandwidth_bytes_per_s,
        "nics": span.rails * span.inter.bandwidth_bytes_per_s,
        "share": path.bandwidth_share,
        "limit": path.bandwidth_limit_bytes_per_s,
    }
    rate = "minimum(bus, nics)" if span.nodes > 1 else "bus"
    bus = f"minimum({rate} * share, limit)"
    if path.algorithm == Algorithm.RING:
        fixed = "base + 2 * (k * m - m) * intra + 2 * (m - 1) * inter"
        transfer = f"2 * (k * m - 1) / (k * m) * n / {bus}"
    else:
        fixed = "base + 2 * ((k - 1) * intra + log2_floor(m) * inter)"
        transfer = f"2 * n / {bus}"
    name = f"{path.algorithm}/{path.protocol}"
    return total(
        name, leaf("steps", fixed, terms, column="fixed"), leaf("transfer", transfer, terms, column="transfer")
    )
