"""What `nhalf simulate OP` does with its flags: a machine, programs, conditions, runs and their report."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from nhalf.cli import output, output_formats
from nhalf.cli.progress import Progress
from nhalf.cli.simulate_next import next_commands
from nhalf.decide.agreement import Outcome, outcome
from nhalf.decide.skewed import spread
from nhalf.errors import InputError
from nhalf.files.writing import write_text
from nhalf.report import simulate as report
from nhalf.report import simulate_draws as draws_report
from nhalf.simulate.engine import run
from nhalf.simulate.timeline import check_size
from nhalf.simulate.timeline import timeline as make_timeline

if TYPE_CHECKING:
    from pathlib import Path

    from nhalf.breakdown import Array
    from nhalf.decide.skewed import Spread
    from nhalf.loading.simulating import Session
    from nhalf.simulate.engine import Run
    from nhalf.simulate.program import Program


def show(session: Session, *, timeline: Path | None) -> None:
    """Run every program and print the answer; what an interrupt leaves is labelled."""
    if timeline is not None:
        check_size(session.programs)
    outcomes: list[Outcome] = []
    interrupted = ""
    for program in session.programs:
        with Progress(program.algorithm, program.messages) as progress:
            try:
                played = run(program, session.machine.network, session.conditions, progress=progress.advance)
            except KeyboardInterrupt:
                interrupted = progress.words
                break
        outcomes.append(outcome(played, session.machine))
    if outcomes:
        _print(session, outcomes, partial=interrupted)
    if timeline is not None and outcomes:
        write_text(timeline, json.dumps(make_timeline([one.run for one in outcomes])))
        output.tell(f"wrote {timeline}: open it in Perfetto (ui.perfetto.dev) or chrome://tracing")
    _leave_if(session, interrupted, len(outcomes))


def _leave_if(session: Session, interrupted: str, shown: int) -> None:
    """Leave as an interrupted command does, if it was, and say how much of the answer was shown."""
    if interrupted:
        output.warn(f"partial: {interrupted}; {shown} of {len(session.programs)} algorithms are shown")
        raise click.Abort


def _print(session: Session, outcomes: list[Outcome], *, partial: str) -> None:
    if output_formats.write(lambda: report.document(outcomes, where=session.words, partial=partial), "runs", outcomes):
        return
    canvas = output.canvas()
    report.write(outcomes, canvas, where=session.words, next_commands=next_commands(session))
    output.write(canvas.text)


def show_draws(session: Session) -> None:
    """Run every program over many draws of its ranks' start times, and print how the times spread."""
    if session.skew is None:
        raise InputError("--draws is given without --skew", where="--skew", do="add --skew exponential:10us")
    outcomes: list[Outcome] = []
    spreads: list[Spread] = []
    interrupted = ""
    for program in session.programs:
        starts = session.skew.draw(program.ranks, session.draws, session.seed)
        if session.conditions.starts_s is not None:
            starts = starts + session.conditions.starts_s[:, None]
        with Progress(program.algorithm, program.messages * (session.draws + 1)) as progress:
            try:
                base = run(program, session.machine.network, session.conditions, progress=progress.advance)
                played = _drawn(session, program, starts, progress)
            except KeyboardInterrupt:
                interrupted = progress.words
                break
        outcomes.append(outcome(base, session.machine))
        spreads.append(spread(played, base, session.skew, what_if=outcomes[-1].what_if))
    if outcomes:
        _print_spreads(session, spreads, outcomes, skew=session.skew.text, partial=interrupted)
    _leave_if(session, interrupted, len(outcomes))


def _print_spreads(
    session: Session, spreads: list[Spread], outcomes: list[Outcome], *, skew: str, partial: str
) -> None:
    if output_formats.write(
        lambda: draws_report.spreads_document(spreads, outcomes, where=session.words, skew=skew, partial=partial),
        _spreads,
    ):
        return
    canvas = output.canvas()
    task = f"{report.task(session.programs[0])}, {session.words}"
    ports = session.conditions.ports
    draws_report.write(spreads, canvas, task=task, skew=skew, ports=ports, next_commands=next_commands(session))
    output.write(canvas.text)


def _drawn(session: Session, program: Program, starts: Array, progress: Progress) -> Run:
    """Return the run of many draws."""
    conditions = replace(session.conditions, starts_s=starts)
    return run(program, session.machine.network, conditions, progress=progress.advance)


def _spreads(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the runs of a document of draws as rows, each with its draws beside it."""
    return [{**run, **run["draws"], **(run["draws"]["lateness"] or {})} for run in document["runs"]]
