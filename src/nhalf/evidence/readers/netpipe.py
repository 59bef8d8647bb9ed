"""Read NetPIPE: `N bytes M times --> X Mbps in Y usec`, half of a round trip, with Mbps of 2^20 bits.

Source, by description: NetPIPE 3 and 4, src/netpipe.c.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nhalf.collective import Mode, Op
from nhalf.evidence.readers.columns import note, skip, timed
from nhalf.evidence.readers.numerals import NUMBER, TIME_UNITS, integer
from nhalf.evidence.readers.protocol import Format
from nhalf.evidence.readers.sweep import Sweep
from nhalf.evidence.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.readers.protocol import Line

_ROW = re.compile(
    rf"(\d[\d.,]*)\s*(?:bytes|B)\s+\d+\s+times\s*-+>\s*({NUMBER})\s*[MG]bps\s+in\s+({NUMBER})\s*(nsecs?|usecs?|msecs?|secs?)"
)
_CUT = re.compile(r"\bbytes\s+\d*|times\s*-+>")


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    sweeps = [Sweep(source)]
    for line in lines:
        text = line.text
        sweep = sweeps[-1]
        if found := _ROW.search(text):
            size = integer(found[1])
            if size and sweep.points and size < sweep.points[-1].size_bytes:
                sweep = Sweep(source)  # another run
                sweeps.append(sweep)
            point = timed(line, float(size), found[3], TIME_UNITS[found[4]]) if size else None
            if point:
                sweep.points.append(point)
            else:
                sweep.skipped.append(skip(line, source, "its size or its time is no number above 0"))
        elif "bytes" in text and text.strip()[0].isdigit() and _CUT.search(text):
            sweep.skipped.append(skip(line, source, "the row is cut"))
    return [_table(sweep) for sweep in sweeps if sweep]


def _table(sweep: Sweep) -> Table:
    return Table(
        file=sweep.source,
        tool="NetPIPE",
        op=Op.SEND_RECV,
        test="point-to-point",
        ranks=2,
        mode=Mode.HOST,
        quantity="isolated",
        size_is="message",
        points=tuple(sweep.points),
        notes=(
            note("half-round-trip", "the time is half of a round trip"),
            note("unit", "Mbps is 2^20 bits a second"),
        ),
        skipped=tuple(sweep.skipped),
    )


READER = Format(
    name="netpipe",
    words=(" times ",),
    signs=((re.compile(r"bytes\s+\d+\s+times\s*-+>\s*[\d.,]+\s*[MG]bps"), 1.0),),
    parse=_parse,
)
