"""Building: graphs of steps and messages, put together one by one or from other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nhalf.simulate.graph import Graph
from nhalf.simulate.program import Program

if TYPE_CHECKING:
    from collections.abc import Sequence


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
            edges=np.array(self._before, dtype=np.int32).reshape(-1, 2),
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
    shifts = np.cumsum([0, *(graph.steps for graph in graphs)]).astype(np.int32)
    mapped = [
        np.asarray(place, dtype=np.int32)[graph.step_ranks()] for graph, place in zip(graphs, places, strict=True)
    ]
    pairs = list(zip(graphs, shifts[:-1], strict=True))
    joined = Graph(
        ranks=ranks,
        rank=np.concatenate(mapped),
        edges=np.concatenate([graph.before + shift for graph, shift in pairs]),
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


MOST_ORDERED = 20_000
"""Messages up to which races are looked for: what each one waits for is one bit for each other, 50 MB in all."""


def in_order(after: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Return the messages, each behind all that it waits for, and a circle of them, which is empty where there is none.

    A circle begins and ends with the same message, and each of it waits for the next.
    """
    done: list[int] = []
    place: dict[int, int] = {}
    """Where a message is on the trail, -1 once it is done."""
    for start in range(len(after)):
        if start in place:
            continue
        place[start], trail = 0, [start]
        rest = [iter(after[start])]
        while trail:
            earlier = next(rest[-1], -1)
            if earlier < 0:
                rest.pop()
                done.append(trail.pop())
                place[done[-1]] = -1
            elif earlier not in place:
                place[earlier] = len(trail)
                trail.append(earlier)
                rest.append(iter(after[earlier]))
            elif place[earlier] >= 0:
                return done, [*trail[place[earlier] :], earlier]
    return done, []


def race(
    ends: Sequence[tuple[int, int]], blocks: Sequence[int], after: Sequence[Sequence[int]]
) -> tuple[int, int] | None:
    """Return a message, and one that brings a part of what it carries and that it does not wait for.

    Message m goes from rank `ends[m][0]` to rank `ends[m][1]` with what its sender holds of block `blocks[m]`. What
    arrives there by a shorter chain of messages counts as held, and is there in time only if it is waited for.
    """
    order, _ = in_order(after)
    level, past = [0] * len(ends), [0] * len(ends)
    for message in order:
        for earlier in after[message]:
            received = ends[earlier][1] == ends[message][0]
            level[message] = max(level[message], level[earlier] + received)
            past[message] |= past[earlier] | received << earlier
    order.sort(key=level.__getitem__)
    held: dict[tuple[int, int], int] = {}
    at = 0
    for message in order:
        while level[order[at]] < level[message]:
            place = (ends[order[at]][1], blocks[order[at]])
            held[place] = held.get(place, 0) | 1 << order[at]
            at += 1
        missed = held.get((ends[message][0], blocks[message]), 0) & ~past[message]
        if missed:
            return message, missed.bit_length() - 1
    return None
