"""Read UCC perftest (`ucc_perftest -F`): a head of settings, then times and bus bandwidths under two header lines.

Source, by description: openucx/ucc, tools/perf. The order of avg, min and max is read from the second header line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from nhalf.collective import Mode, Op
from nhalf.evidence.readers.columns import skip, timed
from nhalf.evidence.readers.inference import known_op, ratio, settled
from nhalf.evidence.readers.numerals import GIGABYTE_PER_S, MICROSECOND, decimals, integer, microseconds
from nhalf.evidence.readers.protocol import Format
from nhalf.evidence.table import Point, Skipped, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nhalf.evidence.readers.protocol import Line

_SETTING = re.compile(r"^\s*(Collective|Memory type|Datatype|Reduction|Inplace|Team size|Iteration mode)\s*:\s*(\S+)")
_WHOLE: Final = frozenset({Op.ALL_REDUCE, Op.BROADCAST, Op.REDUCE})


@dataclass(slots=True)
class _Test:
    source: str
    settings: dict[str, str] = field(default_factory=dict)
    left: int = 0
    time_first: bool = True
    order: tuple[str, ...] = ()
    points: list[Point] = field(default_factory=list)
    pairs: list[tuple[str, str]] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    last: str = ""

    @property
    def op(self) -> Op | None:
        return known_op(self.settings.get("Collective", "").rstrip("v"))

    def row(self, line: Line, tokens: Sequence[str]) -> None:
        if len(tokens) != self.left + len(self.order) or decimals(tokens[-1]) < decimals(self.last):
            why = f"the row is cut: it has {len(tokens)} values of {self.left + len(self.order)}, or the last is short"
            self.skipped.append(skip(line, self.source, why))
            return
        self.last = tokens[-1]
        size = integer(tokens[self.left - 1])
        times, rates = self._halves(tokens[self.left :])
        point = None
        if size:
            low, high = microseconds(times.get("min")), microseconds(times.get("max"))
            point = timed(line, float(size), times.get("avg", ""), MICROSECOND, min_s=low, max_s=high)
        if point is None:
            self.skipped.append(skip(line, self.source, "its size is 0, or its time is no number above 0"))
            return
        self.points.append(point)
        algbw = point.size_bytes / point.seconds / GIGABYTE_PER_S
        if rates.get("avg"):
            self.pairs.append((_with_error(algbw, times["avg"]), rates["avg"]))

    def _halves(self, values: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
        second = self.order.index("avg", 1) if self.order.count("avg") > 1 else len(self.order)
        first = dict(zip(self.order[:second], values[:second], strict=True))
        rest = dict(zip(self.order[second:], values[second:], strict=True))
        return (first, rest) if self.time_first else (rest, first)

    def table(self) -> Table:
        op = self.op
        ranks, told = settled(op, ratio(self.pairs), integer(self.settings.get("Team size", "")))
        name = self.settings.get("Collective", "")
        return Table(
            file=self.source,
            tool="UCC perftest",
            op=op,
            test="" if op else name.casefold(),
            ranks=ranks,
            mode=Mode.HOST,
            quantity="isolated",
            size_is="message" if op in _WHOLE else "",
            dtype=self.settings.get("Datatype", ""),
            label=self.settings.get("Memory type", ""),
            points=tuple(self.points),
            notes=told,
            skipped=tuple(self.skipped),
        )


def _with_error(algbw: float, time: str) -> str:
    """Return an algorithm bandwidth with as many digits as the time that it was made from."""
    digits = len(re.sub(r"\D", "", time).lstrip("0"))
    return f"{algbw:.{max(digits - 1, 0)}e}"


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    done: list[_Test] = []
    test = _Test(source)
    for line in lines:
        text = line.text
        tokens = text.split()
        if found := _SETTING.match(text):
            if test.points or test.skipped:
                done.append(test)
                test = _Test(source)
            test.settings[found[1]] = found[2]
        elif "Size" in tokens and "Time" in text:
            words = [token for token in tokens if token in {"Count", "Size"}]
            test.left = len(words)
            test.time_first = "Bandwidth" not in text or text.index("Time") < text.index("Bandwidth")
        elif test.left and tokens and set(tokens) <= {"avg", "min", "max"}:
            test.order = tuple(tokens)
        elif test.order and tokens[0].isdigit():
            test.row(line, tokens)
    return [one.table() for one in (*done, test) if one.points or one.skipped]


READER = Format(
    name="ucc",
    words=("Time, us", "Collective: "),
    signs=(
        (re.compile(r"^\s*Count\s+Size\s+Time, us", re.MULTILINE), 1.0),
        (re.compile(r"^Collective: .*\n(?:.*\n){0,12}?.*Iteration", re.MULTILINE), 0.9),
    ),
    parse=_parse,
    banner=re.compile(r"Collective: +\w+$"),
)
