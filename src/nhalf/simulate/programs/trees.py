"""Trees: binomial ones round by round, and binary trees and chains through which segments are pipelined."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nhalf.simulate.building import Builder
from nhalf.simulate.program import Program
from nhalf.simulate.programs.shape import Shape, copied, reduced_at, reduced_everywhere
from nhalf.simulate.round import Ints, Round

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def _binomial(shape: Shape, *, up: bool) -> Iterator[Round]:
    """Yield the rounds of a binomial tree: sums up to rank 0, or copies down from it."""
    distances = [1 << bit for bit in range((shape.ranks - 1).bit_length())]
    for distance in distances if up else distances[::-1]:
        low = np.arange(0, shape.ranks - distance, 2 * distance)
        high = low + distance
        source, target = (high, low) if up else (low, high)
        nothing = np.zeros((len(low), 1), dtype=np.int64)
        yield Round(
            source=source,
            target=target,
            size_bytes=shape.size_bytes,
            reduces=up,
            blocks=partial(lambda carried, _: carried, nothing),
        )


def binomial_all_reduce(shape: Shape) -> Program:
    """Return a binomial reduce to rank 0, then a binomial broadcast."""

    def rounds() -> Iterator[Round]:
        yield from _binomial(shape, up=True)
        yield from _binomial(shape, up=False)

    return Program(
        op="all-reduce",
        algorithm="binomial",
        ranks=shape.ranks,
        size_bytes=shape.size_bytes,
        rounds=rounds,
        goal=partial(reduced_everywhere, shape.ranks, 1),
    )


def binomial_broadcast(shape: Shape) -> Program:
    """Return the binomial broadcast from rank 0."""
    root = np.zeros(1, dtype=np.int64)
    return Program(
        op="broadcast",
        algorithm="binomial",
        ranks=shape.ranks,
        size_bytes=shape.size_bytes,
        rounds=lambda: _binomial(shape, up=False),
        goal=lambda: copied(shape.ranks, root),
    )


def binomial_reduce(shape: Shape) -> Program:
    """Return the binomial reduce to rank 0."""
    root = np.zeros(1, dtype=np.int64)
    return Program(
        op="reduce",
        algorithm="binomial",
        ranks=shape.ranks,
        size_bytes=shape.size_bytes,
        rounds=lambda: _binomial(shape, up=True),
        goal=lambda: reduced_at(shape.ranks, root),
    )


def binary_parents(ranks: int) -> Ints:
    """Return each rank's parent in a binary tree in which rank 0 is the root (-1) and half of the ranks are leaves.

    A rank hangs on the one that differs from it in its lowest set bit and the next: the tree in which ranks lie in
    order, so that its mirror image swaps leaves and inner ranks (Sanders, Speck and Traeff 2009).
    """
    parents = np.full(ranks, -1)
    for rank in range(1, ranks):
        bit = rank & -rank
        parent = (rank ^ bit) | (bit << 1)
        parents[rank] = parent if parent < ranks else rank ^ bit
    return parents


def double_parents(ranks: int) -> list[Ints]:
    """Return two trees in which no rank is an inner one twice: the second is mirrored, or turned by one for odd K."""
    first = binary_parents(ranks)
    names = np.arange(ranks)[::-1] if ranks % 2 == 0 else (np.arange(ranks) + 1) % ranks
    second = np.full(ranks, -1)
    inner = first >= 0
    second[names[inner]] = names[first[inner]]
    return [first, second]


def chain_parents(ranks: int) -> Ints:
    """Return the parents of a chain that ends at rank 0."""
    return np.arange(ranks) - 1


def segments_for(size_bytes: float, half_size_bytes: float, depth: int) -> int:
    """Return into how many segments to cut a tree's bytes: near the optimum sqrt(depth x n / n_1/2), at most 64.

    References
    ----------
    P. Sanders, J. Speck and J. L. Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
    Parallel Computing 35 (2009): the best number of blocks grows with the root of n log p / (alpha beta).
    """
    best = math.sqrt(max(depth, 1) * size_bytes / max(half_size_bytes, 1.0))
    return max(1, min(64, round(best), int(size_bytes)))


def _parents(ranks: int, algorithm: str) -> list[Ints]:
    """Return the trees of a pipelined algorithm, each as the parents of its ranks."""
    if algorithm == "double-tree":
        return double_parents(ranks)
    return [chain_parents(ranks) if algorithm == "chain-tree" else binary_parents(ranks)]


def pipelined_all_reduce(shape: Shape, algorithm: str) -> Program:
    """Return segments that go up trees to their roots as sums, and down again as results, all at once."""
    k = shape.ranks
    trees = _parents(k, algorithm)
    piece = float(math.ceil(shape.size_bytes / (len(trees) * shape.segments)))
    builder = Builder(k)
    for number, parents in enumerate(trees):
        _climb(builder, parents, shape.segments, piece, first_block=number * shape.segments)
    return Program(
        op="all-reduce",
        algorithm=algorithm,
        ranks=k,
        size_bytes=shape.size_bytes,
        steps=builder.graph(),
        goal=partial(reduced_everywhere, k, len(trees) * shape.segments),
        notes=(f"cut into {shape.segments} segments per tree",),
    )


def _climb(builder: Builder, parents: Ints, segments: int, piece: float, *, first_block: int) -> None:
    """Add one tree: for each edge a stream of sends and receives up, one down, and what each waits for."""
    k = len(parents)
    children: list[list[int]] = [[] for _ in range(k)]
    for rank, parent in enumerate(parents.tolist()):
        if parent >= 0:
            children[parent].append(rank)
    edges = [(rank, parent) for rank, parent in enumerate(parents.tolist()) if parent >= 0]
    up = {child: _stream(builder, child, parent, segments) for child, parent in edges}
    down = {child: _stream(builder, parent, child, segments) for child, parent in edges}
    for segment in range(segments):
        block = first_block + segment
        for child, parent in edges:
            builder.message(up[child][0][segment], up[child][1][segment], piece, block=block, reduces=True)
            builder.message(down[child][0][segment], down[child][1][segment], piece, block=block)
            for below in children[child]:
                builder.wait(up[child][0][segment], up[below][1][segment])
            # What a rank hands down it has from above; the root has it once all its children have reported.
            sources = (
                [down[parent][1][segment]]
                if parents[parent] >= 0
                else [up[sibling][1][segment] for sibling in children[parent]]
            )
            for received in sources:
                builder.wait(down[child][0][segment], received)


def _stream(builder: Builder, source: int, target: int, segments: int) -> tuple[Sequence[int], Sequence[int]]:
    """Add the steps of a stream of segments, sends and receives each in order."""
    sends: list[int] = []
    receives: list[int] = []
    for segment in range(segments):
        sends.append(builder.step(source, sends[-1:] if segment else ()))
        receives.append(builder.step(target, receives[-1:] if segment else ()))
    return sends, receives
