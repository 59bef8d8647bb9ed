"""One collective by size: every algorithm beside what was measured, and where the fastest changes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.breakdown import columns
from nhalf.collective import Op
from nhalf.decide.choice import choice
from nhalf.decide.collective_case import TIE
from nhalf.laws.collective.bandwidth import algbw, busbw

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.decide.choice import Choice
    from nhalf.decide.collective_case import Question

_PER_OCTAVE: Final = 8
_HALVINGS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One size by one algorithm: its law, or what was measured of the library as a whole.

    `runs` tells whether the machine has what the algorithm needs; `chosen` whether the library would run it;
    `unchecked` says why no simulation pins its law. `low_s` and `high_s` [s] are the 80 % band of what was measured; a
    law has none.
    """

    size_bytes: float
    algorithm: str
    time_s: float
    low_s: float | None = None
    high_s: float | None = None
    fixed_s: float
    transfer_s: float
    kind: str
    chosen: bool
    fastest: bool
    runs: bool
    exact: str
    unchecked: str
    needs: str
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """The size [bytes] from which the laws favour another algorithm."""

    before: str
    after: str
    size_bytes: float


def rows(question: Question, sizes_bytes: list[float]) -> list[Row]:
    """Return every algorithm and what was measured, size by size."""
    chosen = {size: choice(question, size) for size in sizes_bytes}
    found = []
    for size in sizes_bytes:
        found += [_of_law(question, name, size, chosen[size]) for name in question.laws]
        known = _of_curve(question, size) or _of_plan(question, size, chosen[size])
        found += [known] if known else []
    return found


def _of_law(question: Question, name: str, size_bytes: float, chosen: Choice) -> Row:
    term = question.term(name, size_bytes)
    owed = columns(term)
    time_s, law = float(np.mean(term.value)), question.laws[name]
    return Row(
        size_bytes=size_bytes,
        algorithm=name,
        time_s=time_s,
        fixed_s=float(np.mean(owed.get("fixed", 0.0))),
        transfer_s=float(np.mean(owed.get("transfer", 0.0))),
        kind="law",
        chosen=name == chosen.algorithm,
        fastest=name == chosen.fastest,
        runs=name in question.available,
        exact=law.exact_on(question.span),
        unchecked=law.why_unchecked(question.span),
        needs=law.needs,
        **_bandwidths(question, size_bytes, time_s),
    )


def _of_curve(question: Question, size_bytes: float) -> Row | None:
    """Return the row of the measured curve, its floor as the fixed time.

    It is modelled where the ranks lie between measured ones, or a sibling lends the curve.
    """
    if question.curve is None:
        return None
    at = question.curve.at(question.ranks)
    time_s = float(np.mean(at(size_bytes)))
    width = math.exp(float(question.curve.half_width(np.array([size_bytes]), question.ranks)[0]))
    return _of_library(
        question,
        size_bytes,
        question.curve.key.library,
        (time_s, time_s / width, time_s * width, min(at.floor_s, time_s)),
        kind="measured" if question.curve.is_measured(question.ranks) else "modelled",
    )


def _of_plan(question: Question, size_bytes: float, chosen: Choice) -> Row | None:
    """Return the row of what is expected across nodes: the library's choice at the fabric's price, or its plan."""
    plan = chosen.plan
    if plan is None or question.library is None or (question.span.nodes == 1 and question.domain is None):
        return None
    return _of_library(
        question,
        size_bytes,
        question.library.name,
        (plan.time_s, plan.low_s, plan.high_s, plan.fixed_s),
        kind="modelled" if plan.priced else "plan",
    )


def _of_library(
    question: Question, size_bytes: float, library: str, times_s: tuple[float, float, float, float], kind: str
) -> Row:
    """Return the row of a library as a whole: its time, the ends of its band and its fixed time [s]."""
    time_s, low_s, high_s, fixed_s = times_s
    return Row(
        size_bytes=size_bytes,
        algorithm=library,
        time_s=time_s,
        low_s=low_s,
        high_s=high_s,
        fixed_s=fixed_s,
        transfer_s=time_s - fixed_s,
        kind=kind,
        chosen=True,
        fastest=False,
        runs=True,
        exact="",
        unchecked="",
        needs="",
        **_bandwidths(question, size_bytes, time_s),
    )


def _bandwidths(question: Question, size_bytes: float, time_s: float) -> dict[str, float]:
    """Return algbw and busbw [bytes/s] as nccl-tests prints them; 0 for what moves no bytes."""
    moves = question.op != Op.BARRIER and time_s > 0
    return {
        "algbw_bytes_per_s": float(algbw(size_bytes, time_s)) if moves else 0.0,
        "busbw_bytes_per_s": float(busbw(question.op, size_bytes, time_s, question.ranks)) if moves else 0.0,
    }


def flips(question: Question, first_bytes: float, last_bytes: float) -> list[Flip]:
    """Return where the fastest of the available laws changes between two sizes, the smaller sizes first.

    Each is narrowed down by halving until it stands to 15 digits. Laws that are the same everywhere are one.
    """
    if last_bytes <= first_bytes:
        return []
    count = max(2, math.ceil(_PER_OCTAVE * math.log2(last_bytes / first_bytes)) + 1)
    grid = np.geomspace(first_bytes, last_bytes, count)
    winners = _winners(question, grid)
    found = []
    for place in np.flatnonzero(winners[1:] != winners[:-1]):
        before, after = (question.available[index] for index in winners[place : place + 2])
        size = _meeting(question, before, after, (float(grid[place]), float(grid[place + 1])))
        found.append(Flip(before=before, after=after, size_bytes=size))
    return found


def _winners(question: Question, sizes_bytes: Array) -> Array:
    """Return the place among the available laws of the fastest at each size; the first of several that are the same."""
    times = np.stack([np.broadcast_to(question.time_s(name, sizes_bytes), sizes_bytes.shape) for name in
                      question.available])  # fmt: skip
    first: Array = np.argmax(times <= times.min(axis=0) * (1 + TIE), axis=0)
    return first


def _meeting(question: Question, before: str, after: str, between: tuple[float, float]) -> float:
    """Return the size [bytes] at which one law passes the other."""
    low, high = between
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        if middle in (low, high):
            break
        if float(np.mean(question.time_s(before, middle))) <= float(np.mean(question.time_s(after, middle))):
            low = middle
        else:
            high = middle
    return high
