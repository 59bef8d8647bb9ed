"""Logs as the measurements of a cluster file: what each table is of, where it comes from, and its points."""

from __future__ import annotations

import datetime as dt
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf.collective import Mode, Op
from nhalf.evidence.pooling import pooled
from nhalf.evidence.series import of_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nhalf.evidence.series import Series
    from nhalf.evidence.table import Table

_LIBRARIES: Final = {
    "nccl-tests": "nccl", "NCCL Inspector": "nccl", "rccl-tests": "rccl",
}  # fmt: skip
"""The libraries whose collectives tools time."""
_HASHED: Final = 16
_REPEATS: Final = 3
_TWO_DIGITS: Final = 2
_KIB, _MIB, _GIB = 2**10, 2**20, 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """What logs hold for a cluster file: `entries` for its list `measured`, what was left out, and a device's name."""

    entries: Sequence[dict[str, Any]]
    left_out: Sequence[str]
    device: str


def measurements(tables: Iterable[Table], *, library: str | None, today: str) -> Measurements:
    """Return the measurements in the tables of logs; a curve that nobody could use is left out, and it is said why.

    `library` is whose kernels ran, where logs do not say; `today` [ISO] the date of what is no file.
    """
    entries: list[dict[str, Any]] = []
    left_out: list[str] = []
    device = ""
    for table in pooled(list(tables)):
        if not table.rows:
            continue
        series = of_table(table)
        if table.op == Op.SEND_RECV:
            continue  # a link
        why = _unusable(table, series)
        if why:
            left_out.append(f"{series.key}: {why}")
            continue
        device = device or table.environment.get("device", "")
        entries.append(_entry(table, series, library, today))
    return Measurements(entries=entries, left_out=left_out, device=device)


def _unusable(table: Table, series: Series) -> str:
    """Return why a table is no curve of a collective; empty where it is one."""
    codes = {note.code for note in table.notes}
    if table.op is None or table.test:
        return "it is no collective that a step waits for"
    if table.ranks is None or table.ranks < _TWO_DIGITS:
        return "on how many ranks it ran is not known: say --ranks"
    if not series.good.any():
        return "no size has a time"
    if "aggregated" in codes:
        return "several operations were launched at once, which flatters a single one"
    return ""


def _entry(table: Table, series: Series, library: str | None, today: str) -> dict[str, Any]:
    """Return one measurement as its table in a cluster file."""
    settings = table.environment
    one = int(settings.get("gpus_per_process", "1")) * int(settings.get("threads", "1")) > 1
    path = Path(table.file)
    file = path.is_file()
    date = dt.datetime.fromtimestamp(path.stat().st_mtime, tz=dt.UTC).date().isoformat() if file else today
    found = {
        "op": str(table.op),
        "ranks": table.ranks,
        "nodes": table.nodes or 1,
        "library": library or _LIBRARIES.get(table.tool, ""),
        "version": _version(settings),
        "mode": str(table.mode or Mode.HOST),
        "dtype": table.dtype,
        "processes": "one" if one else "one a rank" if "gpus_per_process" in settings else "",
        "noise": _noise(series),
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest()[:_HASHED] if file else "",
        "date": date,
        "tool": " ".join(filter(None, (table.tool, settings.get("version", "")))),
        "note": "" if table.nodes else "the log does not say on how many nodes: one is taken",
        "points": [
            [size_text(size), time_text(time)]
            for size, time in zip(series.sizes_bytes[series.good], series.times_s[series.good], strict=True)
        ],
    }
    return {key: value for key, value in found.items() if value != ""}


def _version(settings: Mapping[str, str]) -> str:
    """Return the version of NCCL that nccl-tests prints as one number: 22707 is 2.27.7."""
    number = settings.get("library", "").rpartition(" ")[2]
    return f"{int(number) // 10000}.{int(number) // 100 % 100}.{int(number) % 100}" if number.isdigit() else ""


def _noise(series: Series) -> str:
    """Return the relative standard deviation of one run [1], where sizes were run often enough to tell."""
    spreads = [float(np.std(np.log(run), ddof=1)) for run in series.runs if len(run) >= _REPEATS]
    return f"{float(np.median(spreads)):.3g}" if spreads else ""


def size_text(size_bytes: float) -> str:
    """Return a size [bytes] as a text that is read back to the byte."""
    for unit, of in (("GiB", _GIB), ("MiB", _MIB), ("KiB", _KIB)):
        if size_bytes >= of and size_bytes % of == 0:
            return f"{size_bytes / of:.0f} {unit}"
    return f"{size_bytes:.10g} B"


def time_text(seconds: float) -> str:
    """Return a time [s] in microseconds, to six digits."""
    return f"{1e6 * seconds:.6g} us"
