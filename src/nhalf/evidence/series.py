"""A series: every time of one operation, on one set of ranks, measured in one way, as one curve against size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from nhalf.evidence.table import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.breakdown import Array
    from nhalf.collective import Mode, Op
    from nhalf.evidence.table import Figure, Note, Point, SizeIs, Skipped, Table
    from nhalf.sample import Sample, Timing

Flags: TypeAlias = npt.NDArray[np.bool_]
"""One yes or no for each point."""
_SPIKE: Final = 1.5
"""A lone point this many times above the line between its neighbours is a spike, not a switch of algorithm."""
_FALL: Final = 1.2
"""And it must stand this far above the larger neighbour: 20 % against the order of sizes."""
_TRIPLE: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesKey:
    """The fields by which two series differ; None or empty where the log does not state them."""

    op: Op | None
    test: str
    ranks: int | None
    nodes: int | None
    mode: Mode | None
    quantity: Timing | None
    dtype: str = ""
    label: str = ""
    file: str = ""

    @property
    def name(self) -> str:
        """Return what was run: the tool's test where it is named, else the op."""
        return self.test or (str(self.op) if self.op is not None else "")

    def __str__(self) -> str:
        """Return the key in words: `all-reduce on 8 ranks, 1 node`."""
        parts = [self.name or "an unnamed operation"]
        if self.ranks is not None:
            parts[0] += f" on {self.ranks} rank{'s' * (self.ranks != 1)}"
        if self.nodes is not None:
            parts.append(f"{self.nodes} node{'s' * (self.nodes != 1)}")
        return ", ".join([*parts, *filter(None, (self.mode, self.label))])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """One curve as measured: rising `sizes_bytes` [bytes] and the median of the `runs` of each size as `times_s` [s].

    `low_s` and `high_s` [s] bound each median by what was printed; `in_place_s` [s] is nan where there was none.
    `rows` counts what was read, `spikes` marks the points that stand alone far above their neighbours, and
    `wrong_sizes_bytes` are those whose results were wrong; both are left out. `streamed`, `size_is`, `figures`,
    `notes`, `skipped` and `refusal` are as in the table it came from; `device` is what the ranks ran on, where the log
    names it.
    """

    key: SeriesKey
    rows: int
    sizes_bytes: Array
    times_s: Array
    low_s: Array
    high_s: Array
    in_place_s: Array
    runs: tuple[Array, ...]
    spikes: Flags
    tool: str = ""
    device: str = ""
    size_is: SizeIs = ""
    streamed: bool = False
    wrong_sizes_bytes: tuple[float, ...] = ()
    figures: tuple[Figure, ...] = ()
    notes: tuple[Note, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    refusal: str = ""

    @property
    def good(self) -> Flags:
        """Return which points are to be fitted: all but the spikes."""
        return np.logical_not(self.spikes)

    @property
    def repeats(self) -> int:
        """Return how often the typical size was measured."""
        return int(np.median([len(run) for run in self.runs])) if self.runs else 0


def of_table(table: Table) -> Series:
    """Return the series of a table; sizes of 0, rows with wrong results and rows without a time are left out."""
    key = SeriesKey(
        op=table.op,
        test=table.test,
        ranks=table.ranks,
        nodes=table.nodes,
        mode=table.mode,
        quantity=table.quantity,
        dtype=table.dtype,
        label=table.label,
        file=table.file,
    )
    points = [point for point in table.points if point.size_bytes > 0]
    found = _of_points(key, [point for point in points if not point.wrong])
    wrong = sorted({point.size_bytes for point in points if point.wrong})
    return replace(
        found,
        rows=len(points) + len(table.figures),
        wrong_sizes_bytes=tuple(wrong),
        tool=table.tool,
        device=table.environment.get("device", ""),
        size_is=table.size_is,
        streamed=table.streamed,
        figures=table.figures,
        notes=table.notes,
        skipped=table.skipped,
        refusal=table.refusal,
    )


def of_samples(samples: Sequence[Sample]) -> list[Series]:
    """Return one series for every op, set of ranks and way of measuring, in the order in which they first occur."""
    groups: dict[SeriesKey, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(_key(sample), []).append(sample)
    found = []
    for key, group in groups.items():
        runs: dict[float, list[float]] = {}
        for sample in group:
            if sample.size_bytes > 0:
                runs.setdefault(sample.size_bytes, []).append(sample.seconds)
        tool = group[0].environment.get("tool", "")
        found.append(replace(_of_runs(key, runs), tool=tool))
    return found


def _key(sample: Sample) -> SeriesKey:
    known: Mapping[str, str] = sample.environment
    return SeriesKey(
        op=sample.op,
        test=known.get("test", ""),
        ranks=sample.ranks,
        nodes=sample.nodes,
        mode=sample.mode,
        quantity=None if known.get("quantity") == UNKNOWN else sample.quantity,
        dtype=known.get("dtype", ""),
        label=known.get("label", ""),
        file=known.get("file", ""),
    )


def _of_points(key: SeriesKey, points: Sequence[Point]) -> Series:
    by_size: dict[float, list[Point]] = {}
    for point in points:
        by_size.setdefault(point.size_bytes, []).append(point)
    series = _of_runs(key, {size: [point.seconds for point in same] for size, same in by_size.items()})
    rows = [by_size[size] for size in sorted(by_size)]
    return replace(
        series,
        low_s=np.array([_median([_or(p.low_s, p.seconds) for p in row]) for row in rows]),
        high_s=np.array([_median([_or(p.high_s, p.seconds) for p in row]) for row in rows]),
        in_place_s=np.array([_median([_or(p.in_place_s, np.nan) for p in row]) for row in rows]),
    )


def _median(values: Sequence[float] | Array) -> float:
    """Return the median; most rows stand alone, and for one number NumPy takes a hundred times as long."""
    return float(values[0]) if len(values) == 1 else float(np.median(values))


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def _of_runs(key: SeriesKey, runs: Mapping[float, Sequence[float]]) -> Series:
    sizes = np.array(sorted(runs))
    ordered = tuple(np.array(runs[size]) for size in sizes)
    times = np.array([_median(run) for run in ordered])
    return Series(
        key=key,
        rows=sum(map(len, ordered)),
        sizes_bytes=sizes,
        times_s=times,
        low_s=times,
        high_s=times,
        in_place_s=np.full(len(times), np.nan),
        runs=ordered,
        spikes=spikes(sizes, times),
    )


def spikes(sizes_bytes: Array, times_s: Array) -> Flags:
    """Return which points stand alone far above both neighbours: a hiccup of the run, or a cold first row.

    Two high points in a row are taken as real: libraries do get slower, and faster again, at their thresholds.
    """
    found = np.zeros(len(times_s), dtype=bool)
    if len(times_s) < _TRIPLE:
        return found
    x, y = np.log(sizes_bytes), np.log(times_s)
    share = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
    between = y[:-2] + share * (y[2:] - y[:-2])
    above = (y[1:-1] > between + np.log(_SPIKE)) & (y[1:-1] > np.maximum(y[:-2], y[2:]) + np.log(_FALL))
    found[1:-1] = above
    # Where the first row is cold, only the rows after it can tell.
    found[0] = y[0] > np.max(y[1:_TRIPLE]) + np.log(_SPIKE)
    return found
