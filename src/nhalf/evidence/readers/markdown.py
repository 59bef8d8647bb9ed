"""Markdown tables: a header between pipes, a rule of dashes, rows of cells, and the heading above."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nhalf.evidence.readers.protocol import Line

_RULE = re.compile(r"\s*\|?\s*:?[-=+]{2,}:?\s*(?:[|+]\s*:?[-=+]+:?\s*)*[|+]?\s*")


@dataclass(slots=True)
class PipeTable:
    """One table: what stood above it since the last one, its header cells, its rows, and rows that are cut."""

    above: list[str]
    header: list[str]
    rows: list[tuple[Line, list[str]]] = field(default_factory=list)
    cut: list[Line] = field(default_factory=list)

    @property
    def heading(self) -> str:
        """Return the text above the table on one line."""
        return " ".join(self.above)


def pipe_tables(lines: Iterable[Line]) -> Iterator[PipeTable]:
    """Yield the tables of a file. A row with another number of cells than its header is cut."""
    table: PipeTable | None = None
    above: list[str] = []
    remembered = 30  # lines of text; a heading stands close to its table
    for line in lines:
        text = line.text
        if _RULE.fullmatch(text):
            continue
        if "|" not in text:
            # Chatter may run through a table, so only a header ends it.
            above = [*above[-remembered:], text.strip("# ").strip()]
            continue
        cells = [cell.strip().strip("`") for cell in text.strip().strip("|").split("|")]
        if table is None or not _has_value(cells):
            if table:
                yield table
            table, above = PipeTable(above, cells), []
        elif len(cells) != len(table.header):
            table.cut.append(line)
        else:
            table.rows.append((line, cells))
    if table:
        yield table


def column(header: list[str], pattern: str) -> int | None:
    """Return the first column whose name matches a pattern, case ignored, or None."""
    for index, name in enumerate(header):
        if re.search(pattern, name, re.IGNORECASE):
            return index
    return None


def _has_value(cells: list[str]) -> bool:
    """Return whether a row holds a number of its own; a header may hold one only inside a name (p50, H100)."""
    return any(re.match(r"[-+]?[\d.]", cell) for cell in cells)
