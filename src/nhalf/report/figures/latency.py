"""Latency against size: a curve with its floor, its ceiling, n_1/2, where it doubles its floor, and decode messages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf import units
from nhalf.report.figures import figure
from nhalf.report.figures.figure import BLUE, GREY, ORANGE, VERMILION, Figure, altair, data

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nhalf.breakdown import Array

_HEIGHT: Final = 280
_BETWEEN: Final = 40
_NEAR: Final = 0.3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """A curve to draw: `sizes_bytes` [bytes] and `times_s` [s] of its line, and of its measured `points`, if any.

    `latency_s` [s] and `bandwidth_bytes_per_s` [bytes/s] are those of the one line through it; `floor_s` [s] the time
    of the smallest messages. `messages` are names, sizes [bytes] and times [s] of messages to mark on it. What is None
    is unknown and not drawn. `written` returns a size as the text beside the drawing has it.
    """

    sizes_bytes: Array
    times_s: Array
    kind: str
    points: Sequence[tuple[float, float]] = ()
    intervals: Sequence[tuple[float, float, float]] = ()
    latency_s: float | None = None
    bandwidth_bytes_per_s: float | None = None
    floor_s: float | None = None
    half_size_bytes: float | None = None
    double_floor_size_bytes: float | None = None
    messages: Sequence[tuple[str, float, float]] = ()
    written: Callable[[float], str] = figure.size

    @property
    def size_range(self) -> tuple[float, float]:
        """Return the ends of the axis of sizes [bytes]."""
        return float(self.sizes_bytes[0]), float(self.sizes_bytes[-1])

    @property
    def time_range(self) -> tuple[float, float]:
        """Return the ends of the axis of times [s]."""
        times = [*self.times_s.tolist(), *(time for _, time in self.points)]
        return figure.log_range(times)


def latency(curve: Curve, *, key: str, title: str) -> Figure:
    """Return a curve against size, both axes logarithmic."""
    alt = altair()
    layers = [*_guides(curve), _line(curve), *_points(curve), *_marks(curve), *_messages(curve)]
    return Figure(
        key=key,
        title=title,
        text=_text(curve, title),
        note="Dashed: the floor, and the ceiling n / beta. Dotted: the one line alpha + n / beta."
        + (" Diamonds: what a model sends while it decodes." if curve.messages else ""),
        chart=alt.layer(*layers).properties(width="container", height=_HEIGHT),
        rows=[*_records(curve)],
    )


def _axes(curve: Curve, name: str = "time_s") -> dict[str, Any]:
    """Return the channels of both axes."""
    low, high = curve.size_range
    bottom, top = curve.time_range
    return {
        "x": figure.size_axis("size_bytes", low=low, high=high),
        "y": figure.time_axis(name, low=bottom, high=top),
    }


def _line(curve: Curve) -> Any:  # noqa: ANN401  an altair chart
    rows = [
        {
            "size_bytes": size,
            "time_s": time,
            "size": curve.written(size),
            "time": units.format_time(time),
            "as": curve.kind,
        }
        for size, time in zip(curve.sizes_bytes.tolist(), curve.times_s.tolist(), strict=True)
    ]
    line = altair().Chart(data(rows)).mark_line(color=BLUE, strokeWidth=2, point={"size": 60, "opacity": 0})
    return line.encode(**_axes(curve), tooltip=figure.tips("size", "time", "as"))


def _points(curve: Curve) -> list[Any]:
    """Return the measured points, with their intervals where there are any."""
    if not curve.points:
        return []
    rows = [
        {
            "size_bytes": size,
            "time_s": time,
            "size": curve.written(size),
            "time": units.format_time(time),
            "as": "measured",
        }
        for size, time in curve.points
    ]
    dots = altair().Chart(data(rows)).mark_point(color=BLUE, filled=True, size=34, opacity=1)
    found = [dots.encode(**_axes(curve), tooltip=figure.tips("size", "time", "as"))]
    if curve.intervals:
        spans = [{"size_bytes": size, "low_s": low, "high_s": high} for size, low, high in curve.intervals]
        bars = altair().Chart(data(spans)).mark_rule(color=BLUE, opacity=0.5, aria=False)
        found.append(bars.encode(**_axes(curve, "low_s"), y2=altair().Y2("high_s:Q")))
    return found


def _guides(curve: Curve) -> list[Any]:
    """Return the floor, the ceiling and the one line, within the axes."""
    low, high = curve.size_range
    bottom, top = curve.time_range
    sizes = np.geomspace(low, high, _BETWEEN)
    lines: list[tuple[str, Array, list[int], str]] = []
    rate = curve.bandwidth_bytes_per_s
    if curve.floor_s is not None:
        lines.append((f"floor {units.format_time(curve.floor_s)}", np.full_like(sizes, curve.floor_s), [6, 4], GREY))
    if rate is not None and np.isfinite(rate):
        lines.append((f"ceiling {units.format_bandwidth(rate)}", sizes / rate, [6, 4], GREY))
        if curve.latency_s is not None:
            name = f"alpha {units.format_time(curve.latency_s)} + n / beta"
            lines.append((name, curve.latency_s + sizes / rate, [1, 3], VERMILION))
    found = []
    for name, times, dash, colour in lines:
        inside = (times >= bottom) & (times <= top)
        rows = [
            {"size_bytes": size, "time_s": time, "line": name}
            for size, time in zip(sizes[inside].tolist(), times[inside].tolist(), strict=True)
        ]
        if rows:
            line = altair().Chart(data(rows)).mark_line(strokeDash=dash, color=colour, strokeWidth=1.5)
            found.append(line.encode(**_axes(curve), tooltip=figure.tips("line")))
    if curve.floor_s is not None:
        row = {"size_bytes": high, "time_s": curve.floor_s, "label": lines[0][0]}
        text = altair().Chart(data([row])).mark_text(align="right", dy=-7, dx=-2, opacity=0.85, aria=False)
        found.append(text.encode(**_axes(curve), text=altair().Text("label:N")))
    return found


def _marks(curve: Curve) -> list[Any]:
    """Return the sizes that matter: n_1/2, and where the floor is doubled, each with its name at the top."""
    low, high = curve.size_range
    named = (("n_1/2", curve.half_size_bytes, VERMILION, 6), ("crossover", curve.double_floor_size_bytes, BLUE, 20))
    inside = [(name, size, colour, at) for name, size, colour, at in named if size is not None and low <= size <= high]
    most = max((size for _, size, _, _ in inside), default=low)
    x = figure.size_axis("size_bytes", low=low, high=high)
    found = []
    for name, size, colour, at in inside:
        base = altair().Chart(data([{"size_bytes": size, "label": f"{name} {curve.written(size)}"}]))
        base = base.encode(x=x, tooltip=figure.tips("label"))
        # The names stand outside of the two lines, unless the edge is near.
        part = math.log(size / low) / math.log(high / low)
        left = part > _NEAR and (size < most or part > 1 - _NEAR)
        text = base.mark_text(align="right" if left else "left", dx=-4 if left else 4, aria=False)
        found += [
            base.mark_rule(color=colour, strokeWidth=1.2),
            text.encode(y=altair().value(at), text=altair().Text("label:N")),
        ]
    return found


def _messages(curve: Curve) -> list[Any]:
    """Return the messages that a model sends while it decodes, on the curve."""
    low, high = curve.size_range
    rows = [
        {
            "size_bytes": size,
            "time_s": time,
            "label": name,
            "message": curve.written(size),
            "time": units.format_time(time),
        }
        for name, size, time in curve.messages
        if low <= size <= high
    ]
    if not rows:
        return []
    base = altair().Chart(data(rows)).encode(**_axes(curve), tooltip=figure.tips("label", "message", "time"))
    dots = base.mark_point(shape="diamond", filled=True, size=110, color=ORANGE, opacity=1, stroke="currentColor")
    return [dots, base.mark_text(align="left", dx=7, dy=11, aria=False).encode(text=altair().Text("label:N"))]


def _records(curve: Curve) -> list[dict[str, object]]:
    """Return the rows of the table: the line, the points, and the messages."""
    line = zip(curve.sizes_bytes.tolist(), curve.times_s.tolist(), strict=True)
    found: list[dict[str, object]] = [{"size_bytes": size, "time_s": time, "kind": curve.kind} for size, time in line]
    found += [{"size_bytes": size, "time_s": time, "kind": "point"} for size, time in curve.points]
    found += [{"size_bytes": size, "time_s": time, "kind": name} for name, size, time in curve.messages]
    return found


def _text(curve: Curve, title: str) -> str:
    """Return the chart in words."""
    facts = []
    if curve.floor_s is not None:
        facts.append(f"the floor is {units.format_time(curve.floor_s)}")
    if curve.bandwidth_bytes_per_s is not None and np.isfinite(curve.bandwidth_bytes_per_s):
        facts.append(f"the ceiling {units.format_bandwidth(curve.bandwidth_bytes_per_s)}")
    if curve.half_size_bytes is not None:
        facts.append(f"n_1/2 of one line is {curve.written(curve.half_size_bytes)}")
    if curve.double_floor_size_bytes is not None and np.isfinite(curve.double_floor_size_bytes):
        facts.append(f"the floor is doubled at {curve.written(curve.double_floor_size_bytes)}")
    facts += [f"{name}: {curve.written(size)} takes {units.format_time(time)}" for name, size, time in curve.messages]
    return f"Time against message size, {title}: {'; '.join(facts)}."


def misfit(curve: Curve, *, key: str, title: str) -> Figure | None:
    """Return by how much the one line misses the points, which is always shown; None without points or line."""
    rate = curve.bandwidth_bytes_per_s
    if not curve.points or curve.latency_s is None or rate is None:
        return None
    rows = [
        {
            "size_bytes": size, "miss": (curve.latency_s + size / rate) / time - 1, "size": curve.written(size),
            "line against point": f"{100 * ((curve.latency_s + size / rate) / time - 1):+.1f} %",
        }
        for size, time in curve.points
    ]  # fmt: skip
    alt = altair()
    low, high = curve.size_range
    y = alt.Y("miss:Q", title="line / point - 1", axis=alt.Axis(format="+.0%", tickCount=5))
    base = alt.Chart(data(rows)).encode(
        x=figure.size_axis("size_bytes", low=low, high=high), y=y, tooltip=figure.tips("size", "line against point")
    )
    zero = alt.Chart(data([{"miss": 0.0}])).mark_rule(opacity=0.6, aria=False).encode(y=alt.Y("miss:Q"))
    stems = base.mark_rule(color=VERMILION, aria=False).encode(y2=alt.datum(0))
    dots = base.mark_point(filled=True, color=VERMILION, size=40, opacity=1)
    return Figure(
        key=key,
        title=title,
        text="How far the line is from each point: "
        + "; ".join(f"{row['size']} {row['line against point']}" for row in rows),
        chart=alt.layer(zero, stems, dots).properties(width="container", height=120),
        rows=[{"size_bytes": row["size_bytes"], "miss": row["miss"]} for row in rows],
    )
