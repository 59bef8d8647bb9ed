"""Unrolling: rounds as a graph with one step per rank and playing.

What is said of one playing holds for each, but for the number of its first step and message; and what is said of one
round often holds for the next. So columns are written round by round, and nothing is sorted or searched as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nhalf.simulate.graph import Graph, Pairs
from nhalf.simulate.ragged import grouped, offsets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.simulate.ragged import Indices
    from nhalf.simulate.round import AllPairs, Round


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
