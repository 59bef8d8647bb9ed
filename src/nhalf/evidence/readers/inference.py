"""Inference: the operation and the ranks that a bus bandwidth implies, where a log names neither.

busbw / algbw is 2 (n - 1) / n for all-reduce, (n - 1) / n for all-gather, reduce-scatter, all-to-all, gather and
scatter, and 1 for broadcast, reduce and send-receive, on n ranks (NVIDIA nccl-tests, doc/PERFORMANCE.md).
"""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from nhalf.collective import Op
from nhalf.errors import InputError
from nhalf.evidence.readers.numerals import half_step, real
from nhalf.evidence.table import Note

if TYPE_CHECKING:
    from collections.abc import Iterable

PARTS: Final = (Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_TO_ALL)
"""Operations with the factor (n - 1) / n."""

_MOST_RANKS = 100_000
_MOST: Final = 0.8  # of the rows: a rule that so many keep is a rule


class Ratio(NamedTuple):
    """The smallest and the largest busbw / algbw that all rows allow, given how they were rounded."""

    low: float
    high: float


def known_op(name: str) -> Op | None:
    """Return the operation of a name, or None where it is empty or nhalf has none of that name."""
    try:
        return Op.parse(name) if name else None
    except InputError:
        return None


def ratio(pairs: Iterable[tuple[str, str]]) -> Ratio | None:
    """Return the busbw/algbw that printed (algbw, busbw) pairs have in common, or None when they tell nothing.

    A few rows that contradict the others are damaged and have no say; many (a ratio that changes within the table)
    leave nothing in common: None.
    """
    found = [bounds for pair in pairs if (bounds := bounds_of(*pair))]
    if not found:
        return None
    middle = median(math.sqrt(each.low * each.high) for each in found)
    agree = [each for each in found if each.low <= middle <= each.high] or found
    if len(agree) < _MOST * len(found):
        agree = found
    low, high = max(each.low for each in agree), min(each.high for each in agree)
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


def fits(op: Op | None, found: Ratio, ranks: int) -> bool:
    """Return whether an operation on so many ranks has this ratio; one without a factor fits any."""
    if op is not Op.ALL_REDUCE and op not in PARTS:
        return True
    factor = (2.0 if op is Op.ALL_REDUCE else 1.0) * (ranks - 1) / ranks
    return found.low <= factor <= found.high


def settled(op: Op | None, found: Ratio | None, *stated: int | None) -> tuple[int | None, tuple[Note, ...]]:
    """Return the ranks of what a log says about them, surest first, and notes on where they come from.

    A list of ranks may be cut, or hold one line a process; busbw / algbw comes from the tool itself, so it wins.
    """
    given = [count for count in stated if count]
    known = given[0] if given else None
    if op is None or found is None:
        ranks = known
    else:
        ranks = next((count for count in given if fits(op, found, count)), None) or ranks_for(op, found)
    if ranks is not None and ranks == known:
        return ranks, ()
    if known is None:
        if ranks is None:
            return None, ()
        return ranks, (Note(code="ranks-inferred", text=f"the {ranks} ranks follow only from the busbw/algbw ratio"),)
    middle = math.sqrt(found.low * found.high) if found else math.nan
    end = f"that of {ranks}, which is taken" if ranks else "not theirs: say --ranks"
    text = f"the log lists {known} rank{'s' * (known != 1)}, and its busbw/algbw of {middle:.4g} is {end}"
    return ranks, (Note(code="ranks-disagree", text=text),)


def implied_op(found: Ratio) -> Op | None:
    """Return the operation that only this ratio allows: all-reduce above 1; anything else is ambiguous."""
    return Op.ALL_REDUCE if found.low > 1.0 else None


def _ranks(factor: float, value: float) -> float:
    """Return n of factor (n - 1) / n = value."""
    return factor / (factor - value) if value < factor else math.inf
