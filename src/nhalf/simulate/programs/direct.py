"""Direct: every rank talks to every other itself; and hand-overs from stage to stage."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nhalf.simulate.programs.shape import (
    Shape,
    copied,
    everyone,
    reduced_at,
    reduced_everywhere,
    shifted,
)
from nhalf.simulate.round import AllPairs, Round

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nhalf.simulate.program import Program


def one_shot(shape: Shape) -> Program:
    """Return the all-reduce in which every rank gets the whole vector of each peer."""

    def rounds() -> Iterator[AllPairs]:
        yield AllPairs(
            ranks=shape.ranks,
            size_bytes=float(shape.size_bytes),
            reduces=True,
            blocks_of=lambda source, _: np.zeros_like(source),
        )

    return shape.program("all-reduce", "one-shot", rounds, partial(reduced_everywhere, shape.ranks, 1))


def _scatter(shape: Shape) -> AllPairs:
    """Return the round in which each rank gets its chunk from every other."""
    return AllPairs(
        ranks=shape.ranks, size_bytes=shape.chunk(shape.ranks), reduces=True, blocks_of=lambda _, target: target
    )


def _gather(shape: Shape) -> AllPairs:
    """Return the round in which each rank hands its chunk to every other."""
    return AllPairs(ranks=shape.ranks, size_bytes=shape.chunk(shape.ranks), blocks_of=lambda source, _: source)


def two_shot(shape: Shape) -> Program:
    """Return the all-reduce of a direct reduce-scatter, then a direct all-gather."""

    def rounds() -> Iterator[AllPairs]:
        yield _scatter(shape)
        yield _gather(shape)

    return shape.program("all-reduce", "two-shot", rounds, partial(reduced_everywhere, shape.ranks, shape.ranks))


def reduce_scatter(shape: Shape) -> Program:
    """Return the reduce-scatter in which every rank gets its block from each peer."""
    return shape.program(
        "reduce-scatter",
        "direct",
        lambda: iter([_scatter(shape)]),
        lambda: reduced_at(shape.ranks, everyone(shape.ranks)),
    )


def all_gather(shape: Shape) -> Program:
    """Return the all-gather in which every rank sends its block to each peer."""
    return shape.program(
        "all-gather", "direct", lambda: iter([_gather(shape)]), lambda: copied(shape.ranks, everyone(shape.ranks))
    )


def reduce_scatter_pairwise(shape: Shape) -> Program:
    """Return the reduce-scatter of K - 1 rounds: in the i-th, rank r hands rank r + i its block."""
    k = shape.ranks

    def rounds() -> Iterator[Round]:
        for step in range(1, k):
            target = shifted(k, step)
            yield Round(
                source=everyone(k),
                target=target,
                size_bytes=shape.chunk(k),
                shift=step,
                reduces=True,
                blocks=partial(lambda target, _: target[:, None], target),
            )

    return shape.program("reduce-scatter", "pairwise", rounds, lambda: reduced_at(k, everyone(k)))


def broadcast(shape: Shape) -> Program:
    """Return the broadcast in which rank 0 sends to everyone itself."""
    k = shape.ranks

    def rounds() -> Iterator[Round]:
        yield Round(
            source=np.zeros(k - 1, dtype=np.int64),
            target=np.arange(1, k),
            size_bytes=shape.size_bytes,
            blocks=lambda _: np.zeros((k - 1, 1), dtype=np.int64),
        )

    return shape.program("broadcast", "direct", rounds, lambda: copied(k, np.zeros(1, dtype=np.int64)))


def reduce(shape: Shape) -> Program:
    """Return the reduce in which everyone sends to rank 0 at once: an incast."""
    k = shape.ranks

    def rounds() -> Iterator[Round]:
        yield Round(
            source=np.arange(1, k),
            target=np.zeros(k - 1, dtype=np.int64),
            size_bytes=shape.size_bytes,
            blocks=lambda _: np.zeros((k - 1, 1), dtype=np.int64),
            reduces=True,
        )

    return shape.program("reduce", "direct", rounds, lambda: reduced_at(k, np.zeros(1, dtype=np.int64)))


def hand_over(shape: Shape) -> Program:
    """Return a hand-over through the stages of a pipeline: rank 0 to 1, then 1 to 2, and so on."""
    k = shape.ranks

    def rounds() -> Iterator[Round]:
        for stage in range(k - 1):
            yield Round(
                source=np.array([stage]),
                target=np.array([stage + 1]),
                size_bytes=shape.size_bytes,
                blocks=lambda _: np.zeros((1, 1), dtype=np.int64),
            )

    return shape.program("send-recv", "direct", rounds, lambda: copied(k, np.zeros(1, dtype=np.int64)))
