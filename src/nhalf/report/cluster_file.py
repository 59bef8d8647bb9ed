"""Cluster files written: what was measured joins what stands in the file already, and it is said how."""

from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf import units
from nhalf.catalog.overlay import LIKE, merged
from nhalf.catalog.reading import convert
from nhalf.catalog.schema import MeasuredEntry
from nhalf.errors import InputError, WeakEvidenceError
from nhalf.files.reading import parse_toml, read_text
from nhalf.files.toml import dumped
from nhalf.files.writing import write_text
from nhalf.loading.devices import system_of_device
from nhalf.loading.measurements import measurements, size_text, time_text
from nhalf.report.calibrate import stack, stack_file
from nhalf.report.fit_links import link_tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from nhalf.evidence.fit import Fit
    from nhalf.evidence.table import Table
    from nhalf.report.calibrate import Calibrated
    from nhalf.trace.study import Study

_HEAD: Final = "# A cluster, as nhalf reads it with --on: docs/cluster-file.md says what may stand here.\n"
_KEY: Final = ("op", "ranks", "nodes", "library", "version", "mode", "dtype", "processes")
"""What two measurements must share to be of one thing."""
_LAST: Final = ("fabric", "band", "constants", "in_model", "measured")
"""The order in which the tables stand, the longest last."""
_ALIKE: Final = 0.05
"""Curves that differ by less [1] are said to agree."""


def write(path: Path, found: Mapping[str, Any], *, like: str = "") -> list[str]:
    """Write the tables of a cluster file, joined to what it holds, and return what became of each.

    `like` is the system of the catalogue that a new file is like. Comments at the top of the file stay.

    Raises InputError when there is a file that is none of a cluster, or a new one is like nothing.
    """
    text = read_text(path) if path.is_file() else ""
    tables = parse_toml(text, where=str(path))
    if text.strip() and not ({LIKE, "device", "constants"} & set(tables)):
        raise InputError("it is a file, but none of a cluster", where=f"-o {path}", do="write to another name")
    told = []
    if LIKE not in tables and "device" not in tables:
        check(path, like)
        tables = {LIKE: like, **tables}  # of a stack, where there is one
        told.append(f"like {like}, for all that was not measured")
    elif like and like != tables.get(LIKE):
        told.append(f"it stays like {tables.get(LIKE, 'the device it states')}; what was measured names {like}")
    convert(tables.get("measured", []), tuple[MeasuredEntry, ...], where=f"{path}, measured")
    entries, joined = _joined(tables.get("measured", []), found.get("measured", []))
    result = merged(tables, {key: value for key, value in found.items() if key not in ("measured", "in_model")})
    if entries:
        result["measured"] = entries
    if "in_model" in found:
        anew = {_traced(each) for each in found["in_model"]}
        kept = [each for each in tables.get("in_model", []) if _traced(each) not in anew]
        result["in_model"] = [*kept, *found["in_model"]]
    lines = text.splitlines()
    head = lines[: next((place for place, line in enumerate(lines) if line[:1] != "#"), len(lines))]
    last: dict[str, Any] = {key: result.pop(key) for key in _LAST if key in result}
    write_text(path, ("\n".join(head) + "\n" if head else _HEAD) + dumped({**result, **last}))
    return [*told, *joined]


def check(path: Path, like: str | None) -> None:
    """Refuse to write a new cluster file that is like nothing.

    Raises InputError when it is, or the file there is no TOML.
    """
    if not like and like_of(path) is None:
        raise InputError(
            "nothing says what this cluster is like", where=f"-o {path}", allowed="a log that names its devices",
            do="add --like h100-sxm: the system of the catalogue that the rest of it is like",
        )  # fmt: skip


def _traced(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what makes a collective of a trace the same one as before."""
    return tuple(entry.get(name) for name in ("op", "ranks", "size", "file"))


def like_of(path: Path) -> str | None:
    """Return what the cluster file at a path is like; empty where it says so of nothing, None where there is none.

    Raises InputError when the file there is no TOML.
    """
    tables = parse_toml(read_text(path), where=str(path)) if path.is_file() else {}
    return str(tables.get(LIKE, "")) if {LIKE, "device"} & set(tables) else None


def of_trace(study: Study, *, date: str) -> dict[str, Any]:
    """Return what collectives took in the model of a trace [the list `in_model`], waiting for other ranks left out.

    `date` [ISO] is when it is written.

    Raises WeakEvidenceError when waiting is inside the times, or no size is known.
    """
    name = study.timeline.traces[0].file.rpartition("/")[2] if study.timeline.traces else ""
    entries = [
        {
            "op": str(row.kind.op), "size": size_text(row.kind.size_bytes), "ranks": row.kind.ranks,
            "time": time_text(float(np.median(row.transfers_s))), "count": row.count_per_step, "file": name,
            "date": date,
        }
        for row in (study.rows if study.timeline.waits_known else ())
        if row.kind.size_bytes and row.kind.ranks and not row.kind.fused and len(row.transfers_s)
    ]  # fmt: skip
    if not entries:
        raise WeakEvidenceError(
            "no collective has a time without waiting, and a size", where="-o", allowed="the files of all ranks",
            do="give the other ranks' files, and --model with --batch",
        )  # fmt: skip
    return {"in_model": entries}


def today() -> str:
    """Return the date of today, as cluster files have it."""
    return dt.datetime.now(tz=dt.UTC).date().isoformat()


def write_measured(path: Path, tables: Sequence[Table], fit: Fit | None, library: str | None, like: str) -> list[str]:
    """Write the collectives of logs and the links of their fit into a cluster file, and return what became of each.

    Raises WeakEvidenceError when there is neither.
    """
    found = measurements(tables, library=library, today=today())
    holds = {
        **(link_tables(fit, date=today()) if fit else {}),
        **({"measured": found.entries} if found.entries else {}),
    }
    if not holds:
        raise WeakEvidenceError(
            "no log holds a link or a collective that a step waits for", where="-o",
            allowed="a sweep of sizes of one operation on known ranks", do="see what is missing, and measure it",
        )  # fmt: skip
    return [*write(path, holds, like=like or system_of_device(found.device)), *found.left_out]


def write_stack(path: Path, found: Calibrated) -> None:
    """Write the constants of a calibration into the cluster file at a path, or a stack file where there is none.

    Raises InputError when the file there is no TOML.
    """
    if like_of(path) is None:
        write_text(path, stack_file(found, date=today()))
    else:
        write(path, stack(found, date=today()))


def _joined(
    before: Sequence[dict[str, Any]], found: Sequence[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return measurements with new ones: of one day they are pooled, else kept apart, and the newest stands."""
    entries, told = list(before), []
    for new in found:
        same = [each for each in entries if _key(each) == _key(new)]
        name = f"{new['op']} x{new['ranks']}"
        if any(new.get("sha256") and new["sha256"] in each.get("sha256", "") for each in same):
            told.append(f"{name}: {new.get('file', 'it')} is in the file already")
            continue
        today = next((each for each in same if each.get("date") == new.get("date")), None)
        if today is not None:
            entries[entries.index(today)] = _pooled(today, new)
            was = today.get("file", "before")
            told.append(f"{name}: pooled with that of {was}, of the same day ({_apart(today, new)})")
            continue
        entries.append(new)
        beside = f"; kept beside that of {same[-1].get('date', 'before')} ({_apart(same[-1], new)})" if same else ""
        told.append(f"{name}: {len(new['points'])} sizes{beside}{', the newest stands' if beside else ''}")
    return entries, told


def _key(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(entry.get(name, 1 if name == "nodes" else "") for name in _KEY)


def _read(entry: Mapping[str, Any]) -> dict[float, float]:
    """Return the times [s] of a measurement by size [bytes]."""
    where = f"{entry.get('op')} x{entry.get('ranks')}"
    return {units.parse(size, "size", where=where): units.parse(time, "time", where=where)
            for size, time in entry["points"]}  # fmt: skip


def _pooled(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return two measurements as one: where both have a size, the geometric mean of its times."""
    first, second = _read(one), _read(other)
    texts = {units.parse(size, "size"): size for entry in (one, other) for size, _ in entry["points"]}
    points = []
    for size in sorted(first | second):
        both = [times[size] for times in (first, second) if size in times]
        points.append([texts[size], f"{1e6 * math.exp(float(np.mean(np.log(both)))):.6g} us"])
    names = {key: ", ".join(filter(None, (one.get(key), other.get(key)))) for key in ("file", "sha256")}
    return {**one, **names, "points": points}


def _apart(before: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return by how much a measurement differs from one before, over the sizes that both have."""
    first, second = _read(before), _read(new)
    ratios = [second[size] / first[size] for size in second if size in first]
    if not ratios:
        return "no size in common"
    ratio = float(np.median(ratios))
    way = "slower" if ratio > 1 else "faster"
    return "they agree" if abs(ratio - 1) <= _ALIKE else f"{100 * abs(ratio - 1):.0f} % {way}"
