"""Read PARAM's communication benchmark: quantiles over ranks, not over iterations.

Source, by description: facebookresearch/param, et_replay and train/comms/pt/comms.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from nhalf.collective import Op
from nhalf.evidence.readers.columns import Event, Vocabulary, note
from nhalf.evidence.readers.inference import known_op
from nhalf.evidence.readers.numerals import MICROSECOND, decimals
from nhalf.evidence.readers.protocol import Format
from nhalf.evidence.readers.sweep import Sweep
from nhalf.evidence.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.readers.columns import Header
    from nhalf.evidence.readers.protocol import Line

_VOCABULARY: Final = Vocabulary(
    {
        "name": r"COMMS-RES\S*",
        "size": r"(?:total-)?size ?\(B\)",
        "elements": r"nElementsPer\w+(?: per \w+)?",
        "total": r"Total(?:Latency|Time)? ?\(us\)(?::p50)?",
        "time": r"(?:Latency|Time) ?\(us\):p50",
        "quantile": r"\bp\d+\b",
        "min": r"\bMin\b",
        "max": r"\bMax\b",
        "algbw": r"AlgBW ?\(GB/s\)",
        "busbw": r"BusBW ?\(GB/s\)",
    },
    needs=("name", "size"),
    one_of=("time",),
)
_NAME = re.compile(r"COMMS-RES-([a-z_0-9]+?)-(\w+)")
_WORLD = re.compile(r"world[_-]size['\"]?[:=]? *(\d+)", re.IGNORECASE)
_QUANTILES: Final = note("quantiles-over-ranks", "the quantiles are over ranks, not iterations; the median is used")
_TOTAL: Final = frozenset({Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_TO_ALL})


@dataclass(slots=True)
class _File:
    source: str
    ranks: int | None = None
    sweeps: dict[tuple[int, str, str], Sweep] = field(default_factory=dict)

    def tables(self) -> list[Table]:
        return [self._table(name, dtype, sweep) for (_, name, dtype), sweep in self.sweeps.items() if sweep]

    def _table(self, name: str, dtype: str, sweep: Sweep) -> Table:
        op = known_op(name.removesuffix("_base").removesuffix("v"))
        ranks, told = sweep.ranks(op, self.ranks)
        return Table(
            file=self.source,
            tool="PARAM",
            op=op,
            test="" if op else name.replace("_", "-"),
            ranks=ranks,
            quantity="back_to_back",
            size_is="total" if op in _TOTAL else "message" if op else "",
            dtype=dtype,
            points=sweep.trusted(),
            notes=(_QUANTILES, *told),
            skipped=tuple(sweep.skipped),
        )


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    file = _File(source)
    header: Header | None = None
    run, last = 0, ""
    for line in lines:
        text = line.text
        if "COMMS-RES" not in text:
            if found := _WORLD.search(text):
                file.ranks = int(found[1])
            continue
        tokens = text[text.index("COMMS-RES") :].split()
        found = _NAME.match(tokens[0])
        if not found:
            header = _VOCABULARY.header(text) or header
            run, last = run + 1, ""
            continue
        sweep = file.sweeps.setdefault((run, found[1], found[2]), Sweep(source))
        values = header.row(tokens) if header else None
        if values is None or decimals(tokens[-1]) < decimals(last):
            sweep.cut(Event("cut", line, tokens, {}, header))
            continue
        last = tokens[-1]
        sweep.add(Event("row", line, tokens, values, header), time="time", unit=MICROSECOND)
    return file.tables()


READER = Format(
    name="param",
    words=("COMMS-RES",),
    signs=((re.compile(r"COMMS-RES-\w+-\w+\s+\d|COMMS-RES\s+(?:total-)?size"), 1.0),),
    parse=_parse,
)
