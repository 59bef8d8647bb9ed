"""Programs: one file per family of collectives, found here by operation and algorithm."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from nhalf.collective import Algorithm, Op, named
from nhalf.errors import InputError
from nhalf.simulate.program import check_ranks
from nhalf.simulate.programs import direct, doubling, exchange, multicast, rings, trees

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.simulate.program import Program
    from nhalf.simulate.programs.shape import Shape

PROGRAMS: dict[str, dict[Algorithm, Callable[[Shape], Program]]] = {
    Op.ALL_REDUCE: {
        Algorithm.RING: rings.all_reduce,
        Algorithm.BIDIRECTIONAL_RING: rings.bidirectional_all_reduce,
        Algorithm.BINOMIAL: trees.binomial_all_reduce,
        Algorithm.DOUBLE_TREE: partial(trees.pipelined_all_reduce, algorithm=Algorithm.DOUBLE_TREE),
        Algorithm.BINARY_TREE: partial(trees.pipelined_all_reduce, algorithm=Algorithm.BINARY_TREE),
        Algorithm.CHAIN_TREE: partial(trees.pipelined_all_reduce, algorithm=Algorithm.CHAIN_TREE),
        Algorithm.RECURSIVE_DOUBLING: doubling.recursive_doubling,
        Algorithm.RABENSEIFNER: doubling.rabenseifner,
        Algorithm.ONE_SHOT: direct.one_shot,
        Algorithm.TWO_SHOT: direct.two_shot,
        Algorithm.HIERARCHICAL: partial(rings.nested_all_reduce, algorithm=Algorithm.HIERARCHICAL),
        Algorithm.TORUS_2D: partial(rings.nested_all_reduce, algorithm=Algorithm.TORUS_2D),
    },
    Op.ALL_GATHER: {
        Algorithm.RING: rings.all_gather,
        Algorithm.RECURSIVE_DOUBLING: doubling.all_gather,
        Algorithm.BRUCK: doubling.bruck_all_gather,
        Algorithm.DIRECT: direct.all_gather,
    },
    Op.REDUCE_SCATTER: {
        Algorithm.RING: rings.reduce_scatter,
        Algorithm.DIRECT: direct.reduce_scatter,
        Algorithm.PAIRWISE: direct.reduce_scatter_pairwise,
    },
    Op.BROADCAST: {Algorithm.BINOMIAL: trees.binomial_broadcast, Algorithm.DIRECT: direct.broadcast},
    Op.REDUCE: {Algorithm.BINOMIAL: trees.binomial_reduce, Algorithm.DIRECT: direct.reduce},
    Op.ALL_TO_ALL: {
        Algorithm.DIRECT: exchange.all_to_all,
        Algorithm.PAIRWISE: exchange.pairwise,
        Algorithm.BRUCK: exchange.bruck,
    },
    Op.BARRIER: {Algorithm.DISSEMINATION: doubling.barrier},
    Op.SEND_RECV: {Algorithm.DIRECT: direct.hand_over},
    "moe-dispatch": {Algorithm.DIRECT: exchange.dispatch},
    "moe-combine": {Algorithm.DIRECT: exchange.combine},
}
"""Every program that can be made, the usual algorithm of an operation first."""
IN_SWITCH: dict[str, dict[Algorithm, Callable[[Shape], Program]]] = {
    op: {Algorithm.NVLS: partial(multicast.through_switch, op=op)}
    for op in (Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER)
}
"""Programs that only a switch that adds up and copies can run."""
GROUPED: frozenset[str] = frozenset({Algorithm.HIERARCHICAL, Algorithm.TORUS_2D})
"""The algorithms that need to know the group of each rank."""
SEGMENTED: frozenset[str] = frozenset(
    {Algorithm.DOUBLE_TREE, Algorithm.BINARY_TREE, Algorithm.CHAIN_TREE, Algorithm.NVLS}
)
"""The algorithms that cut their bytes into segments."""
SKEWED: frozenset[str] = frozenset({Op.ALL_TO_ALL, "moe-dispatch", "moe-combine"})


def operation(text: str) -> str:
    """Return the operation that a text names; case, spaces, `_` and `-` do not matter.

    Raises
    ------
    InputError
        There is no such operation.
    """
    return str(named(text, PROGRAMS, kind="operation", where="OP"))


def algorithm(op: str, text: str) -> Algorithm:
    """Return the algorithm of an operation that a text names.

    Raises
    ------
    InputError
        The operation has no such algorithm.
    """
    return named(text, PROGRAMS[op] | IN_SWITCH.get(op, {}), kind=f"algorithm of {op}", where="--algorithm")


def build(op: str, name: str, shape: Shape) -> Program:
    """Return the program of an operation by an algorithm.

    Raises
    ------
    InputError
        An unknown name, fewer than two ranks, no bytes, or a group that does not divide the ranks.
    """
    op = operation(op)
    known = algorithm(op, name)
    _check(op, known, shape)
    return (PROGRAMS[op] | IN_SWITCH.get(op, {}))[known](shape)


def _check(op: str, name: Algorithm, shape: Shape) -> None:
    """Refuse a shape that the program cannot be made for."""
    if shape.ranks < 2:  # noqa: PLR2004  one rank has nobody to talk to
        raise InputError(f"{shape.ranks} rank has nobody to talk to", where="--ranks", allowed="2 or more")
    check_ranks(shape.ranks)
    if op != "barrier" and shape.size_bytes < 1:
        raise InputError(
            "a collective of no bytes moves nothing",
            where="--size",
            allowed="1 B or more",
            do="simulate barrier, which is the collective without data",
        )
    if shape.skew and (op not in SKEWED or name != "direct"):
        raise InputError(
            f"{op} by {name} has no routing to skew", where="--routing", allowed=f"direct {', '.join(sorted(SKEWED))}"
        )
    if name in GROUPED and (shape.group < 1 or shape.ranks % shape.group):
        raise InputError(
            f"{shape.ranks} ranks do not divide into groups of {shape.group}"
            if shape.group
            else f"{name} needs to know how many ranks share a node or a row",
            where="--ranks-per-node",
            allowed=f"a divisor of {shape.ranks}",
        )
