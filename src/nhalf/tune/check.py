"""Check: what the choices won, from runs with them and without, size by size and for a token."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nhalf.errors import InputError, WeakEvidenceError
from nhalf.evidence.reading import read
from nhalf.quantiles import student

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TUNED: Final = "tuned"
_ARMS: Final = ("default", TUNED)
_FEWEST: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Won:
    """Times [s] of a size without and with the choices, and the ratio tuned / default with its 95 % interval."""

    op: str
    ranks: int
    size_bytes: float
    before_s: float
    after_s: float
    ratio: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Return `won`, `lost` or `cannot tell`."""
        return "won" if self.high < 1.0 else "lost" if self.low > 1.0 else "cannot tell"


def won(words: Sequence[str]) -> list[Won]:
    """Return what was won at each size of both arms; words are `default=LOG`, `tuned=LOG`, or a LOG of such a name.

    Raises
    ------
    InputError
        A word names no arm, or a log cannot be read.
    WeakEvidenceError
        No size was measured twice in both arms.
    """
    times: dict[tuple[str, int, float], tuple[list[float], list[float]]] = {}
    for arm, file in arms(words):
        for each in read(file, op="all-reduce"):
            key = (str(each.op), each.ranks, each.size_bytes)
            times.setdefault(key, ([], []))[_ARMS.index(arm)].append(math.log(each.seconds))
    found = [_of(key, *both) for key, both in sorted(times.items()) if min(map(len, both)) >= _FEWEST]
    if not found:
        raise WeakEvidenceError("no size was measured twice with and without the choices", where="--logs",
                                do="run measure.sh to its end")  # fmt: skip
    return found


def arms(words: Sequence[str]) -> list[tuple[str, str]]:
    """Return the arm and the file that each word names.

    Raises
    ------
    InputError
        A word names no arm.
    """
    found = []
    for word in words:
        arm, equals, file = word.partition("=")
        if not equals:
            arm, file = next((each for each in _ARMS if each in Path(word).stem.casefold()), ""), word
        if arm not in _ARMS:
            raise InputError(f"{word!r} names no arm", where="--logs", allowed="default=LOG, tuned=LOG")
        found.append((arm, file))
    return found


def _of(key: tuple[str, int, float], before: list[float], after: list[float]) -> Won:
    """Return what was won at one size: means of logarithms, Student's t on both arms together."""
    means = [sum(each) / len(each) for each in (before, after)]
    squares = sum((value - mean) ** 2 for each, mean in zip((before, after), means, strict=True) for value in each)
    freedom = len(before) + len(after) - 2
    width = student(freedom) * math.sqrt(squares / freedom * (1.0 / len(before) + 1.0 / len(after)))
    off = means[1] - means[0]
    return Won(op=key[0], ranks=key[1], size_bytes=key[2], before_s=math.exp(means[0]), after_s=math.exp(means[1]),
               ratio=math.exp(off), low=math.exp(off - width), high=math.exp(off + width))  # fmt: skip


def per_token(found: Sequence[Won], messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what each batch's messages win for a token [s], by the measured size nearest to each; null beyond them."""
    batches: dict[float, list[Mapping[str, Any]]] = {}
    for each in messages:
        batches.setdefault(float(each["batch"]), []).append(each)
    rows = []
    for batch, ours in sorted(batches.items()):
        gains, squares = 0.0, 0.0
        for each in ours:
            near = [row for row in found if (row.op, row.ranks) == (each["op"], each["ranks"])
                    and abs(math.log2(row.size_bytes / each["size_bytes"])) <= 1]  # fmt: skip
            if not near:
                break
            row = min(near, key=lambda row, each=each: abs(math.log2(row.size_bytes / each["size_bytes"])))  # type: ignore[misc]
            gains += each["count"] * (row.before_s - row.after_s)
            squares += (each["count"] * row.before_s * (row.high - row.low) / 2) ** 2
        else:
            width = math.sqrt(squares)
            rows.append({"batch": batch, "gain_s_per_token": gains, "low": gains - width, "high": gains + width})
    return rows
