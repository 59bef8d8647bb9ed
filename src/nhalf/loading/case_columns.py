"""The columns of a case table: their names, and their cells as texts and numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from nhalf.errors import InputError
from nhalf.layout import MOST_DEVICES
from nhalf.loading.inputs import of_cell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.breakdown import Array
    from nhalf.loading.case_table import Table

NAMES, DEGREES, NUMBERS = of_cell("name"), of_cell("degree"), of_cell("number")
"""The columns that are read, by what their cells are."""
LARGEST = 1e9
"""No run has more sequences or tokens: a larger number is in another unit, or a slip."""


def texts_of(table: Table, name: str, defaults: Mapping[str, str]) -> list[str]:
    """Return the texts of a column, with the default where a cell is empty."""
    default = defaults.get(name, "")
    if name not in table.header:
        return [default] * len(table.rows)
    cells = table.column(name)
    meant = {cell: cell.strip() or default for cell in set(cells)}  # most cells of a long table are repeated
    return [meant[cell] for cell in cells]


def numbers_of(table: Table, defaults: Mapping[str, str], refused: list[str]) -> dict[str, Array]:
    """Return the numbers of every row, NaN where a cell is empty; rows whose cells are no numbers are refused."""
    found = {}
    for name in NUMBERS:
        texts = texts_of(table, name, defaults)
        found[name] = _numbers(texts, name, refused)
        _within(texts, found[name], name, refused)
    batch = np.where(np.isnan(found["batch"]), found["concurrency"], found["batch"])
    told = ~np.isnan(found["context"]) | ~(np.isnan(found["isl"]) | np.isnan(found["osl"]))
    for row in np.flatnonzero(~(batch >= 1)):
        refused[row] = refused[row] or "concurrency (or batch) is missing or below 1"
    for row in np.flatnonzero(~told):
        refused[row] = refused[row] or "neither isl and osl nor context is given"
    _drafted(found, refused)
    return {**found, "batch": batch}


def _drafted(found: Mapping[str, Array], refused: list[str]) -> None:
    """Refuse the rows with a draft that say half of it, or that keep more tokens of a step than it was fed."""
    fed, kept = found["tokens_per_step"], found["accepted_tokens"]
    for row in np.flatnonzero((fed > 1) & np.isnan(kept)).tolist():
        refused[row] = refused[row] or "tokens_per_step says that there is a draft, and accepted_tokens is empty"
    fed = np.where(np.isnan(fed), 1.0, fed)
    for row in np.flatnonzero(kept > fed).tolist():
        more = f"accepted_tokens {kept[row]:g} is more than tokens_per_step {fed[row]:g}"
        refused[row] = refused[row] or f"{more}: state both, and the draft's tokens count among those of a step"


def _numbers(texts: Sequence[str], name: str, refused: list[str]) -> Array:
    """Return a column as numbers; a cell that is none refuses its row."""
    numbers = {text: number_of(text) for text in set(texts)}
    wrong = {text for text, number in numbers.items() if text and math.isnan(number)}  # an empty cell is none
    for row, text in enumerate(texts) if wrong else ():
        if text in wrong:
            refused[row] = refused[row] or f"{name} {text!r} is not a number"
    return np.array([numbers[text] for text in texts])


def number_of(text: str) -> float:
    """Return the number of a cell, NaN where it is none; what only Python reads, such as `1_0`, is none."""
    try:
        return float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return math.nan


def _within(texts: Sequence[str], found: Array, name: str, refused: list[str]) -> None:
    """Refuse the rows whose number no run can have; an empty cell, which is NaN, is none."""
    least = 0.0 if name in ("isl", "context") else 1.0
    wrong = (found < least) | (found > LARGEST)
    for row in np.flatnonzero(wrong).tolist():
        refused[row] = refused[row] or f"{name} {texts[row]} lies outside {least:g} to {LARGEST:,.0f}"


def degree(text: str, name: str, *, where: str = "") -> int:
    """Return a degree of parallelism; 1 where the cell is empty. `where` is the place that a message names.

    Raises
    ------
    InputError
        It is no whole number of 1 or more, or more than any machine has devices.
    """
    number = number_of(text or "1")
    if not (1 <= number <= MOST_DEVICES and number.is_integer()):
        what = f"{name} {text!r}" if where and where != name else repr(text)
        allowed = f"1 to {MOST_DEVICES:,}" if number > MOST_DEVICES else ""
        raise InputError(f"{what} is not a whole number of 1 or more", where=where or name, allowed=allowed)
    return int(number)
