"""The answer of `nhalf trace --diff`, as text: which collective's time moved between two runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf import units

if TYPE_CHECKING:
    from nhalf.report.canvas import Canvas
    from nhalf.trace.difference import Difference


def write(found: Difference, canvas: Canvas) -> None:
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
