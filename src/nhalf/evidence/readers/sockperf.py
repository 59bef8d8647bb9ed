"""Read sockperf: one latency, of half a round trip unless it says round trip.

Source, by description: Mellanox/sockperf, src/client.cpp.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from nhalf.collective import Mode, Op
from nhalf.evidence.readers.columns import interval, note
from nhalf.evidence.readers.numerals import MICROSECOND, NUMBER, TIME_UNITS, real
from nhalf.evidence.readers.protocol import Format, Line
from nhalf.evidence.table import Figure, Note, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

_SUMMARY = re.compile(rf"Summary: (Round trip|Latency|RTT) is ({NUMBER}) (nsec|usec|msec|sec)", re.IGNORECASE)
_CONFIDENCE = re.compile(rf"({NUMBER})% ci=\[({NUMBER}), *({NUMBER})\]")
_HALF: Final = 0.5


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    tables: list[Table] = []
    bounds: tuple[float, float] | None = None
    for line in lines:
        text = line.text
        if (found := _CONFIDENCE.search(text)) and "avg-" in text:
            low, high = real(found[2]), real(found[3])
            bounds = (low, high) if low and high else None
        elif found := _SUMMARY.search(text):
            tables.append(_table(line, found, bounds, source))
            bounds = None
    return tables


def _table(line: Line, found: re.Match[str], bounds: tuple[float, float] | None, source: str) -> Table:
    full = not found[1].casefold().startswith("lat")
    ways = _HALF if full else 1.0
    unit = TIME_UNITS[found[3].casefold()] * ways
    low, high = (bounds[0] * MICROSECOND * ways, bounds[1] * MICROSECOND * ways) if bounds else interval(found[2], unit)
    figure = Figure(of="latency", value=(real(found[2]) or 0.0) * unit, line=line.number, low=low, high=high)
    return Table(
        file=source,
        tool="sockperf",
        op=Op.SEND_RECV,
        test="point-to-point",
        ranks=2,
        nodes=2,
        mode=Mode.HOST,
        quantity="isolated",
        size_is="none",
        figures=(figure,),
        notes=tuple(_notes(full=full)),
    )


def _notes(*, full: bool) -> Iterable[Note]:
    yield note("no-size", "one message size, not stated in the output: a latency figure, no line")
    if full:
        yield note("round-trip", "the log gives the round trip: it is halved for one way")
    else:
        yield note("half-round-trip", "the time is half of a round trip")


READER = Format(
    name="sockperf",
    words=("sockperf", "Summary: "),
    signs=((re.compile(r"sockperf: (?:Summary:|== version|====> avg-)|Summary: (?:Round trip|Latency) is"), 1.0),),
    parse=_parse,
    banner=re.compile(r"sockperf: == version"),
)
