"""The first screen of `nhalf collective`: the time of one size, how much of it is latency, what the library runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf import units
from nhalf.collective import Op
from nhalf.decide.choice import planner
from nhalf.report import planned
from nhalf.report.view import Bars, Brief, percent

if TYPE_CHECKING:
    from nhalf.decide.choice import Choice
    from nhalf.report.collective_answer import Answer

_FOCUS_BYTES: Final = 16384.0
_MOST: Final = 9


def brief(found: Answer, *, next_command: str) -> Brief:
    """Return the first screen of one collective."""
    times = _times(found)
    focus = min(times, key=lambda size: abs(math.log(size / _FOCUS_BYTES)))
    floor_s = min(times.values())
    question = found.question
    share = floor_s / times[focus]
    first = f"{_size(focus)} takes {units.format_time(times[focus])}: {percent(share)} of it is latency."
    if question.op == Op.BARRIER:
        first = f"A barrier takes {units.format_time(times[focus])}."
    double = _double(times)
    beyond = f" Bytes lead beyond {_size(double)}." if double is not None and question.op != Op.BARRIER else ""
    shown = _shown(sorted(times), focus)
    return Brief(
        verdict=[f"{first}{beyond}"],
        number=_sure(found, focus),
        title=f"{question.op} on {found.loaded.subject}",
        bars=Bars(
            heads=["size", "time"],
            rows=[[_size(size), units.format_time(times[size])] for size in shown],
            names=["latency", "bytes"],
            parts=[[floor_s / times[size], 1 - floor_s / times[size]] for size in shown],
            remarks=[_runs(found, size) for size in shown],
        ),
        notes=planned.notes(question, found.known)[:1] if question.curve is None else [],
        closing=_closing(found),
        assumed=f"{found.loaded.library}, {question.mode}" if question.library is not None else "",
        next_command=next_command,
        next_why="from sizes to batches",
    )


def _times(found: Answer) -> dict[float, float]:
    """Return the time of every size [s]: measured or planned, else by the fastest law."""
    return {each.size_bytes: _time_s(each) for each in found.choices}


def _time_s(at: Choice) -> float:
    """Return what a size takes [s]: as measured, else as the library's tuner plans it, else by its law."""
    if at.measured_s is not None:
        return at.measured_s
    if at.plan is not None:
        return at.plan.time_s
    return at.fastest_s if at.time_s is None else at.time_s


def _double(times: dict[float, float]) -> float | None:
    """Return the first size that takes twice the least time."""
    floor_s = min(times.values())
    return next((size for size in sorted(times) if times[size] >= 2 * floor_s), None)


def _shown(sizes: list[float], focus: float) -> list[float]:
    """Return a few sizes in equal steps, the one of the verdict among them."""
    if len(sizes) <= _MOST:
        return sizes
    kept = {sizes[place] for place in np.linspace(0, len(sizes) - 1, _MOST - 1).round().astype(int).tolist()}
    return sorted(kept | {focus})


def _sure(found: Answer, size: float) -> str:
    """Return the range of the time, and whether it was measured."""
    row = next((row for row in found.rows if row.size_bytes == size and row.kind != "law"), None)
    at = next(each for each in found.choices if each.size_bytes == size)
    library = found.question.library
    if row is None and at.plan is not None and library is not None:
        span = f"{units.format_time(at.plan.low_s)} to {units.format_time(at.plan.high_s)}"
        return f"Range {span}, planned by {planner(library)}, not measured."
    if row is None:
        return f"By the law of {at.algorithm or at.fastest}: nothing was measured there."
    curve = found.question.curve
    how = f"measured ({curve.key.library} {curve.key.version}, {curve.key.mode})" if curve is not None else "modelled"
    if row.low_s is None or row.high_s is None:
        return f"{how[:1].upper()}{how[1:]}."
    return f"80 % range {units.format_time(row.low_s)} to {units.format_time(row.high_s)}, {how}."


def _runs(found: Answer, size: float) -> str:
    """Return what the library runs at a size."""
    at = next((each for each in found.choices if each.size_bytes == size), None)
    row = next((row for row in found.rows if row.size_bytes == size and row.kind != "law"), None)
    busbw = units.format_bandwidth(row.busbw_bytes_per_s) if row is not None else ""
    name = at.algorithm if at is not None and at.algorithm and at.beaten is None else ""
    return ", ".join(word for word in (f"{busbw} busbw" if busbw else "", name) if word)


def _closing(found: Answer) -> list[str]:
    """Return where the latency goes."""
    if found.fixed is None:
        return []
    parts = [(part.time_s, part.name) for part in found.fixed.parts if part.time_s > 0]
    whole = sum(time for time, _ in parts)
    if not whole:
        return []
    told = ", ".join(f"{name} {percent(time / whole)}" for time, name in sorted(parts, reverse=True))
    return [f"Of the {units.format_time(whole)} latency: {told}."]


def _size(size_bytes: float) -> str:
    return units.format_size(size_bytes, binary=True)
