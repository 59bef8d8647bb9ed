"""Read the Gloo benchmark: boxed titles, times in whole microseconds or nanoseconds, and a GB of 2^30 bytes.

Source, by description: facebookincubator/gloo, gloo/benchmark/runner.cc and main.cc.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from nhalf.collective import Op
from nhalf.evidence.readers.columns import Vocabulary, events, note
from nhalf.evidence.readers.numerals import TIME_UNITS, integer
from nhalf.evidence.readers.protocol import Format
from nhalf.evidence.readers.sweep import Sweep
from nhalf.evidence.table import Note, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.readers.columns import Event
    from nhalf.evidence.readers.protocol import Line

_TITLE = re.compile(r"^\s*(?:Algorithm:\s*)?([A-Z]+(?:_[A-Z]+)*|[a-z]+(?:_[a-z]+)+)\s*$")
_OPTIONS = re.compile(r"Options:.*?\bprocesses=(\d+)")
_VOCABULARY: Final = Vocabulary(
    {
        "size": r"\bsize ?\(B\)",
        "elements": r"\belements\b",
        "min": r"\bmin(?: ?\([nu]s\))?",
        "time": r"\bp50(?: ?\([nu]s\))?",
        "quantile": r"\bp\d+(?: ?\([nu]s\))?",
        "max": r"\bmax(?: ?\([nu]s\))?",
        "bandwidth": r"\b(?:avg )?bandwidth ?\(\w+/s\)",
        "iterations": r"\b(?:iterations|samples)\b",
    },
    needs=("elements",),
    one_of=("time",),
)
_FLOAT: Final = 4  # bytes of an element, which old versions do not print
# By the beginning of the title.
_OPS: Final = (
    ("reduce_scatter", Op.REDUCE_SCATTER),
    ("allreduce", Op.ALL_REDUCE),
    ("cuda_allreduce", Op.ALL_REDUCE),
    ("new_allreduce", Op.ALL_REDUCE),
    ("allgather", Op.ALL_GATHER),
    ("broadcast", Op.BROADCAST),
    ("cuda_broadcast", Op.BROADCAST),
    ("barrier", Op.BARRIER),
    ("reduce", Op.REDUCE),
)
_WHOLE: Final = frozenset({Op.ALL_REDUCE, Op.BROADCAST, Op.REDUCE})


@dataclass(slots=True)
class _Run:
    sweep: Sweep
    title: str = ""
    ranks: int | None = None
    assumed: bool = False
    unit: str = field(default="us")

    def row(self, event: Event) -> None:
        if "size" not in event.values:
            self.assumed = True
            elements = integer(event.values["elements"])
            event.values["size"] = str((elements or 0) * _FLOAT)
        header = event.header.text("time") if event.header else ""
        self.unit = "ns" if "ns" in header else "us"
        self.sweep.add(event, time="time", unit=TIME_UNITS[self.unit], least="min", most="max")

    def table(self) -> Table:
        name = self.title.casefold()
        op = next((op for word, op in _OPS if name.startswith(word)), None)
        return Table(
            file=self.sweep.source,
            tool="Gloo benchmark",
            op=op,
            test="" if op else name.replace("_", "-"),
            ranks=self.ranks,
            quantity="isolated",
            size_is="message" if op in _WHOLE else "",
            label=name.replace("_", "-"),
            points=self.sweep.trusted(),
            notes=(*self._notes(), *self.sweep.ranks(op, self.ranks)[1]),
            skipped=tuple(self.sweep.skipped),
        )

    def _notes(self) -> Iterable[Note]:
        if self.unit == "us":
            yield note("quantised", "times are whole microseconds")
        yield note("unit", "GB is 2^30 bytes")
        if self.assumed:
            yield note("size-assumed", "there is no size: elements of 4 bytes are assumed")


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    runs = [_Run(Sweep(source))]
    for event in events(lines, _VOCABULARY, sign="elements"):
        run, text = runs[-1], event.line.text
        if event.kind == "row":
            run.row(event)
        elif event.kind == "cut":
            run.sweep.cut(event)
        elif event.kind == "header" and run.sweep:
            runs.append(_Run(Sweep(source), run.title, run.ranks))
        elif found := _TITLE.match(text):
            runs.append(_Run(Sweep(source), found[1], run.ranks))
        elif found := _OPTIONS.search(text):
            run.ranks = int(found[1])
    return [run.table() for run in runs if run.sweep]


READER = Format(
    name="gloo",
    words=("elements", "processes="),
    signs=(
        (re.compile(r"(?:size ?\(B\)\s+)?elements\s+min(?: ?\([nu]s\))?\s+p50(?: ?\([nu]s\))?\s+p99"), 1.0),
        (re.compile(r"Options:\s+processes=\d+, inputs="), 1.0),
    ),
    parse=_parse,
)
