"""The tables of a file as they come, in bounded memory: of a loop over one sweep only so many runs are kept."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.table import Skipped, Table

MOST_KEPT: Final = 4096
"""Runs of one sweep that are kept: the median of so many is known to 1 / 50 of their spread, and a log of any length
fits into memory."""


@dataclass(slots=True)
class _Alike:
    """Runs of one sweep with their place among all tables: of those `seen`, one in `every` is kept."""

    kept: list[tuple[int, Table]] = field(default_factory=list)
    every: int = 1
    seen: int = 0


class Kept:
    """Tables in the order in which they came; of many alike, every second is dropped whenever there are too many.

    So those that are left lie evenly in the file. A dropped one leaves its skipped lines to the one before it, which
    counts it in `stands_for`.
    """

    def __init__(self) -> None:
        self._groups: dict[object, _Alike] = {}
        self._count = 0

    def extend(self, tables: Iterable[Table]) -> None:
        """Take tables, or their place among those that are kept."""
        for table in tables:
            self._add(table)

    def _add(self, table: Table) -> None:
        group = self._groups.setdefault(_key(table), _Alike())
        self._count += 1
        group.seen += 1
        if (group.seen - 1) % group.every:
            place, last = group.kept[-1]
            group.kept[-1] = place, _standing_for(last, table)
            return
        group.kept.append((self._count, table))
        if len(group.kept) > MOST_KEPT:
            group.every *= 2
            pairs = [group.kept[at : at + 2] for at in range(0, len(group.kept), 2)]
            group.kept = [(at[0][0], _standing_for(at[0][1], *(table for _, table in at[1:]))) for at in pairs]

    def tables(self) -> list[Table]:
        """Return the tables that are kept, in their order."""
        return [
            table for _, table in sorted((each for group in self._groups.values() for each in group.kept), key=_place)
        ]


def _place(each: tuple[int, Table]) -> int:
    return each[0]


def _key(table: Table) -> object:
    """Return what tables of one sweep share: a table without rows is like no other."""
    if not table.points:
        return object()
    sizes = (len(table.points), table.points[0].size_bytes, table.points[-1].size_bytes)
    what = (table.op, table.test, table.ranks, table.nodes, table.mode, table.quantity)
    return (*what, table.dtype, table.label, table.streamed, sizes)


def _standing_for(table: Table, *dropped: Table) -> Table:
    """Return a table that stands for others like it too."""
    skipped: tuple[Skipped, ...] = tuple(skip for other in dropped for skip in other.skipped)
    more = sum(other.stands_for for other in dropped)
    return replace(table, stands_for=table.stands_for + more, skipped=table.skipped + skipped) if dropped else table
