"""A program: the messages that ranks exchange, what waits for what, and the data each message carries.

A program is a stream of rounds where it can be (a ring on 16,384 ranks is half a thousand million messages, and two
`Round`s), and a graph of steps where it must be (pipelined trees, a user's own schedule).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from nhalf.errors import InputError
from nhalf.simulate.graph import Graph, Indices, Pairs, grouped, offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nhalf.simulate.round import AllPairs, Ints, Round


__all__ = ["ALL", "ANY", "NONE", "Goal", "Graph", "Indices", "Program", "check_messages", "check_ranks"]


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Exchange:
    """Who sends to whom in one playing, messages sorted by sender.

    `messages`, shape (4, messages): the place of each one's pair, its sender, its receiver, and the messages that each
    receiver gets. `starts`, shape (2, ranks): where what each rank sends begins, and where what it receives does.
    `order` sorts a round's messages so; `first` is the place of its first pair among those of all rounds.
    """

    messages: Indices
    starts: Indices
    order: Indices | slice
    first: int


def unrolled(ranks: int, rounds: Sequence[Round | AllPairs]) -> Graph:
    """Return rounds as a graph; the step of rank r in the i-th playing is i x ranks + r."""
    messages = sum(one.messages * one.times for one in rounds)
    steps = ranks * sum(one.times for one in rounds)
    of_messages = np.empty((4, messages), dtype=np.int32)
    starts = np.full((2, steps + 1), messages, dtype=np.int32)
    reduces = np.empty(messages, dtype=np.bool_)
    size = _one_size(rounds)
    sizes = np.empty(messages) if size is None else np.broadcast_to(np.float64(size), messages)
    exchanges: dict[bytes, _Exchange] = {}
    message, step = 0, 0
    for one in rounds:
        exchange = _exchange(ranks, one, exchanges)
        part, count = slice(message, message + one.times * one.messages), one.messages
        of_steps = slice(step, step + one.times * ranks)
        firsts, more = [exchange.first, step, step, message], [0, ranks, ranks, count]
        _write(of_messages[:, part], exchange.messages, one.times, firsts, more)
        _write(starts[:, of_steps], exchange.starts, one.times, [message] * 2, [count] * 2)
        reduces[part] = one.reduces
        if size is None:
            sizes[part].reshape(one.times, count)[:] = one.sizes[exchange.order]
        message, step = part.stop, of_steps.stop
    of, source_step, target_step, receive = of_messages
    pairs = [np.zeros((2, 0), dtype=np.int32), *(each.messages[1:3] for each in exchanges.values())]
    source, target = np.concatenate(pairs, axis=1)
    return Graph(
        ranks=ranks,
        source_step=source_step,
        target_step=target_step,
        size_bytes=sizes,
        reduces=reduces,
        stride=ranks,
        pairs=Pairs(of=of, source=source, target=target),
        send_start=starts[0],
        receive_start=starts[1],
        receive=receive,
    )


def _exchange(ranks: int, one: Round | AllPairs, known: dict[bytes, _Exchange]) -> _Exchange:
    """Return who sends to whom in a round: a known exchange, or a new one, which is then known too."""
    source, target = one.source.astype(np.int32), one.target.astype(np.int32)
    order = grouped(source) if np.any(source[1:] < source[:-1]) else slice(None)
    source, target = source[order], target[order]
    name = source.tobytes() + target.tobytes()
    if name in known:
        return known[name]
    known[name] = _Exchange(
        messages=np.array([np.arange(len(source), dtype=np.int32), source, target, grouped(target)]),
        starts=np.array([offsets(source, ranks)[:-1], offsets(target, ranks)[:-1]]),
        order=order,
        first=sum(len(each.messages[0]) for each in known.values()),
    )
    return known[name]


def _one_size(rounds: Sequence[Round | AllPairs]) -> float | None:
    """Return the size of every message [bytes]; None where they differ."""
    sizes = {one.size_bytes if isinstance(one.size_bytes, float) else None for one in rounds}
    return sizes.pop() if len(sizes) == 1 else None


def _write(columns: Indices, pattern: Indices, times: int, firsts: list[int], more: list[int]) -> None:
    """Fill columns with repeats of a pattern, each repeat raised by a stride over the one before."""
    start = np.arange(times, dtype=np.int32) * np.array(more, dtype=np.int32)[:, None]
    start += np.array(firsts, dtype=np.int32)[:, None]
    np.add(start[:, :, None], pattern[:, None], out=columns.reshape(len(columns), times, pattern.shape[1]))
