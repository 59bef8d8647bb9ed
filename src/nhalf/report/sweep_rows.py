"""Rows of a sweep gathered over its tasks, so that tables of many small cells are written in large pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.report.sweep_file import Coded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.breakdown import Array
    from nhalf.report.sweep_file import Writer

    Columns = Mapping[str, Array | Coded]

ENOUGH: Final = 8192
"""Rows that are written at once, at least, until the last."""


class Rows:
    """A writer that passes on what it is given in pieces of at least `ENOUGH` rows."""

    def __init__(self, writer: Writer) -> None:
        """Gather rows for a writer."""
        self.writer = writer
        self.waiting: list[Columns] = []
        self.count = 0

    def write(self, columns: Columns) -> None:
        """Take rows, and write when there are enough."""
        first = next(iter(columns.values()))
        self.waiting.append(columns)
        self.count += len(first.codes) if isinstance(first, Coded) else len(first)
        if self.count >= ENOUGH:
            self._flush()

    def close(self) -> None:
        """Write what waits, and make the file whole."""
        self._flush()
        self.writer.close()

    def abandon(self) -> str:
        """Write what waits, and stop; return the name of the file that holds the rows, if any."""
        self._flush()
        return self.writer.abandon()

    def _flush(self) -> None:
        """Write what waits."""
        if self.waiting:
            self.writer.write(joined(self.waiting))
        self.waiting, self.count = [], 0


def joined(pieces: Sequence[Columns]) -> Columns:
    """Return the rows of several pieces with the same columns, one after the other."""
    if len(pieces) == 1:
        return pieces[0]
    return {name: _column([piece[name] for piece in pieces]) for name in pieces[0]}


def _column(parts: Sequence[Array | Coded]) -> Array | Coded:
    """Return one column of several pieces; words that occur in several are kept once."""
    if not any(isinstance(part, Coded) for part in parts):
        return np.concatenate(parts)  # type: ignore[arg-type]
    words: dict[str | int | None, int] = {}
    codes, whole = [], False
    for part in parts:
        if not isinstance(part, Coded):
            raise TypeError("a column is of words in all pieces or in none")
        places = np.array([words.setdefault(word, len(words)) for word in part.words], dtype=np.int64)
        codes.append(places[part.codes])
        whole = whole or part.whole or isinstance(part.words[0], int)
    return Coded(words=tuple(words), codes=np.concatenate(codes), whole=whole)
