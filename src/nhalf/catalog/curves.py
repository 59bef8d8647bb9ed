"""Reads the measured curves of one system from their table, and finds one of them by its key."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from nhalf.collective import Mode, Op
from nhalf.curve import CurveKey, MeasuredCurve
from nhalf.errors import InputError
from nhalf.stack import releases_apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from nhalf.breakdown import Array

COLUMNS: Final = (
    "library", "version", "mode", "op", "kernel", "dtype", "ranks", "ranks_per_node", "log_sd", "repeats", "flag",
    "source", "locator", "date", "note", "sizes_bytes", "times_s",
)  # fmt: skip
"""The columns of a table of curves, one row for a number of ranks; the last two hold numbers apart by spaces."""

# A curve depends on the bytes, hardly on what they mean: types of one width stand in for each other.
_WIDTHS: Final = {
    "bfloat16": 2, "float16": 2, "half": 2, "bf16": 2, "fp16": 2,
    "int8": 1, "uint8": 1, "fp8": 1, "float8": 1,
    "float32": 4, "float": 4, "fp32": 4,
}  # fmt: skip
_BELOW_LIBRARY: Final = "nccl"
_BELOW: Final = (Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_TO_ALL)
"""What engines leave to NCCL where their own kernels do not reach."""
_DEFAULT_DTYPE: Final = "bfloat16"

# Python's packaging order (PEP 440) for the words that versions carry; a release sorts as 0, a number after its words.
_WORDS: Final = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "rc": -1, "post": 1}
_RELEASE: Final = 0
_NUMBER: Final = 2

_SMALL: Final = np.geomspace(1 << 10, 1 << 20, 11)
"""Sizes of collectives of a decode step [bytes]."""

_Row = tuple[int, "Mapping[str, str]"]


def read_curves(text: str, system: str) -> list[MeasuredCurve]:
    """Return the curves in the text of a system's table, the newest version first and those with a flag last.

    So the first that fits is the best that fits. Lines that begin with `#` are comments. Rows that share everything but
    the ranks are one curve.

    Raises InputError when a column is missing, a row cannot be read, or a group of ranks spans several nodes.
    """
    where = f"curves of {system}"
    groups: dict[tuple[str, ...], list[_Row]] = {}
    for number, row in _rows(text, where):
        key = tuple(row[name] for name in ("library", "version", "mode", "op", "kernel", "dtype", "flag"))
        groups.setdefault(key, []).append((number, row))
    curves = [_curve(rows, system, where) for rows in groups.values()]
    return sorted(curves, key=lambda curve: _preference(curve, _DEFAULT_DTYPE), reverse=True)


def find(
    curves: Iterable[MeasuredCurve],
    library: str,
    version: str | None = None,
    *,
    mode: Mode,
    op: Op,
    dtype: str | None = None,
) -> MeasuredCurve | None:
    """Return the curve of a library's newest version, or of the version named; None when nothing fits.

    Versions sort by number, not by letter (1.3.0rc20 is newer than 1.3.0rc10, and 1.3.0 than both). A type of the same
    width stands in for `dtype` where there is none of its own; without one, two bytes are taken. Curves with a flag are
    passed over unless their version is named.
    """
    wanted = dtype or _DEFAULT_DTYPE
    found = [
        curve
        for curve in curves
        if not curve.own
        and (curve.key.library, curve.key.mode, curve.key.op) == (library, mode, op)
        and _same_width(curve.key.dtype, wanted)
        and (not curve.flag if version is None else curve.key.version == version)
    ]
    return max(found, key=lambda curve: _preference(curve, wanted), default=None)


_STANDS_IN: Final = {
    Mode.GRAPH: (Mode.GRAPH, Mode.HOST),
    Mode.HOST: (Mode.HOST, Mode.GRAPH),
    Mode.EAGER: (Mode.EAGER, Mode.HOST, Mode.GRAPH),
}
"""In which modes NCCL may have been measured to stand in for a mode: in a graph it takes 0.98 to 1.08 of what it takes
from its host, by a process a rank (the house's note on collectives across nodes)."""
_HOSTED: Final = ("nccl", "rccl")
"""The libraries for which that holds; the kernels of engines take other times from the host."""


def of_cluster(curves: Iterable[MeasuredCurve], library: str, mode: Mode) -> tuple[MeasuredCurve, ...]:
    """Return the user's own curves of a library that hold in a mode, in the order in which they are to be taken.

    A process a rank comes before one that drives them all, and the mode itself before what stands in for it.
    """
    modes = _STANDS_IN[mode] if library in _HOSTED else (mode,)
    own = [curve for curve in curves if curve.own and curve.key.library == library and curve.key.mode in modes]
    own.sort(key=lambda curve: (curve.one_process, modes.index(curve.key.mode)))
    return tuple(
        curve if curve.key.mode == mode else replace(curve, key=replace(curve.key, mode=mode), taken_in=curve.key.mode)
        for curve in own
    )


def of_library(
    curves: Sequence[MeasuredCurve], library: str, mode: Mode, version: str = ""
) -> tuple[MeasuredCurve, ...]:
    """Return the all-reduces of a library: in its mode, and as its host would launch them without graphs.

    The newest version comes first, or the one nearest to a version that is named; others follow where they were
    measured on more ranks. At the end stands what NCCL takes from its host, on which a path across nodes or trays
    rests.
    """
    modes = (mode, Mode.EAGER) if mode == Mode.GRAPH else (mode,)
    own = of_cluster(curves, library, mode)
    known = tuple(curve for curve in curves if not curve.own)
    found: list[MeasuredCurve] = []
    for each in modes:
        most = 0
        while (curve := _nearest([c for c in known if c.ranks[-1] > most], library, version, mode=each)) is not None:
            found.append(curve)
            most = curve.ranks[-1]
    below = [
        curve
        for op in _BELOW
        for ranks in dict.fromkeys(c.ranks for c in known)
        if (curve := find([c for c in known if c.ranks == ranks], _BELOW_LIBRARY, mode=Mode.HOST, op=op)) is not None
    ]
    hosted = () if library == _BELOW_LIBRARY else of_cluster(curves, _BELOW_LIBRARY, Mode.HOST)
    return (*own, *found, *hosted, *(curve for curve in below if curve not in found))


def _nearest(curves: Sequence[MeasuredCurve], library: str, version: str, *, mode: Mode) -> MeasuredCurve | None:
    """Return the all-reduce of a library's version nearest to one, of two as near the older; of the newest without."""
    own = [c for c in curves if (c.key.library, c.key.mode, c.key.op) == (library, mode, Op.ALL_REDUCE)]
    named = {c.key.version for c in own if not c.flag or c.key.version == version}
    if not version or not named:
        return find(own, library, mode=mode, op=Op.ALL_REDUCE)
    taken = min(sorted(named, key=version_order), key=lambda each: releases_apart(version, each))
    return find(own, library, taken, mode=mode, op=Op.ALL_REDUCE)


def version_spread(curves: Sequence[MeasuredCurve], library: str, mode: Mode, version: str) -> float:
    """Return how far apart [ln] measured times are of the two versions that a version lies between; 0 where it is one.

    Of one before or after all that were measured, how far the two nearest are. The median over sizes of 1 KiB to 1 MiB.
    """
    own = [c for c in curves if (c.key.library, c.key.mode, c.key.op) == (library, mode, Op.ALL_REDUCE) and not c.flag]
    versions = sorted({c.key.version for c in own}, key=version_order)
    if not version or version in versions or len(versions) < 2:  # noqa: PLR2004  one version differs from none
        return 0.0
    place = sum(version_order(each) < version_order(version) for each in versions)
    pair = versions[max(min(place, len(versions) - 1), 1) - 1 :][:2]
    one, two = (find(own, library, each, mode=mode, op=Op.ALL_REDUCE) for each in pair)
    if one is None or two is None:
        return 0.0
    ranks = [each for each in one.ranks if two.covers(each)]
    ratios = [np.log(one.at(each)(_SMALL) / two.at(each)(_SMALL)) for each in ranks]
    return float(np.median(np.abs(ratios))) if ratios else 0.0


def version_order(version: str) -> tuple[tuple[int, int], ...]:
    """Return a key that sorts versions from old to new: dev < rc < release < post, numbers as numbers."""
    tokens = re.findall(r"[0-9]+|[a-z]+", version.casefold().split("+")[0])
    order = ((_NUMBER, int(token)) if token.isdigit() else (_WORDS.get(token, _WORDS["dev"]), 0) for token in tokens)
    return (*order, (_RELEASE, 0))


def _preference(curve: MeasuredCurve, dtype: str) -> tuple[bool, tuple[tuple[int, int], ...], bool, int]:
    """Return what makes one curve better than another: no flag, newer, the type itself, more ranks."""
    return not curve.flag, version_order(curve.key.version), curve.key.dtype == dtype, len(curve.ranks)


def _same_width(dtype: str, other: str) -> bool:
    return dtype == other or (dtype in _WIDTHS and _WIDTHS[dtype] == _WIDTHS.get(other))


def _rows(text: str, where: str) -> Iterator[_Row]:
    """Yield the number and the cells of every row below the header."""
    numbered = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line and not line.startswith("#")]
    rows = csv.reader(line for _, line in numbered)
    header = next(rows, [])
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise InputError(f"no column {', '.join(missing)}", where=where, allowed=", ".join(COLUMNS))
    for (number, _), cells in zip(numbered[1:], rows, strict=True):
        if len(cells) != len(header):
            raise InputError(f"{len(cells)} cells", where=f"{where}, line {number}", allowed=f"{len(header)} cells")
        yield number, dict(zip(header, cells, strict=True))


def _curve(rows: Sequence[_Row], system: str, where: str) -> MeasuredCurve:
    """Return the curve that the rows of one key make."""
    number, first = rows[0]
    here = f"{where}, line {number}"
    op = Op.parse(first["op"], where=here)
    points = sorted((_points(row, f"{where}, line {n}") for n, row in rows), key=lambda point: point.ranks)
    return MeasuredCurve(
        key=CurveKey(
            system=system,
            library=first["library"],
            version=first["version"],
            mode=Mode.parse(first["mode"], where=here),
            op=op,
            dtype=first["dtype"],
            kernel=first["kernel"],
        ),
        ranks=tuple(point.ranks for point in points),
        sizes_bytes=tuple(point.sizes_bytes for point in points),
        times_s=tuple(point.times_s for point in points),
        log_sd=max(point.log_sd for point in points),
        source=first["source"],
        locator="; ".join(dict.fromkeys(row["locator"] for _, row in rows)),
        date=first["date"],
        flag=first["flag"],
        note=" ".join(dict.fromkeys(row["note"] for _, row in rows if row["note"])),
        even_only=op == Op.ALL_REDUCE and _even_only(first["library"]),
    )


def _even_only(library: str) -> bool:
    """Tell whether a library is that of an engine, by whose name it goes, whose all-reduce runs on even ranks."""
    from nhalf.engines import ENGINES

    return library in ENGINES and ENGINES[library].even_ranks


class _Points(NamedTuple):
    """The numbers of one row."""

    ranks: int
    sizes_bytes: Array
    times_s: Array
    log_sd: float


def _points(row: Mapping[str, str], where: str) -> _Points:
    """Return the numbers of a row.

    A group that crosses a node is refused: it runs another path, so it is another curve, and a key cannot say so yet.
    """
    if row["ranks_per_node"] != row["ranks"]:
        raise InputError(
            f"{row['ranks']} ranks at {row['ranks_per_node']} a node cross a node",
            where=where,
            allowed="curves inside one node",
        )
    try:
        sizes, times = (np.array([float(n) for n in row[name].split()]) for name in ("sizes_bytes", "times_s"))
        return _Points(int(row["ranks"]), sizes, times, float(row["log_sd"]))
    except ValueError as error:
        raise InputError(str(error), where=where, allowed="numbers, with spaces between sizes and times") from error
