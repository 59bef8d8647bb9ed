"""Where the fixed time of a collective goes, and which part of it a change can reach.

What a curve shows is one number, its floor. What is known beside it is how many steps the algorithm takes, what a
message costs on a wire, and the pairs of curves that differ in nothing but the launch. The parts below add up to the
floor; the last takes what the others leave.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.breakdown import columns
from nhalf.collective import Mode, Op
from nhalf.decide.choice import choice
from nhalf.link import Link

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nhalf.citation import Datum, Kind
    from nhalf.curve import MeasuredCurve
    from nhalf.decide.collective_case import Question
    from nhalf.fabric import Span

SMALL_BYTES: Final = 1024.0
"""The size [bytes] at which a plan's and a law's fixed time is looked at: no bytes to speak of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a fixed time [s]: what it is, how much, how that is known, and what would shrink it."""

    name: str
    time_s: float
    kind: Kind
    how: str
    lever: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One library on one number of ranks, launched by the host each time and replayed in a graph."""

    system: str
    library: str
    version: str
    ranks: int
    graph_s: float
    eager_s: float

    @property
    def launch_s(self) -> float:
        """Return what launching from the host adds [s]."""
        return self.eager_s - self.graph_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Bypass:
    """One way around the host or its network stack: what it attacks, and how much of the fixed time that is [s]."""

    name: str
    saves_s: float
    kind: Kind
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedTime:
    """The fixed time of one collective [s], measured or planned, in parts that add up to it, and ways around parts."""

    total_s: float
    kind: str
    algorithm: str
    steps: float
    parts: tuple[Part, ...]
    bypasses: tuple[Bypass, ...]


def launch_pairs(curves: Iterable[MeasuredCurve]) -> list[Pair]:
    """Return every pair of all-reduce curves that differ in nothing but the launch, at each rank count of both."""
    by_key: dict[tuple[str, str, str, str], dict[Mode, MeasuredCurve]] = {}
    for curve in curves:
        key = curve.key
        if key.op == Op.ALL_REDUCE and not curve.flag:
            by_key.setdefault((key.system, key.library, key.version, key.dtype), {})[key.mode] = curve
    found = []
    for (system, library, version, _), modes in by_key.items():
        if Mode.GRAPH not in modes or Mode.EAGER not in modes:
            continue
        graph, eager = modes[Mode.GRAPH], modes[Mode.EAGER]
        for ranks in sorted(set(graph.ranks) & set(eager.ranks)):
            times = {"graph_s": graph.floor_s(ranks), "eager_s": eager.floor_s(ranks)}
            found.append(Pair(system=system, library=library, version=version, ranks=ranks, **times))
    return found


def alike(pairs: Sequence[Pair], question: Question) -> list[Pair]:
    """Return the pairs that say what launching from the host adds to the question's collective.

    The one of its own curve, at its version and rank count; without one all pairs of its library.
    """
    if question.library is None:
        return []
    own = [pair for pair in pairs if pair.library == question.library.name]
    curve = question.curve
    if curve is None:
        return own
    same = (curve.key.system, curve.key.version, question.ranks)
    return [pair for pair in own if (pair.system, pair.version, pair.ranks) == same] or own


def launch_s(pairs: Iterable[Pair]) -> float | None:
    """Return what launching from the host adds [s]: the median of some pairs, None without any."""
    added = [pair.launch_s for pair in pairs]
    return median(added) if added else None


def decompose(question: Question, known: Mapping[str, Datum], pairs: Sequence[Pair]) -> FixedTime | None:
    """Return where the fixed time of the question's collective goes, or None where neither curve nor plan gives it.

    `known` are the parts that no curve shows (`switch_hop`, `network_hop`, `graph_node`, `tcp_step`); `pairs` are those
    of the machine, or of all machines where it has none.
    """
    base = _base(question)
    if base is None:
        return None
    total_s, kind, algorithm = base
    inside, across = _steps(question, algorithm)
    if not question.nics:  # the nodes of a rack share switches: its steps are like those in a node
        inside, across = inside + across, 0.0
    budget = _Budget(total_s)
    budget.take("host launch", _launch(question, pairs), "measured", "eager less graph, pairs of curves",
                "replay CUDA graphs")  # fmt: skip
    if question.mode == Mode.GRAPH:
        budget.take("device launch", known["graph_node"].value, "assumed", known["graph_node"].locator,
                    "fuse it with the kernels around it")  # fmt: skip
    wire = inside * known["switch_hop"].value + across * known["network_hop"].value
    how = f"{inside:g} x {known['switch_hop'].value * 1e6:.3g} us in a node"
    if across:
        how += f", {across:g} x {known['network_hop'].value * 1e6:.3g} us between nodes"
    budget.take("wires and switches", wire, "derived", how, "fewer steps; a lower hop latency")
    stack = across * max(float(np.mean(question.span.inter.latency_s)) - known["network_hop"].value, 0.0)
    if across:
        budget.take("network stack", stack, "derived", "the link between nodes less its wires, each step",
                    "RDMA, then kernels that drive the NIC themselves")  # fmt: skip
    budget.rest("synchronisation", "flags between ranks, memory fences, and the kernel's own work: what is left",
                "one-shot instead of two; symmetric memory; multicast")  # fmt: skip
    return FixedTime(
        total_s=total_s,
        kind=kind,
        algorithm=algorithm,
        steps=inside + across,
        parts=tuple(budget.parts),
        bypasses=_bypasses(question, across, budget.taken("network stack"), known),
    )


class _Budget:
    """Parts taken one after the other out of a total; none takes more than is left."""

    def __init__(self, total_s: float) -> None:
        """Begin with nothing taken."""
        self.left_s = total_s
        self.parts: list[Part] = []

    def take(self, name: str, time_s: float, kind: Kind, how: str, lever: str) -> None:
        """Take a part, or what is left where that is less."""
        taken = min(max(time_s, 0.0), self.left_s)
        self.left_s -= taken
        self.parts.append(Part(name=name, time_s=taken, kind=kind, how=how, lever=lever))

    def taken(self, name: str) -> float:
        """Return how much a part took [s]; 0 where there is none."""
        return sum(part.time_s for part in self.parts if part.name == name)

    def rest(self, name: str, how: str, lever: str) -> None:
        """Take what is left."""
        self.parts.append(Part(name=name, time_s=self.left_s, kind="derived", how=how, lever=lever))
        self.left_s = 0.0


def _base(question: Question) -> tuple[float, str, str] | None:
    """Return the fixed time [s], whether it is measured or planned, and the algorithm of a small message."""
    chosen = choice(question, SMALL_BYTES)
    if question.curve is not None:
        kind = "measured" if question.curve.is_measured(question.ranks) else "modelled"
        return question.curve.floor_s(question.ranks), kind, chosen.algorithm or question.fastest(SMALL_BYTES)
    expected = chosen.plan
    return None if expected is None else (expected.fixed_s, "planned", expected.algorithm)


def _steps(question: Question, algorithm: str) -> tuple[float, float]:
    """Return how many steps an algorithm takes inside a node and between nodes.

    They are what its law charges in latencies: the derivative of the fixed time by each.
    """
    if algorithm not in question.laws:
        return 0.0, 0.0
    law = question.laws[algorithm].on(question.span)
    found = []
    for tier in ("intra", "inter"):
        span = _unit_latency(question, tier)
        owed = columns(law(SMALL_BYTES, span, 0.0))["fixed"] if law else 0.0
        found.append(float(np.mean(owed)))
    inside, across = found
    return (inside, across) if question.span.nodes > 1 else (inside, 0.0)


def _unit_latency(question: Question, tier: str) -> Span:
    """Return the question's span with a latency of 1 on one tier and none on the other."""
    span = question.span
    intra = Link(1.0 if tier == "intra" else 0.0, span.intra.bandwidth_bytes_per_s)
    inter = Link(1.0 if tier == "inter" else 0.0, span.inter.bandwidth_bytes_per_s)
    return replace(span, intra=intra, inter=inter)


def _launch(question: Question, pairs: Sequence[Pair]) -> float:
    """Return what the host's launch adds in the question's mode [s]."""
    return (launch_s(alike(pairs, question)) or 0.0) if question.mode == Mode.EAGER else 0.0


def _bypasses(question: Question, across: float, stack_s: float, known: Mapping[str, Datum]) -> tuple[Bypass, ...]:
    """Return what kernel bypass attacks: nothing inside a node, the network stack across."""
    if not across:
        return ()
    tcp = known["tcp_step"].value
    own = float(np.mean(question.span.inter.latency_s))
    if own >= tcp:
        how = f"{across:g} x {own * 1e6:.3g} us: these links go through the kernel, and that is all of it but the wire"
        return (Bypass(name="RDMA, or another kernel bypass", saves_s=stack_s, kind="derived", how=how),)
    return (
        Bypass(
            name="RDMA instead of TCP, in use here",
            saves_s=across * (tcp - own),
            kind=known["tcp_step"].kind,
            how=f"{across:g} x {tcp * 1e6:.3g} us through the kernel, against {own * 1e6:.3g} us",
        ),
        Bypass(
            name="device-direct: the kernel drives the NIC, no proxy thread of the host",
            saves_s=stack_s,
            kind="derived",
            how="at most the network stack; two nodes of 8 H100 ran 8 KiB in 15.1 us so (MSCCL++), of 25.2 planned",
        ),
    )
