"""The answer of `nhalf trace`, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf import units
from nhalf.report.canvas import grid
from nhalf.report.view import percent
from nhalf.report.words import counted, joined

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.fit import Fit
    from nhalf.report.canvas import Canvas
    from nhalf.trace.budget import Budget
    from nhalf.trace.fixed_time import Row
    from nhalf.trace.study import Study

_MOSTLY = 2 / 3
_NOTABLE = 0.01  # of a step
_MOST_ROWS, _MOST_NOTES, _MOST_RANKS, _LONGEST_NAME = 8, 8, 8, 34


def write(study: Study, canvas: Canvas, *, fit: Fit | None = None) -> None:
    """Write what was read, the budget, the collectives, the stragglers, the gains, the notes."""
    canvas.listed("Read", _read(study))
    of = "" if len(study.budgets) == 1 else f" and of {counted(len(study.budgets), 'rank')}"
    canvas.heading(f"Budget of a step (mean of {counted(len(study.timeline.labels), 'step')}{of})")
    _write_budget(study, canvas)
    canvas.heading("Collectives")
    _write_collectives(study, canvas)
    canvas.listed("", fitted(fit))
    canvas.listed("Stragglers", _stragglers(study))
    canvas.heading("What would help")
    _write_gains(study, canvas)
    more = [f"and {len(study.notes) - _MOST_NOTES} more with --json"] if len(study.notes) > _MOST_NOTES else []
    canvas.listed("Notes", [*study.notes[:_MOST_NOTES], *more])


def domination(study: Study) -> str:
    """Return what exposed communication is: transfer-dominated, arrival-skew-dominated, mixed or inconclusive.

    Where ranks have no trace, waiting for them looks like transfer: only domination by waiting can then be said.
    """
    wait, transfer = study.mean.exposed_wait_s, study.mean.exposed_transfer_s
    if wait is None or transfer is None or wait + transfer <= 0:
        return "inconclusive"
    share = wait / (wait + transfer)
    if share > _MOSTLY:
        return "arrival-skew-dominated"
    if not study.timeline.meetings.whole:
        return "inconclusive"
    return "transfer-dominated" if share < 1 - _MOSTLY else "mixed"


def verdict(study: Study) -> list[str]:
    """Return the verdict in sentences: what is damaged, who is late, and how much communication is exposed."""
    damage = [f"Damage took {percent(study.lost)} of the events."] if study.lost else []
    share = percent(study.mean.exposed_s / study.mean.step_s)
    kind = _KINDS.get(domination(study)) or f"{_who_cannot(study)} say whether it waits or moves"
    return [*damage, *_late(study), f"Exposed communication takes {share} of a step: {kind}.", *_unrecognised(study)]


def _unrecognised(study: Study) -> list[str]:
    """Return how much of the steps of the first rank kernels take that may be communication too."""
    steps_s = len(study.timeline.labels) * study.mean.step_s
    share = sum(study.timeline.traces[0].suspects.values()) / steps_s if steps_s else 0.0
    more = f"Kernels that sound like communication and match no pattern take {percent(share)} more."
    return [more] if share >= _NOTABLE else []


_KINDS: Final = {
    "transfer-dominated": "mostly moving bytes", "arrival-skew-dominated": "mostly waiting for late ranks",
    "mixed": "both moving bytes and waiting",
}  # fmt: skip


def _who_cannot(study: Study) -> str:
    """Return why nobody can say what exposed communication is."""
    if len(study.timeline.traces) == 1:
        return "one rank alone cannot"
    known = study.timeline.waits_known
    return "without the traces of the other ranks nobody can" if known else "calls that do not match cannot"


def _late(study: Study) -> list[str]:
    """Return who makes the others wait, and why."""
    for one in study.verdict.stragglers[:1]:
        ranks = [str(rank) for rank in (one.rank, *one.together_with)]
        who = f"Ranks {joined(ranks)} make" if len(ranks) > 1 else f"Rank {ranks[0]} makes"
        cost = f"{units.format_time(one.cost_s)} a step ({percent(one.cost_s / study.mean.step_s)})"
        return [f"{who} the others wait {cost}; likely cause: {one.cause}."]
    if not study.timeline.waits_known:
        return []
    named = "No rank" if study.timeline.meetings.whole else "None of the ranks with a trace"
    return [f"{named} is shown to be a straggler."]


def number(study: Study) -> str:
    """Return the one number with its parts."""
    mean, time = study.mean, units.format_time
    text = f"{time(mean.exposed_s)} of {time(mean.step_s)} a step"
    if mean.exposed_transfer_s is not None and mean.exposed_wait_s is not None:
        most, least = ("", "") if study.timeline.meetings.whole else ("at most ", "at least ")
        text += f": {most}{time(mean.exposed_transfer_s)} moving bytes, {least}{time(mean.exposed_wait_s)} waiting"
        text += " for the last rank"
    return text + (f"; {study.tokens_per_step / mean.step_s:.3g} tokens/s." if study.tokens_per_step else ".")


def _read(study: Study) -> Iterable[str]:
    """Yield what was read and how far it can be trusted."""
    timeline = study.timeline
    traces = timeline.traces
    events = sum(trace.events for trace in traces)
    ranks = ", ".join(str(trace.rank) for trace in traces[:16]) + (", ..." if len(traces) > 16 else "")  # noqa: PLR2004
    yield (
        f"ranks {ranks} ({traces[0].device}, {events:,} events); {counted(len(timeline.labels), 'step')}, "
        f"marked by {traces[0].steps.marker}"
    )
    yield "communication: " + "; ".join(_counted(study))
    suspects = [(s, name) for trace in traces[:1] for name, s in trace.suspects.items()]
    for seconds, name in sorted(suspects, reverse=True)[:2]:
        time = units.format_time(seconds)
        yield f"sounds like communication and matches no pattern: {name[:60]} ({time}); --patterns adds it"
    if timeline.waits_known:
        yield f"matched {percent(timeline.meetings.rate)} of calls by {', '.join(timeline.meetings.how)}"
        yield from _clocks(study)


def _counted(study: Study) -> Iterable[str]:
    """Yield each recognised kernel with the pattern that recognised it and how many calls there were."""
    trace = study.timeline.traces[0]
    counts: dict[tuple[str, str], int] = {}
    for k, n in zip(*np.unique(trace.calls.kind, return_counts=True), strict=True):
        kind = trace.kinds[int(k)]
        key = (kind.name, kind.family)
        counts[key] = counts.get(key, 0) + int(n)
    for (name, family), n in sorted(counts.items(), key=lambda item: -item[1])[:4]:
        yield f"{_shortened(name)} ({family}, {n} calls on rank {trace.rank})"
    if len(counts) > 4:  # noqa: PLR2004  as shown
        yield f"{len(counts) - 4} more"


def _clocks(study: Study) -> Iterable[str]:
    """Yield the offsets of the clocks, the widest intervals first when there are many."""
    first = study.timeline.traces[0].rank
    clocks = sorted(study.timeline.aligned.clocks[1:], key=lambda clock: -(clock.high_s - clock.low_s))
    shown = sorted(clocks[:4], key=lambda clock: clock.rank)
    parts = [
        f"rank {c.rank}{'' if c.against == first else f' against {c.against}'} {units.format_time(c.offset_s)} "
        f"[{units.format_time(c.low_s)}, {units.format_time(c.high_s)}]"
        + (f" drifting {1e6 * c.drift:.3g} ppm" if c.drift else "")
        if np.isfinite(c.low_s)
        else f"rank {c.rank} not tied"
        for c in shown
    ]
    more = f", and {len(clocks) - 4} narrower" if len(clocks) > 4 else ""  # noqa: PLR2004
    yield f"clocks against rank {first}: {', '.join(parts)}{more}"


def _write_budget(study: Study, canvas: Canvas) -> None:
    """Write the budget of each rank and of the mean."""
    columns = ["<", "step", "compute", "overlapped", "transfer", "wait", "gaps", "idle"]
    if not study.timeline.waits_known:
        columns = ["<", "step", "compute", "overlapped", "exposed", "gaps", "idle"]
    rows = [["mean", *_cells(study.mean)]]
    rows.append(["", *_shares(study.mean)])
    if len(study.budgets) > 1:
        worst = sorted(zip(study.timeline.traces, study.budgets, strict=True), key=lambda item: item[0].rank)
        rows += [[f"rank {trace.rank}", *_cells(one)] for trace, one in worst[:_MOST_RANKS]]
    canvas.table(columns, rows, marked=[0])


def _parts(one: Budget) -> list[float]:
    exposed = (
        [one.exposed_s]
        if one.exposed_transfer_s is None or one.exposed_wait_s is None
        else [one.exposed_transfer_s, one.exposed_wait_s]
    )
    return [one.step_s, one.compute_s, one.overlapped_s, *exposed, one.gap_s, one.idle_s]


def _cells(one: Budget) -> list[str]:
    # Sums of floats leave dust where there is nothing.
    return [units.format_time(part if abs(part) > 1e-12 else 0.0) for part in _parts(one)]  # noqa: PLR2004


def _shares(one: Budget) -> list[str]:
    return [percent(part / one.step_s) if part > 1e-12 else "-" for part in _parts(one)]  # noqa: PLR2004


def _write_collectives(study: Study, canvas: Canvas) -> None:
    """Write one line for each class of collective."""
    rows = [_collective(row, whole=study.timeline.meetings.whole) for row in study.rows[:_MOST_ROWS]]
    names = ["<operation", "<kernel", "size", "n/n_1/2", "<how", "per step", "transfer", "fixed", "wait"]
    if not canvas.fits(grid(names, rows)):  # the kernels are named above
        names, rows = [names[0], *names[2:]], [[row[0], *row[2:]] for row in rows]
    canvas.table(names, rows)
    if len(study.rows) > _MOST_ROWS:
        canvas.paragraph(f"  and {len(study.rows) - _MOST_ROWS} more with --json")
    if study.timeline.waits_known and study.mean.exposed_transfer_s is not None:
        moved = sum(row.count_per_step * float(np.mean(row.transfers_s)) for row in study.rows)
        canvas.paragraph(
            f"  transfer is the median of a call until the ranks leave, wait the mean; all transfers of a step are "
            f"{units.format_time(moved)} by their mean, and {units.format_time(study.mean.exposed_transfer_s)} in the "
            "budget, which counts what is exposed until each rank has left",
            indent="    ",
        )
    most = "at most " if study.floor_is_bound else ""
    why = ", as the quickest tenth of the calls" if study.floor_is_bound else ""
    if any(row.line is not None and row.line.source == "links" for row in study.rows):
        why += ", by the laws of the links given with --links, which this trace does not check"
    canvas.paragraph(
        f"  Latency of a step's collectives (2 L alpha as seen here): {most}{units.format_time(study.floor_s)}, "
        f"{percent(study.floor_s / study.mean.step_s)} of the step{why}",
        indent="    ",
    )


def fitted(fit: Fit | None) -> Iterable[str]:
    """Yield what the transfers of each operation that ran at several sizes say, with their intervals."""
    for curve in fit.curves if fit is not None else ():
        parts = []
        for name, estimate, show in (
            ("latency", curve.latency, units.format_time),
            ("bandwidth", curve.bandwidth, units.format_bandwidth),
        ):
            if estimate is None:
                continue
            band = ""
            if estimate.low is not None and estimate.high is not None:
                band = f" [{show(estimate.low)}, {show(estimate.high)}]"
            parts.append(f"{name} {show(estimate.value)}{band}")
        if curve.half_size_bytes is not None:
            parts.append(f"n_1/2 {units.format_size(curve.half_size_bytes)}")
        refusal = curve.latency_refusal or curve.bandwidth_refusal
        text = ", ".join(parts) + (f"{'; ' if parts else ''}{refusal}" if refusal else "")
        yield f"Fit of the transfers, {curve.series.key}: {text}"


def _collective(row: Row, *, whole: bool) -> list[str]:
    kind, line = row.kind, row.line
    size = "?" if kind.size_bytes is None else units.format_size(kind.size_bytes)
    source = {"model": " (model)", "flight recorder": " (recorder)"}.get(kind.size_source or "", "")
    ratio = f"{kind.size_bytes / line.half_size_bytes:.2g}" if line is not None and kind.size_bytes else "?"
    fixed = row.fixed_s
    seen = row.transfer_s if row.transfer_s is not None else row.at_most_s
    ranks = f" x{kind.ranks}" if kind.ranks else ""
    return [
        f"{kind.op}{ranks}{' + norm' if kind.fused else ''}",
        _shortened(kind.name),
        size + source,
        ratio,
        str(kind.algorithm or "?"),
        f"{row.count_per_step:.3g}",
        ("" if row.transfer_s is not None and whole else "<= ") + units.format_time(seen),
        "?" if fixed is None or not seen else percent(fixed / seen),
        "?" if row.wait_s is None else ("" if whole else ">= ") + units.format_time(row.wait_s),
    ]


def _stragglers(study: Study) -> Iterable[str]:
    """Yield who is waited for, or why nobody can tell."""
    if not study.verdict.stragglers:
        text = study.verdict.cannot_tell
        which = "" if study.timeline.meetings.whole else " with a trace"
        yield f"cannot tell: {text}" if text else f"none: no rank{which} costs as much as 0.5 % of the step"
    for one in study.verdict.stragglers:
        yield (
            f"rank {one.rank}: {units.format_time(one.cost_s)} a step [{units.format_time(one.low_s)}, "
            f"{units.format_time(one.high_s)}]; last at {percent(one.share_last)} of calls, "
            f"{units.format_time(one.lateness_s)} late; {one.cause}: {one.why}"
        )


def _write_gains(study: Study, canvas: Canvas) -> None:
    """Write what each change would gain."""
    step = study.replayed.measured_s
    rows = []
    for gain in study.replayed.gains[:_MOST_ROWS]:
        row = [gain.name, f"{units.format_time(step * gain.gain)}", percent(gain.gain), gain.kind, gain.why]
        if study.tokens_per_step:
            row.insert(3, f"{study.tokens_per_step / gain.step_s:.3g}" if gain.step_s > 0 else "-")
        rows.append(row)
    if not rows:
        canvas.paragraph("  nothing: there is no exposed communication")
        return
    columns = ["<change", "saves", "of step", *(["tokens/s"] if study.tokens_per_step else []), "<kind", "<ground"]
    canvas.table(columns, rows)
    if study.timeline.waits_known:
        canvas.paragraph(
            "  saves: of the step run again with the change; what is late or busy then keeps a part of it",
            indent="    ",
        )


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "..."
