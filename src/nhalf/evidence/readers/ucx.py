"""Read ucx_perftest: its box, its `-f` and its `-v` CSV; the size stands only in the command line.

Source, by description: openucx/ucx, src/tools/perf. MB is 2^20 bytes. The last row of a run is its result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from nhalf.collective import Mode, Op
from nhalf.evidence.readers.columns import note, rated, skip, timed
from nhalf.evidence.readers.numerals import MEBIBYTE_PER_S, MICROSECOND, half_step, integer, real, size
from nhalf.evidence.readers.protocol import Format, Line
from nhalf.evidence.table import Note, Point, Skipped, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

_COMMAND = re.compile(r"ucx_perftest\b(.*)")
_TEST = re.compile(r"-t\s*(\w+)")
_SIZE = re.compile(r"-s\s*(\d+[kKmMgG]?)(?:[,\s]|$)")
_SIZES_IN_PART = re.compile(r"-s\s*\d+[kKmMgG]?((?:,\d+[kKmMgG]?)+)")
_ROW = re.compile(r"^\W*(?:\[thread \d+\]|Final:)\s+(.*)")
_MESSAGE = re.compile(r"Message size:\s*(\d+)")
_VALUES: Final = ("iterations", "median", "average", "overall", "bw", "bw_overall", "rate", "rate_overall")
_CSV: Final = {
    "iterations": "iterations",
    "avg_lat": "average",
    "overall_lat": "overall",
    "avg_bw": "bw",
    "overall_bw": "bw_overall",
    "avg_mr": "rate",
    "overall_mr": "rate_overall",
}


@dataclass(slots=True)
class _Run:
    """One run: what its command said, the last row, and whether that row is final."""

    test: str = ""
    size: int | None = None
    overhead: bool = False
    line: Line | None = None
    values: dict[str, str] = field(default_factory=dict)
    final: bool = False

    @property
    def streamed(self) -> bool:
        return self.test.endswith(("_bw", "_mr")) or (not self.test and self.overhead) or self.test == "stream"


class _Reader:
    def __init__(self, source: str) -> None:
        self._source = source
        self._run = _Run()
        self._points: dict[tuple[str, bool], list[Point]] = {}
        self._inferred = False
        self._skipped: list[Skipped] = []
        self._csv: tuple[str, ...] = ()
        self._finals = False
        self._progress: list[_Run] = []

    def take(self, line: Line) -> None:
        text = line.text
        if found := _COMMAND.search(text):
            self._close()
            self._run = _command(found[1])
        elif found := _ROW.match(text):
            self._row(line, found[1].split(), final="Final" in text[: found.start(1)])
        elif text.lstrip().startswith("iterations,"):
            self._close_csv()
            self._csv = tuple(_csv_name(name) for name in text.strip().split(","))
        elif self._csv and "," in text and text.strip()[0].isdigit():
            self._csv_row(line, text.strip().split(","))
        elif "overhead (usec)" in text:
            self._run.overhead = True
        elif found := _MESSAGE.search(text):
            self._run.size = int(found[1])

    def finish(self) -> list[Table]:
        self._close()
        for run in self._progress:
            if not self._finals:  # the excerpt shows progress only
                self._add(run)
            elif run.line:
                self._skipped.append(skip(run.line, self._source, "the run has no Final row: it was cut or stopped"))
        tables = [self._table(test, points, streamed=streamed) for (test, streamed), points in self._points.items()]
        if self._skipped and not tables:
            return [Table(file=self._source, tool="ucx_perftest", skipped=tuple(self._skipped))]
        return tables

    def _row(self, line: Line, tokens: list[str], *, final: bool) -> None:
        if self._run.final:
            self._close()
        if len(tokens) != len(_VALUES):
            why = f"the row is cut: it has {len(tokens)} values of {len(_VALUES)}"
            self._skipped.append(skip(line, self._source, why))
            return
        self._run.line, self._run.final = line, final
        self._run.values = dict(zip(_VALUES, tokens, strict=True))

    def _csv_row(self, line: Line, cells: list[str]) -> None:
        if len(cells) != len(self._csv):
            why = f"the row is cut: it has {len(cells)} values of {len(self._csv)}"
            self._skipped.append(skip(line, self._source, why))
            return
        self._run.line = line
        self._run.values = {name: cell for name, cell in zip(self._csv, cells, strict=True) if name}

    def _close_csv(self) -> None:
        if self._csv:
            self._close()

    def _close(self) -> None:
        """Make a point of the run that ends here."""
        run = self._run
        if run.line is None:
            return
        self._finals = self._finals or run.final
        if run.final or self._csv:
            self._add(run)
        else:
            self._progress.append(run)
        self._run = _Run(test=run.test, overhead=run.overhead)

    def _add(self, run: _Run) -> None:
        if run.line is None:
            return
        size_bytes = run.size or self._size(run)
        if size_bytes is None:
            why = "the size is neither in the command nor implied by bandwidth times latency"
            self._skipped.append(skip(run.line, self._source, why))
        elif (point := _point(run, run.line, size_bytes)) is None:
            self._skipped.append(skip(run.line, self._source, "its time is no number above 0"))
        else:
            self._points.setdefault((run.test, run.streamed), []).append(point)

    def _size(self, run: _Run) -> int | None:
        """Return the size that bandwidth times latency gives: the power of two, or else the whole number, it allows."""
        rate, time = real(run.values.get("bw_overall", "")), real(run.values.get("overall", ""))
        if not rate or not time:
            return None
        value = rate * MEBIBYTE_PER_S * time * MICROSECOND
        error = half_step(run.values["bw_overall"]) / rate + half_step(run.values["overall"]) / time
        self._inferred = True
        nearest = 1 << max(0, round(value)).bit_length()
        for power in (nearest, nearest >> 1):
            if abs(power - value) <= 2.0 * error * value:
                return power
        return round(value) or None

    def _table(self, test: str, points: list[Point], *, streamed: bool) -> Table:
        return Table(
            file=self._source,
            tool="ucx_perftest",
            op=Op.SEND_RECV,
            test="point-to-point",
            ranks=2,
            mode=Mode.HOST,
            quantity="back_to_back" if streamed else "isolated",
            size_is="message",
            label=test,
            streamed=streamed,
            points=tuple(_repeated(points)),
            notes=tuple(self._notes(streamed=streamed)),
            skipped=tuple(self._skipped),
        )

    def _notes(self, *, streamed: bool) -> Iterable[Note]:
        if self._inferred:
            yield note("size-inferred", "there is no size: it follows from bandwidth times latency (MB is 2^20 bytes)")
        else:
            yield note("size-from-command", "the size stands only in the command line")
        yield note("last-row", "the last row of a run is its result; the others are progress")
        if streamed:
            yield note("streaming", "a stream of messages: a gap between them, not a latency; MB is 2^20 bytes")
        else:
            yield note("half-round-trip", "the time is half of a round trip; MB is 2^20 bytes")


def _command(options: str) -> _Run:
    test, given = _TEST.search(options), _SIZE.search(options)
    parts = _SIZES_IN_PART.search(options)
    run = _Run(test=test[1] if test else "")
    whole = _SIZE.search(options) if not parts else re.search(r"-s\s*([\d,kKmMgG]+)", options)
    if given or whole:
        texts = (whole or given)[1].split(",")  # type: ignore[index] # one of them matched
        run.size = round(sum(size(text, binary=True) or 0.0 for text in texts)) or None
    return run


def _point(run: _Run, line: Line, size_bytes: int) -> Point | None:
    values = run.values
    if run.streamed:
        rate = values.get("rate_overall", "")
        exact = rated(line, float(size_bytes), 1.0, rate, 1.0) if integer(rate) or real(rate) else None
        return exact or timed(line, float(size_bytes), values.get("overall", ""), MICROSECOND)
    median = values.get("median") or values.get("average", "")
    return timed(line, float(size_bytes), median, MICROSECOND)


def _csv_name(name: str) -> str:
    return "median" if name.endswith("percentile_lat") else _CSV.get(name, "")


def _repeated(points: list[Point]) -> Iterable[Point]:

    seen: dict[float, int] = {}
    for point in points:
        repeat = seen.get(point.size_bytes, 0)
        seen[point.size_bytes] = repeat + 1
        yield msgspec.structs.replace(point, repeat=repeat) if repeat else point


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    reader = _Reader(source)
    for line in lines:
        reader.take(line)
    return reader.finish()


READER = Format(
    name="ucx",
    words=("Stage", "ucx_perftest", "_percentile_lat", "[thread "),
    signs=(
        (re.compile(r"\|\s*Stage\s*\|\s*# iterations|\bucx_perftest\b.*-t"), 1.0),
        (re.compile(r"iterations,[\d.]+_percentile_lat,avg_lat"), 1.0),
        (re.compile(r"^\[thread \d+\] +\d+ +[\d.]+ +[\d.]+ +[\d.]+ ", re.MULTILINE), 0.7),
    ),
    parse=_parse,
)
