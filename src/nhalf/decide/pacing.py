"""Pacing: a decode loop with a straggler, whose compute the prediction supplies and which the simulation runs.

A step is as many stretches of work as the layers have all-reduces of the TP group, each followed by one. The work of a
rank is what the predicted step leaves beside its collectives; the all-reduce is played message by message, on links
whose times are scaled so that it costs, undisturbed, what the prediction says. Every step starts with all ranks
together.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nhalf.breakdown import columns
from nhalf.collective import Op
from nhalf.decide.agreement import is_what_if, shape_for
from nhalf.errors import InputError
from nhalf.predict import exchange, layer
from nhalf.predict.step import decode
from nhalf.simulate import network, programs
from nhalf.simulate.compiled import WORTH_COMPILING, is_installed
from nhalf.simulate.engine import Conditions, run
from nhalf.simulate.machine import Machine, from_fabric
from nhalf.simulate.rounds import can_play
from nhalf.simulate.straggler import Straggler, factors, starts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nhalf.breakdown import Array
    from nhalf.fabric import Fabric
    from nhalf.predict.response import Mask
    from nhalf.scenario import Scenario
    from nhalf.simulate.program import Program

IN_NODE, ACROSS_NODES, ON_TORUS, IN_LINE = "one-shot", "hierarchical", "torus-2d", "ring"
"""The algorithms that are played unless another is asked for: on a torus those of neighbours, who have the links."""
LEADS = 0.25
"""A rank that is the last to arrive less often than this does not lead: some places of a program are late by nature."""
_READS = ("weights", "experts", "kv")
"""The columns of a step that are reading memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """Something to do about a straggler, and the tokens per second that it leads to."""

    name: str
    tokens_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """A decode loop: its speed, the spread of its steps [s], and the rank that the others wait for most.

    `straggler` is empty where nobody is behind, `jitter_s` [s] is that of every rank in any case; `pace_rank` is None
    where no rank leads in waiting, `pace_share` is the share of the collectives at which it was the last to arrive;
    with `pace_by_link` none is, and it is the share of the steps in which messages on its slow link were waited for.
    `behind` is in how many steps somebody was behind: a straggler may be by chance.
    """

    straggler: str
    tokens_per_s: float
    step_p50_s: float
    step_p99_s: float
    pace_rank: int | None
    pace_share: float
    pace_by_link: bool = False
    jitter_s: float = 0.0
    behind: int = 0
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loop:
    """What a decode loop is made of.

    `work_s` [s] is one stretch of work between two of the `collectives` of a step; `collective_s` [s] is what one costs
    by the prediction; `reads_share` [1] is the part of the work that is reading memory.
    """

    scenario: Scenario
    machine: Machine
    algorithm: str
    ranks: int
    batch: float
    collectives: int
    work_s: float
    collective_s: float
    size_bytes: float
    reads_share: float

    @property
    def step_s(self) -> float:
        """Return the predicted step [s]."""
        return self.collectives * (self.work_s + self.collective_s)

    @property
    def is_what_if(self) -> bool:
        """Tell whether no library runs the algorithm on these nodes."""
        return is_what_if(Op.ALL_REDUCE, self.algorithm, self.machine)


def loop(scenario: Scenario, algorithm: str = "") -> Loop:
    """Return the loop of a scenario.

    Raises
    ------
    InputError
        A group of one, or an algorithm that is unknown or does not fit.
    """
    ranks = scenario.layout.tensor_parallel
    if ranks < 2:  # noqa: PLR2004  one rank waits for nobody
        raise InputError("a TP group of one has nobody to wait for", where="--tp", allowed="2 or more")
    machine = _machine(scenario.system.fabric, ranks)
    name = programs.algorithm("all-reduce", algorithm or usual(machine))
    if name in programs.GROUPED and not machine.group:
        raise InputError(
            f"{name} needs several nodes, or a torus", where="--algorithm", do="take another, or more --tp"
        )
    shared = {column: float(np.mean(value)) for column, value in columns(decode(scenario)).items()}
    spent = sum(value for column, value in shared.items() if column.startswith("collective_"))
    found = next(one for one in exchange.exchanges(scenario, layer.tokens(scenario)) if one.op == Op.ALL_REDUCE)
    count, size = round(float(np.mean(found.count.value))), float(np.mean(found.size.value))
    return Loop(
        scenario=scenario,
        machine=machine,
        algorithm=name,
        ranks=ranks,
        batch=float(np.mean(scenario.workload.batch)),
        collectives=count,
        work_s=(sum(shared.values()) - spent) / count,
        collective_s=spent / count,
        size_bytes=size,
        reads_share=sum(shared.get(name, 0.0) for name in _READS) / (sum(shared.values()) - spent),
    )


def _machine(fabric: Fabric, ranks: int) -> Machine:
    """Return the machine of a TP group."""
    try:
        return from_fabric(fabric, ranks)
    except InputError as error:
        do = error.do.replace("--ranks", "--tp")
        raise InputError(error.what, where="--tp", allowed=error.allowed, do=do) from error


def usual(machine: Machine) -> str:
    """Return the algorithm that is played unless another is asked for."""
    if machine.network.kind == "torus":
        return ON_TORUS if 1 < machine.group < machine.span.ranks else IN_LINE
    return IN_NODE if machine.span.nodes == 1 else ACROSS_NODES


def pace(
    made: Loop,
    stragglers: Sequence[Straggler],
    *,
    tokens: int,
    seed: int,
    jitter_s: float = 0.0,
    progress: Callable[[int], None] | None = None,
) -> Pace:
    """Return the pace of a loop of some tokens with stragglers; `jitter_s` [s] is the jitter of every rank.

    `progress` is told of as many collectives as the loop has, all of its tokens together.
    """
    source = np.random.default_rng(seed)
    active = np.array([source.random(tokens) < one.chance for one in stragglers]).reshape(len(stragglers), tokens)
    steps, last = np.zeros(tokens), np.zeros(made.ranks)
    # Tokens with the same stragglers behave alike and are played together.
    for pattern in np.unique(active, axis=1).T:
        chosen = np.flatnonzero((active == pattern[:, None]).all(axis=0))
        behind = [one for one, is_active in zip(stragglers, pattern, strict=True) if is_active]
        alike = _Tokens(count=len(chosen), jitter_s=jitter_s, source=source)
        for steps[chosen], arrived in _play(made, behind, alike):
            last += arrived
            if progress is not None:
                progress(len(chosen))
    share = last / (tokens * made.collectives)
    by_link = bool(share.max() <= max(LEADS, 1.5 / made.ranks))
    if by_link:
        share = _on_slow_links(stragglers, active, made.ranks)
    leads = bool(share.max() > LEADS)
    rank = int(np.argmax(share))
    return Pace(
        straggler=", ".join(one.text for one in stragglers),
        tokens_per_s=made.batch / float(steps.mean()),
        step_p50_s=float(np.percentile(steps, 50)),
        step_p99_s=float(np.percentile(steps, 99)),
        pace_rank=rank if leads else None,
        pace_share=float(share[rank]) if leads else 0.0,
        pace_by_link=leads and by_link,
        jitter_s=jitter_s,
        behind=int(active.any(axis=0).sum()),
    )


def _on_slow_links(stragglers: Sequence[Straggler], active: Mask, ranks: int) -> Array:
    """Return the share of the tokens [1] in which each rank is on a slow link; `active` is (stragglers, tokens)."""
    share = np.zeros(ranks)
    for one, flaps in zip(stragglers, active, strict=True):
        if one.what == "link" and one.amount > 1:
            share[one.rank] = max(share[one.rank], flaps.mean())
    return share


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Tokens:
    """Tokens with the same stragglers, and the jitter of every rank [s] with where it is drawn from."""

    count: int
    jitter_s: float
    source: np.random.Generator


def _play(made: Loop, behind: Sequence[Straggler], tokens: _Tokens) -> Iterator[tuple[Array, Array]]:
    """Yield after each collective the time of each step so far [s], and how many tokens each rank alone was last in.

    Without jitter all tokens are the same, and one is played for all of them.
    """
    work = made.work_s * factors(behind, made.ranks, "slow")[:, None]
    jitter = np.full(made.ranks, tokens.jitter_s)
    for one in behind:
        jitter[one.rank] += one.amount if one.what == "jitter" else 0.0
    played = tokens.count if jitter.any() else 1
    program, net = _collective(made, made.algorithm)
    slowed = net.slowed(factors(behind, made.ranks, "link"))
    conditions = Conditions()
    engine = _engine(program, slowed, conditions, program.messages * played * made.collectives)
    ready = np.repeat(starts(behind, made.ranks)[:, None], played, axis=1)
    for _ in range(made.collectives):
        ready += work
        if jitter.any():
            ready += tokens.source.exponential(1.0, ready.shape) * jitter[:, None]
        late = ready == ready.max(axis=0)
        last = (late & (late.sum(axis=0) == 1)).sum(axis=1) * (tokens.count // played)
        ready = run(program, slowed, replace(conditions, starts_s=ready), engine=engine, record=False).finished_s
        yield ready.max(axis=0), last


def _engine(program: Program, net: network.Network, conditions: Conditions, messages: int) -> str:
    """Return the engine for a loop of so many messages in all, which is worth more than one collective's is."""
    if can_play(program, net, conditions.ports, conditions.protocol):
        return "arrays"
    compiles = messages >= WORTH_COMPILING and is_installed() and not os.environ.get("NUMBA_DISABLE_JIT")
    return "compiled events" if compiles else ""


def _collective(made: Loop, algorithm: str) -> tuple[Program, network.Network]:
    """Return the all-reduce of a loop and links on which it takes, undisturbed, what the prediction says."""
    program = all_reduce_of(made, algorithm)
    own = program if algorithm == made.algorithm else all_reduce_of(made, made.algorithm)
    plain = float(run(own, made.machine.network).time_s)
    return program, made.machine.network.stretched(made.collective_s / plain)


def all_reduce_of(made: Loop, algorithm: str) -> Program:
    """Return the all-reduce of a loop by an algorithm."""
    size = max(1.0, made.size_bytes)
    return programs.build("all-reduce", algorithm, shape_for(algorithm, made.ranks, size, made.machine))
