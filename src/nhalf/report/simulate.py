"""The answer of `nhalf simulate`, as text and as a document."""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

from nhalf import units
from nhalf.report.canvas import grid
from nhalf.report.document import envelope, of
from nhalf.simulate.path import CAUSES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from nhalf.decide.agreement import Convoy, Outcome
    from nhalf.report.canvas import Canvas
    from nhalf.simulate.path import Stretch
    from nhalf.simulate.program import Program

_SHOWN = 4
"""Links of a chain of ranks that are spelled out at either end of it."""
_BUSY = 3
UNREAL = "a what-if only, no library runs it across NICs"
_LARGE = 1e3
"""A ratio from which all its digits are shown, not its order of magnitude."""
_AHEAD = 1.005
"""A ratio below this is none."""
_SMALL = 1e-3
"""A difference below this is shown by its order of magnitude."""


def write(outcomes: Sequence[Outcome], canvas: Canvas, *, where: str, next_commands: Sequence[str]) -> None:
    """Write the verdict, the time, the table, the critical paths in words and the next command."""
    best, _ = _fastest(outcomes)
    canvas.paragraph(_verdict(outcomes), bold=True)
    canvas.paragraph(f"{units.format_time(_time(best))} by {best.run.program.algorithm}")
    run = best.run
    canvas.heading(f"{task(best.run.program)}, {where}; ports {run.conditions.ports}, {run.conditions.protocol}")
    shown = [cause for cause in CAUSES if any(one.causes[cause] for one in outcomes)]
    canvas.place(_table(outcomes, shown, canvas, marked=[outcomes.index(best)] if len(outcomes) > 1 else []))
    for one in outcomes:
        canvas.listed(one.run.program.algorithm, _explained(one))
    canvas.following(*next_commands)


def _table(outcomes: Sequence[Outcome], shown: Sequence[str], canvas: Canvas, *, marked: Sequence[int]) -> Table:
    """Return the table; on a narrow page it leaves out what is said below it, rather than break a name."""
    columns = ["<algorithm", "time", "messages", *shown, "law", "vs law", "busiest"]
    rows = [_row(one, shown) for one in outcomes]
    for name in ("", "busiest", "messages"):
        if name:
            at = columns.index(name)
            columns = [*columns[:at], *columns[at + 1 :]]
            rows = [[*row[:at], *row[at + 1 :]] for row in rows]
        table = grid(columns, rows, marked=marked)
        if canvas.fits(table):
            break
    return table


def _time(one: Outcome) -> float:
    return float(one.run.time_s)


def task(program: Program) -> str:
    """Return what was simulated."""
    size = "" if program.op == "barrier" else f" of {units.format_size(program.size_bytes)}"
    return f"{program.op}{size} on {program.ranks} ranks"


def _fastest(outcomes: Sequence[Outcome]) -> tuple[Outcome, list[Outcome]]:
    """Return the fastest, and those that it is the fastest of: what a library can run, or all where none can."""
    real = [one for one in outcomes if not one.what_if] or list(outcomes)
    return min(real, key=_time), real


def _verdict(outcomes: Sequence[Outcome]) -> str:
    """Return what the fastest that can run pays for, how far the slowest is behind, and what only a what-if takes."""
    best, real = _fastest(outcomes)
    name = best.run.program.algorithm
    cause, share = _main_cause(best)
    what = f"{name} takes {units.format_time(_time(best))}"
    if len(real) > 1:
        worst = max(real, key=_time)
        among = f"{len(real)}" if len(real) == len(outcomes) else f"the {len(real)} that can run"
        what = f"{name} is the fastest of {among}: {units.format_time(_time(best))}, {_ahead(best, worst)}"
    what = f"{what}; {100 * share:.0f} % of it is {cause}." if cause else f"{what}."
    if best.convoy is not None:
        what += (
            f" Late ranks make a convoy at {best.run.conditions.ports} ports; fair ports give "
            f"{units.format_time(best.convoy.fair_s)}."
        )
    if best.what_if:
        return f"{what} It is {UNREAL}."
    beyond = min((one for one in outcomes if one.what_if), key=_time, default=best)
    if _time(beyond) < _time(best):
        what += f" {beyond.run.program.algorithm} would take {units.format_time(_time(beyond))}: {UNREAL}."
    return what


def _ahead(best: Outcome, worst: Outcome) -> str:
    """Return how far the fastest is ahead of the slowest."""
    ratio, name = _time(worst) / _time(best), worst.run.program.algorithm
    if ratio < _AHEAD:
        return f"as good as {name}"
    return f"{f'{ratio:.3g}' if ratio < _LARGE else f'{ratio:,.0f}'}x faster than {name}"


def _main_cause(one: Outcome) -> tuple[str, float]:
    """Return what most of the critical path is spent on, and its share; nothing without a path."""
    if not one.path:
        return "", 0.0
    cause = max(one.causes, key=one.causes.__getitem__)
    return cause, one.causes[cause] / _time(one)


def _row(one: Outcome, shown: Sequence[str]) -> list[str]:
    """Return a row of the table: the causes that some algorithm spends time on, a dash where this one spends none."""
    causes = [units.format_time(one.causes[cause]) if one.path and one.causes[cause] else "-" for cause in shown]
    law = "-" if one.law_s is None else units.format_time(one.law_s)
    busy = f"{100 * one.usage[0].share:.1f} %" if one.usage else "-"
    name, time = one.run.program.algorithm, units.format_time(_time(one))
    return [name, time, str(one.run.messages), *causes, law, _against(one), busy]


def _against(one: Outcome) -> str:
    """Return simulation against law."""
    if one.difference is None:
        return "-"
    if one.reason == "the same":
        return "same"
    return f"{100 * one.difference:+.1f} %" if abs(one.difference) >= _SMALL else f"{one.difference:+.1e}"


def _explained(one: Outcome) -> list[str]:
    """Return the lines below one algorithm: its critical path, its links, its law and how its data was checked."""
    lines = (
        [f"Critical path: {path_words(one.path)}"]
        if one.path
        else ["No critical path: a run of so many messages keeps no record of them."]
    )
    if one.convoy is not None:
        lines.append(_convoy_words(one.convoy, one.run.conditions.ports))
    if one.usage:
        shown = ", ".join(f"{use.name} {100 * use.share:.1f} %" for use in one.usage[:_BUSY])
        lines.append(f"Links: the busiest of {len(one.usage)} used are {shown}.")
    if one.law_s is None:
        lines.append(f"Law: none; {one.reason}.")
    elif one.reason == "the same":
        lines.append(f"Law: {units.format_time(one.law_s)}, the same.")
    else:
        lines.append(f"Law: {units.format_time(one.law_s)}, {_against(one)}: {one.reason}.")
    notes = "".join(f" The program is {note}." for note in one.run.program.notes)
    lines.append(f"Data: {_checked(one.payload)}.{notes} Engine: {one.run.engine}.")
    return lines


def _convoy_words(convoy: Convoy, ports: str) -> str:
    """Return where a convoy comes from and what it costs."""
    late, lost, together, fair = map(
        units.format_time, (convoy.late_s, convoy.lost_s, convoy.together_s, convoy.fair_s)
    )
    return (
        f"Convoy: {late} of late start cost {lost} more than that. Ports serve messages in the order in which they "
        f"are posted ({ports}): those for the late rank come last at every sender, and then all meet at its port. "
        f"Together the ranks take {together}; with fair ports, late as they are, {fair}."
    )


def _checked(payload: str) -> str:
    if payload in ("bitmask", "fingerprint"):
        return f"each contribution arrives exactly once (checked by {payload})"
    return payload


def path_words(path: Sequence[Stretch]) -> str:
    """Return a critical path in words: who waited for whom, and for what."""
    if not path:
        return "nothing was sent"
    parts = []
    first = path[0]
    if first.kind == "start":
        parts.append(f"rank {first.rank} starts {units.format_time(first.length_s)} late")
    messages = [stretch for stretch in path if stretch.kind == "message"]
    if messages:
        parts.append(f"{_chain(messages)}, {_length(messages)}")
    queued = max(messages, key=lambda stretch: stretch.queueing_s, default=None)
    if queued is not None and queued.queueing_s > 0:
        parts.append(
            f"the longest queue is {units.format_time(queued.queueing_s)}, of the message from rank "
            f"{queued.rank} to rank {queued.peer}"
        )
    late = sum(1 for stretch in messages if stretch.waited_for == "receiver")
    if late:
        parts.append("it waited for its receiver" if len(messages) == 1 else f"{late} of them waited for the receiver")
    last = path[-1]
    parts.append(f"rank {last.peer} ends last at {units.format_time(last.end_s)}")
    return "; ".join(parts) + "."


def _length(messages: Sequence[Stretch]) -> str:
    """Return how many messages follow each other."""
    return "1 message" if len(messages) == 1 else f"each waiting for the one before it: {len(messages)} messages"


def _chain(messages: Sequence[Stretch]) -> str:
    """Return who sent to whom: one arrow after the other where the receiver sends on."""
    text: list[str] = []
    groups = [(key, len(list(same))) for key, same in groupby((one.rank, one.peer) for one in messages)]
    at = -1
    for (rank, peer), times in groups:
        start = [f"rank {rank}"] if rank != at else []
        text.append(" -> ".join([*start, f"rank {peer}"]) + (f" ({times} times)" if times > 1 else ""))
        at = peer
    if len(text) > 2 * _SHOWN:
        text = [*text[:_SHOWN], f"... ({len(text) - 2 * _SHOWN} more)", *text[-_SHOWN:]]
    return " -> ".join(text).replace(" -> rank", " -> rank")


def document(outcomes: Sequence[Outcome], *, where: str, partial: str = "") -> dict[str, Any]:
    """Return the document of the contract; `partial` says what was interrupted."""
    return envelope(
        "simulate", {"network": where, "partial": partial or None, "runs": [_entry(one) for one in outcomes]}
    )


def _entry(one: Outcome) -> dict[str, Any]:
    run = one.run
    return {
        **of(run.program, "op", "algorithm", "ranks", "size_bytes"),
        **of(run.conditions, "ports", "protocol"),
        **of(run, "time_s", "messages", "engine"),
        **of(one, "law_s", "payload", "what_if", law_difference="difference", law_reason="reason"),
        "causes": {f"{name.replace(' ', '_')}_s": value for name, value in one.causes.items()} if one.path else None,
        "critical_path": [
            {**of(stretch), "message": stretch.message if stretch.message >= 0 else None} for stretch in one.path
        ],
        "links": [of(use, "name", "bytes", utilisation="share") for use in one.usage],
        "convoy": None if one.convoy is None else asdict(one.convoy),
    }
