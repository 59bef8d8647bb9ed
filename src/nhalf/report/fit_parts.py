"""Parts of the page of `nhalf fit`: the messages of a model on the curve, and what moved against another log."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nhalf import units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.evidence.comparison import Change, Comparison
    from nhalf.evidence.crossing import Contest, Crossing
    from nhalf.evidence.decode_messages import Mark
    from nhalf.evidence.fit import Fit
    from nhalf.report.canvas import Canvas


def marks(fit: Fit, found: Sequence[Mark], doubts: Sequence[str], canvas: Canvas) -> None:
    """Write the decode messages, the batch from which their bytes count, and why a curve has none."""
    canvas.heading("Decode messages on the curve")
    regime = {True: "latency-bound", False: "bandwidth counts", None: "unknown"}
    several = len(fit.curves) > 1
    rows = [
        [
            *([mark.curve] if several else []),
            str(mark.batch),
            units.format_size(mark.size_bytes),
            units.format_time(mark.time_s),
            f"{units.format_time(mark.low_s)} to {units.format_time(mark.high_s)}",
            units.format_time(mark.per_token_s),
            regime[mark.on_floor],
        ]
        for mark in found
    ]
    if rows:
        names = ["<curve"] if several else []
        canvas.table([*names, "batch", "message", "time", "80 % band", "per step", "<regime"], rows)
    for text in dict.fromkeys(filter(None, (from_batch(mark, fit) for mark in found))):
        canvas.paragraph(f"  {text}", indent="    ")
    for doubt in doubts:
        canvas.paragraph(f"  {doubt}", indent="    ")


def from_batch(mark: Mark, fit: Fit) -> str:
    """Return from which batch on bytes are more than half of a message's time, where its curve tells."""
    curve = next(each for each in fit.curves if str(each.series.key) == mark.curve)
    double = curve.double_floor_size_bytes
    if double is None:
        return ""
    batch = math.ceil(double * mark.batch / mark.size_bytes)
    return f"{mark.curve}: bytes are more than half of the time from batch {batch} on ({units.format_size(double)})."


def changes(comparison: Comparison, canvas: Canvas) -> None:
    """Write what moved against another log."""
    canvas.heading("Against the other log")
    for change in comparison.changes:
        canvas.paragraph(f"  {change.curve}: {_moved(change)}", indent="    ")
    for doubt in comparison.doubts:
        canvas.paragraph(f"  {doubt}", indent="    ")


def crossings(contests: Sequence[Contest], canvas: Canvas) -> None:
    """Write which of two curves is faster from where on."""
    if not contests:
        return
    canvas.heading("Which is faster")
    for contest in contests:
        canvas.paragraph(f"  {faster(contest)}.", indent="    ")


def faster(contest: Contest) -> str:
    """Return in words which of two curves is faster, and from which size on."""
    if contest.crossings:
        return "; ".join(_crossed(each) for each in contest.crossings)
    ends = " to ".join(map(units.format_size, (contest.from_bytes, contest.to_bytes)))
    if not contest.stretches:
        return f"{contest.a} and {contest.b} do not differ outside the noise, {ends}"
    winner, _, last = contest.stretches[-1]
    loser = contest.b if winner == contest.a else contest.a
    upto = f"at every size, {ends}" if last >= contest.to_bytes else f"up to {units.format_size(last, binary=True)}"
    return f"{winner} is faster than {loser} {upto}"


def _crossed(found: Crossing) -> str:
    """Return in words from which size on a curve is faster, and from which batch."""
    sizes = (found.size_bytes, found.low_bytes, found.high_bytes)
    size, low, high = (units.format_size(each, binary=True) if each else "" for each in sizes)
    within = f"95 %: {low} to {high}" if low else "alike below"
    batch = f": batch {found.batch}" if found.batch else ""
    return f"{found.b} is faster than {found.a} from {size} on ({within}){batch}"


def _moved(change: Change) -> str:
    """Return in words how a value changed."""
    other, this = (units.format_value(value, change.unit) for value in (change.other, change.this))
    if change.moved is None:
        return f"{change.name} {other} there, {this} here: no interval, so nobody can say whether that is noise"
    noise = "it moved, outside the noise" if change.moved else "inside the noise"
    return f"{change.text}: {other} there, {this} here, {noise}"
