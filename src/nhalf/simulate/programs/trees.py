"""Trees: binomial ones round by round, and binary trees and chains through which segments are pipelined."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nhalf.simulate.graph import Graph, Pairs
from nhalf.simulate.program import Program, check_messages
from nhalf.simulate.programs.shape import Shape, copied, reduced_at, reduced_everywhere
from nhalf.simulate.round import Ints, Round

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


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

    return shape.program("all-reduce", "binomial", rounds, partial(reduced_everywhere, shape.ranks, 1))


def binomial_broadcast(shape: Shape) -> Program:
    """Return the binomial broadcast from rank 0."""
    root = np.zeros(1, dtype=np.int64)
    return shape.program("broadcast", "binomial", lambda: _binomial(shape, up=False), lambda: copied(shape.ranks, root))


def binomial_reduce(shape: Shape) -> Program:
    """Return the binomial reduce to rank 0."""
    root = np.zeros(1, dtype=np.int64)
    return shape.program("reduce", "binomial", lambda: _binomial(shape, up=True), lambda: reduced_at(shape.ranks, root))


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
    steps = 4 * (k - 1) * shape.segments
    check_messages(algorithm, k, len(trees) * steps // 2)
    parts = [_climb(parents, shape.segments, number * steps) for number, parents in enumerate(trees)]
    streams = np.concatenate([ends for ends, _ in parts])
    of = np.repeat(np.arange(len(streams), dtype=np.int32), shape.segments)
    send = np.arange(0, len(trees) * steps, 2, dtype=np.int32)
    starts = np.arange(len(trees) * steps + 2, dtype=np.int32) >> np.int32(1)
    ways = np.arange(len(streams)).reshape(len(trees), -1) % (2 * (k - 1))
    number = np.arange(shape.segments) + np.arange(len(trees))[:, None] * shape.segments
    graph = Graph(
        ranks=k,
        rank=np.repeat(streams[:, None], shape.segments, axis=1).ravel(),
        edges=np.concatenate([edges for _, edges in parts]),
        source_step=send,
        target_step=send + np.int32(1),
        size_bytes=np.broadcast_to(np.float64(piece), len(send)),
        reduces=np.repeat(ways.ravel() < k - 1, shape.segments),
        blocks=np.repeat(number[:, None], 2 * (k - 1), axis=1).reshape(-1, 1),
        pairs=Pairs(of=of, source=streams[:, 0], target=streams[:, 1]),
        send_start=starts[1:],
        receive_start=starts[:-1],
        receive=np.arange(len(send), dtype=np.int32),
    )
    return Program(
        op="all-reduce",
        algorithm=algorithm,
        ranks=k,
        size_bytes=shape.size_bytes,
        steps=graph,
        goal=partial(reduced_everywhere, k, len(trees) * shape.segments),
        notes=(f"cut into {shape.segments} segment{'s' if shape.segments > 1 else ''} per tree",),
    )


def _climb(parents: Ints, segments: int, first: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the two ranks of each stream of one tree, and which step follows which, one pair a row each.

    Each edge of the tree has a stream of segments up, and one down. A segment of a stream is a step that sends it, and
    the next one, which receives it; steps are numbered from `first` on, all streams up before those down.
    """
    child = np.flatnonzero(parents >= 0)
    parent = parents[child]
    ends = np.stack([np.append(child, parent), np.append(parent, child)], axis=1).astype(np.int32)
    step = np.arange(first, first + ends.size * segments, dtype=np.int32).reshape(2, len(child), segments, 2)
    (send_up, receive_up), (send_down, receive_down) = ((way[..., 0], way[..., 1]) for way in step)
    stream = np.full(len(parents), -1)
    stream[child] = np.arange(len(child))
    inner = np.flatnonzero(stream[parent] >= 0)
    above = stream[parent[inner]]
    at_root = np.flatnonzero(stream[parent] < 0)
    earlier = [
        step[:, :, :-1],  # a stream is in order
        receive_up[inner],  # what a rank hands up it has from all below
        receive_down[above],  # what it hands down it has from above
        np.repeat(receive_up[at_root], len(at_root), axis=0),  # which the root has once all have reported
    ]
    later = [step[:, :, 1:], send_up[above], send_down[inner], np.tile(send_down[at_root], (len(at_root), 1))]
    pairs = np.stack([np.concatenate([part.ravel() for part in side]) for side in (earlier, later)], axis=1)
    return ends, pairs
