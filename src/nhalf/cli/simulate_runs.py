"""What `nhalf simulate OP` does with its flags: a machine, programs, conditions, runs and their report."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nhalf import units
from nhalf.catalog import store
from nhalf.cli import forms, output, simulate_flags
from nhalf.cli.simulate import count, needed
from nhalf.cli.simulate_progress import Progress
from nhalf.decide.agreement import Outcome, outcome, shape_for
from nhalf.decide.skewed import spread
from nhalf.errors import InputError
from nhalf.link import Link
from nhalf.loading.files import read_json, read_text, write_text
from nhalf.report import simulate as report
from nhalf.report import simulate_draws as draws_report
from nhalf.simulate import programs, schedule, straggler
from nhalf.simulate.engine import Conditions, run
from nhalf.simulate.machine import Machine, Wiring, from_fabric, from_links, more_than_sold
from nhalf.simulate.program import MOST_AT_ONCE
from nhalf.simulate.timeline import timeline as make_timeline

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.decide.skewed import Spread
    from nhalf.simulate.engine import Run
    from nhalf.simulate.program import Program
    from nhalf.simulate.straggler import Skew

_KINDS = ("exponential", "normal", "hiccup", "pareto")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Session:
    """What a command line asks for, read and checked."""

    machine: Machine
    programs: tuple[Program, ...]
    conditions: Conditions
    skew: Skew | None
    draws: int
    seed: int
    words: str
    flags: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, op: str, flags: dict[str, Any]) -> Session:
        """Return the session of an operation and its flags.

        Raises
        ------
        InputError
            A missing or impossible flag, an unreadable file.
        """
        own = _schedule(op) if op.endswith(".json") else None
        if own is None:
            op = programs.operation(op)
        simulate_flags.check(op, flags)
        ranks = own.ranks if own is not None else units.parse_count(needed(flags, "ranks", "8"), where="--ranks")
        machine = _machine(ranks, flags)
        made = (own,) if own is not None else _programs(op, ranks, machine, flags)
        simulate_flags.check_group(made, flags)
        simulate_flags.check_adding(made, flags)
        skew, draws = _skew(ranks, flags)
        return cls(
            machine=machine,
            programs=made,
            conditions=_conditions(ranks, flags),
            skew=skew,
            draws=draws,
            seed=count(flags, "seed", 1),
            words=machine.words,
            flags=flags,
        )

    def show(self, *, timeline: Path | None) -> None:
        """Run every program and print the answer; what an interrupt leaves is labelled."""
        outcomes: list[Outcome] = []
        interrupted = ""
        for program in self.programs:
            with Progress(program.algorithm, program.messages) as progress:
                try:
                    played = run(program, self.machine.network, self.conditions, progress=progress.advance)
                except KeyboardInterrupt:
                    interrupted = progress.words
                    break
            outcomes.append(outcome(played, self.machine))
        if outcomes:
            self._print(outcomes, partial=interrupted)
        if timeline is not None and outcomes:
            write_text(timeline, json.dumps(make_timeline([one.run for one in outcomes])))
            click.echo(f"wrote {timeline}: open it in Perfetto (ui.perfetto.dev) or chrome://tracing", err=True)
        self._leave_if(interrupted, len(outcomes))

    def _leave_if(self, interrupted: str, shown: int) -> None:
        """Leave as an interrupted command does, if it was, and say how much of the answer was shown."""
        if interrupted:
            output.warn(f"partial: {interrupted}; {shown} of {len(self.programs)} algorithms are shown")
            raise click.Abort

    def _print(self, outcomes: list[Outcome], *, partial: str) -> None:
        if forms.write(lambda: report.document(outcomes, where=self.words, partial=partial), "runs"):
            return
        canvas = output.canvas()
        report.write(outcomes, canvas, where=self.words, next_command=self._next())
        output.write(canvas.text)

    def show_draws(self) -> None:
        """Run every program over many draws of its ranks' start times, and print how the times spread."""
        if self.skew is None:
            raise InputError("--draws is given without --skew", where="--skew", do="add --skew exponential:10us")
        outcomes: list[Outcome] = []
        spreads: list[Spread] = []
        interrupted = ""
        for program in self.programs:
            starts = self.skew.draw(program.ranks, self.draws, self.seed)
            if self.conditions.starts_s is not None:
                starts = starts + self.conditions.starts_s[:, None]
            with Progress(program.algorithm, program.messages * (self.draws + 1)) as progress:
                try:
                    base = run(program, self.machine.network, self.conditions, progress=progress.advance)
                    played = self._drawn(program, starts, progress)
                except KeyboardInterrupt:
                    interrupted = progress.words
                    break
            outcomes.append(outcome(base, self.machine))
            spreads.append(spread(played, base, self.skew, what_if=outcomes[-1].what_if))
        if outcomes:
            self._print_spreads(spreads, outcomes, skew=self.skew.text, partial=interrupted)
        self._leave_if(interrupted, len(outcomes))

    def _print_spreads(self, spreads: list[Spread], outcomes: list[Outcome], *, skew: str, partial: str) -> None:
        if forms.write(
            lambda: draws_report.spreads_document(spreads, outcomes, where=self.words, skew=skew, partial=partial),
            _spreads,
        ):
            return
        canvas = output.canvas()
        task = f"{report.task(self.programs[0])}, {self.words}"
        ports = self.conditions.ports
        draws_report.write(spreads, canvas, task=task, skew=skew, ports=ports, next_command=self._next())
        output.write(canvas.text)

    def _drawn(self, program: Program, starts: Array, progress: Progress) -> Run:
        """Return the run of many draws."""
        conditions = replace(self.conditions, starts_s=starts)
        return run(program, self.machine.network, conditions, progress=progress.advance)

    def _next(self) -> str:
        """Return the command to try next."""
        if self.skew is None and self.conditions.starts_s is None:
            return "add --straggler 'rank 1: 20us', or --draws 10000 --skew exponential:10us"
        if self.skew is not None:
            op = self.programs[0].op
            several = not self.flags["algorithm"] and len(programs.PROGRAMS.get(op, ())) > 1
            every = "--algorithm all, or " if several else ""
            if self.conditions.ports == "fair":
                return f"add {every}--straggler 'rank 1: 20us' for one rank that is always late"
            return f"add {every}--ports fair for ports that all messages share"
        fair = "" if self.conditions.ports == "fair" else ", or --ports fair for shared links"
        return f"add --timeline out.json and open it in Perfetto{fair}"


def _spreads(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the runs of a document of draws as rows, each with its draws beside it."""
    return [{**run, **run["draws"], **(run["draws"]["lateness"] or {})} for run in document["runs"]]


def _schedule(path: str) -> Program:
    """Return the program of a schedule's file."""
    if not read_text(Path(path)).lstrip().startswith("{"):
        raise InputError(
            "a schedule is one JSON object",
            where=path,
            allowed='{"ranks": 2, "messages": [{"from": 0, "to": 1, "bytes": 4096}]}',
            do="put a list of messages under the key messages",
        )
    return schedule.read(read_json(Path(path)), where=path)


def _machine(ranks: int, flags: dict[str, Any]) -> Machine:
    """Return the machine that the flags describe: a system's fabric, or a link and a topology."""
    if flags["system"]:
        if flags["latency"] or flags["bandwidth"]:
            raise InputError("--on and --latency/--bandwidth are both given", where="--on", allowed="one of the two")
        if ranks < 2:  # noqa: PLR2004  said by the programs too, but a fabric has no span for it
            raise InputError("1 rank has nobody to talk to", where="--ranks", allowed="2 or more")
        system, _ = store.system(flags["system"], where="--on")
        machine = from_fabric(system.fabric, ranks)
        assumed = more_than_sold(system.name, ranks)
        return replace(machine, words=f"{machine.words} ({assumed})") if assumed else machine
    latency = units.parse(needed(flags, "latency", "5us (or --on SYSTEM)"), "time", where="--latency")
    bandwidth = units.parse(needed(flags, "bandwidth", "50GB/s"), "bandwidth", where="--bandwidth")
    return from_links(ranks, Link(latency, bandwidth), _wiring(flags))


def _wiring(flags: dict[str, Any]) -> Wiring:
    """Return how the ranks hang together."""
    inter = None
    if flags["inter_latency"] or flags["inter_bandwidth"]:
        latency = units.parse(needed(flags, "inter-latency", "8us"), "time", where="--inter-latency")
        bandwidth = units.parse(needed(flags, "inter-bandwidth", "50GB/s"), "bandwidth", where="--inter-bandwidth")
        inter = Link(latency, bandwidth)
    hop = flags["hop_latency"]
    over = flags["oversubscription"]
    ratio = units.parse(over.removesuffix(":1"), "ratio", where="--oversubscription") if over else 1.0
    if ratio <= 0:
        raise InputError(
            f"{over!r} is no oversubscription", where="--oversubscription", allowed="more than 0, such as 4 or 4:1"
        )
    return Wiring(
        topology=flags["topology"] or "switch",
        group=count(flags, "ranks-per-node", 0),
        oversubscription=ratio,
        nics=count(flags, "nics", 0),
        inter=inter,
        hop_latency_s=units.parse(hop, "time", where="--hop-latency") if hop else None,
    )


def _programs(op: str, ranks: int, machine: Machine, flags: dict[str, Any]) -> tuple[Program, ...]:
    """Return the program of each algorithm asked for."""
    size = 1.0 if op == "barrier" else units.parse(needed(flags, "size", "16KiB"), "size", where="--size")
    skew = units.parse(flags["routing"], "ratio", where="--routing") if flags["routing"] else 0.0
    asked = flags["algorithm"] or next(iter(programs.PROGRAMS[op]))
    every = asked.strip().casefold() == "all"
    names = list(programs.PROGRAMS[op]) if every else [programs.algorithm(op, name) for name in asked.split(",")]
    if len(set(names)) < len(names):
        raise InputError(f"{asked!r} names an algorithm twice", where="--algorithm", do="name each once")
    made = []
    for name in names:
        shape = shape_for(name, ranks, size, machine, skew=skew)
        try:
            made.append(programs.build(op, name, shape))
        except InputError:
            # Of "all", those are left out that this number of ranks or this machine cannot have.
            if not every or ranks < 2 or size < 1:  # noqa: PLR2004
                raise
    return tuple(made)


def _conditions(ranks: int, flags: dict[str, Any]) -> Conditions:
    """Return how ranks and ports behave."""
    found = [straggler.parse(text, ranks) for text in flags["stragglers"]]
    for one in found:
        if one.what == "jitter" or one.chance < 1:
            raise InputError(
                f"{one.text!r} needs many steps",
                where="--straggler",
                do="use nhalf simulate decode, or --draws with --skew",
            )
    starts = straggler.starts(found, ranks)
    rate = flags["reduction_rate"]
    return Conditions(
        ports=flags["ports"],
        protocol=flags["protocol"],
        reduction_s_per_byte=1 / units.parse(rate, "bandwidth", where="--reduction-rate") if rate else 0.0,
        starts_s=starts if starts.any() else None,
        slowness=straggler.factors(found, ranks, "slow"),
        port_slowness=straggler.factors(found, ranks, "link"),
    )


def _skew(ranks: int, flags: dict[str, Any]) -> tuple[Skew | None, int]:
    """Return the skew and how many draws of it."""
    text = flags["skew"]
    draws = count(flags, "draws", 10_000)
    if not text:
        return None, draws
    if draws * ranks > MOST_AT_ONCE:
        raise InputError(
            f"{draws:,} draws of {ranks:,} ranks are {draws * ranks:,} times to keep",
            where="--draws",
            allowed=f"1 to {MOST_AT_ONCE // ranks:,}",
        )
    if text.partition(":")[0].strip().casefold() not in _KINDS and Path(text).exists():
        return straggler.samples(read_text(Path(text)), where=text), draws
    return straggler.parse_skew(text), draws
