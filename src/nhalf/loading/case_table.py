"""A table of cases as its file holds it: a header and rows of text, each with its line."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nhalf.errors import InputError
from nhalf.loading.files import read_text

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """A table as it was read: its header and its rows of text; `first_line` is the line of the first row."""

    path: str
    header: tuple[str, ...]
    rows: list[list[str]]
    first_line: int = 2

    def column(self, name: str) -> list[str]:
        """Return the texts of a column; empty ones where the table does not have it."""
        if name not in self.header:
            return [""] * len(self.rows)
        at = self.header.index(name)
        return [row[at] for row in self.rows]

    def line(self, row: int) -> int:
        """Return the line of a row in the file."""
        return self.first_line + row


def read_table(path: Path) -> Table:
    """Return the table in a CSV file.

    Raises
    ------
    InputError
        The file cannot be read, has no rows, or a row has another number of cells than the header.
    """
    try:
        rows = list(csv.reader(io.StringIO(read_text(path))))
    except csv.Error as error:
        raise InputError(f"this is not CSV: {error}", where=str(path), allowed="a CSV file with a header") from error
    while rows and not rows[-1]:
        rows.pop()  # empty lines at the end
    if len(rows) < 2:  # noqa: PLR2004  a header and one row
        raise InputError("there are no rows below a header", where=str(path), allowed="a CSV file with a header")
    header = tuple(name.strip() for name in rows[0])
    if len(header) == 1 and (other := next((mark for mark in ";\t|" if mark in header[0]), "")):
        raise InputError(
            f"the cells are parted by {other!r}", where=str(path), allowed="commas", do="save it with commas"
        )
    twice = next((name for name in header if name and header.count(name) > 1), "")
    if twice:
        raise InputError(f"the column {twice!r} is there twice", where=f"{path}:1", do="leave one")
    for number, row in enumerate(rows[1:], start=2):
        if not row:
            raise InputError("this line is empty", where=f"{path}:{number}", do="delete it")
        if len(row) != len(header):
            raise InputError(f"{len(row)} cells", where=f"{path}:{number}", allowed=f"{len(header)}, as in the header")
    return Table(path=str(path), header=header, rows=rows[1:])
