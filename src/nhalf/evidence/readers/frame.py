"""Plain columns, from a CSV or Parquet file: understood by their names, grouped into tables."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

import msgspec

from nhalf.collective import Mode, Op
from nhalf.errors import InputError
from nhalf.evidence.readers.columns import note
from nhalf.evidence.readers.inference import known_op
from nhalf.evidence.readers.numerals import GIGABYTE_PER_S, TIME_UNITS, half_step, integer, real, size
from nhalf.evidence.table import Note, Point, Skipped, Table
from nhalf.sample import TIMINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nhalf.sample import Timing

_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "op": ("op", "operation", "collective", "coll", "collective_type", "comm_op"),
    "ranks": (
        *("ranks", "n_ranks", "nranks", "num_ranks", "world_size", "gpus", "n_gpus", "ngpus", "num_gpus"),
        *("np", "nproc", "k", "tp", "size_of_group"),
    ),
    "nodes": ("nodes", "n_nodes", "nnodes", "num_nodes", "hosts"),
    "size": (
        *("size_bytes", "size", "bytes", "nbytes", "n_bytes", "message_size", "message_size_bytes", "msg_size"),
        *("message_bytes", "msg_bytes", "data_size", "payload", "block_size", "size_b", "msgsize"),
    ),
    "mode": ("mode", "launch_mode"),
    "quantity": ("quantity", "timing"),
    "dtype": ("dtype", "type", "datatype", "data_type"),
    "repeat": ("repeat", "repetition", "rep", "trial", "run"),
    "label": ("system", "placement", "kernel", "library", "label", "backend", "algorithm", "version"),
}
_TIME = re.compile(
    r"(?:(?:avg|mean|median|p50|typical|exec|elapsed|total|comm)_)?"
    r"(?:time|latency|lat|duration|elapsed|runtime|t)?"
    r"(?:_(?:avg|mean|median|p50))?_?(?P<unit>[a-z]+)?"
)
_SIZE_UNIT = re.compile(r"(?:\w+_)?(?:size|payload|bytes)_(?:in_)?(b|[kmg]i?b)")
_RATES: Final = ("algbw", "alg_bw", "algbw_gbs", "algbw_gb_s", "alg_bandwidth", "algorithm_bandwidth")
_BARE_TIMES: Final = frozenset({"time", "latency", "lat", "duration", "elapsed", "t", "avg_lat", "avg_latency"})
_EXAMPLE: Final = "op, ranks, size_bytes, time_us (or time_ms, time_ns, seconds), and nodes, mode, dtype where known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Where each known column is, and the units of the time [s] and of the size [bytes].

    `width` counts the columns of the header; `times` names those that could be the time, of which the first is. `rate`
    is the column of an algorithm bandwidth [GB/s], where only that tells the unit of the time, which is then 0.
    """

    places: dict[str, int]
    labels: tuple[int, ...]
    time: int
    unit: float
    width: int
    times: tuple[str, ...] = ()
    size_unit: float = 1.0
    rate: int | None = None


def recognise(header: Sequence[str]) -> Columns | None:
    """Return the columns that a header names, or None when it names no size and no time.

    Raises InputError when the time has no unit in its name or stands there twice, or the size has a unit that can be
    read in two ways.
    """
    names = [_plain(name) for name in header]
    places: dict[str, int] = {}
    for meaning, known in _NAMES.items():
        for name in known:
            if name in names and meaning != "label":
                places.setdefault(meaning, names.index(name))
    size_unit = 1.0
    if "size" not in places:
        sized = [(i, found[1]) for i, name in enumerate(names) if (found := _SIZE_UNIT.fullmatch(name))]
        if not sized:
            return None
        places["size"], unit_name = sized[0]
        size_unit = _bytes(unit_name, header[sized[0][0]])
    labels = tuple(i for i, name in enumerate(names) if name in _NAMES["label"])
    units = {i: unit for i, name in enumerate(names) if i not in places.values() and (unit := _unit(name)) is not None}
    if units:
        times = tuple(names[i] for i in units)
        if times.count(times[0]) > 1:
            raise InputError(f"two columns are called {header[min(units)].strip()!r}", allowed="one column for each",
                             do="rename or drop one")  # fmt: skip
        time = min(units)
        return Columns(
            places=places, labels=labels, time=time, unit=units[time], width=len(header), times=times,
            size_unit=size_unit,
        )  # fmt: skip
    bare = [name for name in names if name in _BARE_TIMES]
    rate = next((names.index(name) for name in _RATES if name in names), None)
    if bare and rate is not None:
        return Columns(
            places=places, labels=labels, time=names.index(bare[0]), unit=0.0, width=len(header), times=(bare[0],),
            size_unit=size_unit, rate=rate,
        )  # fmt: skip
    if bare:
        raise InputError(
            f"the column {bare[0]!r} does not say its unit",
            allowed=f"columns such as {_EXAMPLE}",
            do=f"rename it to {bare[0]}_us, or to the unit that it is in",
        )
    return None


def has_size_and_time(header: Sequence[str]) -> bool:
    """Return whether a header names a size and a time, with or without a unit."""
    try:
        return recognise(header) is not None
    except InputError:
        return True


def tables(rows: Iterable[tuple[int, Sequence[str]]], columns: Columns, source: str, tool: str) -> list[Table]:
    """Return the tables of rows with line numbers: one for each op, ranks, nodes, mode, quantity, dtype and label.

    Raises InputError when the time has no unit, and the bandwidths tell none.
    """
    if columns.rate is not None:
        rows = list(rows)
        columns = replace(columns, unit=_told_unit(rows, columns, source))
    groups: dict[tuple[str, ...], list[Point]] = {}
    repeats: dict[tuple[tuple[str, ...], float], int] = {}
    skipped: list[Skipped] = []
    keys = ("op", "ranks", "nodes", "mode", "quantity", "dtype")
    for line, row in rows:
        if len(row) <= max(columns.time, *columns.places.values()):
            skipped.append(Skipped(file=source, line=line, why=f"the row is cut: it has {len(row)} values"))
            continue
        if any(cell.strip() for cell in row[columns.width :]):
            why = f"the row has {len(row)} values for {columns.width} columns"
            skipped.append(Skipped(file=source, line=line, why=why))
            continue
        key = tuple(_cell(row, columns, name) for name in keys)
        key = (*key, ", ".join(filter(None, (row[i].strip() for i in columns.labels if i < len(row)))))
        point = _point(line, row, columns)
        if isinstance(point, str):
            skipped.append(Skipped(file=source, line=line, why=point))
            continue
        repeat = repeats.get((key, point.size_bytes), 0)
        repeats[key, point.size_bytes] = repeat + 1
        groups.setdefault(key, []).append(_numbered(point, repeat))
    found = [_with_times(_table(key, points, source, tool), columns) for key, points in groups.items()]
    return _with_skipped(found, skipped, source, tool)


def _told_unit(rows: Sequence[tuple[int, Sequence[str]]], columns: Columns, source: str) -> float:
    """Return the unit of the time [s] in which size over time is the algorithm bandwidth of most rows in GB/s.

    Raises InputError when there is none.
    """
    rate, found = columns.rate or 0, Counter[float]()
    for _, row in rows:
        if len(row) > max(columns.time, rate, columns.places["size"]):
            bytes_ = integer(row[columns.places["size"]].strip())
            time, bandwidth = real(row[columns.time].strip()), real(row[rate].strip())
            if bytes_ and time and bandwidth:
                seconds = bytes_ * columns.size_unit / (bandwidth * GIGABYTE_PER_S)
                found.update(unit for unit in set(TIME_UNITS.values()) if 0.5 < time * unit / seconds < 2.0)  # noqa: PLR2004
    unit, count = found.most_common(1)[0] if found else (0.0, 0)
    if 2 * count <= len(rows):
        name = columns.times[0]
        raise InputError(
            f"the column {name!r} does not say its unit, and no unit makes size over time the bandwidth in GB/s",
            where=source, allowed=f"columns such as {_EXAMPLE}", do=f"rename it to {name}_us, or to the unit it is in",
        )  # fmt: skip
    return unit


def _with_times(table: Table, columns: Columns) -> Table:
    """Return a table that says which of several columns of times was taken."""
    if columns.rate is not None:
        unit = next(name for name, seconds in TIME_UNITS.items() if seconds == columns.unit)
        text = f"{columns.times[0]} has no unit: in {unit}, size over time is the bandwidth beside it in GB/s"
        return replace(table, notes=(*table.notes, Note(code="unit-inferred", text=text)))
    if len(columns.times) == 1:
        return table
    text = f"{columns.times[0]} is taken for the time, and not {', '.join(columns.times[1:])}"
    return replace(table, notes=(*table.notes, Note(code="several-times", text=text)))


def _with_skipped(found: list[Table], skipped: list[Skipped], source: str, tool: str) -> list[Table]:
    if not skipped:
        return found
    first = found[0] if found else Table(file=source, tool=tool)
    return [replace(first, skipped=tuple(skipped)), *found[1:]]


def _table(key: tuple[str, ...], points: list[Point], source: str, tool: str) -> Table:
    op_text, ranks, nodes, mode_text, quantity, dtype, label = key
    op, mode = known_op(op_text), _mode(mode_text)
    timing = quantity.casefold().replace("-", "_").replace(" ", "_")
    known = cast("Timing", timing) if timing in TIMINGS else None
    if known is None and mode is Mode.GRAPH:
        known = "graph"
    pair = op_text and re.sub(r"[\W_]", "", op_text.casefold()) in {"pointtopoint", "pingpong", "p2p", "sendrecv"}
    return Table(
        file=source,
        tool=tool,
        op=Op.SEND_RECV if pair else op,
        test=("point-to-point" if pair else "") if op or pair else op_text.casefold().replace("_", "-"),
        ranks=integer(ranks) or None,
        nodes=integer(nodes) or None,
        mode=mode,
        quantity=known,
        size_is="message" if op in {Op.ALL_REDUCE, Op.BROADCAST, Op.REDUCE} or pair else "",
        dtype=dtype,
        label=label,
        points=tuple(points),
        notes=tuple(_notes(ranks, known=known is not None)),
    )


def _notes(ranks: str, *, known: bool) -> Iterable[Note]:
    if not known:
        yield note("quantity-unknown", "how the times were taken is not in the file")
    if ranks and not integer(ranks):
        yield note("ranks-unknown", f"{ranks!r} is no count of ranks: say --ranks")


def _point(line: int, row: Sequence[str], columns: Columns) -> Point | str:
    """Return a row's point, or why there is none."""
    text, time = row[columns.places["size"]].strip(), row[columns.time].strip()
    bytes_ = integer(text) or size(text)
    if bytes_ is None:
        return f"{text!r} is not a size"
    if bytes_ == 0:
        return "the size is 0"
    bytes_ *= columns.size_unit
    value = real(time)
    if value is None or value <= 0.0:
        return f"{time!r} is not a time above 0"
    half = half_step(time)
    return Point(
        size_bytes=float(bytes_),
        seconds=value * columns.unit,
        line=line,
        low_s=(value - half) * columns.unit if half and value > half else None,
        high_s=(value + half) * columns.unit if half else None,
    )


def _bytes(unit: str, header: str) -> float:
    """Return the bytes in the unit of a size column; a KB is refused, since it is 1000 to some and 1024 to others."""
    value = size(f"1{unit[0].upper()}{unit[1:-1]}B") if unit != "b" else 1.0
    if value is None or (len(unit) == 2 and unit != "b"):  # noqa: PLR2004 - kb, mb, gb
        raise InputError(
            f"the column {header.strip()!r} can be read as steps of 1000 or of 1024",
            allowed="a size in bytes, KiB, MiB or GiB",
            do="rename it to size_kib, size_mib or size_gib, or convert it to size_bytes",
        )
    return value


def _numbered(point: Point, repeat: int) -> Point:
    return msgspec.structs.replace(point, repeat=repeat) if repeat else point


def _cell(row: Sequence[str], columns: Columns, name: str) -> str:
    return row[columns.places[name]].strip() if name in columns.places else ""


def _mode(text: str) -> Mode | None:
    try:
        return Mode.parse(text) if text else None
    except InputError:
        return None


def _plain(name: str) -> str:
    """Return a column's name in snake case: `Time (us)` and `time[us]` are time_us."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "_", name.strip().strip("#").strip())
    return re.sub(r"[^a-z0-9\u03bc]+", "_", text.casefold().replace("\u00b5", "\u03bc")).strip("_")


def _unit(name: str) -> float | None:
    """Return the unit [s] that the name of a time column ends with, or None when it is no time column."""
    found = _TIME.fullmatch(name)
    return TIME_UNITS.get(found["unit"]) if found and found["unit"] else None
