"""Read DeepEP's tests: dispatch and combine, one time for each rank, or a best bandwidth; bytes are not in the output.

Source, by description: deepseek-ai/DeepEP, tests/test_low_latency.py and tests/test_internode.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from nhalf.evidence.readers.columns import interval, note, skip
from nhalf.evidence.readers.numerals import GIGABYTE_PER_S, MICROSECOND, NUMBER, real
from nhalf.evidence.readers.protocol import Format
from nhalf.evidence.table import Figure, Note, Skipped, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.readers.protocol import Line

_RANK = re.compile(r"\[rank (\d+)\]")
_PART = re.compile(
    rf"(?P<name>Dispatch \+ combine|Dispatch|Combine)(?: \([^)]*\))? bandwidth: *{NUMBER} GB/s, *"
    rf"avg_t=(?P<time>{NUMBER}) us",
    re.IGNORECASE,
)
_TUNING = re.compile(r"\[tuning\] .*GB/s")
_BEST = re.compile(r"\[tuning\] Best (dispatch|combine)\b.*?:(.*GB/s.*)", re.IGNORECASE)
_RATE = re.compile(rf"({NUMBER}) GB/s \((\w+)\)")
_TESTS: Final = {
    "dispatch + combine": "moe-dispatch-combine",
    "dispatch": "moe-dispatch",
    "combine": "moe-combine",
}


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    figures: dict[str, list[Figure]] = {}
    ranks: set[int] = set()
    skipped: list[Skipped] = []
    for line in lines:
        text = line.text
        rank = _RANK.search(text)
        parts = list(_PART.finditer(text))
        if rank and parts:
            ranks.add(int(rank[1]))
        for found in parts:
            _take(figures, line, found, rank[1] if rank else "")
        if best := _BEST.search(text):
            for rate in _RATE.finditer(best[2]):
                _take_rate(figures, line, best[1], rate)
        elif not parts and ("bandwidth:" in text or _TUNING.search(text)):
            why = "a step of the tuning, not its best" if _TUNING.search(text) else "the line is cut: it has no time"
            skipped.append(skip(line, source, why))
    tables = [
        Table(
            file=source,
            tool="DeepEP",
            test=test,
            ranks=max(ranks) + 1 if ranks else None,
            quantity="back_to_back",
            size_is="none",
            figures=tuple(found),
            notes=tuple(_notes(ranks)),
        )
        for test, found in figures.items()
    ]
    if skipped and tables:
        from dataclasses import replace

        tables[0] = replace(tables[0], skipped=tuple(skipped))
    elif skipped:
        tables = [Table(file=source, tool="DeepEP", skipped=tuple(skipped))]
    return tables


def _notes(ranks: set[int]) -> Iterable[Note]:
    yield note("no-size", "one message size, whose bytes are not stated: a time, no line")
    if ranks and len(ranks) != max(ranks) + 1:
        yield note("ranks-missing", f"lines of {len(ranks)} of at least {max(ranks) + 1} ranks")


def _take(figures: dict[str, list[Figure]], line: Line, found: re.Match[str], rank: str) -> None:
    token = found["time"].rstrip(",.")
    value = real(token)
    if value is None or value <= 0.0:
        return
    low, high = interval(token, MICROSECOND)
    label = f"rank {rank}" if rank else ""
    figure = Figure(of="time", value=value * MICROSECOND, line=line.number, low=low, high=high, label=label)
    figures.setdefault(_TESTS[found["name"].casefold()], []).append(figure)


def _take_rate(figures: dict[str, list[Figure]], line: Line, name: str, found: re.Match[str]) -> None:
    value = real(found[1])
    if value is None or value <= 0.0:
        return
    low, high = interval(found[1], GIGABYTE_PER_S)
    figure = Figure(
        of="bandwidth", value=value * GIGABYTE_PER_S, line=line.number, low=low, high=high, label=f"best, {found[2]}"
    )
    figures.setdefault(_TESTS[name.casefold()], []).append(figure)


READER = Format(
    name="deepep",
    words=("bandwidth: ", "[tuning]"),
    signs=(
        (re.compile(r"(?:Dispatch|Combine)\S*(?: \+ combine)? bandwidth: .*avg_t=", re.IGNORECASE), 1.0),
        (re.compile(r"\[tuning\] .*(?:NVL|RDMA) chunk"), 0.9),
    ),
    parse=_parse,
)
