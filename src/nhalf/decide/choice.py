"""What a library runs for one size of a collective: by its own rule, else by the plan of its tuner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.breakdown import columns
from nhalf.collective import Op
from nhalf.decide.question import TIE
from nhalf.laws import tuner
from nhalf.laws.symmetric import symmetric_all_reduce

if TYPE_CHECKING:
    from nhalf.breakdown import Term
    from nhalf.decide.question import Question
    from nhalf.library import Library

HANDED_OVER: Final = "nccl"
"""What a rule says where the library hands over to NCCL, whose tuner decides."""


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
