"""The names of collectives: what is done (Op), how it is done (Algorithm), and how it is launched (Mode)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Self, TypeVar

from nhalf.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable

_IGNORED = str.maketrans("", "", " _-")
_ALSO = {"pointtopoint": "sendrecv", "p2p": "sendrecv"}
"""Other words that readers use for a name, and the letters of that name."""
_Known = TypeVar("_Known", bound=str)


def named(text: str, known: Iterable[_Known], *, kind: str, where: str = "") -> _Known:
    """Return the one of some kebab-case names that a text means; case, spaces, `_` and `-` are ignored.

    Raises InputError when it means none; `kind` says what they are names of, and `where` where the text was read.
    """
    by_letters = {_letters(name): name for name in known}
    letters = _letters(text)
    found = by_letters.get(_ALSO.get(letters, letters))
    if found is None:
        names = [str(name) for name in by_letters.values()]
        raise InputError(
            f"{text!r} is not a known {kind}", where=where, allowed=", ".join(names), do=did_you_mean(text, names)
        )
    return found


class _Name(StrEnum):
    """A closed list of kebab-case names; case, spaces, `_` and `-` are ignored when one is read."""

    @classmethod
    def parse(cls, text: str, *, where: str = "") -> Self:
        """Return the name that a text means: `all_reduce`, `AllReduce` and `all-reduce` are one.

        Raises InputError when the text is none of the names; `where` says where it was read.
        """
        return named(text, cls, kind=cls.__name__.lower(), where=where)


def _letters(text: str) -> str:
    return text.casefold().translate(_IGNORED)


class Op(_Name):
    """What a group of ranks does together. Sizes follow nccl-tests: the total buffer for all-gather."""

    ALL_REDUCE = "all-reduce"
    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_TO_ALL = "all-to-all"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    BARRIER = "barrier"
    SEND_RECV = "send-recv"


class Routed(_Name):
    """What an all-to-all of a mixture of experts does: tokens go to their experts, and results come back."""

    DISPATCH = "dispatch"
    COMBINE = "combine"


class Algorithm(_Name):
    """How a library moves the bytes of a collective.

    `chain-tree` is what NCCL calls Tree: a chain through the ranks of a node, a double binary tree across nodes.
    `one-shot` and `two-shot` read the peers' memory directly; `nvls` and `sharp` reduce inside the switch.
    """

    RING = "ring"
    BIDIRECTIONAL_RING = "bidirectional-ring"
    RECURSIVE_DOUBLING = "recursive-doubling"
    RABENSEIFNER = "rabenseifner"
    BINOMIAL = "binomial"
    BINARY_TREE = "binary-tree"
    DOUBLE_TREE = "double-tree"
    CHAIN_TREE = "chain-tree"
    ONE_SHOT = "one-shot"
    TWO_SHOT = "two-shot"
    NVLS = "nvls"
    SHARP = "sharp"
    HIERARCHICAL = "hierarchical"
    TORUS_2D = "torus-2d"
    TORUS_3D = "torus-3d"
    DIRECT = "direct"
    PAIRWISE = "pairwise"
    BRUCK = "bruck"
    SCATTER_DOUBLING = "scatter-doubling"
    SCATTER_RING = "scatter-ring"
    RENDEZVOUS = "rendezvous"
    DISSEMINATION = "dissemination"


class Mode(_Name):
    """How a collective is launched; it moves the time of a small one more than the chip does.

    `graph`: replayed inside a captured graph, no host in the way. `eager`: each one launched by the engine's host
    code. `host`: launched by a benchmark's host loop, as nccl-tests does without a graph.
    """

    GRAPH = "graph"
    EAGER = "eager"
    HOST = "host"
