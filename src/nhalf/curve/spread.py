"""How far a curve may be from the truth: half-widths of 80 % bands [ln], between sizes, outside them, between ranks.

The widths were calibrated on 535 curves of 8 systems (collectives of aiconfigurator-core 0.12.0) by leaving sizes or
ranks out and taking the 80 % quantile of |ln predicted - ln measured|; `tests/bench/fit_study.py` and
`tests/bench/curve_study.py` print how often the bands hold. Reference for the idea: V. Vovk, A. Gammerman and
G. Shafer, "Algorithmic Learning in a Random World" (2005), split-conformal prediction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.collective import Mode
from nhalf.quantiles import Z80

if TYPE_CHECKING:
    from nhalf.breakdown import Array

"""Standard deviations to the ends of an 80 % interval."""
_NOISE, _NOISE_EAGER = 0.016, 0.035  # half-width at a measured size [ln]: the noise of one point, more with the host
_BEND, _BEND_POWER = 0.2, 0.75  # half-width = bend x W^power, W as in `bend`
_HELD, _HELD_GROWTH = 0.03, 0.03  # beyond a floor or a ceiling that was seen, and more for each doubling
# At ranks beyond those measured: first x the spread of the shared surface + second x what its base misses at that size.
# Between them the same with less, but never below third x how far apart the neighbours are: times that differ much more
# than their steps do run on other paths (the two sockets of a PCIe box), and the change may lie anywhere in between.
_BEYOND_RANKS = (1.5, 1.1)
_BETWEEN_RANKS = (0.4, 0.25, 0.17)
SIBLING: Final = 0.15
"""Half-width [ln] that a sibling adds: of one library and version, 80 % of the points lie within 0.06 between H100 and
H200, within 0.04 between B200 and B300, and within 0.35 between B200 and GB200."""

LAUNCHES: Final = 0.69
"""Half-width [ln] downwards where one process launches the kernels of all ranks: half the time, as much as the plan of
a tuner is taken to be off. How much of a floor is launches differs by host and was not measured."""
_MOVED_SIZES = (0.02, 0.04)  # at a size that was moved from other systems: at once, and for each doubling away
_MOVED_RANKS = (0.04, 0.1)  # at a rank count that was moved: at once, and for each doubling of the ranks away
ON_SLOTS: Final = 4.0
"""How many times as wide the two are where devices share the slots of a host: two such systems are known, and they are
as far apart. All three are 80 % quantiles over shipped curves with the family left out."""


def moved(size_doublings: Array, rank_doublings: float) -> Array:
    """Return the half-width [ln] of a time moved from other systems, so many doublings from what was measured."""
    first, each = _MOVED_SIZES
    wide: Array = np.where(size_doublings > 0.0, first + each * size_doublings, 0.0)
    if rank_doublings:
        first, each = _MOVED_RANKS
        wide = wide + first + each * rank_doublings
    return wide


def noise(mode: Mode | None, deviation: float) -> float:
    """Return the half-width [ln] at a measured size, where `deviation` [1] is that of the median of its repeats."""
    return max(_NOISE_EAGER if mode is Mode.EAGER else _NOISE, Z80 * deviation)


def bend(known: Array, log_times: Array, asked: Array) -> Array:
    """Return how much the curve may bend between the measured sizes around each asked one, as a half-width [ln].

    `known` and `asked` are ln of sizes. Between two sizes that are g apart [ln] and whose times rise by L [ln], the
    curve lies near one of its asymptotes when L is near 0 (the floor) or near g (the ceiling); W = min(|L|, |g - L|)
    says how far from both it may be.
    """
    right = np.clip(np.searchsorted(known, asked), 1, len(known) - 1)
    gap = known[right] - known[right - 1]
    rise = log_times[right] - log_times[right - 1]
    room = np.minimum(np.abs(rise), np.abs(gap - rise))
    share = np.clip((asked - known[right - 1]) / gap, 0.0, 1.0)
    middle: Array = np.sqrt(4.0 * share * (1.0 - share))
    return _BEND * room**_BEND_POWER * middle


def held(doublings: Array) -> Array:
    """Return the half-width [ln] beyond a floor or a ceiling that was seen, so many doublings of the size away."""
    return _HELD + _HELD_GROWTH * doublings


def other_ranks(unknown: Array, missed: Array, apart: Array | None) -> Array:
    """Return the half-width [ln] that a rank count adds which was not measured.

    `unknown` [ln] is what the shared surface does not know there, and `missed` [ln] the most that its base misses at
    that size at any measured rank count. `apart` [ln] is how far the times of the measured rank counts on either side
    are from each other, None beyond the measured ones.
    """
    if apart is None:
        of_unknown, of_missed = _BEYOND_RANKS
        return of_unknown * unknown + of_missed * missed
    of_unknown, of_missed, of_apart = _BETWEEN_RANKS
    wide: Array = np.maximum(of_unknown * unknown + of_missed * missed, of_apart * apart)
    return wide
