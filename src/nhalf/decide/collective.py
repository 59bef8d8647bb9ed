"""One collective by size: who wins where, what a library would run, and what a wrong choice costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.breakdown import columns
from nhalf.collective import Mode, Op
from nhalf.laws import tuner
from nhalf.laws.collective.bandwidth import algbw, busbw
from nhalf.laws.collective.table import candidates
from nhalf.laws.symmetric import symmetric_all_reduce

if TYPE_CHECKING:
    from nhalf.breakdown import Array, Quantity, Term
    from nhalf.curve import MeasuredCurve
    from nhalf.fabric import Span
    from nhalf.laws.collective.table import Law
    from nhalf.library import Library, Rule, SymmetricKernels

HANDED_OVER: Final = "nccl"
"""What a rule says where the library hands over to NCCL, whose tuner decides."""
TIE: Final = 1e-9
"""Two laws that differ by less are the same: rings one way and both ways through one port."""
_PER_OCTAVE: Final = 8
_HALVINGS: Final = 60


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """One collective on one group of ranks, the library that runs it, and what is known about both.

    `has` is what the machine has beyond links: `peer memory`, `nvls`, `sharp`, `torus`; `nics` tells whether its nodes
    are joined by NICs, rather than by the switches that devices share. `rule` is the library's own, None where its
    tuner decides alone; `curve` what was measured of it there; `symmetric` what NCCL expects of its kernels on
    registered buffers, None where it would not run them. `reduce_s_per_byte` [s/byte] is the time
    to reduce a byte where that is not hidden behind the transfer. `doubt` are the factors between which a plan of its
    tuner may be off.
    """

    op: Op
    span: Span
    has: frozenset[str]
    library: Library | None = None
    rule: Rule | None = None
    curve: MeasuredCurve | None = None
    mode: Mode = Mode.GRAPH
    reduce_s_per_byte: float = 0.0
    nics: bool = True
    symmetric: SymmetricKernels | None = None
    doubt: tuple[float, float] = (1.0, 1.0)

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return self.span.ranks

    @cached_property
    def laws(self) -> dict[str, Law]:
        """Return every law that applies to the span, whether the machine has what it needs or not."""
        return candidates(self.op, self.span)

    @cached_property
    def available(self) -> tuple[str, ...]:
        """Return the algorithms for which the machine has all that they need.

        On a torus those that speak to neighbours alone, where there are any: the laws of the others know no detours.
        """
        has = {name: law for name, law in self.laws.items() if not law.needs or law.needs in self.has}
        near = tuple(name for name, law in has.items() if law.neighbours)
        return near if near and "torus" in self.has and self.span.nodes == 1 else tuple(has or self.laws)

    def term(self, algorithm: str, size_bytes: Quantity) -> Term:
        """Return what the law says of an algorithm: its time [s] with its parts."""
        law = self.laws[algorithm].on(self.span)
        if law is None:  # candidates() keeps only laws that are defined on the span
            raise KeyError(algorithm)
        return law(size_bytes, self.span, self.reduce_s_per_byte)

    def time_s(self, algorithm: str, size_bytes: Quantity) -> Quantity:
        """Return the time [s] of an algorithm by its law."""
        return self.term(algorithm, size_bytes).value

    def fastest(self, size_bytes: float) -> str:
        """Return the algorithm that the machine runs fastest by the laws; the first of several that are the same."""
        times = [float(np.mean(self.time_s(name, size_bytes))) for name in self.available]
        least = min(times)
        return next(name for name, time in zip(self.available, times, strict=True) if time <= least * (1 + TIE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One size by one algorithm: its law, or what was measured of the library as a whole.

    `runs` tells whether the machine has what the algorithm needs; `chosen` whether the library would run it. `low_s`
    and `high_s` [s] are the 80 % band of what was measured; a law has none.
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
    needs: str
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """The size [bytes] from which the laws favour another algorithm."""

    before: str
    after: str
    size_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the library's own tuner expects of a size: a plan by its constants, and no measurement.

    `low_s` and `high_s` [s] are the ends of the doubt about it.
    """

    path: str
    algorithm: str
    time_s: float
    fixed_s: float
    low_s: float
    high_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a library runs for one size, beside what the laws favour.

    `algorithm` is None where nothing is known of the library's choice; `time_s` [s] is the law of it, None where there
    is none. `lost_s` [s] is what it takes beyond the fastest.
    """

    size_bytes: float
    fastest: str
    fastest_s: float
    algorithm: str | None
    time_s: float | None
    decided_by: str
    plan: Plan | None

    @property
    def lost_s(self) -> float | None:
        """Return what the library's choice costs beyond the fastest law [s]."""
        return None if self.time_s is None else max(self.time_s - self.fastest_s, 0.0)

    @property
    def is_fastest(self) -> bool:
        """Tell whether the choice is as fast as the fastest."""
        return self.lost_s is not None and self.lost_s <= TIE * self.fastest_s


def symmetric(question: Question, size_bytes: float) -> Plan | None:
    """Return what NCCL expects of the quickest of its symmetric kernels, or None where it has none to run."""
    if question.symmetric is None:
        return None
    terms = symmetric_all_reduce(size_bytes, question.ranks, question.symmetric, multicast="nvls" in question.has)
    name, term = min(terms.items(), key=lambda each: float(np.mean(each[1].value)))
    return _planned(question, term, path=name, algorithm="nccl-symmetric")


def _planned(question: Question, term: Term, *, path: str, algorithm: str) -> Plan:
    """Return a plan with the doubt about it."""
    time_s = float(np.mean(term.value))
    low, high = question.doubt
    return Plan(
        path=path,
        algorithm=algorithm,
        time_s=time_s,
        fixed_s=float(np.mean(columns(term)["fixed"])),
        low_s=low * time_s,
        high_s=high * time_s,
    )


def rows(question: Question, sizes_bytes: list[float]) -> list[Row]:
    """Return every algorithm and what was measured, size by size."""
    chosen = {size: choice(question, size) for size in sizes_bytes}
    found = []
    for size in sizes_bytes:
        found += [_of_law(question, name, size, chosen[size]) for name in question.laws]
        measured = _of_curve(question, size)
        found += [measured] if measured else []
    return found


def _of_law(question: Question, name: str, size_bytes: float, chosen: Choice) -> Row:
    """Return the row of a law."""
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
        exact=law.exact,
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
    fixed_s = min(at.floor_s, time_s)
    width = math.exp(float(question.curve.half_width(np.array([size_bytes]), question.ranks)[0]))
    return Row(
        size_bytes=size_bytes,
        algorithm=question.curve.key.library,
        time_s=time_s,
        low_s=time_s / width,
        high_s=time_s * width,
        fixed_s=fixed_s,
        transfer_s=time_s - fixed_s,
        kind="measured" if question.curve.is_measured(question.ranks) else "modelled",
        chosen=True,
        fastest=False,
        runs=True,
        exact="",
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


def choice(question: Question, size_bytes: float) -> Choice:
    """Return what the question's library runs for a size, by its rule and then by its tuner."""
    fastest = question.fastest(size_bytes)
    # A plan is the tuner's: where the library's own rule decides, it is of something that does not run.
    expected = None if _ruled(question, size_bytes) else plan(question, size_bytes)
    algorithm, by = _decided(question, size_bytes, expected)
    known = algorithm is not None and algorithm in question.laws
    return Choice(
        size_bytes=size_bytes,
        fastest=fastest,
        fastest_s=float(np.mean(question.time_s(fastest, size_bytes))),
        algorithm=algorithm,
        time_s=float(np.mean(question.time_s(algorithm, size_bytes))) if algorithm is not None and known else None,
        decided_by=by,
        plan=expected,
    )


def _decided(question: Question, size_bytes: float, expected: Plan | None) -> tuple[str | None, str]:
    """Return the algorithm that the library runs for a size and who decides so: its rule, or its tuner."""
    if question.library is None:
        return None, ""
    if question.rule is not None and (named := _ruled(question, size_bytes)) is not None:
        return named, f"{question.rule.library}'s thresholds"
    if expected is not None:
        return expected.algorithm, planner(question.library)
    if question.op in (Op.ALL_TO_ALL, Op.SEND_RECV):
        return "direct", "sends and receives side by side"
    return None, ""


def _ruled(question: Question, size_bytes: float) -> str | None:
    """Return the algorithm that the library's own rule names for a size; None where it hands over, or has no rule."""
    named = None if question.rule is None else question.rule.choice(size_bytes, question.ranks)
    return None if named == HANDED_OVER else named


def planner(library: Library) -> str:
    """Return who plans for a library on its machine, in words."""
    name = library.planner.partition("-")[0]
    return {"nccl": "NCCL's tuner", "rccl": "RCCL's tuner"}.get(name, "a prior of rings and trees on these links")


def plan(question: Question, size_bytes: float) -> Plan | None:
    """Return the path that the library's tuner expects to be the fastest, or None where it plans nothing."""
    if question.library is None or question.op not in tuner.PLANNED:
        return None
    paths = tuner.plan(question.op, size_bytes, question.span, question.library, has=question.has)
    path, term = min(paths, key=lambda each: float(np.mean(each[1].value)))
    return _planned(question, term, path=term.name, algorithm=str(path.algorithm))
