"""Rows of nccl-tests: laid out by their header in any of its generations, or by their own shape without one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from nhalf.evidence.readers.numerals import integer, real

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Bytes of one element, by the names that nccl-tests and rccl-tests print.
TYPES: Final = {
    **dict.fromkeys(("int8", "char", "uint8", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2", "float8_e4m3"), 1),
    **dict.fromkeys(("half", "float16", "fp16", "bfloat16", "bf16"), 2),
    **dict.fromkeys(("int32", "int", "uint32", "float", "float32", "fp32"), 4),
    **dict.fromkeys(("int64", "uint64", "double", "float64"), 8),
    "float8_e5m2": 1,
}
_LEFT: Final = ("size", "count", "type", "redop", "root")
_SIDE: Final = {"cputime": "time", "wrong": "#wrong"}
_STAMPED: Final = "timestamp"
_STAMP = re.compile(r"\d{4}-\d\d-\d\d")
_REDOPS: Final = frozenset({"sum", "prod", "max", "min", "avg", "all", "mulsum", "none"})
_SHORT: Final = ("time", "algbw", "busbw", "#wrong")
_LONG: Final = (*_SHORT, "i_min", "i_max", "i_p99", "i_cv%")
_FIELDS: Final = ("time", "algbw", "busbw", "#wrong", "error", "i_min", "i_max")  # of a Side, in its order
_ERROR = re.compile(r"\de[-+]\d\d")  # before 2022 the last value of a side was the largest error, as 0e+00
# One process per rank and one write per fragment: the launcher's mark may stand inside a row.
_MARK = re.compile(r"\[\d+(?:,\d+)?\](?:<std(?:out|err)>:?)?")
_LONGEST_LEAD = 8  # words that may stand before a row


Take: TypeAlias = "Callable[[Sequence[str]], tuple[str, ...]]"
"""What picks some words of a row."""


class Side(msgspec.Struct, frozen=True, gc=False):
    """What one half of a row prints, out of place or in place, as text; empty where there is no such column.

    `wrong` counts wrong elements; until 2022 there was `error`, the largest error, instead.
    """

    time: str
    algbw: str
    busbw: str
    wrong: str
    error: str
    shortest: str
    longest: str


class Row(msgspec.Struct, frozen=True, gc=False):
    """One row: its left columns, and one or two sides; `elements` is None where it is no number."""

    size: int
    elements: int | None
    type: str
    redop: str
    root: str
    sides: tuple[Side, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """What takes a row's values from its words: its left columns, the fields of each side; and its words in all."""

    left: Take
    sides: tuple[Take, ...]
    width: int

    def row(self, tokens: Sequence[str]) -> Row | None:
        """Return the row, or None when its size is no number."""
        words = [*tokens, ""]  # what stands nowhere is the last one
        size, count, kind, redop, root = self.left(words)
        size_bytes = integer(size)
        if size_bytes is None:
            return None
        return Row(size_bytes, integer(count), kind, redop, root, tuple([Side(*side(words)) for side in self.sides]))


def layout_of_header(text: str) -> Layout | None:
    """Return the layout that a header line of any generation names, or None when the line is no whole header.

    2021: `size count type [redop] [root] time algbw busbw error`, twice; 2022: `#wrong`, all left columns; 2025:
    `timestamp` (two words); 2026: `i_min i_max i_p99 i_cv%` on each side. rccl-tests may have one side.
    """
    names = [_SIDE.get(name, name) for name in text.replace("#", " #").replace("# ", " ").split()]
    if "size" not in names[:_LONGEST_LEAD] or "time" not in names:
        return None
    names = names[names.index("size") :]
    return _layout(tuple(names))


def _take(places: Sequence[int]) -> Take:
    first, *others = places
    return itemgetter(first, *others)


@cache
def _layout(names: tuple[str, ...]) -> Layout | None:
    left: dict[str, int] = {}
    sides: list[dict[str, int]] = []
    place = 0
    for raw in names:
        name = raw if raw == "#wrong" else raw.lstrip("#")
        if name == "time":
            sides.append({})
        if sides and name != _STAMPED:
            sides[-1].setdefault(name, place)
        elif name in _LEFT:
            left[name] = place
        place += 2 if name == _STAMPED else 1
    if not sides or any("algbw" not in side for side in sides):
        return None
    return Layout(
        _take([left.get(name, -1) for name in _LEFT]),
        tuple(_take([side.get(name, -1) for name in _FIELDS]) for side in sides),
        place,
    )


def layout_of_row(tokens: Sequence[str]) -> Layout | None:
    """Return the layout that a row's own shape implies, for a log whose header is lost, or None."""
    words = list(tokens)
    stamp = next((i for i, word in enumerate(words) if _STAMP.match(word)), len(words))
    body = words[:stamp]
    names = list(_LEFT[:3])
    place = len(names)
    if len(body) > place and body[place] in _REDOPS:
        names.append("redop")
        place += 1
    rest = len(body) - place
    # An odd number of values: the first is the root. 4 or 8 a side; one side only is an rccl-tests option.
    names.extend(["root"] * (rest % 2))
    rest -= rest % 2
    fields: tuple[str, ...]
    if rest == 2 * len(_LONG):
        fields = _LONG * 2
    elif rest in (len(_SHORT), 2 * len(_SHORT)):
        fields = _SHORT * (rest // len(_SHORT))
        if _ERROR.fullmatch(body[-1]):
            fields = tuple("error" if field == "#wrong" else field for field in fields)
    else:
        return None
    return _layout((*names, *fields, *([_STAMPED] if stamp < len(words) else [])))


def tokens_of(text: str) -> list[str]:
    """Return the words of a line, without launcher marks inside it."""
    return (_MARK.sub(" ", text) if "[" in text else text).split()


def start_of_row(tokens: Sequence[str]) -> int | None:
    """Return where a row begins among the words of a line: two whole numbers and a data type; None without them."""
    if len(tokens) > 2 and tokens[2] in TYPES and tokens[0].isdigit() and tokens[1].isdigit():  # noqa: PLR2004 - nearly all
        return 0
    for j in range(2, min(len(tokens), _LONGEST_LEAD)):
        if tokens[j] in TYPES:
            begins = integer(tokens[j - 1]) is not None and integer(tokens[j - 2]) is not None
            return j - 2 if begins else None
    return None


def looks_like_data(tokens: Sequence[str]) -> bool:
    """Return whether most words are numbers: a piece of a row."""
    enough = 3
    numbers = sum(1 for word in tokens if word == "N/A" or real(word) is not None)
    return numbers >= enough and numbers >= len(tokens) - 2
