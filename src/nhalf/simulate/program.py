"""A program: the messages that ranks exchange, what waits for what, and the data each message carries.

A program is a stream of rounds where it can be (a ring on 16,384 ranks is half a thousand million messages, and two
`Round`s), and a graph of steps where it must be (pipelined trees, a user's own schedule).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nhalf.errors import InputError
from nhalf.simulate.ragged import grouped, offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nhalf.breakdown import Array
    from nhalf.simulate.round import AllPairs, Ints, Round

Indices: TypeAlias = NDArray[np.int32]

MOST_RANKS = 2**20
"""More ranks are a slip of the pen: a ring among them would take days."""
MOST_AT_ONCE = 2**25
"""Messages that a run may hold in memory at once; with what is kept about each they take several GB."""
LATEST_BITMASK = 128
"""Contributions are checked one bit each up to this many ranks, and by fingerprint above."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """Ranks that send to each other: message m goes from rank `source[of[m]]` to rank `target[of[m]]`."""

    of: Indices
    source: Ints
    target: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graph:
    """Steps of ranks and the messages between them.

    A step opens when every step before it has closed, posts its messages (their `source_step` sends them, their
    `target_step` receives them), and closes when they are done and what it reduces has been added up. Messages are
    sorted by their source step. `edges` says which step follows which, one (earlier, later) pair a row; where they are
    left out, step i is followed by step i + `stride`. `earliest_s` [s] keeps a step from opening sooner; `blocks` is
    what each message carries. `pairs` are the ranks of each message once more, where they are known to be few.
    """

    ranks: int
    rank: Indices
    source_step: Indices
    target_step: Indices
    size_bytes: Array
    reduces: NDArray[np.bool_]
    edges: NDArray[np.int32] | None = None
    stride: int = 0
    blocks: Ints | None = None
    earliest_s: Array | None = None
    pairs: Pairs | None = None

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

    @property
    def before(self) -> NDArray[np.int32]:
        """Return the edges, also where only their stride is kept; shape (edges, 2)."""
        if self.edges is not None:
            return self.edges
        later = np.arange(self.stride, len(self.rank), dtype=np.int32)
        return np.stack([later - np.int32(self.stride), later], axis=1)

    def followers(self) -> tuple[Indices, Indices]:
        """Return the steps that follow each step, as a ragged list: offsets and steps; empty where a stride says it."""
        if self.edges is None:
            return np.zeros(1, dtype=np.int32), np.zeros(0, dtype=np.int32)
        earlier, later = self.edges[:, 0], self.edges[:, 1]
        return offsets(earlier, len(self.rank)), np.ascontiguousarray(later[grouped(earlier)])

    def awaits(self) -> Indices:
        """Return how many steps come before each step."""
        if self.edges is not None:
            return np.bincount(self.edges[:, 1], minlength=len(self.rank)).astype(np.int32)
        found = np.ones(len(self.rank), dtype=np.int32)
        found[: self.stride] = 0
        return found

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
            return len(self.steps.rank)
        return self.ranks * sum(played.times for played in self._rounds())

    def is_paired(self) -> bool:
        """Tell whether the program is rounds in which a rank sends and receives at most one message."""
        return self.rounds is not None and all(played.is_paired() for played in self._rounds())

    def _rounds(self) -> Iterator[Round | AllPairs]:
        return self.rounds() if self.rounds is not None else iter(())

    def graph(self) -> Graph:
        """Return the program as a graph: its own, or its rounds with one step per rank and round."""
        return self.steps if self.steps is not None else from_rounds(self.ranks, list(self._rounds()))


def from_rounds(ranks: int, rounds: Sequence[Round | AllPairs]) -> Graph:
    """Return rounds as a graph; the step of rank r in the i-th playing is i x ranks + r."""
    messages = sum(one.messages * one.times for one in rounds)
    source, target, of = (np.empty(messages, dtype=np.int32) for _ in range(3))
    reduces = np.empty(messages, dtype=np.bool_)
    known_sizes = {one.size_bytes if isinstance(one.size_bytes, float) else None for one in rounds}
    alike = known_sizes.pop() if len(known_sizes) == 1 else None
    sizes = np.empty(messages) if alike is None else np.broadcast_to(np.float64(alike), messages)
    senders, receivers = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    filled, playing, known = 0, 0, 0
    for one in rounds:
        part, shape = slice(filled, filled + one.messages * one.times), (one.times, one.messages)
        first = (np.arange(playing, playing + one.times, dtype=np.int32) * np.int32(ranks))[:, None]
        sends, receives = one.source, one.target
        in_order = not np.any(sends[1:] < sends[:-1])
        order = slice(None) if in_order else grouped(sends)
        sends, receives = sends[order], receives[order]
        if not (np.array_equal(sends, senders[-1]) and np.array_equal(receives, receivers[-1])):
            known += len(senders[-1])
            senders.append(sends)
            receivers.append(receives)
        np.add(first, sends.astype(np.int32), out=source[part].reshape(shape))
        np.add(first, receives.astype(np.int32), out=target[part].reshape(shape))
        of[part].reshape(shape)[:] = np.arange(known, known + one.messages, dtype=np.int32)
        reduces[part] = one.reduces
        if alike is None:
            sizes[part].reshape(shape)[:] = one.sizes[order]
        filled, playing = part.stop, playing + one.times
    return Graph(
        ranks=ranks,
        rank=np.arange(playing * ranks, dtype=np.int32) % np.int32(ranks),
        source_step=source,
        target_step=target,
        size_bytes=sizes,
        reduces=reduces,
        stride=ranks,
        pairs=Pairs(of=of, source=np.concatenate(senders), target=np.concatenate(receivers)),
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
            f"{name} on {ranks:,} ranks holds {messages:,} messages or steps at once",
            where="--ranks",
            allowed=f"{MOST_AT_ONCE:,}",
            do="simulate fewer ranks; a ring on a switch is played round by round and needs little memory",
        )
