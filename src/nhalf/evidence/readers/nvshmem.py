"""Read NVSHMEM perftest, device collectives: one table for each scope (thread, warp, block), never pooled.

Source, by description: NVIDIA/nvshmem, perftest/common/utils.cu.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from nhalf.collective import Mode, Op
from nhalf.evidence.readers.columns import Vocabulary, events, note
from nhalf.evidence.readers.inference import known_op
from nhalf.evidence.readers.numerals import MICROSECOND
from nhalf.evidence.readers.protocol import Format
from nhalf.evidence.readers.sweep import Sweep
from nhalf.evidence.table import Note, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.readers.protocol import Line

_VOCABULARY: Final = Vocabulary(
    {
        "size": r"\bsize ?\(B(?:ytes)?\)",
        "count": r"\bcount\b",
        "type": r"\btype\b",
        "redop": r"\bredop\b",
        "scope": r"\bscope\b",
        "min": r"min_lat(?:ency)? ?\(us\)",
        "max": r"max_lat(?:ency)? ?\(us\)",
        "time": r"(?:avg_)?lat(?:ency)? ?\(us\)",
        "algbw": r"algbw ?\(GB/s\)",
        "busbw": r"busbw ?\(GB/s\)",
    },
    needs=("size",),
    one_of=("time",),
)
_TITLE = re.compile(r"(?:#\s*([a-z]\w+?)(?:_device|_on_stream|_host)?|([a-z]\w+?)(?:_device|_on_stream|_host))\s*$")
_GRAPH = re.compile(r"\buse_graph: *(\d)")
_PE = re.compile(r"\bmype: *(\d+)")
_PES = re.compile(r"\bnpes: *(\d+)")
_OPS: Final = {"fcollect": Op.ALL_GATHER, "bcast": Op.BROADCAST, "reduction": Op.ALL_REDUCE, "reduce": Op.ALL_REDUCE}


@dataclass(slots=True)
class _File:
    source: str
    title: str = ""
    graph: bool = False
    ranks: int | None = None
    pes: set[int] = field(default_factory=set)
    sweeps: dict[tuple[str, str, str, str], Sweep] = field(default_factory=dict)

    def tables(self) -> list[Table]:
        return [self._table(key, sweep) for key, sweep in self.sweeps.items() if sweep]

    def _table(self, key: tuple[str, str, str, str], sweep: Sweep) -> Table:
        title, scope, dtype, redop = key
        op = _op(title)
        ranks, told = sweep.ranks(op, self.ranks or (len(self.pes) if len(self.pes) > 1 else None))
        return Table(
            file=self.source,
            tool="NVSHMEM perftest",
            op=op,
            test="" if op else title.replace("_", "-"),
            ranks=ranks,
            mode=Mode.GRAPH if self.graph else Mode.HOST,
            quantity="graph" if self.graph else "back_to_back",
            size_is="message",
            dtype=dtype,
            label=", ".join(filter(None, (f"scope {scope}" if scope else "", redop if redop != "sum" else ""))),
            points=sweep.trusted(),
            notes=(*told, *_notes(scope)),
            skipped=tuple(sweep.skipped),
        )


def _notes(scope: str) -> Iterable[Note]:
    if scope:
        yield note("one-scope", f"scope {scope}: one curve for each scope, never pooled")


def _op(title: str) -> Op | None:
    for word, op in _OPS.items():
        if title.startswith(word):
            return op
    return known_op(title)


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    file = _File(source)
    for event in events(lines, _VOCABULARY, sign="size"):
        text, values = event.line.text, event.values
        key = (file.title, values.get("scope", ""), values.get("type", ""), values.get("redop", ""))
        if event.kind == "row":
            file.sweeps.setdefault(key, Sweep(source)).add(
                event, time="time", unit=MICROSECOND, least="min", most="max"
            )
        elif event.kind == "cut":
            last = next(reversed(file.sweeps), key)
            file.sweeps.setdefault(last, Sweep(source)).cut(event)
        elif found := _TITLE.match(text.strip()):
            file.title = found[1] or found[2]
        elif found := _GRAPH.search(text):
            file.graph = found[1] != "0"
        elif found := _PE.search(text):
            file.pes.add(int(found[1]))
        elif found := _PES.search(text):
            file.ranks = int(found[1])
    return file.tables()


READER = Format(
    name="nvshmem",
    words=("scope", "mype"),
    signs=(
        (re.compile(r"size ?\(B(?:ytes)?\) .*\bscope\b.*lat\w* ?\(us\)", re.IGNORECASE), 1.0),
        (re.compile(r"threadgroup_scope:|\bmype: \d+ mype_node"), 0.9),
    ),
    parse=_parse,
)
