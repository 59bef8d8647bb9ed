"""Programs: one file per family of collectives, found here by operation and algorithm."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from nhalf.errors import InputError, did_you_mean
from nhalf.simulate.program import check_ranks
from nhalf.simulate.programs import direct, doubling, exchange, rings, trees

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.simulate.program import Program
    from nhalf.simulate.programs.shape import Shape

PROGRAMS: dict[str, dict[str, Callable[[Shape], Program]]] = {
    "all-reduce": {
        "ring": rings.all_reduce,
        "bidirectional-ring": rings.bidirectional_all_reduce,
        "binomial": trees.binomial_all_reduce,
        "double-tree": partial(trees.pipelined_all_reduce, algorithm="double-tree"),
        "binary-tree": partial(trees.pipelined_all_reduce, algorithm="binary-tree"),
        "chain-tree": partial(trees.pipelined_all_reduce, algorithm="chain-tree"),
        "recursive-doubling": doubling.recursive_doubling,
        "rabenseifner": doubling.rabenseifner,
        "one-shot": direct.one_shot,
        "two-shot": direct.two_shot,
        "hierarchical": partial(rings.nested_all_reduce, algorithm="hierarchical"),
        "torus-2d": partial(rings.nested_all_reduce, algorithm="torus-2d"),
    },
    "all-gather": {
        "ring": rings.all_gather,
        "recursive-doubling": doubling.all_gather,
        "bruck": doubling.bruck_all_gather,
        "direct": direct.all_gather,
    },
    "reduce-scatter": {
        "ring": rings.reduce_scatter,
        "direct": direct.reduce_scatter,
        "pairwise": direct.reduce_scatter_pairwise,
    },
    "broadcast": {"binomial": trees.binomial_broadcast, "direct": direct.broadcast},
    "reduce": {"binomial": trees.binomial_reduce, "direct": direct.reduce},
    "all-to-all": {"direct": exchange.all_to_all, "pairwise": exchange.pairwise, "bruck": exchange.bruck},
    "barrier": {"dissemination": doubling.barrier},
    "send-recv": {"direct": direct.hand_over},
    "moe-dispatch": {"direct": exchange.dispatch},
    "moe-combine": {"direct": exchange.combine},
}
"""Every program that can be made, the usual algorithm of an operation first."""
GROUPED = frozenset({"hierarchical", "torus-2d"})
"""The algorithms that need to know the group of each rank."""
SEGMENTED = frozenset({"double-tree", "binary-tree", "chain-tree"})
"""The algorithms that cut their bytes into segments."""
SKEWED = frozenset({"all-to-all", "moe-dispatch", "moe-combine"})


def operation(text: str) -> str:
    """Return the operation that a text names; case, spaces, `_` and `-` do not matter.

    Raises
    ------
    InputError
        There is no such operation.
    """
    return _find(text, PROGRAMS, "operation", "OP")


def algorithm(op: str, text: str) -> str:
    """Return the algorithm of an operation that a text names.

    Raises
    ------
    InputError
        The operation has no such algorithm.
    """
    return _find(text, PROGRAMS[op], f"algorithm of {op}", "--algorithm")


def build(op: str, name: str, shape: Shape) -> Program:
    """Return the program of an operation by an algorithm.

    Raises
    ------
    InputError
        An unknown name, fewer than two ranks, no bytes, or a group that does not divide the ranks.
    """
    op = operation(op)
    name = algorithm(op, name)
    _check(op, name, shape)
    return PROGRAMS[op][name](shape)


def _check(op: str, name: str, shape: Shape) -> None:
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


def _find(
    text: str,
    known: dict[str, Callable[[Shape], Program]] | dict[str, dict[str, Callable[[Shape], Program]]],
    kind: str,
    where: str,
) -> str:
    """Return the known name that a text means."""
    letters = text.casefold().translate(_IGNORED)
    letters = _ALSO.get(letters, letters)
    for name in known:
        if name.translate(_IGNORED) == letters:
            return name
    raise InputError(
        f"{text!r} is not a known {kind}", where=where, allowed=", ".join(known), do=did_you_mean(text, known)
    )


_IGNORED = str.maketrans("", "", " _-")
_ALSO = {"pointtopoint": "sendrecv", "p2p": "sendrecv"}
