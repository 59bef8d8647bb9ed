"""Read OSU micro-benchmarks 5 to 7: point to point, collective and one-sided, host and GPU, with and without `-f`.

Source, by description: mvapich.cse.ohio-state.edu, osu-micro-benchmarks, util/osu_util*.c. Sizes are those of one rank:
the whole vector of an all-reduce, the block for each peer of an all-to-all. MB is 1e6 bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from nhalf.collective import Mode, Op
from nhalf.evidence.readers.columns import Event, Vocabulary, events, interval, note, rated, skip, timed, why_cut
from nhalf.evidence.readers.numerals import MEGABYTE_PER_S, MICROSECOND, integer, microseconds, real
from nhalf.evidence.readers.protocol import Format
from nhalf.evidence.table import Figure, Note, Point, Skipped, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.readers.protocol import Line
    from nhalf.evidence.table import SizeIs

_TITLE = re.compile(r"#?\s*OSU ((?:One[- ]Sided )?[A-Z][\w-]*) (.*?)(?: Test)? v(\d+\.\d[\w.]*)", re.IGNORECASE)
_PAIRS = re.compile(r"\[\s*pairs:\s*(\d+)\s*\]")
_ELISION = re.compile(r"[\s#]*\.{3,}\s*")
_VOCABULARY: Final = Vocabulary(
    {
        "size": r"\bSize\b",
        "iterations": r"\bIterations\b",
        "validation": r"\bValidation\b",
        "min": r"Min(?:imum)? Latency ?\(us\)",
        "max": r"Max(?:imum)? Latency ?\(us\)",
        "tail": r"P\d+(?:\.\d+)?(?: Tail)? (?:Lat(?:ency)?|BW|Bandwidth) ?\([^)]*\)",
        "pure_other": r"(?:Min|Max) (?:Pure )?Comm\.? ?\(us\)",
        "pure": r"(?:Avg )?Pure Comm\.? ?\(us\)",
        "time": r"(?:Avg )?Latency ?\(us\)|Multi Lat(?:ency)? ?\(us\)",
        "overall": r"Overall ?\(us\)",
        "rate": r"Messages/s",
        "bandwidth": r"(?:Uni-|Bi-)?(?:Bandwidth ?\(MB/s\)|MB/s)",
    },
    one_of=("time", "pure", "overall", "bandwidth"),
)


class _Kind(NamedTuple):
    op: Op | None
    size_is: SizeIs


# By a word of the title, the first that is found.
_KINDS: Final = (
    (r"reduce[-_ ]?scatter", _Kind(Op.REDUCE_SCATTER, "total")),
    (r"all-?reduce", _Kind(Op.ALL_REDUCE, "message")),
    (r"all-?gather", _Kind(Op.ALL_GATHER, "per_rank")),
    (r"all-?to-?all", _Kind(Op.ALL_TO_ALL, "per_peer")),
    (r"b(?:road)?cast", _Kind(Op.BROADCAST, "message")),
    (r"barrier", _Kind(Op.BARRIER, "none")),
    (r"gather|scatter", _Kind(None, "per_rank")),
    (r"reduce", _Kind(Op.REDUCE, "message")),
    (r"latency|bandwidth|message rate|lat\b|bw\b", _Kind(Op.SEND_RECV, "message")),
)


@dataclass(slots=True, kw_only=True)
class _Test:
    """One test: its title, then its rows."""

    source: str
    title: str = ""
    version: str = ""
    library: str = ""
    pairs: int = 1
    buffers: str = ""
    zero: str = ""
    elided: bool = False
    points: list[Point] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    bandwidth: bool = False

    @property
    def kind(self) -> _Kind:
        for word, kind in _KINDS:
            if re.search(word, self.title, re.IGNORECASE):
                return kind
        return _Kind(Op.SEND_RECV, "message") if self.bandwidth else _Kind(None, "")

    def row(self, event: Event) -> None:
        values, line = event.values, event.line
        size = integer(values["size"]) if "size" in values else None
        if "size" not in values:
            self._figure(event)
        elif size is None:
            self.skipped.append(skip(line, self.source, f"{values['size']!r} is not a size"))
        elif size == 0:
            self.zero = values.get("time") or values.get("pure") or ""
            self.skipped.append(skip(line, self.source, "the size is 0: a latency, and no point of the curve"))
        elif (point := self._point(line, size, values)) is None:
            self.skipped.append(skip(line, self.source, "its time or bandwidth is no number above 0"))
        else:
            self.points.append(point)

    def _point(self, line: Line, size: int, values: dict[str, str]) -> Point | None:
        wrong = values.get("validation", "").casefold().startswith("fail")
        time = values.get("pure") or values.get("time") or values.get("overall")
        if time:
            low, high = microseconds(values.get("min")), microseconds(values.get("max"))
            return timed(line, float(size), time, MICROSECOND, min_s=low, max_s=high, wrong=wrong)
        self.bandwidth = True
        both_ways = 2 if re.search(r"bi-?directional", self.title, re.IGNORECASE) else 1
        return rated(line, float(size), float(size * both_ways * self.pairs), values["bandwidth"], MEGABYTE_PER_S)

    def _figure(self, event: Event) -> None:
        token = event.values.get("pure") or event.values.get("time") or event.values.get("overall") or ""
        value = real(token)
        if value is None or value <= 0.0:
            self.skipped.append(skip(event.line, self.source, "its time is no number above 0"))
            return
        low, high = interval(token, MICROSECOND)
        self.figures.append(Figure(of="time", value=value * MICROSECOND, line=event.line.number, low=low, high=high))

    def table(self) -> Table:
        op, size_is = self.kind
        pair = op is Op.SEND_RECV
        test = "point-to-point" if pair else "" if op else _test(self.title)
        return Table(
            file=self.source,
            tool="OSU",
            op=op,
            test=test,
            ranks=2 * self.pairs if pair else None,
            mode=Mode.HOST,
            quantity="back_to_back" if self.bandwidth else "isolated",
            size_is="none" if self.figures and not self.points else size_is,
            label=self.buffers,
            streamed=self.bandwidth,
            points=tuple(self.points),
            figures=tuple(self.figures),
            environment={k: v for k, v in (("version", self.version), ("library", self.library)) if v},
            notes=tuple(self._notes(pair=pair)),
            skipped=tuple(self.skipped),
        )

    def _notes(self, *, pair: bool) -> Iterable[Note]:
        if self.bandwidth:
            yield note("streaming", "window test: size over bandwidth is a gap between messages, not a latency")
            yield note("unit", "MB is 1e6 bytes")
        elif pair and "multi" not in self.title.casefold() and not self.library.startswith("MPI_"):
            yield note("half-round-trip", "the time is half of a round trip")
        if self.zero:
            yield note("zero-size", f"the row of size 0 took {self.zero} us; it is no point of the curve")
        if self.elided:
            yield note("elided", "'...' stands for rows that are missing")
        if wrong := [f"{point.size_bytes:.0f}" for point in self.points if point.wrong]:
            yield note("wrong-results", f"validation failed at {', '.join(wrong)} bytes: these rows are flagged")
        if not self.title:
            yield note("header-cut", "the title is cut: the test was told by its columns")


def _test(title: str) -> str:
    words = re.sub(r"\b(?:latency|personalized|exchange)\b", " ", title.casefold())
    return "-".join(re.findall(r"\w+", words))


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    done: list[_Test] = []
    test = _Test(source=source)
    for event in events(lines, _VOCABULARY, sign=("(us)", "mb/s")):
        text = event.line.text
        if event.kind == "row":
            test.row(event)
        elif event.kind == "cut":
            test.skipped.append(skip(event.line, source, why_cut(event)))
        elif found := _TITLE.search(text):
            if test.points or test.figures or test.skipped:
                done.append(test)
            test = _Test(source=source, title=found[2], library=found[1], version=found[3])
        elif "Buffer on" in text:
            test.buffers = " to ".join(re.findall(r"Buffer on (\w+)", text)).casefold()
        elif found := _PAIRS.search(text):
            test.pairs = int(found[1])
        elif (test.points or test.figures) and _ELISION.fullmatch(text):
            test.elided = True
    return [one.table() for one in (*done, test) if one.points or one.figures or one.skipped]


READER = Format(
    name="osu",
    words=("OSU ", "Latency", "Bandwidth", "Overall"),
    signs=(
        (re.compile(r"^\W*OSU (?:One[- ]Sided )?\w.* v\d", re.MULTILINE), 1.0),
        (re.compile(r"^\W*Size +(?:Avg )?Latency ?\(us\)|^\W*Size +Bandwidth ?\(MB/s\)", re.MULTILINE), 0.9),
        (re.compile(r"^\W*Size +.*(?:Latency|Overall) ?\(us\)|Avg Latency\(us\)", re.MULTILINE), 0.7),
    ),
    parse=_parse,
    banner=re.compile(r"OSU (?:One[- ]Sided )?[A-Z][\w-]* .* v\d"),
)
