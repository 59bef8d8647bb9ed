"""Rounds: messages that ranks post together, as a list or, where every rank sends to every other, without one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from nhalf.breakdown import Array

Ints: TypeAlias = NDArray[np.int64]
Blocks: TypeAlias = Callable[[int], Ints]
"""Which blocks each message of a round carries at its i-th repetition, shape (messages, blocks); -1 fills up."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Round:
    """Messages that ranks post together: a rank posts all it sends and receives, waits for all, and goes on.

    Message i moves `size_bytes` [bytes] (one number, or one per message) from `source[i]` to `target[i]`; the round is
    played `times` times. The receiver of a round that `reduces` adds what it gets to what it has. `shift` is set when
    every rank sends one message to the rank `shift` places on, in rank order; where the round goes `both_ways`, each
    also sends one to the rank so many places back, all of those after the others.
    """

    source: Ints
    target: Ints
    size_bytes: float | Array
    blocks: Blocks
    reduces: bool = False
    times: int = 1
    shift: int = 0
    both_ways: bool = False

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
        if self.both_ways:
            return False
        return bool(self.shift) or all(len(side) == 0 or np.bincount(side).max() <= 1 for side in self._sides())

    def _sides(self) -> tuple[Ints, Ints]:
        return self.source, self.target


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AllPairs:
    """The round in which each of `ranks` ranks sends to every other: all of it, without a list of its messages.

    Message s x (K - 1) + i goes from rank s to rank s + 1 + i mod K: each sends to the next rank first, so that no
    receiver is met by all. `size_bytes` [bytes] is one number, or a column of one per source, or a row of one per
    target, shapes (K, 1) and (1, K). `blocks_of` gives the block that goes from sources to targets.
    """

    ranks: int
    size_bytes: float | Array
    blocks_of: Callable[[Ints, Ints], Ints]
    reduces: bool = False
    times: int = 1
    shift: int = 0
    both_ways: bool = False

    @property
    def messages(self) -> int:
        """Return how many messages the round has."""
        return self.ranks * (self.ranks - 1)

    @property
    def source(self) -> Ints:
        """Return the rank that sends each message."""
        return np.repeat(np.arange(self.ranks), self.ranks - 1)

    @property
    def target(self) -> Ints:
        """Return the rank that receives each message."""
        found = np.arange(self.ranks)[:, None] + np.arange(1, self.ranks)
        found %= self.ranks
        return found.ravel()

    @property
    def sizes(self) -> Array:
        """Return the size of each message [bytes]."""
        if np.ndim(self.size_bytes) == 0:
            return np.broadcast_to(np.float64(self.size_bytes), self.messages)
        return np.asarray(np.broadcast_to(self.size_bytes, (self.ranks, self.ranks))[self.source, self.target])

    def sizes_of(self, sources: slice, targets: slice) -> Array:
        """Return the sizes from some ranks to some [bytes], in a shape that fits (sources, targets)."""
        size = np.asarray(self.size_bytes, dtype=np.float64)
        if size.ndim == 0:
            return size.reshape(1, 1)
        return size[sources] if size.shape[1] == 1 else size[:, targets]

    def received_bytes(self) -> Array:
        """Return what each rank gets from all others [bytes]."""
        size = np.broadcast_to(self.sizes_of(slice(None), slice(None)), (self.ranks, self.ranks))
        return np.asarray(size.sum(axis=0) - size.diagonal(), dtype=np.float64)

    def blocks(self, step: int) -> Ints:
        """Return the block of each message, shape (messages, 1)."""
        del step  # it is played once
        return self.blocks_of(self.source, self.target)[:, None]

    def is_paired(self) -> bool:
        """Tell whether no rank sends more than one message."""
        return self.ranks == 2  # noqa: PLR2004  a pair
