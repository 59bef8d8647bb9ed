"""Measured columns of a case table: read where predictions are compared with them, and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.errors import InputError
from nhalf.loading.case_columns import number_of

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.loading.case_table import Table
    from nhalf.predict.response import Mask

_SHORTEST_S: Final = 1e-9
_LONGEST_S: Final = 1e6


LONGEST_S: Final = 2.0
"""A time per token that is longer [s], and many times what is predicted, was written in another unit."""


def measured_s(table: Table, column: str = "tpot_s") -> Array:
    """Return the measured time of every row [s], NaN where there is none.

    A table that has the column in milliseconds (`tpot_ms`) is read by that.

    Raises
    ------
    InputError
        The table has no such column, or a cell holds no positive number.
    """
    in_ms = f"{column.removesuffix('_s')}_ms"
    if column not in table.header and in_ms not in table.header:
        allowed = f"a measured time per output token: {column} in seconds, or {in_ms}"
        raise InputError(f"no column {column}", where=table.path, allowed=allowed)
    column, unit_s, unit = (column, 1.0, "seconds") if column in table.header else (in_ms, 1e-3, "milliseconds")
    found = np.full(len(table.rows), np.nan)
    for row, text in enumerate(table.column(column)):
        if not text.strip():
            continue
        found[row] = number_of(text) * unit_s
        if np.isnan(found[row]):
            raise InputError(f"{column} {text!r} is not a number", where=table.place(row), allowed=f"{unit}, no unit")
        if not _SHORTEST_S <= found[row] <= _LONGEST_S:
            raise InputError(
                f"{column} {text!r} is no time of a token", where=table.place(row), allowed="1e-9 to 1e6 seconds"
            )
    return found


def kept_tokens(table: Table, times_s: Array) -> Array:
    """Return the tokens that a step keeps, for every row with a draft and a measured time [s]; NaN for the others."""
    found = np.array([number_of(text) for text in table.column("accepted_tokens")])
    return np.where((found > 1) & np.isfinite(times_s), found, np.nan)


def flags_of(table: Table) -> list[str]:
    """Return the flags of the rows that have one."""
    return [text.strip() for text in table.column("quality_flag") if text.strip()]


def unmeasured(table: Table, times_s: Array) -> Mask:
    """Return a mask of the rows without a flag that have no measured time [s] all the same."""
    return unflagged(table) & np.isnan(times_s)


def unflagged(table: Table) -> Mask:
    """Return a mask of the rows whose column `quality_flag` is empty; all of them where there is none."""
    return np.array([not text.strip() for text in table.column("quality_flag")])
