"""Read Parquet files of plain columns, with polars."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from nhalf.errors import InputError
from nhalf.evidence.readers import frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.evidence.table import Table


def read(content: bytes, source: str) -> list[Table]:
    """Return the tables of a Parquet file whose columns have the names that a CSV file would have.

    Raises InputError when polars is missing, the file is damaged, or the columns are not those of measured times.
    """
    try:
        import polars as pl
    except ImportError as error:
        raise InputError(
            "reading Parquet needs polars, which is not installed",
            where=source,
            do="in the checkout: pip install '.[frames]', or write the table as CSV",
        ) from error
    try:
        table = pl.read_parquet(io.BytesIO(content))
    except pl.exceptions.PolarsError as error:
        raise InputError(f"the Parquet file is damaged: {error}", where=source) from error
    try:
        columns = frame.recognise(table.columns)
    except InputError as error:
        raise InputError(error.what, where=source, allowed=error.allowed, do=error.do) from error
    if columns is None:
        raise InputError(
            f"the columns {', '.join(table.columns)} hold no size and time",
            where=source,
            allowed="op, ranks, size_bytes, time_us and the like",
        )
    rows = ((0, _texts(row)) for row in table.iter_rows())
    return frame.tables(rows, columns, source, "parquet")


def _texts(row: Sequence[object]) -> list[str]:
    return ["" if value is None else repr(value) if isinstance(value, float) else str(value) for value in row]
