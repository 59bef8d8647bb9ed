"""The verdict on a fitted curve in words: one sentence that names the floor, n_1/2 and what a wider link would buy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf import units

if TYPE_CHECKING:
    from nhalf.evidence.curvefit import CurveFit
    from nhalf.evidence.intervals import Estimate

QUANTITIES = {
    "isolated": "isolated calls",
    "back_to_back": "back to back",
    "graph": "graph replay",
    "predicted": "the library's own prediction, not a measurement",
}
"""How the times were taken, in words."""


def of_curve(fit: CurveFit) -> str:
    """Return the verdict on a curve."""
    how = QUANTITIES.get(fit.series.key.quantity or "", "")
    return f"{fit.series.key}{f' ({how})' if how else ''}: {_wrong(fit)}{_numbers(fit)}."


def is_wrong(fit: CurveFit) -> bool:
    """Tell whether the tool found wrong results: then even its times at other sizes may come from a fault."""
    return any(note.code == "wrong-results" for note in fit.notes)


def _wrong(fit: CurveFit) -> str:
    """Return the warning that results were wrong, which comes before any number; empty where none were."""
    if not is_wrong(fit):
        return ""
    sizes = ", ".join(units.format_size(size) for size in fit.series.wrong_sizes_bytes)
    return f"WRONG RESULTS{f' at {sizes}' if sizes else ''}, so these times prove nothing; as they are, "


def _numbers(fit: CurveFit) -> str:
    if fit.misconfigured:
        why = next(note.text for note in fit.notes if note.code == "not-the-link")
        return f"not the link: {why.partition('. ')[0]}"
    parts = []
    if fit.latency is not None:
        seen = fit.on_floor and fit.floor_s is not None
        parts.append(
            f"{units.format_time(fit.floor_s or 0.0)} floor" if seen else f"latency {within(fit.latency, 's')}"
        )
    if fit.bandwidth is not None:
        parts.append(f"bandwidth {within(fit.bandwidth, 'bytes/s')}")
    if fit.half_size_bytes is not None:
        parts.append(f"n_1/2 {units.format_size(fit.half_size_bytes)}")
    if not parts and fit.floor_s is not None and not fit.segments:
        return f"{_single(fit)}, neither a latency nor a bandwidth: {fit.latency_refusal}"
    if fit.latency is None:
        parts.append(f"latency not measured: {fit.latency_refusal}")
    if fit.bandwidth is None:
        parts.append(f"bandwidth not measured: {fit.bandwidth_refusal}")
    return ", ".join(parts) + _regimes(fit)


def within(found: Estimate, unit: str) -> str:
    """Return a value with its 95 % interval: `411 GB/s (383 to 416 GB/s)`."""
    value = units.format_value(found.value, unit)
    if found.low is None or found.high is None:
        return f"{value} (an estimate without an interval)"
    low, high = units.format_value(found.low, unit), units.format_value(found.high, unit)
    number, _, ends_in = low.partition(" ")
    return f"{value} ({number if high.endswith(f' {ends_in}') else low} to {high})"


def _regimes(fit: CurveFit) -> str:
    """Return up to which size latency is more than half of the time, so that a wider link helps little."""
    double, between = fit.double_floor_size_bytes, fit.double_floor_between_bytes
    if double is not None:
        return f"; latency counts more than bytes up to {units.format_size(double)}"
    if between is None:
        return ""
    low, high = map(units.format_size, between)
    return f"; latency counts more than bytes up to {low}, bytes from {high} on; no size between was run"


def _single(fit: CurveFit) -> str:
    """Return the sentence for a curve of a single time."""
    time = units.format_time(fit.floor_s or 0.0)
    return f"{'one time' if fit.series.rows == 1 else 'smallest time'} {time}"
