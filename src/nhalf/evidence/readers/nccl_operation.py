"""The operation of an nccl-tests table: named by newer versions and by the command, else implied by its columns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nhalf.collective import Op
from nhalf.evidence.readers.inference import Ratio, fits, ratio, settled
from nhalf.evidence.readers.nccl_rows import TYPES
from nhalf.evidence.table import Note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.evidence.readers.nccl_rows import Row
    from nhalf.evidence.table import SizeIs

NAMES: Final[dict[str, Op | None]] = {
    "all_reduce": Op.ALL_REDUCE,
    "all_gather": Op.ALL_GATHER,
    "reduce_scatter": Op.REDUCE_SCATTER,
    "alltoall": Op.ALL_TO_ALL,
    "alltoallv": Op.ALL_TO_ALL,
    "broadcast": Op.BROADCAST,
    "reduce": Op.REDUCE,
    "sendrecv": Op.SEND_RECV,
    "gather": None,
    "scatter": None,
    "hypercube": None,
}
"""The tests of nccl-tests and rccl-tests; None: an operation that nhalf has no law for."""

_BINARY = re.compile(rf"(?<![A-Za-z_])({'|'.join(sorted(NAMES, key=len, reverse=True))})_perf\b")
_TOTAL: Final = frozenset({"all_gather", "reduce_scatter", "alltoall", "alltoallv", "gather", "scatter"})
_NOT_CHECKED: Final = "N/A"
_PAIR = 2  # sides
_TELLING = 12  # rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What the rows are of: the test's name (empty when it cannot be told), its ranks where the rows imply them."""

    test: str
    ranks: int | None
    inferred: bool
    could_be: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def op(self) -> Op | None:
        """Return the operation, or None."""
        return NAMES.get(self.test)

    @property
    def size_is(self) -> SizeIs:
        """Return what the size column counts: the whole buffer over all ranks, or the message."""
        known = {self.test} if self.test else set(self.could_be)
        if not known:
            return ""
        return "total" if known <= _TOTAL else "message"


def named_in(text: str) -> str:
    """Return the test that a line names (`all_reduce_perf`), or nothing."""
    found = _BINARY.search(text)
    return found[1] if found else ""


def operation(rows: Sequence[Row], stated: Sequence[int | None], named: str) -> Operation:
    """Return the operation of rows that share type, redop and root; `named` by the log, which has `stated` its ranks.

    Size against count tells totals from messages and gives the ranks of a total exactly; redop and root tell the
    operations apart; the in-place column of all-to-all and send-receive is never checked; busbw / algbw tells the rest.
    """
    shares = _shares(rows)
    # The largest rows have the largest bandwidths, so the tightest bounds.
    largest = sorted(rows, key=lambda row: row.size)[-_TELLING:]
    found = ratio((side.algbw, side.busbw) for row in largest for side in row.sides)
    alone = found is None and _no_busbw(rows)
    counts = [*stated, 1 if alone else None]
    if shares and shares > 1:
        counts = [shares]
    possible = _possible(rows[0], shares, alone=alone)
    tests: list[str] = []
    if named and (named in possible or not possible or named in {"hypercube", "alltoallv"}):
        test = named
    else:
        # A list of ranks that no operation fits is cut, or of processes.
        tests = next(filter(None, (_narrowed(possible, rows, found, n) for n in (*filter(None, counts), None))), [])
        test = tests[0] if len(tests) == 1 else ""
    ranks, notes = settled(NAMES.get(test), found, *counts)
    listed = next(filter(None, stated), None)
    if shares and ranks == shares > 1 and listed != shares:
        said = f"the log lists {listed} ranks, and size over count" if listed else "size over count"
        notes = (Note(code="ranks-disagree" if listed else "ranks-inferred", text=f"{said} says {shares}"),)
    return Operation(test=test, ranks=ranks, inferred=bool(tests) or not test, could_be=tuple(tests), notes=notes)


def _shares(rows: Sequence[Row]) -> int | None:
    """Return by what the bytes of `count` elements fit into the size, if that is one whole number for all rows."""
    parts = set()
    for row in rows:
        width = TYPES.get(row.type)
        if not width or not row.elements or not row.size or row.size % (row.elements * width):
            return None
        parts.add(row.size // (row.elements * width))
    return parts.pop() if len(parts) == 1 else None


def _no_busbw(rows: Sequence[Row]) -> bool:
    """Return whether bus bandwidth is 0 where algorithm bandwidth is not: nothing crossed a link, one rank."""
    sides = [side for row in rows for side in row.sides]
    clear = 0.02  # above it, half of the algorithm bandwidth still prints above 0.00
    moved = [side for side in sides if _value(side.algbw) >= clear]
    return bool(moved) and all(_value(side.busbw) == 0.0 for side in moved)


def _value(text: str) -> float:
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return 0.0


def _possible(row: Row, shares: int | None, *, alone: bool) -> list[str]:
    reduces = row.redop not in {"", "none"}
    rooted = row.root.isdigit()
    if shares == 1 and not alone:
        total: bool | None = False
    else:
        total = None if shares is None or shares == 1 else True
    table: dict[tuple[bool, bool, bool], list[str]] = {
        (False, True, False): ["all_reduce", "sendrecv"],
        (False, True, True): ["reduce"],
        (False, False, True): ["broadcast"],
        (False, False, False): ["sendrecv"],
        (True, True, False): ["reduce_scatter"],
        (True, True, True): [],
        (True, False, True): ["gather", "scatter"],
        (True, False, False): ["all_gather", "alltoall"],
    }
    if total is None:
        return table[False, reduces, rooted] + table[True, reduces, rooted]
    return table[total, reduces, rooted]


def _narrowed(possible: list[str], rows: Sequence[Row], found: Ratio | None, ranks: int | None) -> list[str]:
    """Return the tests that the ratio and the in-place column leave."""
    if ranks == 1:  # every operation looks alike; the suite's first test is what people run
        return possible[:1] if possible[:1] == ["all_reduce"] else possible
    left = [test for test in possible if _fits(test, found, ranks)]
    unchecked = _in_place_unchecked(rows)
    if unchecked is not None and len(left) > 1:
        left = [test for test in left if (test in {"sendrecv", "alltoall"}) is unchecked] or left
    return left


def _fits(test: str, found: Ratio | None, ranks: int | None) -> bool:
    if found is None:
        return True
    if test in {"sendrecv", "broadcast", "reduce"}:
        factor = 1.0
    elif ranks is None:
        # Above 1 only all-reduce; below 1 only a share (n - 1) / n; 1 is an all-reduce on two ranks.
        return found.high >= 1.0 if test == "all_reduce" else found.low < 1.0
    else:
        return fits(Op.ALL_REDUCE if test == "all_reduce" else Op.ALL_GATHER, found, ranks)
    return found.low <= factor <= found.high


def _in_place_unchecked(rows: Sequence[Row]) -> bool | None:
    """Return whether results are checked out of place but never in place; None when neither is, or one is missing."""
    both = [row.sides for row in rows if len(row.sides) == _PAIR]
    if not both or all(_NOT_CHECKED in (out.wrong, out.error) for out, _ in both):
        return None
    return 2 * sum(_NOT_CHECKED in (inside.wrong, inside.error) for _, inside in both) > len(both)
