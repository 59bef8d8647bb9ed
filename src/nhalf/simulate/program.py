"""A program: the messages that ranks exchange, what waits for what, and the data each message carries.

A program is a stream of rounds where it can be (a ring on 16,384 ranks is half a thousand million messages, and two
`Round`s), and a graph of steps where it must be (pipelined trees, a user's own schedule).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nhalf.errors import InputError

if TYPE_CHECKING:
    from nhalf.breakdown import Array

Ints: TypeAlias = NDArray[np.int64]
Indices: TypeAlias = NDArray[np.int32]
Blocks: TypeAlias = Callable[[int], Ints]
"""Which blocks each message of a round carries at its i-th repetition, shape (messages, blocks); -1 fills up."""

MOST_RANKS = 2**20
"""More ranks are a slip of the pen: a ring among them would take days."""
MOST_AT_ONCE = 2**25
"""Messages that a run may hold in memory at once; with what is kept about each they take several GB."""
LATEST_BITMASK = 128
"""Contributions are checked one bit each up to this many ranks, and by fingerprint above."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Round:
    """Messages that ranks post together: a rank posts all it sends and receives, waits for all, and goes on.

    Message i moves `size_bytes` [bytes] (one number, or one per message) from `source[i]` to `target[i]`; the round is
    played `times` times. The receiver of a round that `reduces` adds what it gets to what it has. `shift` is set when
    every rank sends one message to the rank `shift` places on, in rank order.
    """

    source: Ints
    target: Ints
    size_bytes: float | Array
    blocks: Blocks
    reduces: bool = False
    times: int = 1
    shift: int = 0

    @property
    def messages(self) -> int:
        """Return how many messages one playing of the round has."""
        return len(self.source)

    @property
    def sizes(self) -> Array:
        """Return the size of each message [bytes]."""
        return np.broadcast_to(np.asarray(self.size_bytes, dtype=np.float64), self.source.shape)

    def is_paired(self) -> bool:
        """Tell whether no rank sends, and none receives, more than one message."""
        if self.shift:
            return True
        return len(np.unique(self.source)) == len(self.source) and len(np.unique(self.target)) == len(self.target)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graph:
    """Steps of ranks and the messages between them.

    A step opens when every step before it has closed, posts its messages (their `source_step` sends them, their
    `target_step` receives them), and closes when they are done and what it reduces has been added up. `before` holds
    the edges, one (earlier, later) pair of steps a row. Messages are sorted by their source step.
    `earliest_s` [s] keeps a step from opening sooner; `blocks` is what each message carries.
    """

    ranks: int
    rank: Indices
    before: NDArray[np.int32]
    source_step: Indices
    target_step: Indices
    size_bytes: Array
    reduces: NDArray[np.bool_]
    blocks: Ints | None = None
    earliest_s: Array | None = None

    @property
    def messages(self) -> int:
        """Return how many messages there are."""
        return len(self.source_step)

    @property
    def source(self) -> Indices:
        """Return the rank that sends each message."""
        return self.rank[self.source_step]

    @property
    def target(self) -> Indices:
        """Return the rank that receives each message."""
        return self.rank[self.target_step]

    def reduced_bytes(self) -> Array:
        """Return what each step adds up [bytes]."""
        weights = np.where(self.reduces, self.size_bytes, 0.0)
        return np.bincount(self.target_step, weights=weights, minlength=len(self.rank)).astype(np.float64)


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
    rounds: Callable[[], Iterator[Round]] | None = None
    steps: Graph | None = None
    goal: Callable[[], Goal] | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def messages(self) -> int:
        """Return how many messages the program has."""
        if self.steps is not None:
            return self.steps.messages
        return sum(played.messages * played.times for played in self._rounds())

    def is_paired(self) -> bool:
        """Tell whether the program is rounds in which a rank sends and receives at most one message."""
        return self.rounds is not None and all(played.is_paired() for played in self._rounds())

    def _rounds(self) -> Iterator[Round]:
        return self.rounds() if self.rounds is not None else iter(())

    def graph(self) -> Graph:
        """Return the program as a graph: its own, or its rounds with one step per rank and round."""
        return self.steps if self.steps is not None else from_rounds(self.ranks, list(self._rounds()))


def from_rounds(ranks: int, rounds: Sequence[Round]) -> Graph:
    """Return rounds as a graph; the step of rank r in the i-th playing is i x ranks + r."""
    played = [one for one in rounds for _ in range(one.times)]
    offsets = np.arange(len(played), dtype=np.int32) * ranks
    counts = [one.messages for one in played]
    base = np.repeat(offsets, counts)
    empty = np.zeros(0, dtype=np.int64)
    source = base + np.concatenate([one.source for one in played] or [empty]).astype(np.int32)
    target = base + np.concatenate([one.target for one in played] or [empty]).astype(np.int32)
    sizes = np.concatenate([one.sizes for one in played] or [np.zeros(0)])
    reduces = np.repeat(np.array([one.reduces for one in played], dtype=np.bool_), counts)
    order = np.argsort(source, kind="stable")
    steps = np.arange(len(played) * ranks, dtype=np.int32)
    later = steps[ranks:]
    return Graph(
        ranks=ranks,
        rank=steps % np.int32(ranks),
        before=np.stack([later - np.int32(ranks), later], axis=1),
        source_step=source[order],
        target_step=target[order],
        size_bytes=sizes[order],
        reduces=reduces[order],
    )


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
            f"{name} on {ranks:,} ranks holds {messages:,} messages at once",
            where="--ranks",
            allowed=f"{MOST_AT_ONCE:,} messages",
            do="simulate fewer ranks; a ring on a switch is played round by round and needs little memory",
        )


class Builder:
    """Collects the steps and messages of a graph one by one, as the pipelined programs and schedules make them."""

    def __init__(self, ranks: int) -> None:
        """Start with no step."""
        self.ranks = ranks
        self._rank: list[int] = []
        self._earliest: list[float] = []
        self._before: list[tuple[int, int]] = []
        self._messages: list[tuple[int, int, float, bool, int]] = []

    def step(self, rank: int, after: Sequence[int] = (), *, earliest_s: float = 0.0) -> int:
        """Add a step of a rank that opens after others have closed, and return its number."""
        number = len(self._rank)
        self._rank.append(rank)
        self._earliest.append(earliest_s)
        self._before.extend((earlier, number) for earlier in after)
        return number

    def wait(self, later: int, earlier: int) -> None:
        """Make one step wait for another."""
        self._before.append((earlier, later))

    def message(self, source: int, target: int, size_bytes: float, *, block: int = 0, reduces: bool = False) -> None:
        """Add a message between two steps that carries one block."""
        self._messages.append((source, target, size_bytes, reduces, block))

    def graph(self) -> Graph:
        """Return the graph."""
        source, target, size, reduces, block = (
            np.array(column) for column in (zip(*self._messages, strict=True) if self._messages else ([],) * 5)
        )
        order = np.argsort(source, kind="stable")
        return Graph(
            ranks=self.ranks,
            rank=np.array(self._rank, dtype=np.int32),
            before=np.array(self._before, dtype=np.int32).reshape(-1, 2),
            source_step=source[order].astype(np.int32),
            target_step=target[order].astype(np.int32),
            size_bytes=size[order].astype(np.float64),
            reduces=reduces[order].astype(np.bool_),
            blocks=block[order].astype(np.int64)[:, None],
            earliest_s=np.array(self._earliest) if any(self._earliest) else None,
        )


def together(programs: Sequence[Program], places: Sequence[Sequence[int]], ranks: int) -> Program:
    """Return programs that run side by side: rank i of the p-th is rank `places[p][i]` of `ranks` in all.

    Their data are not checked: each is another group's.
    """
    graphs = [program.graph() for program in programs]
    shifts = np.cumsum([0, *(len(graph.rank) for graph in graphs)]).astype(np.int32)
    mapped = [np.asarray(place, dtype=np.int32)[graph.rank] for graph, place in zip(graphs, places, strict=True)]
    pairs = list(zip(graphs, shifts[:-1], strict=True))
    joined = Graph(
        ranks=ranks,
        rank=np.concatenate(mapped),
        before=np.concatenate([graph.before + shift for graph, shift in pairs]),
        source_step=np.concatenate([graph.source_step + shift for graph, shift in pairs]),
        target_step=np.concatenate([graph.target_step + shift for graph, shift in pairs]),
        size_bytes=np.concatenate([graph.size_bytes for graph in graphs]),
        reduces=np.concatenate([graph.reduces for graph in graphs]),
    )
    return Program(
        op="together",
        algorithm=" and ".join(program.algorithm for program in programs),
        ranks=ranks,
        size_bytes=float(sum(program.size_bytes for program in programs)),
        steps=joined,
    )
