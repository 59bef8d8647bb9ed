"""Agreement: the law of a collective against its simulation, the reason where they differ, and convoys."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nhalf import units
from nhalf.collective import Op
from nhalf.laws.collective.table import LAWS, Law
from nhalf.simulate import programs
from nhalf.simulate.engine import run as play
from nhalf.simulate.path import Stretch, Usage, by_cause, critical_path, utilisation
from nhalf.simulate.payload import check
from nhalf.simulate.programs.shape import Shape
from nhalf.simulate.programs.trees import segments_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nhalf.fabric import Span
    from nhalf.simulate.engine import Run
    from nhalf.simulate.machine import Machine
    from nhalf.simulate.program import Program


SAME = 1e-9
"""Relative differences below this are the rounding of sums, not of a law."""
ROUNDED_BYTES = 4
"""Bytes per rank by which whole bytes can lengthen what one rank sends: up to one for each chunk of four phases."""
CHECKED_CELLS = 20_000_000
"""A payload is replayed when messages times blocks stay below this: a second's work."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """A run, what its last rank waited for, and how its law compares.

    `law_s` [s] is None where there is no law for the program on this machine; `difference` is simulation over law,
    less 1; `payload` says how the data was checked. No library runs a `what_if` on such a machine.
    """

    run: Run
    path: list[Stretch]
    causes: dict[str, float]
    usage: list[Usage]
    payload: str
    law_s: float | None
    difference: float | None
    reason: str
    what_if: bool
    convoy: Convoy | None


def shape_for(algorithm: str, ranks: int, size_bytes: float, machine: Machine, *, skew: float = 0.0) -> Shape:
    """Return the shape of a program on a machine: its groups, and as many segments as suit its links."""
    depth = ranks - 1 if algorithm == "chain-tree" else (ranks - 1).bit_length()
    half = float(machine.span.intra.half_size_bytes)
    segments = segments_for(size_bytes, half, depth) if algorithm in programs.SEGMENTED else 1
    return Shape(ranks=ranks, size_bytes=size_bytes, group=machine.group, segments=segments, skew=skew)


def is_what_if(op: str, algorithm: str, machine: Machine) -> bool:
    """Tell whether no library runs an algorithm on a machine: across NICs nobody reads the memory of its peers."""
    law = LAWS[Op(op)].get(algorithm) if op in set(Op) else None
    return law is not None and law.needs == "peer memory" and machine.span.nodes > 1


def outcome(run: Run, machine: Machine, *, replay: bool = True) -> Outcome:
    """Return a run with its critical path, and its law on the same machine with the reason for a difference.

    The program's data are checked unless `replay` is false.
    """
    path = critical_path(run)
    causes = by_cause(path)
    law_s, difference, reason = _against_law(run, machine, causes)
    return Outcome(
        run=run,
        path=path,
        causes=causes,
        usage=utilisation(run),
        payload=_payload(run.program) if replay else "not replayed",
        law_s=law_s,
        difference=difference,
        reason=reason,
        what_if=is_what_if(run.program.op, run.program.algorithm, machine),
        convoy=convoy(run),
    )


def _payload(program: Program) -> str:
    """Return how a program's data was checked; large ones are left to the tests."""
    if program.goal is None:
        return "no data promised"
    if program.messages * program.ranks > CHECKED_CELLS:
        return "not replayed (too many messages)"
    return check(program)


def _against_law(run: Run, machine: Machine, causes: dict[str, float]) -> tuple[float | None, float | None, str]:
    """Return the law's time, the relative difference and its reason."""
    program = run.program
    law = LAWS[Op(program.op)].get(program.algorithm) if program.op in set(Op) else None
    span = _span(run, machine)
    timed = law.on(span) if law is not None else None
    if law is None or timed is None or not isinstance(run.time_s, float):
        why = f"there is no law for {program.op} by {program.algorithm} here"
        if program.algorithm not in programs.PROGRAMS.get(program.op, {}):
            why = "a schedule of your own has no law"
        if is_what_if(program.op, program.algorithm, machine):
            why += "; it reads the memory of its peers, which no library does across NICs: a what-if only"
        return None, None, why
    gamma = run.conditions.reduction_s_per_byte
    law_s = float(timed(program.size_bytes, span, gamma).value)
    difference = run.time_s / law_s - 1 if law_s > 0 else 0.0
    if abs(difference) < SAME:
        return law_s, difference, "the same"
    return law_s, difference, _reason(run, machine, law, causes, law_s)


def _span(run: Run, machine: Machine) -> Span:
    """Return the span that a law takes: a hierarchy on one switch is nodes whose links are all alike."""
    span = machine.span
    if span.nodes == 1 and run.program.algorithm == "hierarchical" and machine.group:
        return type(span)(
            ranks=span.ranks,
            nodes=span.ranks // machine.group,
            intra=span.intra,
            inter=span.intra,
            rails=float(machine.group),
        )
    return span


def _reason(run: Run, machine: Machine, law: Law, causes: dict[str, float], law_s: float) -> str:
    """Return why the simulation differs from the law, the first reason that applies."""
    time_s = float(run.time_s)
    for applies, why in _reasons(run, machine, law, law_s):
        if applies:
            return why + _queued(causes, time_s)
    return "not explained by rounding, ports or rank counts" + _queued(causes, time_s)


def _reasons(run: Run, machine: Machine, law: Law, law_s: float) -> Iterator[tuple[bool, str]]:
    """Yield whether a reason applies, and its words; the more certain ones first."""
    conditions, ranks, name = run.conditions, run.program.ranks, run.program.algorithm
    handed = run.program.op == "send-recv" and ranks > 2  # noqa: PLR2004  a pair hands over once
    yield handed, f"the law is one message, the simulation hands over through {ranks} ranks"
    late_s = 0.0 if conditions.starts_s is None else float(np.max(conditions.starts_s))
    yield late_s > 0, f"ranks start at different times, which the law does not know{_lateness(run, law_s, late_s)}"
    yield _uneven(run), "a rank or its port is slower than the others, which the law does not know"
    rounding_s = ROUNDED_BYTES * ranks / _slowest(run)
    yield abs(float(run.time_s) - law_s) <= rounding_s, "chunks are sent in whole bytes, where the law divides them"
    turns = (
        "; a ring leaves its rail at every node, and all nodes share the spine's ways from the last rail to the first"
    )
    rails = turns if machine.network.kind == "rails" and name in ("ring", "bidirectional-ring") else ""
    yield not machine.plain, f"the law is for a switch; here messages take {machine.words}{rails}"
    nodes = machine.span.nodes
    yield (
        name == "chain-tree" and nodes > 1,
        "the law is NCCL's, a chain in each node and a tree between them; the program is one chain through all ranks",
    )
    yield (
        name == "nvls" and run.program.op == "all-reduce" and conditions.ports == "fair",
        "at fair ports a sum shares with all copies, and a share with all reads, so that reads and writes take turns",
    )
    yield name in programs.SEGMENTED, "segments meet at ports while the pipeline fills, which the law does not charge"
    yield conditions.ports == "blocking", "blocking ports are held for the latency too, and the law's are not"
    slow_steps = name == "ring" and nodes > 1 and conditions.protocol == "rendezvous"
    yield (
        slow_steps,
        (
            "a rank waits until its own message has arrived, so every step takes the slow link; the law lets latency "
            "pipeline, as --protocol eager does"
        ),
    )
    yield (
        name == "direct" and nodes > 1 and conditions.ports == "fifo",
        (
            "each rank sends to the next one first, so that all of a node meet at the NICs of the same ranks, one by "
            "one; the law keeps all NICs busy, as --ports fair does"
        ),
    )
    folds = nodes > 1 and name in ("recursive-doubling", "rabenseifner") and ranks & (ranks - 1) > 0
    busiest = "the law charges each round what the busiest node takes for it"
    yield folds, f"{ranks} ranks fold into a power of two, so that nodes differ in what they send; {busiest}"
    inexact = law.exact in ("powers of two", "upper bound") and ranks & (ranks - 1) > 0
    yield inexact, f"the law is exact for powers of two only, and {ranks} is none"
    yield conditions.protocol == "eager", "an eager sender does not wait for its receiver, so steps overlap"
    shared = not run.network.private
    yield shared, "ranks share NICs and fill each other's gaps, where the law divides the bandwidth"


def _slowest(run: Run) -> float:
    """Return the bandwidth of the slowest link of a run [bytes/s]."""
    return float(run.network.capacity_bytes_per_s.min())


def _lateness(run: Run, law_s: float, late_s: float) -> str:
    """Return what the law and the last rank's lateness make together, beside the time."""
    both_s, rounding_s = law_s + late_s, ROUNDED_BYTES * run.program.ranks / _slowest(run)
    beyond_s = float(run.time_s) - both_s
    words = f"; with the lateness of the last rank, {units.format_time(late_s)}, it says"
    if abs(beyond_s) <= rounding_s + SAME * both_s:
        return f"{words} the same"
    side = "more than here" if beyond_s < 0 else "less than here"
    return f"{words} {units.format_time(both_s)}, {units.format_time(abs(beyond_s))} {side}"


def _uneven(run: Run) -> bool:
    """Tell whether some rank is slower than the others."""
    factors = (run.conditions.slowness, run.conditions.port_slowness)
    return any(factor is not None and bool(np.any(factor != 1)) for factor in factors)


def _queued(causes: dict[str, float], time_s: float) -> str:
    """Return how much of the critical path is queueing, if any of it is."""
    queued = causes["queueing"]
    return f" ({units.format_time(queued)} of queueing on the critical path)" if queued > SAME * time_s else ""


MATTERS = 0.05
"""A convoy that costs less than this share of the time is not spoken of."""
MOST_MESSAGES = 50_000
"""Messages up to which it is worth while to play a program twice more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convoy:
    """What a convoy costs: the lateness that it comes from, and the times [s] with all ranks together and fair ports.

    `lost_s` is what it adds to the time beyond that lateness.
    """

    late_s: float
    together_s: float
    fair_s: float
    lost_s: float


def convoy(run: Run) -> Convoy | None:
    """Return the convoy of a run, None where no rank is late, ports are fair, or lateness costs what it is."""
    starts, ports = run.conditions.starts_s, run.conditions.ports
    if starts is None or starts.ndim > 1 or not starts.any() or ports == "fair":
        return None
    if run.messages > MOST_MESSAGES or run.program.is_paired():
        return None
    known = replace(run.conditions, port_slowness=None)  # the network of a run is as slow already
    late = float(starts.max())
    together = float(play(run.program, run.network, replace(known, starts_s=None), record=False).time_s)
    lost = float(run.time_s) - together - late
    if lost < MATTERS * together:
        return None
    fair = float(play(run.program, run.network, replace(known, ports="fair"), record=False).time_s)
    if float(run.time_s) - fair < MATTERS * together:
        return None
    return Convoy(late_s=late, together_s=together, fair_s=fair, lost_s=lost)
