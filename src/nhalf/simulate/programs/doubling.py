"""Doubling: partners at distances 1, 2, 4, ...; and the fold that makes other rank counts fit."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nhalf.errors import InputError
from nhalf.simulate.program import Goal, Program
from nhalf.simulate.programs.shape import Shape, copied, everyone, own, reduced_everywhere, shifted
from nhalf.simulate.round import Ints, Round

if TYPE_CHECKING:
    from collections.abc import Iterator


def power_below(ranks: int) -> int:
    """Return the largest power of two that is not above a number of ranks."""
    return 1 << (ranks.bit_length() - 1)


def _distances(power: int) -> list[int]:
    """Return 1, 2, 4, ... below a power of two."""
    return [1 << bit for bit in range(power.bit_length() - 1)]


def _reversed_bits(power: int) -> Ints:
    """Return each number below a power of two with its bits in the opposite order."""
    found = np.zeros(1, dtype=np.int64)
    while len(found) < power:
        found = np.concatenate([2 * found, 2 * found + 1])
    return found


def _core(ranks: int) -> Ints:
    """Return the ranks that take part after the fold: odd ones of the first pairs, and all the rest."""
    power = power_below(ranks)
    extra = ranks - power
    return np.concatenate([np.arange(extra) * 2 + 1, np.arange(2 * extra, ranks)])


def _fold(shape: Shape, blocks: int, *, back: bool) -> Iterator[Round]:
    """Yield the round in which the ranks beyond a power of two hand in their vector, or get the result back."""
    extra = shape.ranks - power_below(shape.ranks)
    if not extra:
        return
    outside, inside = np.arange(extra) * 2, np.arange(extra) * 2 + 1
    carried = np.tile(np.arange(blocks), (extra, 1))
    source, target = (inside, outside) if back else (outside, inside)
    yield Round(source=source, target=target, size_bytes=shape.size_bytes, blocks=lambda _: carried, reduces=not back)


def recursive_doubling(shape: Shape) -> Program:
    """Return the all-reduce in which partners swap whole vectors at doubling distances (Thakur et al. 2005)."""
    core = _core(shape.ranks)
    index = np.arange(len(core))

    def rounds() -> Iterator[Round]:
        yield from _fold(shape, 1, back=False)
        for distance in _distances(len(core)):
            yield Round(
                source=core,
                target=core[index ^ distance],
                size_bytes=shape.size_bytes,
                blocks=lambda _: np.zeros((len(core), 1), dtype=np.int64),
                reduces=True,
            )
        yield from _fold(shape, 1, back=True)

    return shape.program("all-reduce", "recursive-doubling", rounds, partial(reduced_everywhere, shape.ranks, 1))


def rabenseifner(shape: Shape) -> Program:
    """Return the all-reduce by recursive halving, then recursive doubling (Rabenseifner 2004).

    The vector halves while the distance doubles, so that near partners swap the large pieces: so do MPICH
    (allreduce_intra_reduce_scatter_allgather.c) and Open MPI (coll_base_allreduce.c, redscat_allgather), both from
    `mask = 1` on.
    """
    core = _core(shape.ranks)
    power = len(core)
    index = np.arange(power)
    chunk = shape.chunk(power)
    # The block that a rank ends with: its lowest bit, swapped first, decides over the largest piece.
    block = _reversed_bits(power)

    def halving(width: int, _: int) -> Ints:
        # A rank has narrowed down to the aligned range of 2 x width blocks around its own, and sends the other half.
        other = (block & ~(2 * width - 1)) + ((block & width) ^ width)
        return other[:, None] + np.arange(width)

    def doubling(width: int, _: int) -> Ints:
        return (block & ~(width - 1))[:, None] + np.arange(width)

    def rounds() -> Iterator[Round]:
        yield from _fold(shape, power, back=False)
        for reduces, carried, distances in (
            (True, halving, _distances(power)),
            (False, doubling, _distances(power)[::-1]),
        ):
            for distance in distances:
                width = power // (2 * distance)
                yield Round(
                    source=core,
                    target=core[index ^ distance],
                    size_bytes=chunk * width,
                    blocks=partial(carried, width),
                    reduces=reduces,
                )
        yield from _fold(shape, power, back=True)

    return shape.program("all-reduce", "rabenseifner", rounds, partial(reduced_everywhere, shape.ranks, power))


def all_gather(shape: Shape) -> Program:
    """Return the all-gather by recursive doubling.

    Raises
    ------
    InputError
        The number of ranks is no power of two.
    """
    k = shape.ranks
    if k & (k - 1):
        raise InputError(
            f"recursive-doubling gathers over a power of two of ranks only, not {k}",
            where="--algorithm",
            do="use bruck, which takes any number of ranks",
        )
    index = everyone(k)

    def carried(distance: int, _: int) -> Ints:
        return (index & ~(distance - 1))[:, None] + np.arange(distance)

    def rounds() -> Iterator[Round]:
        for distance in _distances(k):
            yield Round(
                source=index,
                target=index ^ distance,
                size_bytes=shape.chunk(k) * distance,
                blocks=partial(carried, distance),
            )

    return shape.program("all-gather", "recursive-doubling", rounds, lambda: copied(k, everyone(k)))


def bruck_all_gather(shape: Shape) -> Program:
    """Return the all-gather of Bruck et al. (1997): every number of ranks in ceil(log2 K) rounds."""
    k = shape.ranks
    ranks = everyone(k)

    def carried(count: int, _: int) -> Ints:
        return (ranks[:, None] + np.arange(count)) % k

    def rounds() -> Iterator[Round]:
        distance = 1
        while distance < k:
            count = min(distance, k - distance)
            yield Round(
                source=ranks,
                target=shifted(k, -distance),
                size_bytes=shape.chunk(k) * count,
                blocks=partial(carried, count),
            )
            distance *= 2

    return shape.program("all-gather", "bruck", rounds, lambda: copied(k, ranks))


def barrier(shape: Shape) -> Program:
    """Return the dissemination barrier (Hensgen, Finkel and Manber 1988); its messages carry one byte."""
    k = shape.ranks

    def rounds() -> Iterator[Round]:
        distance = 1
        while distance < k:
            yield Round(
                source=everyone(k),
                target=shifted(k, distance),
                size_bytes=1.0,
                blocks=lambda _: np.zeros((k, 1), dtype=np.int64),
                reduces=True,
            )
            distance *= 2

    def goal() -> Goal:
        everywhere = reduced_everywhere(k, 1)
        return Goal(start=own(k, 1), finish=everywhere.finish, merges=True)

    return Program(op="barrier", algorithm="dissemination", ranks=k, size_bytes=1.0, rounds=rounds, goal=goal)
