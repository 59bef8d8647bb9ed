"""Read perftest (ib_write_lat, ib_send_bw, ...): latency and bandwidth, with every unit label it has had.

Source, by description: linux-rdma/perftest, src/perftest_parameters.h. MB/sec always meant 2^20 bytes and is called
MiB/sec since 2025; Gb/sec is 1e9 bits. A small message's rate has more digits than its bandwidth,
so a stream's time comes from the finer of the two.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from nhalf.collective import Mode, Op
from nhalf.evidence.readers.columns import Event, Vocabulary, events, note, rated, skip, timed, why_cut
from nhalf.evidence.readers.numerals import GIGABIT_PER_S, MEBIBYTE_PER_S, MICROSECOND, half_step, integer, real
from nhalf.evidence.readers.protocol import Format
from nhalf.evidence.table import Note, Point, Skipped, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.readers.protocol import Line

TITLE = re.compile(
    r"\b((?:RDMA_)?(?:Write_With_Imm|Write|Read|Send|Atomic|Fetch_and_Add|Cmp_and_Swap|Raw_?\w*|[A-Z]\w+?))[ _]"
    r"(?:(Bidirectional)[ _])?(?:Post[ _]List[ _])?(Latency|BW|Bandwidth)[ _](?:Post[ _]List[ _])?Test"
)
MILLION: Final = 1e6  # messages in Mpps
_UNITS: Final = {"mb": MEBIBYTE_PER_S, "mib": MEBIBYTE_PER_S, "gb": GIGABIT_PER_S}
_VOCABULARY: Final = Vocabulary(
    {
        "size": r"#?bytes\b",
        "iterations": r"#?iterations\b",
        "min": r"t_min ?\[usec\]",
        "max": r"t_max ?\[usec\]",
        "typical": r"t_typical ?\[usec\]",
        "deviation": r"t_stdev ?\[usec\]",
        "avg": r"t_avg ?\[usec\]",
        "per_second": r"tps average",
        "percentile": r"\d+(?:\.\d+)?% percentile ?\[\w+\]",
        "cycles": r"t_\w+ ?\[cycles\]",
        "peak": r"BW peak ?\[\w+/sec\]",
        "average": r"BW average ?\[\w+/sec\]",
        "rate": r"MsgRate ?\[Mpps\]",
    },
    needs=("size",),
    one_of=("typical", "avg", "average", "cycles"),
)


@dataclass(slots=True, kw_only=True)
class Test:
    """One test: its title, then its rows; also filled by the reader of the JSON form."""

    source: str
    verb: str = ""
    bidirectional: bool = False
    bandwidth: bool = False
    unit: str = ""
    duration: bool = False
    device: str = ""
    notes: list[Note] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def row(self, event: Event) -> None:
        """Take a row."""
        values, line = event.values, event.line
        size = integer(values["size"])
        if size is None or size == 0:
            self.skipped.append(skip(line, self.source, f"{values['size']!r} is not a size above 0"))
        elif "cycles" in values:
            self.skipped.append(skip(line, self.source, "times in cycles (-C): the clock rate is not in the log"))
        elif (point := self._point(event, size, values)) is None:
            self.skipped.append(skip(line, self.source, "its time or rate is no number above 0"))
        else:
            self.points.append(point)

    def _point(self, event: Event, size: int, values: dict[str, str]) -> Point | None:
        line = event.line
        if "average" in values:
            self.bandwidth = True
            self.duration |= set(values.get("peak", "1")) <= set("0.,")
            ways = 2.0 if self.bidirectional else 1.0
            header = event.header.text("average") if event.header else ""
            self.unit = header[header.find("[") + 1 : header.find("/")]
            unit = _UNITS.get(self.unit.casefold(), MEBIBYTE_PER_S)
            rate, average = values.get("rate", ""), values["average"]
            if _coarseness(rate) <= _coarseness(average):
                return rated(line, float(size), ways, rate, MILLION)
            return rated(line, float(size), ways * size, average, unit)
        token = values.get("typical") or values["avg"]
        return timed(
            line, float(size), token, MICROSECOND, min_s=seconds(values.get("min")), max_s=seconds(values.get("max"))
        )

    def table(self) -> Table:
        """Return the table of the test."""
        return Table(
            file=self.source,
            tool="perftest",
            op=Op.SEND_RECV,
            test="point-to-point",
            ranks=2,
            mode=Mode.HOST,
            quantity="back_to_back" if self.bandwidth else "isolated",
            size_is="message",
            label=f"{self.verb}{' bidirectional' if self.bidirectional else ''}".strip(),
            streamed=self.bandwidth,
            points=tuple(self.points),
            environment={"device": self.device} if self.device else {},
            notes=(*self._notes(), *self.notes),
            skipped=tuple(self.skipped),
        )

    def _notes(self) -> Iterable[Note]:
        if not self.bandwidth and re.search("read|atomic|fetch|swap", self.verb, re.IGNORECASE):
            yield note("round-trip", f"the time of {self.verb} is a full round trip")
        elif not self.bandwidth:
            yield note("half-round-trip", "the time is half of a round trip; t_typical is the median")
        else:
            yield note("streaming", "a stream of messages: a gap between them, not a latency")
            if self.unit.casefold() == "gb":
                yield note("unit", "Gb is 1e9 bits")
            elif self.unit:
                yield note("unit", "MiB is 2^20 bytes, and so is MB in older versions")
            if self.duration:
                yield note("no-peak", "a peak of 0.00 means that it was not measured (-D)")


def _coarseness(token: str) -> float:
    """Return the relative rounding of a printed number; infinite where it is none, or rounded to 0."""
    value = real(token) if token else None
    return half_step(token) / value if value else math.inf


def seconds(token: str | None) -> float | None:
    """Return a printed time in microseconds as seconds, or None."""
    value = real(token) if token else None
    return value * MICROSECOND if value is not None and value > 0.0 else None


def titled(source: str, found: re.Match[str]) -> Test:
    """Return an empty test for the title that was found."""
    return Test(
        source=source,
        verb=found[1].replace("_", " "),
        bidirectional=bool(found[2]),
        bandwidth=not found[3].startswith("Lat"),
    )


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    done: list[Test] = []
    test = Test(source=source)
    for event in events(lines, _VOCABULARY, sign="bytes"):
        text = event.line.text
        if event.kind == "row":
            test.row(event)
        elif event.kind == "cut":
            test.skipped.append(skip(event.line, source, why_cut(event)))
        elif event.kind == "text" and (found := TITLE.search(text)):
            done.append(test)
            test = titled(source, found)
        elif event.kind == "text" and "Device" in text and (device := re.search(r"Device\s*:\s*(\S+)", text)):
            test.device = device[1]
    return [one.table() for one in (*done, test) if one.points or one.skipped]


READER = Format(
    name="perftest",
    words=("iterations", "Latency Test", "BW Test", "Post List"),
    signs=(
        (re.compile(r"^\W*#?bytes\s+#?iterations\s+(?:t_|BW )", re.MULTILINE), 0.95),
        (re.compile(r"(?:RDMA_\w+|Send|Atomic\w*) (?:Bidirectional )?(?:Latency|BW) (?:Post List )?Test"), 0.95),
    ),
    parse=_parse,
    banner=re.compile(r"(?:RDMA_\w+|Send|Atomic\w*|Fetch_and_Add|Cmp_and_Swap) (?:Bidirectional )?(?:Latency|BW) "),
)
