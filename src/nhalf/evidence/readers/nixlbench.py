"""Read nixlbench, its table and its CSV form: transfers between two agents.

Source, by description: ai-dynamo/nixl, benchmark/nixlbench/src/utils. The time is the average latency of a batch.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from nhalf.collective import Op
from nhalf.evidence.readers.columns import Event, Vocabulary, events, note
from nhalf.evidence.readers.numerals import MICROSECOND
from nhalf.evidence.readers.protocol import Format, Line
from nhalf.evidence.readers.sweep import Sweep
from nhalf.evidence.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_VOCABULARY: Final = Vocabulary(
    {
        "size": r"Block Size ?\(B\)|\bblock_size\b",
        "batch": r"Batch Size|\bbatch_size\b",
        "bandwidth": r"(?:Aggregate )?B/W ?\([GM]i?B/Sec\)|\bbw_\w+\b",
        "network": r"Network Util ?\(%\)",
        "time": r"Avg Lat\.? ?\(us\)|\bavg_lat\b",
        "part": r"(?:Avg|P\d+) (?:Prep|Post|Tx) ?\(us\)",
    },
    needs=("size",),
    one_of=("time",),
)


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    sweeps: dict[tuple[int, str], Sweep] = {}
    run = 0
    parts = False
    for event in events(_spaced(lines), _VOCABULARY, sign="lat", fixed=False):
        if event.kind == "header":
            run += bool(sweeps)
            parts |= bool(event.header) and "part" in event.header.names if event.header else False
        elif event.kind in {"row", "cut"}:
            _take(sweeps, run, event, source)
    return [_table(batch, sweep, parts=parts) for (_, batch), sweep in sweeps.items()]


def _take(sweeps: dict[tuple[int, str], Sweep], run: int, event: Event, source: str) -> None:
    if event.kind == "row":
        sweep = sweeps.setdefault((run, event.values.get("batch", "1")), Sweep(source))
        sweep.add(event, time="time", unit=MICROSECOND)
    else:
        sweeps.setdefault(next(reversed(sweeps), (run, "1")), Sweep(source)).cut(event)


def _spaced(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the lines with the commas of the CSV form as spaces."""
    separated = False
    for line in lines:
        separated = separated or ("," in line.text and " " not in line.text.strip())
        yield Line(line.number, line.text.replace(",", " ").replace('"', "")) if separated else line


def _table(batch: str, sweep: Sweep, *, parts: bool) -> Table:
    notes = []
    if parts:
        notes.append(note("average-latency", "average latency is not the sum of prepare, post and transfer"))
    if batch != "1":
        notes.append(note("batch", f"{batch} blocks a transfer: the time is that of a batch, the size that of a block"))
    return Table(
        file=sweep.source,
        tool="nixlbench",
        op=Op.SEND_RECV,
        test="point-to-point",
        ranks=2,
        quantity="back_to_back",
        size_is="message",
        label=f"batch {batch}" if batch != "1" else "",
        points=sweep.trusted(),
        notes=tuple(notes),
        skipped=tuple(sweep.skipped),
    )


READER = Format(
    name="nixlbench",
    words=("Block Size", "block_size"),
    signs=(
        (re.compile(r"Block Size ?\(B\)\s+Batch Size"), 1.0),
        (re.compile(r"^\W*block_size,batch_size,", re.MULTILINE), 1.0),
    ),
    parse=_parse,
)
