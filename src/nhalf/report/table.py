"""Tables: the rows of a document as CSV and as Markdown, flat and in the order of their keys."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from nhalf.units import format_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def keys(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys of all rows whose values are plain, in the order in which they first occur."""
    found: dict[str, None] = {}
    for row in rows:
        found |= {key: None for key, value in row.items() if not isinstance(value, list | dict | tuple)}
    return list(found)


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV with a header; unknown is empty, numbers have all their digits."""
    heads = keys(rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([[_cell(row.get(key)) for key in heads] for row in rows])
    return text.getvalue()


def to_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as a Markdown table, numbers to three digits and to the right; ready to paste into an issue."""
    heads = keys(rows)
    right = [all(isinstance(row.get(key), int | float | None) for row in rows) for key in heads]
    lines = [heads, ["---:" if numeric else "---" for numeric in right]]
    lines += [[_shown(row.get(key)) for key in heads] for row in rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _cell(value: object) -> object:
    """Return a cell of CSV."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else value


def _shown(value: object) -> str:
    """Return a cell of Markdown."""
    if isinstance(value, float):
        return format_number(value) if abs(value) >= 1e-6 or value == 0 else f"{value:.3g}"  # noqa: PLR2004  as units
    return str(_cell(value)).replace("|", "\\|").replace("\n", " ")
