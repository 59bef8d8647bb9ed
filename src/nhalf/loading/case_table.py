"""A table of cases as its file holds it: a header and rows of text, each with its line."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nhalf.errors import InputError
from nhalf.files.reading import read_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """A table as it was read: its header and its rows of text.

    `lines` has the line of each row in its file, and `files` the file, where the rows are those of several.
    """

    path: str
    header: tuple[str, ...]
    rows: list[list[str]]
    lines: Sequence[int] = ()
    files: Sequence[str] = ()

    def column(self, name: str) -> list[str]:
        """Return the texts of a column; empty ones where the table does not have it."""
        if name not in self.header:
            return [""] * len(self.rows)
        at = self.header.index(name)
        return [row[at] for row in self.rows]

    def line(self, row: int) -> int:
        """Return the line of a row in its file; without `lines`, each row is a line below the header."""
        return self.lines[row] if self.lines else row + 2

    def file(self, row: int) -> str:
        """Return the name of the file that a row is from."""
        return self.files[row] if self.files else self.path

    def place(self, row: int) -> str:
        """Return where a row is, as an error names it: `runs.csv:12`."""
        return f"{self.file(row)}:{self.line(row)}"

    def named(self, row: int) -> str:
        """Return where a row is, in words: its line, with the file where there are several."""
        return self.place(row) if self.several else f"line {self.line(row)}"

    @property
    def several(self) -> bool:
        """Tell whether the rows are from several files."""
        return len(set(self.files)) > 1


def read_table(path: Path) -> Table:
    """Return the table in a CSV file; `-` is standard input.

    Raises
    ------
    InputError
        The file cannot be read, or is no table.
    """
    return table_of(read_text(path), path)


def table_of(text: str, path: Path) -> Table:
    """Return the table that a text is; `path` names it in messages.

    Raises
    ------
    InputError
        It has no rows, or a row has another number of cells than the header.
    """
    rows, lines = _rows(text, path)
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
    for number, row in zip(lines[1:], rows[1:], strict=True):
        if not row:
            raise InputError("this line is empty", where=f"{path}:{number}", do="delete it")
        if len(row) != len(header):
            raise InputError(f"{len(row)} cells", where=f"{path}:{number}", allowed=f"{len(header)}, as in the header")
    return Table(path=str(path), header=header, rows=rows[1:], lines=lines[1:])


def _rows(text: str, path: Path) -> tuple[list[list[str]], list[int]]:
    """Return the rows of a CSV text and the line where each begins; a quoted cell may go over several.

    Raises
    ------
    InputError
        It is no CSV, such as one with a quote that is never closed.
    """
    reader = csv.reader(io.StringIO(text), strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    begin = 1
    try:
        for row in reader:
            rows.append(row)
            lines.append(begin)
            begin = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"this is not CSV: {error}", where=f"{path}:{begin}", allowed="a CSV file with a header",
            do="look for a quote that is not closed",
        ) from error  # fmt: skip
    while rows and not rows[-1]:
        rows.pop()  # empty lines at the end
        lines.pop()
    return rows, lines
