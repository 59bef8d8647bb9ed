"""Levels: how many messages must come before each message of a graph, and the messages of each level together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nhalf.simulate.graph import Graph
    from nhalf.simulate.ragged import Indices
    from nhalf.simulate.round import Ints


def message_levels(graph: Graph) -> Ints:
    """Return how many messages must come before each message, counted along the longest chain.

    A message waits for what its sender's step waits for, and is waited for by what follows the receiver's step. Steps
    are taken in waves: those that wait for no other, then those that wait for these alone, and so on. The graph has no
    circle.
    """
    depth = np.zeros(graph.steps, dtype=np.int64)
    closed = np.zeros(graph.steps, dtype=np.int64)
    awaits, (starts, next_steps) = graph.awaits(), _followers(graph)
    sends, target = graph.sends(), graph.target_step
    open_sides = 1 + np.bincount(target, minlength=graph.steps)
    wave = np.flatnonzero(awaits == 0)
    while len(wave):
        sent, sender = _entries(sends, wave)
        to = target[sent]
        np.maximum.at(closed, to, depth[wave[sender]] + 1)
        closed[wave] = np.maximum(closed[wave], depth[wave])
        np.subtract.at(open_sides, to, 1)
        open_sides[wave] -= 1
        touched = np.unique(np.concatenate([wave, to]))
        done = touched[open_sides[touched] == 0]
        after, before = _entries(starts, done)
        later = next_steps[after]
        np.maximum.at(depth, later, closed[done[before]])
        np.subtract.at(awaits, later, 1)
        wave = np.unique(later[awaits[later] == 0])
    return depth[graph.source_step]


def _followers(graph: Graph) -> tuple[Ints | Indices, Ints | Indices]:
    """Return the steps that follow each step as a ragged list, also where a stride says it."""
    if graph.edges is not None:
        return graph.followers()
    later = np.arange(graph.stride, graph.steps)
    return np.minimum(np.arange(graph.steps + 1), len(later)), later


def _entries(starts: Ints | Indices, values: Ints) -> tuple[Ints, Ints]:
    """Return the places of the entries of some values in a ragged list, and which of the values each belongs to."""
    lengths = starts[values + 1] - starts[values]
    of = np.repeat(np.arange(len(values)), lengths)
    first = np.cumsum(lengths) - lengths
    return starts[values][of] + np.arange(len(of)) - first[of], of


def by_level(graph: Graph) -> Iterator[tuple[Ints, bool]]:
    """Yield the messages of each level, those that reduce before those that do not, and whether they do."""
    level, copies = message_levels(graph), ~graph.reduces
    order = np.lexsort((copies, level))
    changes = (np.diff(level[order]) != 0) | (np.diff(copies[order]) != 0)
    for messages in np.split(order, np.flatnonzero(changes) + 1) if len(order) else ():
        yield messages, bool(graph.reduces[messages[0]])
