"""What a library runs for one size of a collective: by its own rule, else by the plan of its tuner."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.breakdown import columns, weighted_parts
from nhalf.collective import Op
from nhalf.decide.collective_case import TIE
from nhalf.laws import tuner
from nhalf.laws.across_nodes import across_nodes
from nhalf.laws.domain import MEASURED, Kernels, in_domain
from nhalf.laws.symmetric import symmetric_all_reduce
from nhalf.predict.band import LEVEL, TRANSPORT, drawn_factor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.breakdown import Array, Term
    from nhalf.citation import Datum
    from nhalf.decide.collective_case import Question
    from nhalf.laws.across_nodes import Place
    from nhalf.library import Library
    from nhalf.system import System
    from nhalf.transport import Transport


_IN_A_GRAPH: Final = (0.98, 1.08)
"""What NCCL takes inside a graph over what it takes from the host, between the ends that were measured."""
HANDED_OVER: Final = "nccl"
"""What a rule says where the library hands over to NCCL, whose tuner decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the library's own tuner expects of a size: a plan by its constants, and no measurement.

    `low_s` and `high_s` [s] are the ends of the doubt about it. Where it is `priced`, the path is the tuner's choice
    and the time what the fabric's constants say of it.
    """

    path: str
    algorithm: str
    time_s: float
    fixed_s: float
    low_s: float
    high_s: float
    priced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Beaten:
    """Where what was measured is faster than the law of the algorithm that is said to run: a law is a lower bound."""

    size_bytes: float
    measured_s: float
    law_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a library runs for one size, beside what the laws favour.

    `algorithm` is None where nothing is known of the library's choice; `time_s` [s] is the law of it, None where there
    is none. `measured_s` [s] is what the library took there, None where nothing was measured. `behind_s` [s] is how far
    the law of the choice is behind the fastest law, and `lost_s` [s] the same where the measurement lets it be claimed.
    `beaten` is where a measurement shows that the algorithm is not what runs, None where none does.
    """

    size_bytes: float
    fastest: str
    fastest_s: float
    algorithm: str | None
    time_s: float | None
    decided_by: str
    plan: Plan | None
    measured_s: float | None = None
    beaten: Beaten | None = None

    @property
    def behind_s(self) -> float | None:
        """Return how far the law of the library's choice is behind the fastest law [s]."""
        return None if self.time_s is None else max(self.time_s - self.fastest_s, 0.0)

    @property
    def is_fastest(self) -> bool:
        """Tell whether the law of the choice is as fast as the fastest."""
        return self.behind_s is not None and self.behind_s <= TIE * self.fastest_s

    @property
    def is_unclear(self) -> bool:
        """Tell whether the laws miss what was measured by more than they differ, so that they cannot tell a loss."""
        if self.is_fastest or self.time_s is None or self.behind_s is None or self.measured_s is None:
            return False
        return abs(self.measured_s - self.time_s) > self.behind_s

    @property
    def lost_s(self) -> float | None:
        """Return what the choice costs beyond the fastest law [s]; None where nothing supports such a claim."""
        refuted = self.beaten is not None and not self.is_fastest
        return None if refuted or self.is_unclear else self.behind_s


def choice(question: Question, size_bytes: float) -> Choice:
    """Return what the question's library runs for a size, by its rule and then by its tuner."""
    fastest = question.fastest(size_bytes)
    # A plan is the tuner's: where the library's own rule decides, it is of something that does not run.
    expected = None if _ruled(question, size_bytes) else plan(question, size_bytes)
    algorithm, by = _decided(question, size_bytes, expected)
    known = algorithm is not None and algorithm in question.laws
    curve = question.curve
    return Choice(
        size_bytes=size_bytes,
        fastest=fastest,
        fastest_s=float(np.mean(question.time_s(fastest, size_bytes))),
        algorithm=algorithm,
        time_s=float(np.mean(question.time_s(algorithm, size_bytes))) if algorithm is not None and known else None,
        decided_by=by,
        plan=expected,
        measured_s=None if curve is None else float(np.mean(curve.time_s(size_bytes, question.ranks))),
    )


def choices(question: Question, sizes_bytes: Sequence[float]) -> list[Choice]:
    """Return what the library runs size by size, and where a measurement shows that it runs something else.

    Whoever names an algorithm that a measurement beats is not believed about it at any size.
    """
    beaten = _beaten(question)
    found = [choice(question, size) for size in sizes_bytes]
    return [replace(each, beaten=beaten.get((each.algorithm, each.decided_by))) for each in found]


def _beaten(question: Question) -> dict[tuple[str | None, str], Beaten]:
    """Return, for each algorithm and who names it, where what was measured lies furthest below its law, band and all.

    Only what was measured on so many ranks counts; a sibling that lends its curve stands for its links, too.
    """
    curve, found = question.curve, dict[tuple[str | None, str], Beaten]()
    if curve is None or question.ranks not in curve.ranks or curve.is_moved(question.ranks):
        return found
    curve = replace(curve, lent_to="")
    sizes = curve.sizes_bytes[curve.ranks.index(question.ranks)]
    for size, width in zip(sizes.tolist(), np.exp(curve.half_width(sizes, question.ranks)).tolist(), strict=True):
        each = choice(question, size)
        if each.time_s is None or each.measured_s is None or each.measured_s * width >= each.time_s:
            continue
        new = Beaten(size_bytes=size, measured_s=each.measured_s, law_s=each.time_s)
        old = found.get((each.algorithm, each.decided_by))
        if old is None or new.measured_s / new.law_s < old.measured_s / old.law_s:
            found[each.algorithm, each.decided_by] = new
    return found


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
    """Return the path that the library's tuner expects to be the fastest, or None where it plans nothing.

    Across nodes whose fabric has a price, its time is that price; across trays of a rack it is what NCCL takes there.
    """
    if question.place is not None and question.library is not None:
        return _priced(question, size_bytes, question.place, question.library)
    if question.domain is not None:
        return _in_domain(question, size_bytes, question.domain)
    if question.library is None or question.op not in tuner.PLANNED:
        return None
    paths = tuner.plan(question.op, size_bytes, question.span, question.library, has=question.has)
    path, term = min(paths, key=lambda each: float(np.mean(each[1].value)))
    return _planned(question, term, path=term.name, algorithm=str(path.algorithm))


def _priced(question: Question, size_bytes: float, where: Place, library: Library) -> Plan:
    """Return the tuner's choice across nodes at the price of the fabric."""
    term = across_nodes(question.op, size_bytes, where, library)
    time_s = float(np.mean(term.value))
    low_s, high_s = ends(question.op, size_bytes, question.doubtful or where, library)
    path = path_of(term)
    return Plan(
        path=path.name,
        algorithm="direct" if path is term else path.name.partition("/")[0].replace("nvls-tree", "nvls"),
        time_s=time_s,
        fixed_s=float(np.mean(columns(term)["fixed"])),
        low_s=min(low_s, time_s),
        high_s=max(high_s, time_s),
        priced=True,
    )


def _in_domain(question: Question, size_bytes: float, system: System) -> Plan | None:
    """Return what NCCL takes across the trays of a rack: measured on as many ranks, or its line from fewer."""
    library = question.library
    kernels = Kernels(library=library.name, mode=question.mode, tray_ranks=library.tray_ranks) if library else None
    found = in_domain(question.op, size_bytes, question.ranks, system, kernels) if kernels else None
    if found is None:
        return None
    term, floor_s = found
    time_s = float(np.mean(term.value))
    low, high = question.doubt if term.name != MEASURED else _IN_A_GRAPH
    return Plan(
        path=term.name,
        algorithm="direct"
        if question.op in (Op.ALL_TO_ALL, Op.SEND_RECV)
        else "one-shot"
        if term.name.startswith("multicast")
        else "ring",
        time_s=time_s,
        fixed_s=min(float(np.mean(floor_s)), time_s),
        low_s=low * time_s,
        high_s=high * time_s,
        priced=True,
    )


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


def drawn(transport: Transport, origins: Mapping[str, Datum]) -> Transport:
    """Return a transport whose constants are draws of shape (draws, 1) from their intervals, as those of a step are."""
    changed: dict[str, Array] = {}
    for item in fields(transport):
        path = f"{TRANSPORT}{item.name}"
        origin = origins.get(path)
        if origin is None or origin.low is None or origin.high is None or origin.low <= 0:
            continue
        changed[item.name] = (origin.value * drawn_factor(path, origin))[:, None]
    return replace(transport, **changed)  # type: ignore[arg-type]


def path_of(term: Term) -> Term:
    """Return the path that a price is of, for one size."""
    if term.rule != "chosen":
        return term
    return next(part for part, weight in weighted_parts(term) if float(np.mean(weight)) > 0)


def ends(op: Op, size_bytes: float, place: Place, library: Library) -> tuple[float, float]:
    """Return the ends [s] of the 80 % band of a price, on a place whose transport is drawn."""
    times = across_nodes(op, np.array([size_bytes]), place, library).value
    low, high = np.quantile(np.asarray(times), ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(low), float(high)
