"""A graph: steps of ranks, what waits for what, and the messages between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.simulate.round import Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """Ranks that send to each other: message m goes from rank `source[of[m]]` to rank `target[of[m]]`."""

    of: Indices
    source: Indices
    target: Indices


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graph:
    """Steps of ranks and the messages between them.

    A step opens when every step before it has closed, posts its messages (their `source_step` sends them, their
    `target_step` receives them), and closes when they are done and what it reduces has been added up. Messages are
    sorted by their source step. `edges` says which step follows which, one (earlier, later) pair a row; where they are
    left out, step i is followed by step i + `stride`. Where `rank` is left out, step i is one of rank i mod `ranks`.
    `earliest_s` [s] keeps a step from opening sooner; `blocks` is what each message carries. The rest is what a graph
    of rounds knows without a search (see `sends` and `receives`).
    """

    ranks: int
    source_step: Indices
    target_step: Indices
    size_bytes: Array
    reduces: NDArray[np.bool_]
    rank: Indices | None = None
    edges: NDArray[np.int32] | None = None
    stride: int = 0
    blocks: Ints | None = None
    earliest_s: Array | None = None
    pairs: Pairs | None = None
    send_start: Indices | None = None
    receive_start: Indices | None = None
    receive: Indices | None = None

    @property
    def messages(self) -> int:
        """Return how many messages there are."""
        return len(self.source_step)

    @property
    def steps(self) -> int:
        """Return how many steps there are."""
        return len(self.sends()) - 1 if self.rank is None else len(self.rank)

    def rank_of(self, steps: Indices) -> Indices:
        """Return the rank of each of some steps."""
        return steps % np.int32(self.ranks) if self.rank is None else self.rank[steps]

    def step_ranks(self) -> Indices:
        """Return the rank of every step."""
        return self.rank_of(np.arange(self.steps, dtype=np.int32))

    @property
    def source(self) -> Indices:
        """Return the rank that sends each message."""
        return self.rank_of(self.source_step)

    @property
    def target(self) -> Indices:
        """Return the rank that receives each message."""
        return self.rank_of(self.target_step)

    @property
    def before(self) -> NDArray[np.int32]:
        """Return the edges, shape (edges, 2), also where the graph stores only a stride."""
        if self.edges is not None:
            return self.edges
        later = np.arange(self.stride, self.steps, dtype=np.int32)
        return np.stack([later - np.int32(self.stride), later], axis=1)

    def followers(self) -> tuple[Indices, Indices]:
        """Return the steps that follow each step, as a ragged list: offsets and steps; empty where a stride says it."""
        if self.edges is None:
            return np.zeros(1, dtype=np.int32), np.zeros(0, dtype=np.int32)
        earlier, later = self.edges[:, 0], self.edges[:, 1]
        return offsets(earlier, self.steps), np.ascontiguousarray(later[grouped(earlier)])

    def sends(self) -> Indices:
        """Return where the messages that each step sends begin, and where the last ones end."""
        if self.send_start is not None:
            return self.send_start
        return offsets(self.source_step, 0 if self.rank is None else len(self.rank))

    def receives(self) -> tuple[Indices, Indices]:
        """Return the messages that each step receives, as a ragged list: offsets and messages."""
        if self.receive_start is not None and self.receive is not None:
            return self.receive_start, self.receive
        return offsets(self.target_step, self.steps), grouped(self.target_step)

    def awaits(self) -> Indices:
        """Return how many steps come before each step."""
        if self.edges is not None:
            return np.bincount(self.edges[:, 1], minlength=self.steps).astype(np.int32)
        found = np.ones(self.steps, dtype=np.int32)
        found[: self.stride] = 0
        return found

    def reduced_bytes(self) -> Array:
        """Return what each step adds up [bytes]."""
        weights = np.where(self.reduces, self.size_bytes, 0.0)
        return np.bincount(self.target_step, weights=weights, minlength=self.steps).astype(np.float64)


Indices: TypeAlias = NDArray[np.int32]


def offsets(values: Ints | Indices, length: int) -> Indices:
    """Return where the entries of each of `length` values start in a sorted list of them, and where the last end."""
    found = np.zeros(length + 1, dtype=np.int32)
    np.cumsum(np.bincount(values, minlength=length), out=found[1:])
    return found


def grouped(values: Ints | Indices) -> Indices:
    """Return the places of the entries of an array, those of the lowest value first, each value's in order."""
    if not len(values):
        return np.zeros(0, dtype=np.int32)
    place = np.full(int(values.max()) + 1, -1, dtype=np.int32)
    count = np.arange(len(values), dtype=np.int32)
    place[values] = count
    if np.array_equal(place[values], count):
        return place[place >= 0]  # all are different: no need to sort
    return np.argsort(values, kind="stable").astype(np.int32)
