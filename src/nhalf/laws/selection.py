"""Selection: which algorithm a library runs, and what its own tuner predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.breakdown import Quantity, Term, leaf, smallest, total
from nhalf.collective import Op
from nhalf.laws.collective import ACROSS_NODES, IN_NODE
from nhalf.laws.collective.table import Law, candidates
from nhalf.laws.tuner import all_reduce_paths, plan

if TYPE_CHECKING:
    from nhalf.fabric import Span
    from nhalf.library import Library


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
    return smallest("tuner", *all_reduce_paths(size_bytes, span, library))


def fastest(op: Op, size_bytes: Quantity, span: Span, library: Library) -> Term:
    """Return the time [s] of the fastest algorithm of an operation that the library can run on the span.

    For an operation other than the all-reduce, libraries run rings, or sends and receives between all pairs at once.
    """
    if op == Op.ALL_REDUCE:
        return all_reduce(size_bytes, span, library)
    laws = candidates(op, span)
    names = [name for name in ("ring", "direct") if name in laws and not laws[name].needs] or list(laws)[:1]
    return smallest("law", *(_applied(laws[name], size_bytes, span) for name in names))


def _applied(law: Law, size_bytes: Quantity, span: Span) -> Term:
    """Return a law's time [s] on a span on which it is defined, reductions free of charge."""
    time = law.on(span)
    if time is None:
        message = "a law was chosen for a span that it does not apply to"
        raise ValueError(message)
    return time(size_bytes, span, 0.0)


def planned(op: Op, size_bytes: Quantity, span: Span, library: Library) -> Term:
    """Return the time [s] that NCCL would plan for an operation: its tuner's, or its kernel's base and the law.

    Sends and receives (all-to-all) have no plan; they pay the base of a kernel, once.
    """
    if op == Op.ALL_REDUCE:
        return tuner_all_reduce(size_bytes, span, library)
    paths = plan(op, size_bytes, span, library)
    if paths:
        return smallest("tuner", *(term for _, term in paths))
    base = leaf("kernel", "base", {"base": kernel_base(library)}, column="fixed")
    return total("sends and receives", base, fastest(op, size_bytes, span, library))


def kernel_base(library: Library) -> Quantity:
    """Return the time [s] that the library's tuner charges once for a ring of the LL protocol, or for its last path."""
    path = library.tuner.ring_ll or library.tuner.paths[-1]
    return 0.0 if path.base_s is None else path.base_s
