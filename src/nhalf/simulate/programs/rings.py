"""Rings: one rank hands to the next, block by block; and the nested rings of nodes and tori."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nhalf.simulate.programs.shape import Shape, copied, everyone, reduced_at, reduced_everywhere, shifted
from nhalf.simulate.round import Round

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nhalf.simulate.program import Program


def _turn(shape: Shape, first: int, *, reduces: bool) -> Round:
    """Return a whole turn of the ring: in its i-th step rank r passes on block r + first - i."""
    k = shape.ranks
    ranks = everyone(k)
    return Round(
        source=ranks,
        target=shifted(k, 1),
        size_bytes=shape.chunk(k),
        blocks=lambda step: ((ranks + first - step) % k)[:, None],
        reduces=reduces,
        times=k - 1,
        shift=1,
    )


def all_reduce(shape: Shape) -> Program:
    """Return the ring all-reduce: a reduce-scatter turn, then an all-gather turn (Patarasuk and Yuan 2009)."""

    def rounds() -> Iterator[Round]:
        yield _turn(shape, 0, reduces=True)
        yield _turn(shape, 1, reduces=False)

    return shape.program("all-reduce", "ring", rounds, partial(reduced_everywhere, shape.ranks, shape.ranks))


def all_gather(shape: Shape) -> Program:
    """Return the ring all-gather; the size is the total."""

    def rounds() -> Iterator[Round]:
        yield _turn(shape, 0, reduces=False)

    return shape.program("all-gather", "ring", rounds, lambda: copied(shape.ranks, everyone(shape.ranks)))


def reduce_scatter(shape: Shape) -> Program:
    """Return the ring reduce-scatter, after which rank r holds block r."""

    def rounds() -> Iterator[Round]:
        yield _turn(shape, -1, reduces=True)

    return shape.program("reduce-scatter", "ring", rounds, lambda: reduced_at(shape.ranks, everyone(shape.ranks)))


def bidirectional_all_reduce(shape: Shape) -> Program:
    """Return two rings, one each way, each with half of the vector.

    Where a rank has one port for both ways (a switch) it takes as long as one ring; on links of their own, half.
    """
    k = shape.ranks
    ranks = everyone(k)
    source, target = np.concatenate([ranks, ranks]), np.concatenate([shifted(k, 1), shifted(k, -1)])

    def rounds() -> Iterator[Round]:
        for first, reduces in ((0, True), (1, False)):

            def blocks(step: int, first: int = first) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
                forward, backward = (ranks + first - step) % k, k + (ranks - first + step) % k
                return np.concatenate([forward, backward])[:, None]

            yield Round(
                source=source,
                target=target,
                size_bytes=shape.chunk(2 * k),
                blocks=blocks,
                reduces=reduces,
                times=k - 1,
                shift=1,
                both_ways=True,
            )

    return shape.program("all-reduce", "bidirectional-ring", rounds, partial(reduced_everywhere, k, 2 * k))


def nested_all_reduce(shape: Shape, algorithm: str) -> Program:
    """Return the all-reduce of two levels: reduce-scatter in each group, all-reduce across groups, all-gather.

    As `hierarchical` the groups are nodes and rank j of each node forms a rail (Cho et al. 2019); as `torus-2d` they
    are the rows of a torus, one dimension after the other (bucket algorithm, Jain and Sabharwal 2010).
    """
    k, width = shape.ranks, shape.group
    height = k // width
    row, column = everyone(k) // width, everyone(k) % width
    inner = row * width + (column + 1) % width
    outer = ((row + 1) % height) * width + column
    inner_size = shape.chunk(width)
    outer_size = float(-(-inner_size // height))

    def inside(first: int, step: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return ((column + first - step) % width)[:, None] * height + np.arange(height)[None, :]

    def across(first: int, step: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return (((column + 1) % width) * height + (row + first - step) % height)[:, None]

    def rounds() -> Iterator[Round]:
        ranks = everyone(k)
        phases = (
            (inner, inner_size, partial(inside, 0), True, width),
            (outer, outer_size, partial(across, 0), True, height),
            (outer, outer_size, partial(across, 1), False, height),
            (inner, inner_size, partial(inside, 1), False, width),
        )
        for target, size, blocks, reduces, length in phases:
            if length > 1:
                yield Round(
                    source=ranks, target=target, size_bytes=size, blocks=blocks, reduces=reduces, times=length - 1
                )

    return shape.program("all-reduce", algorithm, rounds, partial(reduced_everywhere, k, k))
