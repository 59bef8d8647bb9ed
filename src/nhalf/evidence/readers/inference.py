"""Inference: the operation and the ranks that a bus bandwidth implies, where a log names neither.

busbw / algbw is 2 (n - 1) / n for all-reduce, (n - 1) / n for all-gather, reduce-scatter, all-to-all, gather and
scatter, and 1 for broadcast, reduce and send-receive, on n ranks (NVIDIA nccl-tests, doc/PERFORMANCE.md).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from nhalf.collective import Op
from nhalf.evidence.readers.numerals import half_step, real

if TYPE_CHECKING:
    from collections.abc import Iterable

PARTS: Final = (Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_TO_ALL)
"""Operations with the factor (n - 1) / n."""

_MOST_RANKS = 100_000


class Ratio(NamedTuple):
    """The smallest and the largest busbw / algbw that all rows allow, given how they were rounded."""

    low: float
    high: float


def ratio(pairs: Iterable[tuple[str, str]]) -> Ratio | None:
    """Return the busbw/algbw that printed (algbw, busbw) pairs have in common, or None when they tell nothing.

    Rows that contradict the others (a ratio changes within the table) leave nothing in common: None.
    """
    low, high = 0.0, math.inf
    for algbw, busbw in pairs:
        bounds = bounds_of(algbw, busbw)
        if bounds:
            low, high = max(low, bounds.low), min(high, bounds.high)
    return Ratio(low, high) if 0.0 < low <= high < math.inf else None


def bounds_of(algbw: str, busbw: str) -> Ratio | None:
    """Return the ratios that one row allows, or None when a number is missing or rounded to zero."""
    a, b = real(algbw), real(busbw)
    if a is None or b is None:
        return None
    # A double's own rounding would exclude an exact ratio of numbers with all digits.
    da, db = half_step(algbw) + 1e-6 * a, half_step(busbw) + 1e-6 * b
    if a <= da or b <= db:
        return None
    return Ratio((b - db) / (a + da), (b + db) / (a - da))


def ranks_for(op: Op, found: Ratio) -> int | None:
    """Return the one number of ranks that gives this ratio for an operation, or None when none or several do."""
    factor = 2.0 if op is Op.ALL_REDUCE else 1.0
    if op is not Op.ALL_REDUCE and op not in PARTS:
        return None
    low, high = _ranks(factor, found.low), _ranks(factor, found.high)
    first, last = math.ceil(low - 1e-9), math.floor(min(high, _MOST_RANKS) + 1e-9)
    return first if first == last and first > 1 else None


def implied_op(found: Ratio) -> Op | None:
    """Return the operation that only this ratio allows: all-reduce above 1; anything else is ambiguous."""
    return Op.ALL_REDUCE if found.low > 1.0 else None


def _ranks(factor: float, value: float) -> float:
    """Return n of factor (n - 1) / n = value."""
    return factor / (factor - value) if value < factor else math.inf
