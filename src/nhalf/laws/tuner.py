"""The plan of a library's own tuner: the time it expects of each algorithm and protocol, by its own constants.

A plan is what the library thinks before it runs, and no measurement.

References
----------
NVIDIA/nccl at 5067397c (2.30.7), src/graph/tuning.cc: baseLatencies, hwLatencies, bandwidth rules and
treeCorrectionFactor; src/enqueue.cc for the choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf.breakdown import Input, Quantity, Term, leaf, total
from nhalf.collective import Op
from nhalf.library import octave

if TYPE_CHECKING:
    from nhalf.fabric import Span
    from nhalf.library import Family, Library, TunerPath

_TURNS: Final = {Op.ALL_REDUCE: 2.0, Op.ALL_GATHER: 1.0, Op.REDUCE_SCATTER: 1.0}
"""How often a ring passes every rank."""
_SPLIT: Final[tuple[Family, ...]] = ("ring", "nvls", "collnet-direct", "pat")
_RUNS: Final[dict[Op, tuple[Family, ...]]] = {
    Op.ALL_REDUCE: ("ring", "tree", "nvls", "nvls-tree", "collnet-direct", "collnet-chain"),
    Op.ALL_GATHER: _SPLIT,
    Op.REDUCE_SCATTER: _SPLIT,
    Op.BROADCAST: ("ring",),
    Op.REDUCE: ("ring",),
}
"""What NCCL runs for an operation; all-to-all and point-to-point are sends and receives, which nobody plans."""
PLANNED: Final = frozenset(_RUNS)
"""The operations that a tuner plans."""
_ARITY: Final = "4e-7"
"""What a direct CollNet pays for each peer of a node [s]."""
_FIXED: Final[dict[Family, str]] = {
    "tree": "base + 2 * ((k - 1) * intra + log2_floor(m) * inter)",
    "nvls": "intra + minimum(m - 1, 1) * inter",
    "nvls-tree": "base + intra + 2 * log2_floor(m) * inter",
    "collnet-direct": f"base + 2 * (minimum(k - 1, 1) * intra + (k - 1) * {_ARITY}) + inter",
    "collnet-chain": "base + 2 * (k - 1) * intra + inter",
    "pat": "base + log2_floor(m) * inter / 3.5 + 2.8e-6 * k * m",
}
_RING: Final = "base + (turns * (k * m - 1) - turns * (m - 1)) * intra + turns * (m - 1) * inter"
_ONE_WAY: Final = "base + intra * minimum(k * m - 1, 1)"


def all_reduce_paths(size_bytes: Quantity, span: Span, library: Library) -> list[Term]:
    """Return what the tuner expects [s] of each path that needs no help from switches."""
    shared = _shared(size_bytes, span, library)
    return [_path_time(Op.ALL_REDUCE, span, path, shared) for path in library.tuner.paths]


def plan(
    op: Op, size_bytes: Quantity, span: Span, library: Library, *, has: frozenset[str] = frozenset()
) -> list[tuple[TunerPath, Term]]:
    """Return every path that the tuner considers for an operation, with the time [s] that it expects.

    `has` says which help there is: `nvls` (switches in a node that add up) and `sharp` (those between nodes). Empty for
    an operation that NCCL does not plan.
    """
    families = _RUNS.get(op, ())
    paths = (*library.tuner.paths, *library.tuner.helped)
    shared = _shared(size_bytes, span, library)
    return [
        (path, _path_time(op, span, path, shared))
        for path in paths
        if path.family in families and _available(path.family, span, has)
    ]


def _available(family: Family, span: Span, has: frozenset[str]) -> bool:
    """Tell whether the tuner would consider a family on a span; NVLS crosses nodes only with SHARP's help."""
    if family == "nvls":
        return "nvls" in has and (span.nodes == 1 or "sharp" in has)
    if family == "nvls-tree":
        return "nvls" in has and span.nodes > 1
    if family == "pat":
        return span.ranks == span.nodes
    if family in ("collnet-direct", "collnet-chain"):
        return "sharp" in has and span.nodes > 1 and (family == "collnet-chain" or "nvls" in has)
    return True


def _shared(size_bytes: Quantity, span: Span, library: Library) -> dict[str, Input]:
    """Return the inputs that all paths have in common, by the symbols of their formulas; each is computed once.

    `bus` is what the slower of links and NICs carries for a node [bytes/s], `power` the power of two by which trees are
    corrected.
    """
    links, nics = span.intra.bandwidth_bytes_per_s, span.rails * span.inter.bandwidth_bytes_per_s
    across = leaf("bus", "minimum(links, nics)", {"links": links, "nics": nics}, unit="bytes/s")
    # Two nodes are each other's only neighbour in a tree: a byte passes a NIC once, and the search counts them twice.
    pair = leaf("bus of a tree", "minimum(links, 2 * nics)", {"links": links, "nics": nics}, unit="bytes/s")
    return {
        "n": size_bytes,
        "k": float(span.ranks_per_node),
        "m": float(span.nodes),
        "bus": links if span.nodes == 1 else across,
        "pair": pair if span.nodes == 2 else across,  # noqa: PLR2004
        "power": leaf("power of two", "octave(n)", {"octave": octave, "n": size_bytes}, unit="1"),
        "channels": library.tuner.channels,
    }


def _path_time(op: Op, span: Span, path: TunerPath, shared: dict[str, Input]) -> Term:
    """Return the time [s] that the tuner expects of one algorithm and protocol."""
    rate = path.rate(span.nodes)
    intra = path.step_s(span.nodes)
    terms: dict[str, Input] = {
        **shared,
        "turns": _TURNS.get(op, 1.0),
        "base": 0.0 if path.base_s is None else path.base_s,
        "intra": span.intra.latency_s if intra is None else intra,
        "inter": span.inter.latency_s if path.inter_step_s is None else path.inter_step_s,
        "share": rate.share,
        "correction": path.correction,
        "plateau": path.plateau,
    }
    if span.nodes > 1 and path.family in ("tree", "nvls-tree"):
        terms["bus"] = shared["pair"]
    if rate.bandwidth_limit_bytes_per_s is not None:
        terms["limit"] = rate.bandwidth_limit_bytes_per_s
    return total(
        f"{path.algorithm}/{path.protocol}" if path.family in ("ring", "tree") else f"{path.family}/{path.protocol}",
        leaf("steps", _fixed(op, path, span), terms, column="fixed"),
        leaf("transfer", _transfer(op, path, limited="limit" in terms), terms, column="transfer"),
    )


def _fixed(op: Op, path: TunerPath, span: Span) -> str:
    """Return the formula of a path's latency."""
    if path.family != "ring":
        return _FIXED[path.family]
    if op not in _TURNS:
        return _ONE_WAY if span.nodes == 1 else _ONE_WAY.replace("intra", "inter")
    if op == Op.ALL_REDUCE and span.nodes > 1 and path.plateau.factor != 1:
        return f"({_RING}) * plateau(n / (k * m * channels))"
    return _RING


def _transfer(op: Op, path: TunerPath, *, limited: bool) -> str:
    """Return the formula of a path's bytes: what an algorithm moves, over what its protocol carries."""
    carried = "minimum(bus * share, limit)" if limited else "bus * share"
    if path.family == "tree" and op == Op.ALL_REDUCE and path.correction.factors:
        carried = f"{carried} * correction(power)"
    if path.family in ("ring", "nvls", "nvls-tree"):
        moved = "turns * (k * m - 1) / (k * m)" if op in _TURNS else "minimum(k * m - 1, 1)"
    else:
        moved = "2" if op == Op.ALL_REDUCE else "1"
    return f"{moved} * n / ({carried})"
