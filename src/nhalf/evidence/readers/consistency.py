"""Consistency: what the numbers of a table say about one another, before anything is fitted to them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.evidence.table import Note, Skipped, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nhalf.evidence.table import Point

_LARGEST_BYTES: Final = 1e15
_SHORTEST_S: Final = 1e-12
_LONGEST_S: Final = 1e8
_FASTEST_BYTES_PER_S: Final = 2 * 1.8e12
"""Twice the fastest link between GPUs, one way: NVLink 6 (NVIDIA, Vera Rubin NVL72) [bytes/s]."""
_SMALL_BYTES: Final = 65536.0
_LIKELY_S: Final = (1e-7, 5e-3)
"""A small message takes more than its flight of some metres, and less than that of a thousand kilometres [s]."""
_FEW: Final = 2
HOST_TIMED: Final = "host-timed"
"""The code of the note on times that end when the host has put the call into its queue."""


def checked(table: Table) -> Table:
    """Return a table without the numbers that cannot be, and refused where its times are not those of a transfer."""
    if any(each.value < 0 for each in table.figures):
        below = [Skipped(file=table.file, line=each.line, why=f"a {each.of} below zero cannot be: it is damaged")
                 for each in table.figures if each.value < 0]  # fmt: skip
        figures = tuple(each for each in table.figures if each.value >= 0)
        table = replace(table, figures=figures, skipped=(*table.skipped, *below))
    odd = {point: why for point in table.points if (why := _impossible(point))}
    kept = tuple(point for point in table.points if point not in odd) if odd else table.points
    fast = [point for point in kept if _too_fast(point, table)]
    largest = max((point.size_bytes for point in kept), default=0.0)
    if not table.refusal and len({point.size_bytes for point in fast}) >= _FEW and fast[-1].size_bytes == largest:
        table = host_timed(table, f"{units.format_size(largest)} in {units.format_time(fast[-1].seconds)} is "
                           f"{units.format_bandwidth(largest / fast[-1].seconds)}")  # fmt: skip
    elif not table.refusal:
        odd |= dict.fromkeys(fast, "it is faster than any link by far: its size or its time is damaged")
    table = replace(table, notes=(*table.notes, *_unsaid(table), *_doubtful(table, kept)))
    if not odd:
        return table
    skipped = tuple(Skipped(file=table.file, line=point.line, why=why) for point, why in odd.items())
    kept = tuple(point for point in table.points if point not in odd)
    return replace(table, points=kept, skipped=(*table.skipped, *skipped))


def _unsaid(table: Table) -> Iterable[Note]:
    """Yield what a log of sizes does not say of its operation and its ranks."""
    told = {note.code for note in table.notes} if table.points else {"op-unknown", "ranks-unknown"}
    if table.op is None and "op-unknown" not in told and "fused" not in told:
        which = f"nhalf knows no operation {table.test}" if table.test else "the operation is not in the log"
        yield Note(code="op-unknown", text=f"{which}: say --op")
    if table.ranks is None and "ranks-unknown" not in told:
        yield Note(code="ranks-unknown", text="the number of ranks is not in the log: say --ranks")


def _doubtful(table: Table, kept: Sequence[Point]) -> Iterable[Note]:
    """Yield a note where the times of small messages are those of another unit."""
    small = [point.seconds for point in kept if point.size_bytes <= _SMALL_BYTES]
    least_s = min([*small, *(each.value for each in table.figures if each.of == "latency")], default=None)
    if least_s and not table.refusal and table.ranks != 1 and not _LIKELY_S[0] <= least_s <= _LIKELY_S[1]:
        time = units.format_time(least_s)
        yield Note(code="unit-doubtful", text=f"{time} is far from what a small message takes: check the unit")


def host_timed(table: Table, why: str) -> Table:
    """Return a table whose times are those of the host's queue, and say nothing of a link; `why` is how that shows."""
    refusal = f"timed on the host ({why}): the call was queued, not finished"
    return replace(table, refusal=refusal, notes=(*table.notes, Note(code=HOST_TIMED, text=refusal)))


def _impossible(point: Point) -> str:
    """Return why no message has this size or time, or nothing: a digit too many, an exponent too large."""
    if point.size_bytes <= _LARGEST_BYTES and _SHORTEST_S <= point.seconds <= _LONGEST_S:
        return ""
    return f"no message is of {_LARGEST_BYTES:g} bytes, and none takes under {_SHORTEST_S:g} s or over {_LONGEST_S:g} s"


def _too_fast(point: Point, table: Table) -> bool:
    return table.ranks != 1 and point.size_bytes > _FASTEST_BYTES_PER_S * point.seconds
