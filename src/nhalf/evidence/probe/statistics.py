"""Numbers of repeated times that assume no distribution: the median and its interval from order statistics."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from nhalf.quantiles import Z95

if TYPE_CHECKING:
    from collections.abc import Sequence

_LEVEL: Final = 0.95
_EXACT: Final = 500  # above it the normal approximation of the binomial is right to a rank


def median(values: Sequence[float]) -> float:
    """Return the middle of one value or more."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2.0


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of the median, None for fewer than 6 values, which cannot have one.

    References
    ----------
    T. Hoefler and R. Belli, "Scientific benchmarking of parallel computing systems", SC15, rule 6; the ranks are those
    of the sign test: the widest k with P(Binomial(n, 1/2) < k) <= 2.5 %.
    """
    count = len(values)
    below = _below(count)
    if below < 1:
        return None
    ordered = sorted(values)
    return ordered[below - 1], ordered[count - below]


def _below(count: int) -> int:
    """Return the largest k such that fewer than k of `count` values lie under the median with at most 2.5 %."""
    tail = (1.0 - _LEVEL) / 2.0
    if count > _EXACT:
        return int((count - Z95 * math.sqrt(count)) / 2.0)
    total, k = 0, 0
    while (total + math.comb(count, k)) <= tail * 2**count:
        total += math.comb(count, k)
        k += 1
    return k


def half_width(values: Sequence[float]) -> float:
    """Return half of the interval's width over the median, infinite where there is no interval."""
    found = interval(values)
    return (found[1] - found[0]) / (2.0 * median(values)) if found else math.inf
