"""The answer of `nhalf measure`: the fit, how it was measured, what to doubt, and what to run next."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nhalf import units
from nhalf.evidence.probe.in_loop import IN_A_LOOP
from nhalf.evidence.verdict import QUANTITIES, of_curve
from nhalf.report.document import envelope
from nhalf.report.fit import write_curve, write_skipped, write_summary
from nhalf.report.fit_brief import rows
from nhalf.report.view import Brief
from nhalf.report.words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.evidence.curvefit import CurveFit
    from nhalf.evidence.fit import Fit
    from nhalf.evidence.probe.extras import Extras
    from nhalf.report.canvas import Canvas

_SHOWN = 4  # curves in full
_ROWS = 6  # of how it was measured
_VERDICTS, _DOUBTS, _PAIRS = 3, 2, 10  # of the first screen
_FIRST = ("oversubscribed", "busy")  # doubts that change every number
_PLACED = {
    "spread": "ranks started here keep a core each",
    "near": "ranks started here keep the nearest processors",
    "free": "the system moves the ranks",
    "launcher": "the launcher says where ranks run",
}
_STARTS = {
    "ping-pong": "ping-pong: half of the time there and back",
    "burst": "burst: many messages and one answer, shared by the messages",
    "window": "window: all ranks start when the clock says so; the time ends with the last rank",
    "barrier": "barrier: ranks start when they leave a barrier, `apart` is how far apart; the slowest rank's time",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """What `nhalf measure` says: the fit (None: nothing to fit), the document of the run, what follows from it.

    `file` is where the samples were saved, empty where they were not.
    """

    fit: Fit | None
    run: Mapping[str, Any]
    extras: Extras
    file: str = ""


def write(answer: Answer, canvas: Canvas) -> None:
    """Write the verdicts, the number, the curves, how they were measured, the doubts, and what to run next."""
    if answer.run["lost"]:
        canvas.paragraph(f"Ended early: {answer.run['lost']}", bold=True)
    for line in answer.extras.verdicts:
        canvas.paragraph(line, bold=True)
    if answer.fit is not None:
        _verdicts(answer.fit, canvas)
    for doubt in answer.run["doubts"]:
        if doubt["code"] in _FIRST:
            canvas.paragraph(f"Doubtful: {doubt['text']}.", bold=True)
    if answer.fit is not None:
        _fit(answer.fit, canvas)
    _extras(answer.extras, canvas)
    write_how(answer, canvas)
    canvas.following(_next(answer))


def write_how(answer: Answer, canvas: Canvas) -> None:
    """Write how a run was measured, and what to doubt."""
    _how(answer.run, canvas)
    _doubts(answer.run, canvas)


def _verdicts(fit: Fit, canvas: Canvas) -> None:
    curves = fit.curves
    canvas.paragraph("\n".join(of_curve(curve) for curve in curves[:_SHOWN]), bold=True)
    if len(curves) > _SHOWN:
        canvas.paragraph(f"and {len(curves) - _SHOWN} more curves below")


def _fit(fit: Fit, canvas: Canvas) -> None:
    curves = fit.curves
    if len(curves) > 1:
        write_summary(curves, canvas)
    if len(curves) <= _SHOWN:
        for curve in curves:
            write_curve(curve, canvas, several=len(curves) > 1)
    write_skipped(fit, canvas)


def _extras(extras: Extras, canvas: Canvas) -> None:
    """Write the tables of pairs, of what hides, of what fusing saves, and of the parts of a fixed time."""
    for table in extras.tables:
        canvas.heading(table.title)
        canvas.table(list(table.columns), [list(row) for row in table.rows], marked=table.marked)
        for note in table.notes:
            canvas.paragraph(f"  {note}", indent="    ")


def _how(run: Mapping[str, Any], canvas: Canvas) -> None:
    """Write how each curve was measured."""
    canvas.heading("How it was measured")
    curves = [curve for curve in run["curves"]
              if curve["sync"] != IN_A_LOOP and any(point["rounds_ns"] for point in curve["points"])]  # fmt: skip
    if len(curves) <= _ROWS:
        names = ["<curve", "<times", "<start", "rounds", "smallest", "95 % of its median", "least", "apart"]
        canvas.table(names, [_row(curve) for curve in curves])
    else:
        rounds = [len(point["rounds_ns"]) for curve in curves for point in curve["points"]]
        canvas.paragraph(f"  {len(curves)} curves, {min(rounds)} to {max(rounds)} rounds of each point; medians, their "
                         "intervals and least times of every point: --json", indent="    ")  # fmt: skip
    for text in sorted({_STARTS[word] for curve in curves for word in curve["sync"].split(" and ") if word in _STARTS}):
        canvas.paragraph(f"  {text}", indent="    ")
    for each in run["transports"]:
        where = " ".join(filter(None, (each["channel"], each["between"])))
        canvas.paragraph(f"  {where}: {each['text']}", indent="    ")
    if placed := run["environment"].get("placement"):
        apart, where = (run["environment"].get(name, "") for name in ("ranks_apart", "ranks_on"))
        text = f"placement {placed}: {_PLACED[placed]}{'; ' * bool(where)}{where}{': ' * bool(apart)}{apart}"
        canvas.paragraph(f"  {text}", indent="    ")
    launches = run["launches"]
    if launches["typical_difference"] is not None:
        apart = [f"{100 * launches[name]:.2g} %" for name in ("typical_difference", "largest_difference")]
        text = f"{launches['count']} launches, their medians {apart[0]} apart in the middle, {apart[1]} at most"
        canvas.paragraph(f"  {text}: the intervals of the fit are between launches", indent="    ")
    ranks = run["ranks"]
    hosts = sorted({rank["host"] for rank in ranks})
    shown = f"{len(ranks)} ranks on {counted(len(hosts), 'host')}"
    canvas.paragraph(f"  {shown}; {run['clock']}; order from seed {run['seed']}; {run['seconds']:.1f} s", indent="    ")


def _row(curve: Mapping[str, Any]) -> list[str]:
    points = [point for point in curve["points"] if point["median_s"] is not None]
    first = points[0]
    ends = [units.format_time(first[name]) for name in ("low_s", "high_s") if first[name] is not None]
    rounds = [len(point["rounds_ns"]) for point in points]
    label = curve["label"] if curve["label"].startswith(curve["channel"]) else f"{curve['channel']} {curve['label']}"
    return [
        " ".join(filter(None, (curve["op"], label.strip(), curve["mode"]))),
        QUANTITIES[curve["quantity"]].removesuffix(" calls"),
        curve["sync"],
        str(min(rounds)) if min(rounds) == max(rounds) else f"{min(rounds)}-{max(rounds)}",
        units.format_time(first["median_s"]),
        " to ".join(ends) or "-",
        units.format_time(first["min_s"]),
        units.format_time(first["skew_s"]) if first["skew_s"] is not None else "-",
    ]


def _doubts(run: Mapping[str, Any], canvas: Canvas) -> None:
    if not run["doubts"]:
        return
    canvas.heading("Doubts")
    for doubt in run["doubts"]:
        canvas.paragraph(f"  {doubt['code']}: {doubt['text']}", indent="    ")
        if doubt["do"]:
            canvas.paragraph(f"    {doubt['do']}", indent="    ")


def _next(answer: Answer) -> str:
    """Return the command to run next."""
    if answer.extras.command:
        return answer.extras.command
    if answer.file and answer.fit is not None:
        return f"nhalf fit {shlex.quote(answer.file)} -o mycluster.toml --like SYSTEM"
    return f"{answer.run['command']} -o run.json"


def _verdict(curve: CurveFit, count: int) -> str:
    """Return the verdict on a curve; of several, whose intervals stand in the table, in short."""
    if count == 1 or curve.floor_s is None:
        return of_curve(curve)
    bandwidth = f", {units.format_bandwidth(curve.bandwidth.value)}" if curve.bandwidth is not None else ""
    double = curve.double_floor_size_bytes
    upto = f"; latency counts more than bytes up to {units.format_size(double)}" if double is not None else ""
    name = curve.series.key.label or str(curve.series.key)
    return f"{name}: {units.format_time(curve.floor_s)} floor{bandwidth}{upto}."


def brief(answer: Answer) -> Brief:
    """Return the first screen: what was asked for beside the curves, a row for each curve, and what to doubt."""
    run, curves = answer.run, answer.fit.curves if answer.fit is not None else ()
    doubts = sorted(run["doubts"], key=lambda doubt: doubt["code"] not in _FIRST)
    more = len(doubts) - _DOUBTS
    title, table = "", rows(curves) if curves else None
    if table is None and answer.extras.tables:
        first = answer.extras.tables[0]
        title, table = first.title, (list(first.columns), [list(row) for row in first.rows[:_PAIRS]])
    hosts = len({rank["host"] for rank in run["ranks"]})
    how = f"{counted(len(run['ranks']), 'rank')} on {counted(hosts, 'host')}, {run['backend']}, {run['seconds']:.1f} s"
    command, _, why = _next(answer).partition("  # ")
    return Brief(
        verdict=[
            *([f"Ended early: {run['lost']}"] if run["lost"] else []),
            *(answer.extras.verdicts or [_verdict(curve, len(curves)) for curve in curves[:_VERDICTS]]),
        ],
        title=title or f"{how}; 95 % in brackets",
        table=table,
        notes=[
            *(f"{doubt['text'][0].upper()}{doubt['text'][1:]}." for doubt in doubts[:_DOUBTS]),
            *([f"{counted(more, 'other doubt')} with --detail."] if more > 0 else []),
        ],
        closing=[f"Kept in {answer.file}: nothing has to be measured again."] if answer.file else (),
        next_command=command,
        next_why=why,
        warn=bool(run["lost"]),
    )  # fmt: skip


def document(answer: Answer) -> dict[str, Any]:
    """Return the document of the contract: that of a fit, and the run without its samples."""
    run = answer.run
    body = answer.fit.to_dict() if answer.fit is not None else {"fits": [], "notes": [], "skipped": []}
    verdicts: Sequence[str] = [*answer.extras.verdicts, *(found["verdict"] for found in body["fits"])]
    return envelope(
        "measure",
        {
            "verdict": " ".join(verdicts),
            **body,
            "parameter_interval_level": 0.95,
            "environment": run["environment"],
            "transport": run["transports"],
            "samples": answer.file or None,
            "backend": run["backend"],
            "complete": run["complete"],
            "lost": run["lost"],
            "ranks": run["ranks"],
            "clock": run["clock"],
            "seconds": run["seconds"],
            "launches": run["launches"],
            "doubts": run["doubts"],
            "measured": [_without_samples(curve) for curve in run["curves"]],
            **answer.extras.to_dict(),
        },
    )


def _without_samples(curve: Mapping[str, Any]) -> dict[str, Any]:
    points = [
        {name: value for name, value in point.items() if name not in ("rounds_ns", "launches")}
        for point in curve["points"]
    ]
    return {**curve, "points": points}
