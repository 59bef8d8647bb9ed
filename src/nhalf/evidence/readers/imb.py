"""Read the Intel MPI Benchmarks and oneCCL's benchmark, its sibling: many tables and process counts in one file.

Source, by description: intel/mpi-benchmarks, src_c/IMB_output.c and the user guide; uxlfoundation/oneCCL,
examples/benchmark. Mbytes changed its meaning between versions, so only times are used, apart from streams that print
Msg/sec. PingPong is half of a round trip.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from nhalf.collective import Mode, Op
from nhalf.evidence.readers.columns import Event, Vocabulary, events, interval, note, rated, skip, timed, why_cut
from nhalf.evidence.readers.numerals import MICROSECOND, integer, real
from nhalf.evidence.readers.protocol import Format
from nhalf.evidence.table import Figure, Note, Point, Skipped, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.readers.protocol import Line
    from nhalf.evidence.table import SizeIs


class _Kind(NamedTuple):
    op: Op | None
    size_is: SizeIs
    rooted: bool = False


# By the benchmark's name in lower case, a leading i (IMB-NBC) or "unidir_" (IMB-RMA) taken off.
_KINDS: Final = {
    "pingpong": _Kind(Op.SEND_RECV, "message"),
    "pingping": _Kind(Op.SEND_RECV, "message"),
    "pingpongspecificsource": _Kind(Op.SEND_RECV, "message"),
    "pingpinganysource": _Kind(Op.SEND_RECV, "message"),
    "uniband": _Kind(Op.SEND_RECV, "message"),
    "biband": _Kind(Op.SEND_RECV, "message"),
    "sendrecv": _Kind(Op.SEND_RECV, "message"),
    "exchange": _Kind(Op.SEND_RECV, "message"),
    "allreduce": _Kind(Op.ALL_REDUCE, "message"),
    "reduce": _Kind(Op.REDUCE, "message", rooted=True),
    "reduce_scatter": _Kind(Op.REDUCE_SCATTER, "total"),
    "reduce_scatter_block": _Kind(Op.REDUCE_SCATTER, "per_rank"),
    "allgather": _Kind(Op.ALL_GATHER, "per_rank"),
    "allgatherv": _Kind(Op.ALL_GATHER, "per_rank"),
    "alltoall": _Kind(Op.ALL_TO_ALL, "per_peer"),
    "alltoallv": _Kind(Op.ALL_TO_ALL, "per_peer"),
    "bcast": _Kind(Op.BROADCAST, "message", rooted=True),
    "gather": _Kind(None, "per_rank", rooted=True),
    "gatherv": _Kind(None, "per_rank", rooted=True),
    "scatter": _Kind(None, "per_rank", rooted=True),
    "scatterv": _Kind(None, "per_rank", rooted=True),
    "barrier": _Kind(Op.BARRIER, "none"),
}
_UNKNOWN: Final = _Kind(None, "")
_PAIRWISE: Final = frozenset({"sendrecv", "exchange"})  # on any number of ranks, each with its neighbours
_STREAMS: Final = frozenset({"uniband", "biband"})

_NAME = re.compile(r"Benchmarking(:?)\s+(\S+)")
_PROCESSES = re.compile(r"#processes\s*[=:]\s*(\d+)")
_WAITING = re.compile(r"\(\s*(\d+) additional processes? waiting")
_GROUPS = re.compile(r"\(\s*(\d+) groups? of (\d+) processes?")
_VERSION = re.compile(r"Intel ?\(R\) MPI Benchmarks ([\w.]+(?: Update \d+)?)")
_VOCABULARY: Final = Vocabulary(
    {
        "size": r"#?bytes\b",
        "repetitions": r"#?repetitions\b",
        "min": r"t_min\[usec\]",
        "max": r"t_max\[usec\]",
        "avg": r"t_avg\[usec\]",
        "pure": r"t_pure\[usec\]",
        "overlapped": r"t_ovrl\[usec\]",
        "time": r"t\[usec\]",
        "rate": r"Msg/sec",
    },
    needs=("repetitions",),
    one_of=("time", "avg", "max", "pure", "rate"),
)


@dataclass(slots=True, kw_only=True)
class _Test:
    """One table: one benchmark on one number of processes."""

    source: str
    name: str = ""
    version: str = ""
    ranks: int | None = None
    waiting: int = 0
    groups: str = ""
    tool: str = "IMB"
    zero: str = ""
    points: list[Point] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def word(self) -> str:
        return self.name.casefold().removeprefix("unidir_").removeprefix("all_")

    @property
    def kind(self) -> _Kind:
        word = self.word
        return _KINDS.get(word) or _KINDS.get(word.removeprefix("i")) or _UNKNOWN

    def row(self, event: Event) -> None:
        values, line = event.values, event.line
        size = integer(values["size"]) if "size" in values else None
        token = self._time(values)
        if "size" not in values:
            self._figure(line, token)
        elif size is None:
            self.skipped.append(skip(line, self.source, f"{values['size']!r} is not a size"))
        elif size == 0:
            self.zero = token
            self.skipped.append(skip(line, self.source, "the size is 0: no point of the curve"))
        elif (point := self._point(line, size, values, token)) is None:
            self.skipped.append(skip(line, self.source, "its time is no number above 0"))
        else:
            self.points.append(point)

    def _time(self, values: dict[str, str]) -> str:
        # A rank that is not the root may leave a rooted operation long before it is done.
        order = ("pure", "time", "max", "avg") if self.kind.rooted else ("pure", "time", "avg", "max")
        return next((values[name] for name in order if name in values), "")

    def _point(self, line: Line, size: int, values: dict[str, str], token: str) -> Point | None:
        if not token:
            return rated(line, float(size), 2.0 if self.word == "biband" else 1.0, values["rate"], 1.0)
        return timed(line, float(size), token, MICROSECOND)

    def _figure(self, line: Line, token: str) -> None:
        value = real(token)
        if value is None or value <= 0.0:
            self.skipped.append(skip(line, self.source, "its time is no number above 0"))
            return
        low, high = interval(token, MICROSECOND)
        self.figures.append(Figure(of="time", value=value * MICROSECOND, line=line.number, low=low, high=high))

    def table(self) -> Table:
        op, size_is, _ = self.kind
        pair = op is Op.SEND_RECV and self.word not in _PAIRWISE
        streamed = self.word in _STREAMS
        test = "point-to-point" if pair else self.name.casefold() if op is None or self.word == "exchange" else ""
        return Table(
            file=self.source,
            tool=self.tool,
            op=op,
            test=test,
            ranks=self.ranks or (2 if pair else None),
            mode=Mode.HOST,
            quantity="back_to_back" if streamed else "isolated",
            size_is="none" if self.figures and not self.points else size_is,
            label=self.name if op is Op.SEND_RECV and self.word != "pingpong" else "",
            streamed=streamed,
            points=tuple(self.points),
            figures=tuple(self.figures),
            environment={"version": self.version} if self.version else {},
            notes=tuple(self._notes(streamed=streamed)),
            skipped=tuple(self.skipped),
        )

    def _notes(self, *, streamed: bool) -> Iterable[Note]:
        if self.word == "pingpong":
            yield note("half-round-trip", "the time is half of a round trip")
        if streamed:
            yield note("streaming", "a stream of messages: a gap between them, not a latency")
        if self.waiting:
            yield note("waiting-ranks", f"{self.ranks} ranks; {self.waiting} more only wait")
        if self.groups:
            yield note("groups", f"{self.groups} ran at the same time")
        if self.zero and self.word == "pingpong":
            yield note("zero-size", f"the 0-byte row is a valid latency, {self.zero} us, and no point of the curve")
        elif self.zero:
            yield note("zero-size", "the 0-byte row is not a point of the curve")
        if self.figures and not self.points:
            yield note("no-size", "there is no size column: one time, no line")


class _Reader:
    """Goes through a file; a table begins with the name of its benchmark, or with another number of processes."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._version = ""
        self.tests = [_Test(source=source)]

    def take(self, event: Event) -> None:
        test = self.tests[-1]
        if event.kind == "row":
            test.row(event)
        elif event.kind == "cut":
            test.skipped.append(skip(event.line, self._source, why_cut(event)))
        elif "out-of-mem" in event.line.text:
            test.skipped.append(skip(event.line, self._source, "the run was out of memory at this size"))
        else:
            self._words(test, event.line.text)

    def _words(self, test: _Test, text: str) -> None:
        if found := _NAME.search(text):
            self.tests.append(_Test(source=self._source, name=found[2], version=self._version))
            self.tests[-1].tool = "oneCCL benchmark" if found[1] else "IMB"
        elif found := _PROCESSES.search(text):
            if test.points or test.figures:  # the same benchmark again, without its name
                test = _Test(source=self._source, name=test.name, version=self._version, tool=test.tool)
                self.tests.append(test)
            test.ranks = int(found[1])
        elif found := _WAITING.search(text):
            test.waiting = int(found[1])
        elif found := _GROUPS.search(text):
            test.groups = f"{found[1]} groups of {found[2]} ranks"
        elif found := _VERSION.search(text):
            self._version = found[1]


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    reader = _Reader(source)
    for event in events(lines, _VOCABULARY, sign="repetitions"):
        reader.take(event)
    return [test.table() for test in reader.tests if test.points or test.figures or test.skipped]


READER = Format(
    name="imb",
    words=("MPI Benchmarks", "repetitions", "Benchmarking"),
    signs=(
        (re.compile(r"Intel ?\(R\) MPI Benchmarks"), 1.0),
        (re.compile(r"#?bytes +#?repetitions +t[_\[]|^\W*Benchmarking:? +\w+\s*$", re.MULTILINE), 0.9),
        (re.compile(r"#?repetitions +t_min\[usec\]"), 0.9),
    ),
    parse=_parse,
    banner=re.compile(r"Intel ?\(R\) MPI Benchmarks|Benchmarking:? +\w+$"),
)
ONECCL_READER = Format(
    name="oneccl",
    words=("Benchmarking: ",),
    signs=((re.compile(r"^\W*Benchmarking: +\w+\s*$", re.MULTILINE), 1.0),),
    parse=_parse,
)
