"""The answer of `nhalf fit`, as text and as a document."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from nhalf import units
from nhalf.evidence.advice import advise
from nhalf.evidence.crossing import names
from nhalf.evidence.identify import ENOUGH
from nhalf.evidence.verdict import QUANTITIES, of_curve
from nhalf.report import fit_answer, fit_parts
from nhalf.report.document import envelope
from nhalf.report.fit_links import described

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.evidence.curvefit import CurveFit
    from nhalf.evidence.fit import Fit
    from nhalf.evidence.intervals import Estimate
    from nhalf.evidence.segments import Segment, Switch
    from nhalf.report.canvas import Canvas
    from nhalf.report.fit_answer import Answer

_SHOWN = 8  # curves in full; more become a table
_FEW_SKIPPED = 5
_SHOWN_ABOVE = ("switch", "one-line", "gap")  # the tables say it


def write(answer: Answer, canvas: Canvas) -> None:
    """Write the verdicts, what tripped or moved, then each curve, the marks, and what to run next."""
    curves = answer.fit.curves
    if answer.doctor:
        canvas.paragraph(answer.doctor, bold=True)
    canvas.paragraph("\n".join(of_curve(curve) for curve in curves[:_SHOWN]), bold=True)
    if len(curves) > _SHOWN:
        canvas.paragraph(f"and {len(curves) - _SHOWN} more curves below")
    for text in answer.tripped:
        canvas.paragraph(f"Tripped: {text}", bold=True)
    if answer.comparison is not None:
        fit_parts.changes(answer.comparison, canvas)
    fit_parts.crossings(answer.contests, canvas)
    if len(curves) > 1:
        write_summary(curves, canvas)
    for curve in curves[:_SHOWN]:
        write_curve(curve, canvas, several=len(curves) > 1)
    if answer.marks or answer.mark_doubts:
        fit_parts.marks(answer.fit, answer.marks, answer.mark_doubts, canvas)
    write_skipped(answer.fit, canvas)
    if answer.links:
        _written(answer, canvas)
    canvas.following(*fit_answer.commands(answer))


def _with_interval(found: Estimate, unit: str) -> str:
    """Return a value with its 95 % interval and the doubt that makes it widest."""
    value = units.format_value(found.value, unit)
    if found.low is None and found.high is None:
        return f"{value} (an estimate without an interval)"
    low, high = (units.format_value(end, unit) if end is not None else "unknown" for end in (found.low, found.high))
    return f"{value}, 95 % {low} to {high} (least sure because of {found.because})"


def write_summary(curves: Sequence[CurveFit], canvas: Canvas) -> None:
    """Write a row for every curve."""
    canvas.heading("Curves")
    rows = [
        [
            name,
            str(curve.series.rows),
            _or_dash(curve.latency.value if curve.latency else None, "s"),
            _or_dash(curve.bandwidth.value if curve.bandwidth else None, "bytes/s"),
            _or_dash(curve.half_size_bytes, "bytes"),
            _or_dash(curve.double_floor_size_bytes, "bytes"),
        ]
        for name, curve in zip(names(curves), curves, strict=True)
    ]
    canvas.table(["<curve", "points", "latency", "bandwidth", "n_1/2", "crossover"], rows)


def _or_dash(value: float | None, unit: str) -> str:
    return "-" if value is None or not math.isfinite(value) else units.format_value(value, unit)


def write_curve(curve: CurveFit, canvas: Canvas, *, several: bool) -> None:
    """Write what one curve says."""
    canvas.heading(
        str(curve.series.key) if several else "The fit: t(n) = latency + n / bandwidth, of the whole operation"
    )
    latency = _with_interval(curve.latency, "s") if curve.latency else f"not measured: {curve.latency_refusal}"
    bandwidth = (
        _with_interval(curve.bandwidth, "bytes/s") if curve.bandwidth else f"not measured: {curve.bandwidth_refusal}"
    )
    same = curve.latency is curve.bandwidth is None and curve.latency_refusal == curve.bandwidth_refusal
    quantity = curve.series.key.quantity
    rows = [
        ["times", QUANTITIES.get(quantity or "", "how they were taken is unknown")],
        ["points", _points(curve)],
        *([["latency (alpha)", latency], ["bandwidth (beta)", bandwidth]] if not same else [["alpha, beta", latency]]),
        ["n_1/2", _half_size(curve)],
        ["floor", _or_dash(curve.floor_s, "s")],
        ["crossover", _doubles(curve)],
    ]
    if curve.line is not None:
        line = curve.line
        rows.append(
            ["one line", f"misses the points by {_percent(line.misfit_median)}, {_percent(line.misfit_max)} at worst"]
        )
    if len(curve.segments) > 1:
        rows.append(["switches", ", ".join(map(_switch, curve.switches))])
    canvas.table(["<", "<"], rows)
    if len(curve.segments) > 1:
        heads = ["from", "to", "latency", "95 %", "bandwidth", "95 %"]
        canvas.table(heads, [_segment(*each) for each in zip(curve.segments, curve.segment_estimates, strict=True)])
    for note in curve.notes:
        if note.code in _SHOWN_ABOVE:
            continue
        canvas.paragraph(f"  {note.code}: {note.text}", indent="    ")


def _switch(switch: Switch) -> str:
    low, high = units.format_size(switch.low_bytes), units.format_size(switch.high_bytes)
    return f"at {units.format_size(switch.size_bytes)} (95 %: above {low}, up to {high})"


def _segment(segment: Segment, found: tuple[Estimate | None, Estimate | None]) -> list[str]:
    """Return the row of a segment."""
    latency, bandwidth = found
    return [
        units.format_size(segment.from_bytes),
        units.format_size(segment.to_bytes),
        units.format_time(segment.latency_s) if segment.latency_s > 0 else "-",
        _range(latency, "s"),
        _or_dash(segment.bandwidth_bytes_per_s, "bytes/s"),
        _range(bandwidth, "bytes/s"),
    ]


def _range(found: Estimate | None, unit: str) -> str:
    """Return the ends of an interval, or that the data cannot tell."""
    if found is None or found.low is None or found.high is None:
        return "cannot tell"
    return f"{units.format_value(found.low, unit)} to {units.format_value(found.high, unit)}"


def _points(curve: CurveFit) -> str:
    sizes = curve.series.sizes_bytes
    if not len(sizes):
        return f"{curve.series.rows} without a size"
    if len(sizes) == 1:
        return f"one size, {units.format_size(float(sizes[0]))}"
    span = f"{units.format_size(float(sizes[0]))} to {units.format_size(float(sizes[-1]))}"
    repeats = f", {curve.series.repeats} runs of each" if curve.series.repeats >= ENOUGH else ""
    return f"{len(sizes)} sizes, {span}{repeats}"


def _half_size(curve: CurveFit) -> str:
    if curve.half_size_bytes is None:
        return "-"
    size = units.format_size(curve.half_size_bytes)
    if curve.half_size_interval_bytes is not None:
        size += f", 95 % {' to '.join(map(units.format_size, curve.half_size_interval_bytes))}"
    return f"{size}, but no advice: these numbers are not the link's" if curve.misconfigured else size


def _doubles(curve: CurveFit) -> str:
    """Return the size that doubles the floor, and the measured sizes on both sides of it."""
    if curve.double_floor_between_bytes is None:
        return "-"
    between = f"between {' and '.join(map(units.format_size, curve.double_floor_between_bytes))}"
    double = curve.double_floor_size_bytes
    return f"{between}, where no size was run" if double is None else f"{units.format_size(double)}, {between}"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def write_skipped(fit: Fit, canvas: Canvas) -> None:
    """Write the lines that were not read."""
    if not fit.skipped:
        return
    canvas.heading("Not read")
    for skip in fit.skipped[:_FEW_SKIPPED]:
        canvas.paragraph(f"  {skip.file}{f':{skip.line}' if skip.line else ''}: {skip.why}", indent="    ")
    if len(fit.skipped) > _FEW_SKIPPED:
        canvas.paragraph(f"  and {len(fit.skipped) - _FEW_SKIPPED} more (--json lists them)")


def _written(answer: Answer, canvas: Canvas) -> None:
    """Write what went into the cluster file."""
    found = [*answer.written, *described(answer.fit)]
    if found:
        canvas.heading(f"Written to {answer.links}")
    for text in found:
        canvas.paragraph(f"  {text}", indent="    ")


def document(answer: Answer) -> dict[str, Any]:
    """Return the document of the contract."""
    body = answer.fit.to_dict()
    for found, curve in zip(body["fits"], answer.fit.curves, strict=True):
        advice = advise(curve)
        found["extra_sizes_bytes"] = list(advice.sizes_bytes) if advice else []
        found["command"] = advice.command if advice else None
    verdicts = [found["verdict"] for found in body["fits"]]
    comparison = answer.comparison
    return envelope(
        "fit",
        {
            "verdict": " ".join(verdicts),
            **body,
            "parameter_interval_level": 0.95,
            "marks": [mark.to_dict() for mark in answer.marks],
            "changes": [change.to_dict() for change in comparison.changes] if comparison else None,
            "compare": comparison.to_dict() if comparison else None,
            "crossings": [each.to_dict() for contest in answer.contests for each in contest.crossings],
            "doubts": [*answer.mark_doubts, *(comparison.doubts if comparison else ())],
            "tripped": list(answer.tripped),
        },
    )
