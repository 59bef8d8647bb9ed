"""Lines: a time against one input, a line for each value of another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.report.figures import figure
from nhalf.report.figures.figure import PALETTE, Figure, altair, data, seconds, tips
from nhalf.report.words import joined

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEIGHT: Final = 270
_WIDE_RATIO: Final = 8.0
"""An axis whose ends differ by more is logarithmic."""
_FEW: Final = 12
DASHES: Final = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [4, 4], [12, 4], [1, 3], [5, 2, 1, 2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One point of a line: the input, the time [s], and what to show; `fits` tells whether it can run at all."""

    line: str
    at: float
    step_s: float
    fits: bool
    tips: tuple[tuple[str, str], ...] = ()


def lines(
    dots: Sequence[Dot], *, key: str, title: str, axis: tuple[str, str], note: str = "", of: str = "a step"
) -> Figure:
    """Return the time `of` a step, or of a part of it, against an input, whose name and unit are `axis`."""
    alt = altair()
    name, unit = axis
    rows = [_row(dot, unit) for dot in dots]
    order = list(dict.fromkeys(dot.line for dot in dots))
    x = alt.X("at:Q", title=name, scale=_scale([dot.at for dot in dots]),
              axis=alt.Axis(labelExpr=_label(unit), grid=True, **_ticks([dot.at for dot in dots])))  # fmt: skip
    times = [dot.step_s for dot in dots]
    y = alt.Y("step_s:Q", title=f"time of {of}", scale=_scale(times, zero=True),
              axis=alt.Axis(labelExpr=seconds("datum.value"), **_ticks(times)))  # fmt: skip
    told = ["line", "value", "step", *dict.fromkeys(tip for dot in dots for tip, _ in dot.tips)]
    several = len(order) > 1
    base = alt.Chart(data(rows)).encode(x=x, y=y)
    colour = alt.Color(
        "line:N", scale=alt.Scale(domain=order, range=[PALETTE[at % len(PALETTE)] for at in range(len(order))]),
        legend=alt.Legend(columns=4, symbolType="stroke", symbolStrokeWidth=2.2) if several else None,
    )  # fmt: skip
    dash = alt.StrokeDash(
        "line:N", scale=alt.Scale(domain=order, range=[DASHES[at % len(DASHES)] for at in range(len(order))]),
        legend=alt.Legend(columns=4, symbolType="stroke", symbolStrokeWidth=2.2) if several else None,
    )  # fmt: skip
    drawn = base.mark_line(strokeWidth=2).encode(color=colour, strokeDash=dash, order=alt.Order("at:Q"))
    marks = base.mark_point(filled=True, size=34).encode(
        color=colour, opacity=alt.Opacity("shade:Q", scale=None), tooltip=tips(*(told if several else told[1:]))
    )
    return Figure(
        key=key,
        title=title,
        text=f"Time of {of} against {name}. {_text(dots, unit)}",
        note=note,
        chart=alt.layer(drawn, marks).properties(width="container", height=_HEIGHT),
        rows=[
            {"line": dot.line, name: dot.at, "step_s": dot.step_s, "fits": dot.fits, **dict(dot.tips)} for dot in dots
        ],
    )


def _row(dot: Dot, unit: str) -> dict[str, Any]:
    """Return a point as the chart holds it."""
    return {
        "line": dot.line, "at": dot.at, "step_s": dot.step_s, "shade": 1.0 if dot.fits else 0.25,
        "value": units.format_value(dot.at, unit) if unit else units.format_number(dot.at),
        "step": units.format_time(dot.step_s), **dict(dot.tips),
    }  # fmt: skip


def _scale(found: Sequence[float], *, zero: bool = False) -> Any:  # noqa: ANN401  an altair scale
    """Return the scale of an axis: logarithmic where the ends are far apart, else from zero or from the least."""
    alt = altair()
    low, high = min(found), max(found)
    if low > 0 and high / low > _WIDE_RATIO:
        return alt.Scale(type="log", domain=list(figure.log_range(found)) if zero else [low, high], nice=False)
    return alt.Scale(domain=[0.0, 1.1 * high]) if zero else alt.Scale(domain=[low, high], nice=False)


def _ticks(found: Sequence[float]) -> dict[str, Any]:
    """Return where an axis has labels: at its values where they are few whole numbers, else at round ones."""
    low, high = min(found), max(found)
    own = sorted(set(found))
    if len(own) <= _FEW and all(value.is_integer() for value in own):
        return {"values": own}
    if low > 0 and high / low > _WIDE_RATIO:
        return {"values": figure.decades(*figure.log_range(found))}
    return {"tickCount": 6}


def _label(unit: str) -> str:
    """Return the Vega expression that writes a value of the axis with its unit."""
    if unit == "s":
        return seconds("datum.value")
    end = {"bytes/s": "B/s", "bytes": "B", "FLOP/s": "FLOP/s"}.get(unit)
    return f"format(datum.value, '.3~s') + '{end}'" if end else "format(datum.value, '.4~g')"


def _text(dots: Sequence[Dot], unit: str) -> str:
    """Return the chart in words: both ends of each line."""
    parts = []
    for line in dict.fromkeys(dot.line for dot in dots):
        mine = sorted((dot for dot in dots if dot.line == line), key=lambda dot: dot.at)
        ends = [f"{units.format_time(dot.step_s)} at {_row(dot, unit)['value']}" for dot in (mine[0], mine[-1])]
        parts.append(f"{line}: {' to '.join(ends)}" if line else " to ".join(ends))
    return f"{joined(parts)}."
