"""Cluster files: a system of the user's own in one TOML file, with the collectives that were measured on it.

`--on mycluster.toml` names one by its path; `docs/cluster-file.md` says what stands in it.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf import units
from nhalf.catalog.overlay import NOTHING_MEASURED, renewed
from nhalf.catalog.reading import parse
from nhalf.catalog.schema import MeasuredEntry, value_fields
from nhalf.collective import Mode
from nhalf.curve import CurveKey, MeasuredCurve
from nhalf.errors import InputError
from nhalf.files.reading import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.breakdown import Array

SUFFIX: Final = ".toml"
_NOISE: Final = {Mode.HOST: 0.022, Mode.GRAPH: 0.016, Mode.EAGER: 0.1}
"""The noise of one run [1] where its repeats do not tell: what the catalogue's curves have, by mode."""

_kept: dict[str, tuple[int, dict[str, Any]]] = {}


def is_file(name: str) -> bool:
    """Tell whether a name of a system is the path of a cluster file."""
    return name.casefold().endswith(SUFFIX)


def tables(name: str, dates: Mapping[str, str], *, again: bool = False) -> dict[str, Any]:
    """Return the tables of a cluster file, in the form of a system of the catalogue.

    `dates` are those of the catalogue's sources. A file is read once, and `again` where it may have changed.

    Raises InputError when there is no such file, or it is no TOML.
    """
    if name in _kept and not again:
        return _kept[name][1]
    path = Path(name).expanduser()
    if not path.is_file():
        raise InputError(
            f"there is no file {name!r}", where="--on", allowed="a system of the catalogue, or a cluster file",
            do="nhalf fit LOG... -o FILE.toml writes one",
        )  # fmt: skip
    text = read_text(path)
    checksum = zlib.crc32(text.encode())
    if name not in _kept or _kept[name][0] != checksum:
        stated = {"source": path.name, "locator": "cluster file", "kind": "given", "date": ""}
        found = parse(text, where=name, dates=dates, defaults=stated, shorthand=value_fields())
        if not ({"like", "device"} & set(found)):
            raise InputError(
                "it is no cluster file: neither `like` nor a device stands at its top", where=name,
                allowed='like = "h100-sxm", then what differs', do="nhalf fit LOG... -o FILE.toml writes one",
            )  # fmt: skip
        _kept[name] = (checksum, {**NOTHING_MEASURED, **found})
        renewed()
    return _kept[name][1]


def curves(entries: Sequence[MeasuredEntry], name: str) -> list[MeasuredCurve]:
    """Return the curves of a cluster's measurements: one for each operation, library, mode, way of launching and nodes.

    Of several measurements of one rank count the newest stands; those of one day are pooled when they are written.

    Raises InputError when a measurement makes no curve.
    """
    groups: dict[tuple[object, ...], dict[int, MeasuredEntry]] = {}
    for entry in entries:
        key = (entry.op, entry.library, entry.mode, entry.processes == "one", entry.nodes)
        by_ranks = groups.setdefault(key, {})
        if entry.ranks not in by_ranks or by_ranks[entry.ranks].date <= entry.date:
            by_ranks[entry.ranks] = entry
    return [_curve([by_ranks[ranks] for ranks in sorted(by_ranks)], name) for by_ranks in groups.values()]


def _curve(entries: Sequence[MeasuredEntry], name: str) -> MeasuredCurve:
    newest = max(entries, key=lambda entry: entry.date)
    where = [f"{name}, {entry.op} x{entry.ranks}" for entry in entries]
    points = [_points(entry, here) for entry, here in zip(entries, where, strict=True)]
    noise = [_noise(entry, here) for entry, here in zip(entries, where, strict=True)]
    return MeasuredCurve(
        key=CurveKey(
            system=name, library=newest.library, version=newest.version, mode=newest.mode, op=newest.op,
            dtype=newest.dtype,
        ),
        ranks=tuple(entry.ranks for entry in entries),
        sizes_bytes=tuple(sizes for sizes, _ in points),
        times_s=tuple(times for _, times in points),
        log_sd=max(noise),
        source=name,
        locator="; ".join(dict.fromkeys(entry.file for entry in entries if entry.file)),
        date=newest.date,
        note=newest.note,
        own=name,
        nodes=newest.nodes,
        one_process=newest.processes == "one",
    )  # fmt: skip


def _points(entry: MeasuredEntry, where: str) -> tuple[Array, Array]:
    """Return the sizes [bytes] and times [s] of a measurement, in order of size."""
    read = sorted((units.parse(size, "size", where=where), units.parse(time, "time", where=where))
                  for size, time in entry.points)  # fmt: skip
    if not read:
        raise InputError("it has no points", where=where, allowed='points = [["16 KiB", "23.1 us"], ...]')
    sizes, times = np.array(read).T
    return sizes, times


def _noise(entry: MeasuredEntry, where: str) -> float:
    return units.parse(entry.noise, "ratio", where=where) if entry.noise else _NOISE[entry.mode]
