"""Read nccom-test of AWS Neuron: neither operation nor ranks are in its table.

Written from the AWS Neuron documentation (nccom-test user guide) and from logs, not from its source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nhalf.collective import Mode, Op
from nhalf.evidence.readers.columns import Vocabulary, events, note
from nhalf.evidence.readers.inference import implied_op
from nhalf.evidence.readers.numerals import MICROSECOND
from nhalf.evidence.readers.protocol import Format
from nhalf.evidence.readers.sweep import Sweep
from nhalf.evidence.table import Note, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.readers.protocol import Line

_VOCABULARY: Final = Vocabulary(
    {
        "size": r"\bsize ?\(B\)",
        "count": r"count ?\(elems\)",
        "type": r"\btype\b",
        "time": r"time(?::avg)? ?\(us\)",
        "percentile": r"time:\S+?\(us\)",
        "algbw": r"algbw ?\(GB/s\)",
        "busbw": r"busbw ?\(GB/s\)",
    },
    needs=("size", "busbw"),
    one_of=("time", "percentile"),
)
_COMMAND = re.compile(r"nccom-test\b(.*)")
_RANKS = re.compile(r"(?:-r|--nworkers|--nranks)[ =]+(\d+)")
_OPS: Final = {
    "allr": Op.ALL_REDUCE,
    "allg": Op.ALL_GATHER,
    "redsct": Op.REDUCE_SCATTER,
    "alltoall": Op.ALL_TO_ALL,
    "all_reduce": Op.ALL_REDUCE,
    "all_gather": Op.ALL_GATHER,
    "reduce_scatter": Op.REDUCE_SCATTER,
    "sendrecv": Op.SEND_RECV,
}


@dataclass(slots=True)
class _Run:
    sweep: Sweep
    op: Op | None = None
    ranks: int | None = None
    dtype: str = ""

    def table(self) -> Table:
        found = self.sweep.ratio
        op = self.op or (implied_op(found) if found else None)
        ranks, told = self.sweep.ranks(op, self.ranks)
        return Table(
            file=self.sweep.source,
            tool="nccom-test",
            op=op,
            ranks=ranks,
            mode=Mode.HOST,
            quantity="back_to_back",
            size_is="total" if op in {Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_TO_ALL} else "message" if op else "",
            dtype=self.dtype,
            points=tuple(self.sweep.points),
            notes=(*self._notes(op), *told),
            skipped=tuple(self.sweep.skipped),
        )

    def _notes(self, op: Op | None) -> Iterable[Note]:
        if op is None:
            yield note("op-unknown", "the operation is not in the log, and busbw/algbw allows several: say --op")
        elif self.op is None:
            yield note("op-inferred", "the operation follows only from the busbw/algbw ratio")


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    runs = [_Run(Sweep(source))]
    for event in events(lines, _VOCABULARY, sign="busbw"):
        run = runs[-1]
        if event.kind == "row":
            run.sweep.add(event, time="time" if "time" in event.values else "percentile", unit=MICROSECOND)
            run.dtype = run.dtype or event.values.get("type", "")
        elif event.kind == "cut":
            run.sweep.cut(event)
        elif found := _COMMAND.search(event.line.text):
            op = next((op for word, op in _OPS.items() if re.search(rf"\b{word}\b", found[1])), None)
            ranks = _RANKS.search(found[1])
            runs.append(_Run(Sweep(source), op, int(ranks[1]) if ranks else None))
        elif event.kind == "header" and run.sweep:
            runs.append(_Run(Sweep(source), run.op, run.ranks))
    return [run.table() for run in runs if run.sweep]


READER = Format(
    name="nccom-test",
    words=("busbw", "count(elems)"),
    signs=(
        (re.compile(r"size\(B\)\s+count\(elems\)\s+type\s+time\S*\(us\)"), 1.0),
        (re.compile(r"size ?\(B\).*time:\w+ ?\(us\).*busbw"), 0.9),
    ),
    parse=_parse,
)
