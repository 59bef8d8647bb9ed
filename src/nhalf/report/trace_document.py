"""The answer of `nhalf trace` as a document."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from nhalf.report.document import envelope, number
from nhalf.report.trace import domination, verdict

if TYPE_CHECKING:
    from nhalf.evidence.curvefit import CurveFit
    from nhalf.evidence.fit import Fit
    from nhalf.trace.budget import Budget
    from nhalf.trace.clocks import Clock
    from nhalf.trace.difference import Difference
    from nhalf.trace.fixed_time import Row
    from nhalf.trace.replay import Gain
    from nhalf.trace.stragglers import Straggler
    from nhalf.trace.study import Study


def document(study: Study, fit: Fit | None = None) -> dict[str, Any]:
    """Return the document of the contract, with the fit of the transfers where several sizes allow one."""
    return envelope("trace", {**body(study), "fits": [_fit(curve) for curve in fit.curves] if fit is not None else []})


def _fit(curve: CurveFit) -> dict[str, Any]:
    """Return one fitted curve; what is refused is null, with the reason."""
    latency, bandwidth, key = curve.latency, curve.bandwidth, curve.series.key
    return {
        "op": None if key.op is None else str(key.op),
        "ranks": key.ranks,
        "family": key.label,
        "points": len(curve.series.sizes_bytes),
        "latency_s": None if latency is None else latency.value,
        "latency_low_s": None if latency is None else latency.low,
        "latency_high_s": None if latency is None else latency.high,
        "bandwidth_bytes_per_s": None if bandwidth is None else bandwidth.value,
        "bandwidth_low_bytes_per_s": None if bandwidth is None else bandwidth.low,
        "bandwidth_high_bytes_per_s": None if bandwidth is None else bandwidth.high,
        "half_size_bytes": curve.half_size_bytes,
        "refused": curve.latency_refusal or curve.bandwidth_refusal or None,
    }


def body(study: Study) -> dict[str, Any]:
    """Return what one study says."""
    timeline = study.timeline
    return {
        "verdict": verdict(study),
        "domination": domination(study),
        "ranks": len(timeline.traces),
        "steps": len(timeline.labels),
        "step_marker": timeline.traces[0].steps.marker,
        "match_rate": timeline.meetings.rate if timeline.waits_known else None,
        "all_ranks_traced": timeline.meetings.whole if timeline.waits_known else None,
        "files": [{"rank": t.rank, "file": t.file, "events": t.events, "calls": len(t.calls)} for t in timeline.traces],
        "clock_offsets": [_clock(clock) for clock in timeline.aligned.clocks],
        "budget": _budget(study.mean),
        "budgets": [
            {"rank": trace.rank, **_budget(one)} for trace, one in zip(timeline.traces, study.budgets, strict=True)
        ],
        "collectives": [_collective(row) for row in study.rows],
        "fixed_floor_s": study.floor_s,
        "fixed_floor_is_bound": study.floor_is_bound,
        "stragglers": [_straggler(one) for one in study.verdict.stragglers],
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


def _clock(clock: Clock) -> dict[str, Any]:
    return {
        "rank": clock.rank,
        "against": clock.against,
        "offset_s": number(clock.offset_s),
        "low_s": number(clock.low_s),
        "high_s": number(clock.high_s),
        "drift": clock.drift,
        "end_median_s": number(clock.end_median_s),
        "midpoint_s": number(clock.midpoint_s),
    }


def _straggler(one: Straggler) -> dict[str, Any]:
    return {
        "rank": one.rank,
        "cost_s_per_step": one.cost_s,
        "low_s": one.low_s,
        "high_s": one.high_s,
        "cause": one.cause,
        "why": one.why,
        "lateness_s": one.lateness_s,
        "share_last": one.share_last,
        "together_with": list(one.together_with),
    }


def _gain(gain: Gain, study: Study) -> dict[str, Any]:
    tokens = study.tokens_per_step
    return {
        "name": gain.name,
        "step_s": gain.step_s,
        "gain": gain.gain,
        "kind": gain.kind,
        "why": gain.why,
        "saved_s": gain.gain * study.replayed.measured_s,
        "tokens_per_s": tokens / gain.step_s if tokens and gain.step_s > 0 else None,
    }


def _budget(one: Budget) -> dict[str, Any]:
    # Sums of floats leave negative dust where there is nothing.
    return {key: value if value is None else max(0.0, value) for key, value in asdict(one).items()}


def _collective(row: Row) -> dict[str, Any]:
    kind, line = row.kind, row.line
    return {
        "op": str(kind.op),
        "algorithm": None if kind.algorithm is None else str(kind.algorithm),
        "kernel": kind.name,
        "family": kind.family,
        "fused": kind.fused,
        "ranks": kind.ranks,
        "size_bytes": kind.size_bytes,
        "size_source": kind.size_source,
        "count_per_step": row.count_per_step,
        "transfer_s": row.transfer_s,
        "transfer_at_most_s": row.at_most_s,
        "wait_s": row.wait_s,
        "regime": row.regime,
        "fixed_s": row.fixed_s,
        "half_size_bytes": None if line is None else line.half_size_bytes,
        "line_source": None if line is None else line.source,
    }


def difference_document(found: Difference) -> dict[str, Any]:
    """Return the document of two runs: both studies, and how their collectives differ."""
    return envelope(
        "trace",
        {
            "before": body(found.before),
            "after": body(found.after),
            "changes": [
                {
                    "op": str(one.op),
                    "size_bytes": one.size_bytes,
                    "ranks": one.ranks,
                    "kernel_before": one.names[0],
                    "kernel_after": one.names[1],
                    "before_s": one.before_s,
                    "after_s": one.after_s,
                    "change_s": one.change_s,
                    "low_s": one.low_s,
                    "high_s": one.high_s,
                    "count_per_step": one.count_per_step,
                    "moved": one.moved,
                }
                for one in found.changes
            ],
            "unpaired": list(found.unpaired),
        },
    )
