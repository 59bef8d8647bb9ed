"""Matrices between devices: a row of column numbers, then rows that begin with their own number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf.evidence.readers.columns import interval
from nhalf.evidence.readers.numerals import GIGABYTE_PER_S, TIME_UNITS, real
from nhalf.evidence.table import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from nhalf.evidence.readers.protocol import Line

_MISSING: Final = frozenset({"N/A", "n/a", "-", "X"})


class Matrix:
    """One matrix as its lines come: `title` says what the cells are, `unit` is one of theirs in SI."""

    def __init__(self, title: str, of: Literal["bandwidth", "latency"], unit: float) -> None:
        """Begin an empty matrix."""
        self.title = title
        self.of = of
        self.unit = unit
        self.columns: tuple[int, ...] = ()
        self.figures: list[Figure] = []
        self.rows = 0

    def take(self, line: Line, tokens: Sequence[str]) -> str:
        """Take a line of the matrix; return `taken`, `other` when it is none of it, or why it is not taken."""
        if not self.columns:
            numbers = [token for token in tokens if token.isdigit()]
            if numbers and len(numbers) >= len(tokens) - 1 and numbers == [str(i) for i in range(len(numbers))]:
                self.columns = tuple(int(number) for number in numbers)
                return "taken"
            return "other"
        if not tokens[0].isdigit():
            return "other"
        if len(tokens) != len(self.columns) + 1:
            return f"the row is cut: it has {len(tokens) - 1} values where the matrix has {len(self.columns)} columns"
        row = int(tokens[0])
        for column, token in zip(self.columns, tokens[1:], strict=True):
            if real(token) is None and token not in _MISSING:
                return f"{token!r} is not a number"
            self._cell(line, row, column, token)
        self.rows += 1
        return "taken"

    def _cell(self, line: Line, row: int, column: int, token: str) -> None:
        value = real(token)
        if value is None or value <= 0.0 or (row == column and len(self.columns) > 1 and self.square):
            return
        low, high = interval(token, self.unit)
        figure = Figure(
            of=self.of, value=value * self.unit, line=line.number, low=low, high=high, label=f"{row} to {column}"
        )
        self.figures.append(figure)

    @property
    def square(self) -> bool:
        """Return whether both sides are devices, so that the diagonal is local memory; a host row is not."""
        return "CPU(row)" not in self.title and "CPU(column)" not in self.title


def unit_of(title: str) -> tuple[Literal["bandwidth", "latency"], float] | None:
    """Return what a matrix holds and its unit, from the unit in its title: (GB/s), (us), (ns)."""
    if "(GB/s)" in title:
        return "bandwidth", GIGABYTE_PER_S
    for name in ("us", "ns", "ms"):
        if f"({name})" in title:
            return "latency", TIME_UNITS[name]
    return None
