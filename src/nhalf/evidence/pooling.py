"""Many runs of one sweep in one file become repeats of its points; a few runs stay curves of their own."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from nhalf.evidence.table import Note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.evidence.table import Table

MOST_RUNS: Final = 32
"""More runs than this of one sweep are a loop (nccl-tests -N): nobody compares them one by one."""
_RUN: Final = re.compile(r"(, )?run \d+$")


def pooled(tables: Sequence[Table]) -> list[Table]:
    """Return tables in which more than 32 runs of one sweep, in one file, are one table with repeats and a note."""
    groups: dict[object, list[Table]] = {}
    for table in tables:
        groups.setdefault(_key(table), []).append(table)
    return [each for group in groups.values() for each in ([_merged(group)] if _runs(group) > MOST_RUNS else group)]


def _runs(group: Sequence[Table]) -> int:
    return sum(table.stands_for for table in group)


def _key(table: Table) -> tuple[object, ...]:
    what = (table.file, table.tool, table.op, table.test, table.ranks, table.nodes, table.mode, table.quantity)
    return (*what, table.dtype, table.streamed, _RUN.sub("", table.label))


def _merged(group: Sequence[Table]) -> Table:
    first = group[0]
    runs = _runs(group)
    whose = "its runs" if runs == len(group) else f"{len(group)} of its runs, evenly spread"
    text = f"{runs} runs of one sweep in one file: each point is the median of {whose}"
    return replace(
        first,
        label=_RUN.sub("", first.label),
        points=tuple(msgspec.structs.replace(p, repeat=run) for run, table in enumerate(group) for p in table.points),
        figures=tuple(figure for table in group for figure in table.figures),
        notes=(*first.notes, Note(code="many-runs", text=text)),
        skipped=tuple(skip for table in group for skip in table.skipped),
    )
