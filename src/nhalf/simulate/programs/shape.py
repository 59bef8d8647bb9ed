"""What a program is made for, and the goals that several families share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nhalf.simulate.program import ALL, ANY, NONE, Goal, Program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nhalf.simulate.round import AllPairs, Ints, Round


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The size, ranks and grouping that a program is made for.

    `group` is how many ranks share a node, or a row of the torus (0: it has no such structure); `segments` is into how
    many pieces a pipelined tree cuts each tree's share; `skew` is the exponent by which an all-to-all's destinations
    differ (0: none), the d-th rank drawing (d + 1)^-skew.
    """

    ranks: int
    size_bytes: float
    group: int = 0
    segments: int = 1
    skew: float = 0.0

    def chunk(self, parts: int) -> float:
        """Return one of `parts` equal pieces of the size [bytes], rounded up to whole bytes as libraries send them."""
        return float(math.ceil(self.size_bytes / parts))

    def program(
        self, op: str, algorithm: str, rounds: Callable[[], Iterator[Round | AllPairs]], goal: Callable[[], Goal]
    ) -> Program:
        """Return a program of rounds of this shape."""
        return Program(
            op=op, algorithm=algorithm, ranks=self.ranks, size_bytes=self.size_bytes, rounds=rounds, goal=goal
        )


def everyone(ranks: int) -> Ints:
    """Return the ranks in order."""
    return np.arange(ranks)


def shifted(ranks: int, by: int) -> Ints:
    """Return the rank that is `by` places after each rank."""
    return (np.arange(ranks) + by) % ranks


def own(ranks: int, blocks: int) -> Ints:
    """Return a start in which every rank holds its own part of every block."""
    return np.repeat(np.arange(ranks)[:, None], blocks, axis=1)


def reduced_everywhere(ranks: int, blocks: int) -> Goal:
    """Return the goal of an all-reduce."""
    return Goal(start=own(ranks, blocks), finish=np.full((ranks, blocks), ALL))


def reduced_at(ranks: int, holder: Ints) -> Goal:
    """Return the goal of a reduce-scatter or a reduce: rank `holder[b]` ends with the sum of block b."""
    finish = np.full((ranks, len(holder)), ANY)
    finish[holder, np.arange(len(holder))] = ALL
    return Goal(start=own(ranks, len(holder)), finish=finish)


def copied(ranks: int, holder: Ints) -> Goal:
    """Return the goal of an all-gather or a broadcast: block b starts at rank `holder[b]` and ends everywhere."""
    start = np.full((ranks, len(holder)), NONE)
    start[holder, np.arange(len(holder))] = holder
    return Goal(start=start, finish=np.repeat(holder[None, :], ranks, axis=0))


def exchanged(ranks: int) -> Goal:
    """Return the goal of an all-to-all: block s x K + d starts at rank s and ends at rank d."""
    blocks = np.arange(ranks * ranks)
    source, target = blocks // ranks, blocks % ranks
    start, finish = np.full((ranks, len(blocks)), NONE), np.full((ranks, len(blocks)), ANY)
    start[source, blocks] = source
    finish[target, blocks] = source
    return Goal(start=start, finish=finish)
