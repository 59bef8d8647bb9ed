"""Read nccom-test of AWS Neuron and hccl_test of Ascend: only the command names the operation and the ranks.

Written from the AWS Neuron documentation (nccom-test user guide), from that of CANN (HCCL Performance Tester, result
description), and from logs, not from their source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from nhalf.collective import Mode, Op
from nhalf.evidence.readers.columns import Vocabulary, events, note
from nhalf.evidence.readers.inference import PARTS, implied_op
from nhalf.evidence.readers.numerals import MICROSECOND
from nhalf.evidence.readers.protocol import Format, Line
from nhalf.evidence.readers.sweep import Sweep
from nhalf.evidence.table import Note, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

_OPS: Final = {
    **dict.fromkeys(("allr", "all_reduce"), Op.ALL_REDUCE),
    **dict.fromkeys(("allg", "all_gather"), Op.ALL_GATHER),
    **dict.fromkeys(("redsct", "reduce_scatter"), Op.REDUCE_SCATTER),
    **dict.fromkeys(("alltoall", "alltoallv"), Op.ALL_TO_ALL),
    "sendrecv": Op.SEND_RECV,
    "broadcast": Op.BROADCAST,
    "reduce": Op.REDUCE,
}


@dataclass(frozen=True, slots=True)
class _Tool:
    """One tool: its name, its columns, a word of every header, its command and, in that, operation and ranks.

    `totals`: its size of a gather or scatter is that of all ranks; else it is not known what it is.
    """

    name: str
    vocabulary: Vocabulary
    sign: str
    command: re.Pattern[str]
    op: re.Pattern[str]
    ranks: re.Pattern[str]
    totals: bool


_NCCOM: Final = _Tool(
    "nccom-test",
    Vocabulary(
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
    ),
    "busbw",
    re.compile(r"nccom-test\b.*"),
    re.compile(r"\b(allr|allg|redsct|alltoall|all_reduce|all_gather|reduce_scatter|sendrecv)\b"),
    re.compile(r"(?:-r|--nworkers|--nranks)[ =]+(\d+)"),
    totals=True,
)
_HCCL: Final = _Tool(
    "hccl_test",
    Vocabulary(
        {
            "size": r"data_size\(Bytes\):?",
            "time": r"ave?g_time\(us\):?",
            "algbw": r"alg_bandwidth\(GB/s\):?",
            "check": r"check_result:?",
        },
        needs=("size",),
        one_of=("time",),
    ),
    "data_size",
    re.compile(r".*\w+_test\b.*"),
    re.compile(r"\b(all_reduce|all_gather|reduce_scatter|alltoallv?|broadcast|reduce)_test\b"),
    re.compile(r"(?:mpirun|mpiexec)\b.*? -np? +(\d+)"),
    totals=False,
)


@dataclass(slots=True)
class _Run:
    tool: _Tool
    sweep: Sweep
    op: Op | None = None
    ranks: int | None = None
    dtype: str = ""

    def table(self) -> Table:
        found = self.sweep.ratio
        op = self.op or (implied_op(found) if found else None)
        ranks, told = self.sweep.ranks(op, self.ranks)
        part: Literal["total", ""] = "total" if self.tool.totals else ""
        return Table(
            file=self.sweep.source,
            tool=self.tool.name,
            op=op,
            ranks=ranks,
            mode=Mode.HOST,
            quantity="back_to_back",
            size_is=part if op in PARTS else "message" if op else "",
            dtype=self.dtype,
            points=self.sweep.trusted(),
            notes=(*self._notes(op), *told),
            skipped=tuple(self.sweep.skipped),
        )

    def _notes(self, op: Op | None) -> Iterable[Note]:
        if op and self.op is None:
            yield note("op-inferred", "the operation follows only from the busbw/algbw ratio")


def _parse(lines: Iterable[Line], source: str, tool: _Tool) -> list[Table]:
    runs = [_Run(tool, Sweep(source))]
    spaced = (Line(line.number, line.text.replace("|", " ")) for line in lines)
    for event in events(spaced, tool.vocabulary, sign=tool.sign, fixed=tool.totals):
        run = runs[-1]
        if event.kind == "row":
            run.sweep.add(event, time="time" if "time" in event.values else "percentile", unit=MICROSECOND)
            run.dtype = run.dtype or event.values.get("type", "")
        elif event.kind == "cut":
            run.sweep.cut(event)
        elif found := tool.command.search(event.line.text):
            op, ranks = tool.op.search(found[0]), tool.ranks.search(found[0])
            if op or ranks:
                runs.append(_Run(tool, Sweep(source), _OPS[op[1]] if op else None, int(ranks[1]) if ranks else None))
        elif event.kind == "header" and run.sweep:
            runs.append(_Run(tool, Sweep(source), run.op, run.ranks))
    return [run.table() for run in runs if run.sweep]


READER = Format(
    name="nccom-test",
    words=("busbw", "count(elems)"),
    signs=(
        (re.compile(r"size\(B\)\s+count\(elems\)\s+type\s+time\S*\(us\)"), 1.0),
        (re.compile(r"size ?\(B\).*time:\w+ ?\(us\).*busbw"), 0.9),
    ),
    parse=partial(_parse, tool=_NCCOM),
)
HCCL_READER = Format(
    name="hccl-test",
    words=("data_size(Bytes)",),
    signs=((re.compile(r"data_size\(Bytes\):?[ |]+ave?g_time\(us\)"), 1.0),),
    parse=partial(_parse, tool=_HCCL),
)
