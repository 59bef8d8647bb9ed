"""Selection: which algorithm a library runs, and what its own tuner predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.breakdown import Quantity, Term, leaf, smallest, total
from nhalf.collective import Op
from nhalf.laws.collective.table import LAWS, candidates
from nhalf.laws.tuner import all_reduce_paths, plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.fabric import Span
    from nhalf.laws.collective.table import Law
    from nhalf.library import Library


def all_reduce(size_bytes: Quantity, span: Span, library: Library) -> Term:
    """Return the time [s] of the fastest all-reduce that the library can run on the span.

    Only what it can run *there* is a candidate: no direct-access kernel across a NIC. Pipelines are taken as filled.

    Raises
    ------
    ValueError
        The library lists no algorithm that has a law on the span.
    """
    listed = library.in_node if span.nodes == 1 else library.across_nodes
    return _least(size_bytes, span, [LAWS[Op.ALL_REDUCE][name] for name in listed])


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

    For an operation other than the all-reduce libraries list nothing: the usual ones are taken.
    """
    if op == Op.ALL_REDUCE:
        return all_reduce(size_bytes, span, library)
    laws = [law for law in candidates(op, span).values() if law.usual]
    return _least(size_bytes, span, laws)


def _least(size_bytes: Quantity, span: Span, laws: Sequence[Law]) -> Term:
    """Return the least time [s] of some laws, of those that are defined on the span; reductions are free of charge."""
    defined = [time for law in laws if (time := law.filled_on(span)) is not None]
    if not defined:
        message = f"no law that the library runs holds on {span.ranks} ranks on {span.nodes} nodes"
        raise ValueError(message)
    return smallest("law", *(time(size_bytes, span, 0.0) for time in defined))


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
