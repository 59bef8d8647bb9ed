"""The measured tables that ship, for `nhalf validate --builtin`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.catalog import files
from nhalf.loading.case_table import read_table
from nhalf.loading.measured import measured_s

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.loading.case_table import Table
    from nhalf.predict.response import Mask

SERVING = Path(files.__file__).with_name("data") / "golden" / "serving-runs.csv"
"""Serving runs that the calibration was derived from: aiconfigurator-core 0.12.0, silicon_sample.csv, those without a
flag."""
_RUN: Final = ("isl", "osl", "concurrency", "tp")
"""Columns that, with the measured time to a part in a million, tell a run from every other."""


def fitted_on(table: Table, times_s: Array) -> Mask:
    """Return a mask of the rows of a table that are runs the calibration was derived from."""
    known = read_table(SERVING)
    runs = frozenset(_runs(known, measured_s(known)))
    return np.array([run in runs for run in _runs(table, times_s)], dtype=bool)


def _runs(table: Table, times_s: Array) -> list[tuple[str, ...]]:
    """Return what tells each run from the others."""
    columns = [table.column(name) for name in _RUN]
    return [(f"{time:.6g}", *(texts[row].strip() for texts in columns)) for row, time in enumerate(times_s.tolist())]
