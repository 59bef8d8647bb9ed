"""The answer of `nhalf trace` as a document; and of two runs, as text too."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.report.document import envelope, of
from nhalf.report.trace import domination, verdict

if TYPE_CHECKING:
    from nhalf.evidence.curvefit import CurveFit
    from nhalf.evidence.fit import Fit
    from nhalf.report.canvas import Canvas
    from nhalf.trace.budget import Budget
    from nhalf.trace.difference import Difference
    from nhalf.trace.fixed_time import Row
    from nhalf.trace.replay import Gain
    from nhalf.trace.study import Study


def document(study: Study, fit: Fit | None = None) -> dict[str, Any]:
    """Return the document of the contract, with the fit of the transfers where several sizes allow one."""
    return envelope("trace", {**body(study), "fits": [_fit(curve) for curve in fit.curves] if fit is not None else []})


def _fit(curve: CurveFit) -> dict[str, Any]:
    """Return one fitted curve; what is refused is null, with the reason."""
    key = curve.series.key
    estimates = {
        f"{name}_{end}{unit}": getattr(estimate, end or "value", None)
        for name, unit, estimate in (("latency", "_s", curve.latency), ("bandwidth", "_bytes_per_s", curve.bandwidth))
        for end in ("", "low", "high")
    }
    return {
        **of(key, "op", "ranks", family="label"),
        "points": len(curve.series.sizes_bytes),
        **{name.replace("__", "_"): value for name, value in estimates.items()},
        "half_size_bytes": curve.half_size_bytes,
        "refused": curve.latency_refusal or curve.bandwidth_refusal or None,
    }


def body(study: Study) -> dict[str, Any]:
    """Return what one study says."""
    timeline = study.timeline
    return {
        "verdict": " ".join(verdict(study)),
        "domination": domination(study),
        "ranks": len(timeline.traces),
        "steps": len(timeline.labels),
        "step_marker": timeline.traces[0].steps.marker,
        "match_rate": timeline.meetings.rate if timeline.waits_known else None,
        "all_ranks_traced": timeline.meetings.whole if timeline.waits_known else None,
        "files": [{"rank": t.rank, "file": t.file, "events": t.events, "calls": len(t.calls)} for t in timeline.traces],
        "clock_offsets": [of(clock) for clock in timeline.aligned.clocks],
        "budget": _budget(study.mean),
        "budgets": [
            {"rank": trace.rank, **_budget(one)} for trace, one in zip(timeline.traces, study.budgets, strict=True)
        ],
        "collectives": [_collective(row) for row in study.rows],
        "fixed_floor_s": study.floor_s,
        "fixed_floor_is_bound": study.floor_is_bound,
        "stragglers": [{**of(one, *_STRAGGLER), "cost_s_per_step": one.cost_s} for one in study.verdict.stragglers],
        "cannot_tell": study.verdict.cannot_tell or None,
        "replay": {"measured_s": study.replayed.measured_s, "replayed_s": study.replayed.replayed_s},
        "what_if": [_gain(gain, study) for gain in study.replayed.gains],
        "suspects": [
            {"name": name, "total_s": seconds}
            for trace in timeline.traces[:1]
            for name, seconds in trace.suspects.items()
        ],
        "events_lost": study.lost,
        "notes": list(study.notes),
    }


def _gain(gain: Gain, study: Study) -> dict[str, Any]:
    tokens = study.tokens_per_step
    return {
        **of(gain),
        "saved_s": gain.gain * study.replayed.measured_s,
        "tokens_per_s": tokens / gain.step_s if tokens and gain.step_s > 0 else None,
    }


_STRAGGLER: Final = ("rank", "low_s", "high_s", "cause", "why", "lateness_s", "share_last", "together_with")


def _budget(one: Budget) -> dict[str, Any]:
    # Sums of floats leave negative dust where there is nothing.
    return {key: value if value is None else max(0.0, value) for key, value in asdict(one).items()}


def _collective(row: Row) -> dict[str, Any]:
    line = row.line
    return {
        **of(row.kind, "op", "algorithm", "family", "fused", "ranks", "size_bytes", "size_source", kernel="name"),
        **of(row, "count_per_step", "transfer_s", "wait_s", "regime", "fixed_s", transfer_at_most_s="at_most_s"),
        "half_size_bytes": line and line.half_size_bytes,
        "line_source": line and line.source,
    }


def difference_document(found: Difference) -> dict[str, Any]:
    """Return the document of two runs: both studies, and how their collectives differ."""
    return envelope(
        "trace",
        {
            "before": body(found.before),
            "after": body(found.after),
            "changes": [
                {**of(one, *_CHANGE), "kernel_before": one.names[0], "kernel_after": one.names[1]}
                for one in found.changes
            ],
            "unpaired": list(found.unpaired),
        },
    )


_CHANGE: Final = (
    "op", "size_bytes", "ranks", "before_s", "after_s", "change_s", "low_s", "high_s", "count_per_step", "moved",
)  # fmt: skip


def write_difference(found: Difference, canvas: Canvas) -> None:
    """Write which collective's time moved between two runs."""
    moved = [one for one in found.changes if one.moved]
    before, after = found.before.mean.step_s, found.after.mean.step_s
    step = f"The step went from {units.format_time(before)} to {units.format_time(after)}"
    if not found.changes:
        canvas.paragraph(f"{step}; no collective of one run has a partner in the other.", bold=True)
    elif not moved:
        canvas.paragraph(f"{step}; no collective's own time moved by more than its spread.", bold=True)
    else:
        one = moved[0]
        size = "" if one.size_bytes is None else f" of {units.format_size(one.size_bytes)}"
        canvas.paragraph(
            f"{step}. The time of the {one.op}{size} moved by {_signed(one.change_s)} per call, "
            f"{_signed(one.change_s * one.count_per_step)} a step.",
            bold=True,
        )
    canvas.heading("Collectives before and after, waiting left out")
    if found.changes:
        _write_changes(found, canvas)
    for text in found.unpaired:
        canvas.paragraph(f"  {text}")
    if not found.before.timeline.waits_known or not found.after.timeline.waits_known:
        canvas.paragraph(
            "  one rank alone: whole durations are compared, so waiting may have moved instead", indent="    "
        )


def _write_changes(found: Difference, canvas: Canvas) -> None:
    """Write a row for every collective that both runs have."""
    rows = [
        [
            str(one.op),
            "?" if one.size_bytes is None else units.format_size(one.size_bytes),
            units.format_time(one.before_s),
            units.format_time(one.after_s),
            _signed(one.change_s),
            f"[{_signed(one.low_s)}, {_signed(one.high_s)}]",
            f"{one.count_per_step:.3g}",
            "yes" if one.moved else "no",
        ]
        for one in found.changes
    ]
    names = ["<operation", "size", "before", "after", "change", "<95 % interval", "per step", "<moved"]
    canvas.table(names, rows, marked=[i for i, one in enumerate(found.changes) if one.moved])


def _signed(seconds: float) -> str:
    return ("+" if seconds > 0 else "") + units.format_time(seconds)
