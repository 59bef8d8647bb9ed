"""What `nhalf simulate OP` does with its flags: a machine, programs, conditions, runs and their report."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from nhalf import units
from nhalf.cli import following, forms, output, simulate_flags
from nhalf.cli import simulate_reading as reading
from nhalf.cli.simulate import count, needed
from nhalf.cli.simulate_progress import Progress
from nhalf.decide.agreement import Outcome, outcome
from nhalf.decide.skewed import spread
from nhalf.errors import InputError
from nhalf.loading.files import write_text
from nhalf.report import simulate as report
from nhalf.report import simulate_draws as draws_report
from nhalf.simulate import programs
from nhalf.simulate.engine import Conditions, run
from nhalf.simulate.timeline import check_size
from nhalf.simulate.timeline import timeline as make_timeline

if TYPE_CHECKING:
    from pathlib import Path

    from nhalf.breakdown import Array
    from nhalf.decide.skewed import Spread
    from nhalf.simulate.engine import Run
    from nhalf.simulate.machine import Machine
    from nhalf.simulate.program import Program
    from nhalf.simulate.straggler import Skew


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
        own = reading.own_schedule(op) if op.endswith(".json") else None
        if own is None:
            op = programs.operation(op)
        simulate_flags.check(op, flags)
        ranks = own.ranks if own is not None else units.parse_count(needed(flags, "ranks", "8"), where="--ranks")
        machine = reading.machine(ranks, flags)
        made = (own,) if own is not None else reading.made_programs(op, ranks, machine, flags)
        simulate_flags.check_group(made, flags)
        simulate_flags.check_adding(made, flags)
        skew, draws = reading.skew_and_draws(ranks, flags)
        return cls(
            machine=machine,
            programs=made,
            conditions=reading.conditions(ranks, flags),
            skew=skew,
            draws=draws,
            seed=count(flags, "seed", 1),
            words=machine.words,
            flags=flags,
        )

    def show(self, *, timeline: Path | None) -> None:
        """Run every program and print the answer; what an interrupt leaves is labelled."""
        if timeline is not None:
            check_size(self.programs)
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
            output.tell(f"wrote {timeline}: open it in Perfetto (ui.perfetto.dev) or chrome://tracing")
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
        report.write(outcomes, canvas, where=self.words, next_commands=self._next())
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
        draws_report.write(spreads, canvas, task=task, skew=skew, ports=ports, next_commands=self._next())
        output.write(canvas.text)

    def _drawn(self, program: Program, starts: Array, progress: Progress) -> Run:
        """Return the run of many draws."""
        conditions = replace(self.conditions, starts_s=starts)
        return run(program, self.machine.network, conditions, progress=progress.advance)

    def _next(self) -> tuple[str, ...]:
        """Return the commands to try next."""
        return tuple(following.command("simulate", changed) for changed in self._changes())

    def _changes(self) -> list[dict[str, object]]:
        """Return what to change of the command line, each in a command of its own."""
        fair: list[dict[str, object]] = []
        if self.conditions.ports != "fair":
            fair.append({"--ports": "fair"})
        late: dict[str, object] = {"--straggler": "rank 1: 20us"}
        if self.skew is not None:
            several = not self.flags["algorithm"] and len(programs.PROGRAMS.get(self.programs[0].op, ())) > 1
            every: list[dict[str, object]] = [{"--algorithm": "all"}] if several else []
            return [*every, *(fair or [late])]
        if self.conditions.starts_s is not None:
            return [{"--timeline": "out.json"}, *fair]
        return [late, {"--draws": 10_000, "--skew": "exponential:10us"}]


def _spreads(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the runs of a document of draws as rows, each with its draws beside it."""
    return [{**run, **run["draws"], **(run["draws"]["lateness"] or {})} for run in document["runs"]]
