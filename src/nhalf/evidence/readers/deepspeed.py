"""Read DeepSpeed's communication benchmarks: durations whose unit changes by row, sizes rounded to text.

Source, by description: deepspeedai/DeepSpeedExamples, benchmarks/communication. The throughput of an all-reduce is
twice the algorithm bandwidth, so only durations are used. KB is 2^10 bytes; the description gives the exact bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nhalf.collective import Op
from nhalf.evidence.readers.columns import note, skip, timed
from nhalf.evidence.readers.inference import known_op
from nhalf.evidence.readers.numerals import NUMBER, TIME_UNITS, half_step, integer, size
from nhalf.evidence.readers.protocol import Format
from nhalf.evidence.readers.sweep import Sweep
from nhalf.evidence.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.readers.protocol import Line

_TITLE = re.compile(r"-+ ?Performance of (\w+) on (\d+) devices")
_ROW = re.compile(
    rf"^\s*(?P<size>{NUMBER}(?: ?[KMGT]?i?B)?)\s+(?P<shape>\d+x\d+)\s+(?P<time>{NUMBER})(?: ?(?P<unit>ns|us|ms|s))?"
    rf"\s+{NUMBER}\s+{NUMBER}\s*$"
)
_OPS: Final = {"pt2pt": Op.SEND_RECV}
_TOTAL: Final = frozenset({Op.ALL_GATHER, Op.REDUCE_SCATTER})


@dataclass(slots=True)
class _Run:
    sweep: Sweep
    name: str = ""
    ranks: int | None = None

    def row(self, line: Line, found: re.Match[str]) -> None:
        text = found["size"]
        printed = size(text, binary=True)
        count, width = (integer(part) or 0 for part in found["shape"].split("x"))
        bytes_ = _exact(printed, half_step(text.split()[0]), text, count * width, self.ranks)
        point = timed(line, float(bytes_), found["time"], TIME_UNITS[found["unit"] or "us"]) if bytes_ else None
        if point is None:
            self.sweep.skipped.append(skip(line, self.sweep.source, "its size or its time is no number above 0"))
        else:
            self.sweep.points.append(point)

    def table(self) -> Table:
        op = _OPS.get(self.name) or known_op(self.name)
        pair = op is Op.SEND_RECV
        return Table(
            file=self.sweep.source,
            tool="DeepSpeed comm",
            op=op,
            test="point-to-point" if pair else "" if op else self.name.replace("_", "-"),
            ranks=self.ranks,
            quantity="back_to_back",
            size_is="total" if op in _TOTAL else "message" if op else "",
            points=tuple(self.sweep.points),
            notes=(
                note("duration", "the duration is used; the throughput of all_reduce is twice the algorithm bandwidth"),
            ),
            skipped=tuple(self.sweep.skipped),
        )


def _exact(printed: float | None, half: float, text: str, product: int, ranks: int | None) -> float | None:
    """Return the bytes of the description, times the ranks where the tool does that, if they round to the size."""
    if printed is None:
        return float(product) or None
    unit = size(f"1{text.split()[1]}", binary=True) if " " in text else 1.0
    for bytes_ in (product, product * (ranks or 1)):
        if abs(bytes_ - printed) <= (half + 1e-9) * (unit or 1.0):
            return float(bytes_)
    return printed


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    runs = [_Run(Sweep(source))]
    for line in lines:
        text = line.text
        if found := _TITLE.search(text):
            runs.append(_Run(Sweep(source), found[1], int(found[2])))
        elif found := _ROW.match(text):
            runs[-1].row(line, found)
        elif text.strip()[0].isdigit() and (runs[-1].name or runs[-1].sweep):
            runs[-1].sweep.skipped.append(skip(line, source, "the row is cut"))
    return [run.table() for run in runs if run.sweep]


READER = Format(
    name="deepspeed",
    words=("Performance of ", "Description"),
    signs=(
        (re.compile(r"Performance of \w+ on \d+ devices"), 1.0),
        (re.compile(r"Size \(Bytes\)\s+Description\s+Duration\s+Throughput"), 1.0),
    ),
    parse=_parse,
    banner=re.compile(r"-+ ?Performance of \w+ on \d+ devices"),
)
