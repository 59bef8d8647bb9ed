"""Logs as the measurements of a cluster file: what each table is of, where it comes from, and its points."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
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
_SYSTEMS: Final = (
    (r"GB300", "gb300-nvl72"), (r"GB200", "gb200-nvl72"), (r"GH200", "gh200"), (r"B300", "b300-sxm"),
    (r"B200", "b200-sxm"), (r"H200", "h200-sxm"), (r"H20\b", "h20-sxm"), (r"H100.*NVL", "h100-nvl-pair"),
    (r"H100.*PCIe", "h100-pcie"), (r"H100", "h100-sxm"), (r"A100.*SXM", "a100-sxm"), (r"A40\b", "a40-pair"),
    (r"L40S", "l40s"), (r"V100.*SXM", "v100-sxm"), (r"RTX PRO 6000", "rtx-pro-6000"), (r"RTX 3090", "rtx-3090-pair"),
    (r"RTX 4090", "rtx-4090-pair"), (r"RTX 5090", "rtx-5090-pair"), (r"GB10\b", "dgx-spark-pair"),
    (r"MI300X", "mi300x"), (r"MI325X", "mi325x"), (r"MI355X", "mi355x"),
)  # fmt: skip
"""Systems of the catalogue by what logs call their devices, the longer names first."""
_HASHED: Final = 16
_REPEATS: Final = 3
_TWO_DIGITS: Final = 2
_KIB, _MIB, _GIB = 2**10, 2**20, 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """What logs hold for a cluster file: `entries` for its list `measured`, what was left out, and the like system."""

    entries: Sequence[dict[str, Any]]
    left_out: Sequence[str]
    like: str


def measurements(tables: Iterable[Table], *, library: str | None, today: str) -> Measurements:
    """Return the measurements in the tables of logs; a curve that nobody could use is left out, and it is said why.

    `library` is whose kernels ran, where logs do not say; `today` [ISO] the date of what is no file.
    """
    entries: list[dict[str, Any]] = []
    left_out: list[str] = []
    like = ""
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
        like = like or system_of(table.environment.get("device", ""))
        entries.append(_entry(table, series, library, today))
    return Measurements(entries=entries, left_out=left_out, like=like)


def system_of(device: str) -> str:
    """Return the system of the catalogue that a device's name in a log means; empty where it means none."""
    return next((name for pattern, name in _SYSTEMS if re.search(pattern, device, re.IGNORECASE)), "")


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
