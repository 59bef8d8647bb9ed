"""Read NCCL's debug log: the times that NCCL's own tuner predicts (`NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING`).

Source, by description: NVIDIA/nccl, src/enqueue.cc. These are predictions; nothing was measured.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from nhalf.evidence.readers.columns import interval, note, skip
from nhalf.evidence.readers.inference import known_op
from nhalf.evidence.readers.numerals import MICROSECOND, decimals, real
from nhalf.evidence.readers.protocol import Format
from nhalf.evidence.table import Note, Point, Skipped, Table
from nhalf.units import format_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nhalf.collective import Op
    from nhalf.evidence.readers.protocol import Line

_CHOICE = re.compile(
    r"(?:\b([A-Z][A-Za-z]+): +)?(\d+) +Bytes +-> +Algo +(\w+) +proto +(\w+)(?:.*?\btime +([-+\d.eE]+))?", re.IGNORECASE
)
_BEFORE = 40  # characters that an operation and a size may take
_RANKS = re.compile(r"\bn[Rr]anks +(\d+)")
_NODES = re.compile(r"\bnNodes +(\d+)")
# ncclAlgo* and ncclProto* of nccl.h / device.h, in their order.
_ALGORITHMS: Final = ("tree", "ring", "collnet-direct", "collnet-chain", "nvls", "nvls-tree", "pat")
_PROTOCOLS: Final = ("LL", "LL128", "Simple")


@dataclass(slots=True)
class _Choices:
    """The lines of one operation by one algorithm and protocol, which are one line of time against size."""

    choice: str
    points: list[Point] = field(default_factory=list)
    seen: set[tuple[float, str, str, str]] = field(default_factory=set)
    repeats: dict[float, int] = field(default_factory=dict)
    lines: int = 0
    printed: list[tuple[Line, str]] = field(default_factory=list)

    def drop_cut(self, source: str) -> list[Skipped]:
        """Drop the points whose time has fewer decimals than the others: C prints six, so the line was cut."""
        most = max((decimals(token) for _, token in self.printed), default=0)
        cut = {line.number for line, token in self.printed if decimals(token) < most}
        self.points = [point for point in self.points if point.line not in cut]
        return [skip(line, source, "the line is cut") for line, _ in self.printed if line.number in cut]


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    groups: dict[tuple[str, str], _Choices] = {}
    ranks: set[int] = set()
    nodes: set[int] = set()
    skipped: list[Skipped] = []
    for line in lines:
        text = line.text
        if "anks" in text:
            ranks.update(int(found) for found in _RANKS.findall(text))
            nodes.update(int(found) for found in _NODES.findall(text))
        found = _CHOICE.search(text, max(0, text.find(" Bytes -> ") - _BEFORE)) if " Bytes -> " in text else None
        if not found or not found[5]:
            continue
        choice = f"{_name(found[3], _ALGORITHMS)} {_name(found[4], _PROTOCOLS)}"
        if not _take(groups.setdefault((found[1] or "", choice), _Choices(choice)), line, found):
            skipped.append(skip(line, source, "its size is 0, or its time is no number above 0"))
    for choices in groups.values():
        skipped.extend(choices.drop_cut(source))
    many = len(ranks) != 1
    return [
        Table(
            file=source,
            tool="NCCL debug log",
            op=known_op(name),
            ranks=None if many else min(ranks),
            nodes=min(nodes) if len(nodes) == 1 and not many else None,
            quantity="predicted",
            size_is="message",
            label=choices.choice,
            points=tuple(sorted(choices.points, key=lambda point: (point.size_bytes, point.repeat))),
            notes=tuple(_notes(choices, _switches(groups, name), ranks=ranks)),
            skipped=tuple(skipped) if index == 0 else (),
        )
        for index, ((name, _), choices) in enumerate(groups.items())
    ]


def _take(choices: _Choices, line: Line, found: re.Match[str]) -> bool:
    size, value = float(found[2]), real(found[5])
    if size <= 0.0 or value is None or value <= 0.0:
        return False
    choices.lines += 1
    choices.printed.append((line, found[5]))
    key = (size, found[3], found[4], found[5])
    if key not in choices.seen:  # every rank prints the same line
        choices.seen.add(key)
        low, high = interval(found[5], MICROSECOND)
        repeat = choices.repeats.get(size, 0)
        choices.repeats[size] = repeat + 1
        choices.points.append(
            Point(size_bytes=size, seconds=value * MICROSECOND, line=line.number, repeat=repeat, low_s=low, high_s=high)
        )
    return True


def decided(text: str) -> dict[tuple[Op | None, float], tuple[str, str]]:
    """Return the algorithm and the protocol that NCCL took, by operation (None where unsaid) and size [bytes]."""
    return {
        (known_op(found[1] or ""), float(found[2])): (_name(found[3], _ALGORITHMS), _name(found[4], _PROTOCOLS))
        for line in text.splitlines()
        if " Bytes -> " in line and (found := _CHOICE.search(line))
    }


def _notes(choices: _Choices, switches: str, ranks: set[int]) -> Iterable[Note]:
    yield note("predicted", "the times are NCCL's own prediction, not a measurement")
    if choices.lines > len(choices.points):
        yield note("repeated-lines", f"{choices.lines} lines say the same more than once: one row per size is kept")
    if len(ranks) > 1:
        yield note("ranks-unknown", f"communicators of {', '.join(map(str, sorted(ranks)))} ranks: say --ranks")
    if switches:
        yield note("library-choice", f"NCCL chooses {switches}")


def _switches(groups: Mapping[tuple[str, str], _Choices], op: str) -> str:
    """Return what an operation is run by from which size on."""
    parts: list[str] = []
    last = ""
    names = {point.size_bytes: each.choice for (of, _), each in groups.items() if of == op for point in each.points}
    for size, name in sorted(names.items()):
        if name != last:
            parts.append(name if not parts else f"{name} from {format_size(size)}")
            last = name
    return ", ".join(parts)


def _name(text: str, known: tuple[str, ...]) -> str:
    return known[int(text)] if text.isdigit() and int(text) < len(known) else text


READER = Format(
    name="nccl-debug",
    words=(" Bytes -> Algo ",),
    signs=((re.compile(r"\d+ Bytes -> Algo \w+ proto \w+ time [\d.]"), 0.4),),
    parse=_parse,
)
