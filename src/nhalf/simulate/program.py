"""A program: the messages that ranks exchange, what waits for what, and the data each message carries.

A program is a stream of rounds where it can be (a ring on 16,384 ranks is half a thousand million messages, and two
`Round`s), and a graph of steps where it must be (pipelined trees, a user's own schedule).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nhalf.errors import InputError
from nhalf.simulate.graph import Graph
from nhalf.simulate.ragged import Indices
from nhalf.simulate.unrolling import unrolled

__all__ = ["ALL", "ANY", "NONE", "Goal", "Graph", "Indices", "Program", "check_messages", "check_ranks"]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nhalf.simulate.round import AllPairs, Ints, Round

MOST_RANKS = 2**20
"""More ranks are a slip of the pen: a ring among them would take days."""
MOST_AT_ONCE = 2**25
"""Messages that a run may hold in memory at once; with what is kept about each they take several GB."""
LATEST_BITMASK = 128
"""Contributions are checked one bit each up to this many ranks, and by fingerprint above."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Goal:
    """What the data must look like at the end: `start[r, b]` and `finish[r, b]`, whose parts of block b rank r holds.

    An entry is a rank (its own part only), `ALL` (the sum over all ranks), `NONE` (nothing) or, at the end, `ANY`.
    `merges` allows a contribution to arrive twice (a barrier only counts that it came).
    """

    start: Ints
    finish: Ints
    merges: bool = False


ALL, NONE, ANY = -1, -2, -3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """A collective as messages: what it is called, and its rounds or its graph.

    `goal` makes the start and the end of its data, and is None where nothing is promised (a user's bare schedule).
    `size_bytes` [bytes] follows nccl-tests: the whole vector; the total buffer of an all-gather; what one rank sends
    in an all-to-all.
    """

    op: str
    algorithm: str
    ranks: int
    size_bytes: float
    rounds: Callable[[], Iterator[Round | AllPairs]] | None = None
    steps: Graph | None = None
    goal: Callable[[], Goal] | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def messages(self) -> int:
        """Return how many messages the program has."""
        if self.steps is not None:
            return self.steps.messages
        return sum(played.messages * played.times for played in self._rounds())

    @property
    def step_count(self) -> int:
        """Return how many steps its graph has: of rounds, one for each rank in each playing."""
        if self.steps is not None:
            return self.steps.steps
        return self.ranks * sum(played.times for played in self._rounds())

    def is_paired(self) -> bool:
        """Tell whether the program is rounds in which a rank sends and receives at most one message."""
        return self.rounds is not None and all(played.is_paired() for played in self._rounds())

    def _rounds(self) -> Iterator[Round | AllPairs]:
        return self.rounds() if self.rounds is not None else iter(())

    def graph(self) -> Graph:
        """Return the program as a graph: its own, or its rounds with one step per rank and round."""
        return self.steps if self.steps is not None else unrolled(self.ranks, list(self._rounds()))


def check_ranks(ranks: int) -> None:
    """Refuse more ranks than can be simulated.

    Raises
    ------
    InputError
        There are more.
    """
    if ranks > MOST_RANKS:
        raise InputError(
            f"{ranks:,} ranks are more than can be simulated",
            where="--ranks",
            allowed=f"2 to {MOST_RANKS:,}",
            do="take `nhalf collective`, whose laws hold for any number",
        )


def check_messages(name: str, ranks: int, messages: int) -> None:
    """Refuse more messages than memory holds.

    Raises
    ------
    InputError
        There are more.
    """
    if messages > MOST_AT_ONCE:
        raise InputError(
            f"{name} on {ranks:,} ranks holds {messages:,} messages or steps at once",
            where="--ranks",
            allowed=f"{MOST_AT_ONCE:,}",
            do="simulate fewer ranks; a ring on a switch is played round by round and needs little memory",
        )
