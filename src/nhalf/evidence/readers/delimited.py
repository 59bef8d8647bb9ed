"""Read plain CSV and TSV: any separator, decimal commas with semicolons, columns by name."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING

from nhalf.errors import InputError
from nhalf.evidence.readers import frame
from nhalf.evidence.readers.protocol import Format

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nhalf.evidence.readers.protocol import Line
    from nhalf.evidence.table import Table

_SEPARATORS = ("\t", ";", "|", ",")
_SIZE_LINE = re.compile(r"^[^\n]*(?:size|bytes|payload)[^\n]*$", re.IGNORECASE | re.MULTILINE)
_CONFIDENCE = 0.3


class _Plain(Format):
    """Plain columns have no sign of their own: a header line that names a size and a time is one."""

    def sniff(self, head: str) -> float:
        """Return little confidence, so that a tool that prints CSV of its own wins."""
        for line in _SIZE_LINE.findall(head):
            for separator in _SEPARATORS:
                if separator in line and frame.has_size_and_time(split(line, separator)):
                    return _CONFIDENCE
        return 0.0


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    lines = iter(lines)
    found: list[Table] = []
    columns, separator = _find_header(lines, source)
    while columns:
        rows = _Rows(lines, separator)
        found.extend(frame.tables(rows, columns, source, "csv"))
        columns, separator = (rows.next_header, separator) if rows.next_header else (None, "")
    return found


class _Rows:
    """The rows of one table: up to the end, or to another header (files that were joined)."""

    def __init__(self, lines: Iterator[Line], separator: str) -> None:
        self._lines = lines
        self._separator = separator
        self.next_header: frame.Columns | None = None

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        for line in self._lines:
            text = line.text
            if text.lstrip().startswith("#"):
                continue
            row = split(text, self._separator)
            if not any(any(c.isdigit() for c in cell) for cell in row) and (columns := frame.recognise(row)):
                self.next_header = columns
                return
            yield line.number, row


def split(text: str, separator: str) -> list[str]:
    """Return the cells of one row, none where a cell is longer than any of a table: it is another kind of text."""
    if '"' not in text:
        return text.split(separator)
    try:
        return next(csv.reader([text], delimiter=separator, skipinitialspace=True), [])
    except csv.Error:
        return []


def _find_header(lines: Iterator[Line], source: str) -> tuple[frame.Columns | None, str]:
    for line in lines:
        text = line.text
        for separator in _SEPARATORS:
            if separator not in text:
                continue
            try:
                columns = frame.recognise(split(text, separator))
            except InputError as error:
                where = f"{source}:{line.number}"
                raise InputError(error.what, where=where, allowed=error.allowed, do=error.do) from error
            if columns:
                return columns, separator
    return None, ""


READER = _Plain(name="csv", words=(), signs=(), parse=_parse, whole=True)
