"""Exchanges: what each rank has for each other, as all-to-all and as dispatch and combine of a mixture of experts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nhalf.simulate.programs.shape import Shape, everyone, exchanged, shifted
from nhalf.simulate.round import AllPairs, Round

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nhalf.breakdown import Array
    from nhalf.simulate.program import Program
    from nhalf.simulate.round import Ints


def _shares(shape: Shape) -> Array:
    """Return the share of a rank's bytes that goes to each rank."""
    weights = np.power(np.arange(1.0, shape.ranks + 1), -shape.skew)
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def all_to_all(shape: Shape) -> Program:
    """Return the direct all-to-all: each rank sends its blocks to all peers at once, in whole bytes."""
    return _exchange(shape, "all-to-all", (1, shape.ranks))


def dispatch(shape: Shape) -> Program:
    """Return the dispatch of a mixture of experts: the share that rank d draws is (d + 1)^-skew."""
    return _exchange(shape, "moe-dispatch", (1, shape.ranks))


def combine(shape: Shape) -> Program:
    """Return the combine of a mixture of experts: what came by the dispatch goes back."""
    return _exchange(shape, "moe-combine", (shape.ranks, 1))


def _exchange(shape: Shape, op: str, form: tuple[int, int]) -> Program:
    """Return one round in which a rank sends every other its share: a row by target, or a column by source."""
    k = shape.ranks
    sizes = np.floor(shape.size_bytes * _shares(shape) * (1 + 1e-15)).reshape(form)

    def rounds() -> Iterator[AllPairs]:
        yield AllPairs(
            ranks=k,
            size_bytes=sizes if shape.skew else float(sizes.flat[0]),
            blocks_of=lambda source, target: source * k + target,
        )

    return shape.program(op, "direct", rounds, partial(exchanged, k))


def pairwise(shape: Shape) -> Program:
    """Return the all-to-all of K - 1 rounds: in the i-th, rank r sends to rank r + i."""
    k = shape.ranks
    size = float(shape.size_bytes // k)

    def rounds() -> Iterator[Round]:
        for step in range(1, k):
            target = shifted(k, step)
            yield Round(
                source=everyone(k),
                target=target,
                size_bytes=size,
                shift=step,
                blocks=partial(lambda target, _: (everyone(k) * k + target)[:, None], target),
            )

    return shape.program("all-to-all", "pairwise", rounds, partial(exchanged, k))


def bruck(shape: Shape) -> Program:
    """Return the all-to-all of Bruck et al. (1997): in round i a block moves 2^i places if its distance has bit i."""
    k = shape.ranks

    def carried(distance: int, offsets: Ints, _: int) -> Ints:
        origin = (everyone(k)[:, None] - (offsets & (distance - 1))[None, :]) % k
        return origin * k + (origin + offsets[None, :]) % k

    def rounds() -> Iterator[Round]:
        distance = 1
        while distance < k:
            offsets = np.arange(k)
            offsets = offsets[(offsets & distance) > 0]
            yield Round(
                source=everyone(k),
                target=shifted(k, distance),
                shift=distance % k,
                size_bytes=float(len(offsets) * shape.size_bytes // k),
                blocks=partial(carried, distance, offsets),
            )
            distance *= 2

    return shape.program("all-to-all", "bruck", rounds, partial(exchanged, k))
