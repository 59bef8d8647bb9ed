"""Reads the measured ways of tokens to experts and back of one system from their table."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.catalog.curves import version_order
from nhalf.collective import Routed
from nhalf.curve import RoutedCurve
from nhalf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

COLUMNS: Final = (
    "library", "version", "kernel", "way", "dtype", "ranks", "ranks_per_node", "hidden", "chosen", "experts", "log_sd",
    "source", "locator", "date", "note", "tokens", "times_s",
)  # fmt: skip
"""The columns of a table, one row a curve; the last two hold numbers apart by spaces, tokens those of one rank."""
_COUNTS: Final = ("ranks", "ranks_per_node", "hidden", "chosen", "experts")


def read_routed(text: str, system: str) -> tuple[RoutedCurve, ...]:
    """Return the curves in the text of a system's table, the newest version first; none in an empty text.

    Lines that begin with `#` are comments.

    Raises InputError when a column is missing or a row cannot be read.
    """
    where = f"expert exchanges of {system}"
    numbered = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line and not line.startswith("#")]
    if not numbered:
        return ()
    rows = csv.reader(line for _, line in numbered)
    header = next(rows)
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise InputError(f"no column {', '.join(missing)}", where=where, allowed=", ".join(COLUMNS))
    found = []
    for (number, _), cells in zip(numbered[1:], rows, strict=True):
        if len(cells) != len(header):
            raise InputError(f"{len(cells)} cells", where=f"{where}, line {number}", allowed=f"{len(header)} cells")
        found.append(_curve(dict(zip(header, cells, strict=True)), system, f"{where}, line {number}"))
    return tuple(sorted(found, key=lambda curve: version_order(curve.version), reverse=True))


def _curve(row: Mapping[str, str], system: str, where: str) -> RoutedCurve:
    """Return the curve of a row."""
    try:
        counts = {name: int(row[name]) for name in _COUNTS}
        tokens, times = (np.array([float(n) for n in row[name].split()]) for name in ("tokens", "times_s"))
        noise = float(row["log_sd"])
    except ValueError as error:
        raise InputError(str(error), where=where, allowed="numbers, with spaces between tokens and times") from error
    texts = {name: row[name] for name in ("library", "version", "kernel", "dtype", "source", "locator", "date", "note")}
    return RoutedCurve(
        system=system,
        way=Routed.parse(row["way"], where=where),
        tokens=tokens,
        times_s=times,
        log_sd=noise,
        **counts,  # type: ignore[arg-type]
        **texts,  # type: ignore[arg-type]
    )
