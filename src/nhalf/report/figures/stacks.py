"""Stacks: one bar a layout, from left to right what its time is made of, so that a ranking explains itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.report.figures.figure import COLUMNS, INK, Figure, altair, data, seconds, tips
from nhalf.report.view import percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ROW: Final = 36
_FAINT: Final = 0.35
_HEADROOM: Final = 1.22


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One bar: its name, its columns [s] by the names of a step's, what stands at its end, and more to show.

    `band` is where the whole lies with 80 % [s], None where that is not known.
    """

    name: str
    columns: Mapping[str, float]
    label: str
    bold: bool = False
    faint: bool = False
    band: tuple[float, float] | None = None
    tips: tuple[tuple[str, str], ...] = ()


def stacks(bars: Sequence[Stack], *, key: str, title: str, axis: str, note: str = "", room: float = 0.0) -> Figure:
    """Return bars from the first down, each stacked by what takes its time [s], with its name above it.

    A thin line is the band of a bar. The axis reaches to the longest bar or band, or to `room` [s], so that several
    figures can share it.
    """
    alt = altair()
    parts = [part for bar in bars for part in _parts(bar)]
    ends = [_end(bar) for bar in bars]
    order = [bar.name for bar in bars]
    shown = [name for name in COLUMNS if any(bar.columns.get(name, 0.0) > 0 for bar in bars)]
    most = _HEADROOM * max(room, *(end["to_s"] for end in ends))
    told = ["layout", "part", "whole", "80 % range", *dict.fromkeys(tip for bar in bars for tip, _ in bar.tips),
            *(COLUMNS[name][0] for name in shown)]  # fmt: skip
    y = alt.Y("layout:N", sort=order, axis=None)
    colour = alt.Color(
        "column:N",
        scale=alt.Scale(domain=[COLUMNS[name][0] for name in shown], range=[COLUMNS[name][1] for name in shown]),
    )
    drawn = (
        alt.Chart(data(parts))
        .mark_bar(height=12, yOffset=7, stroke="currentColor", strokeWidth=0.4, strokeOpacity=0.4)
        .encode(
            x=alt.X("from_s:Q", title=axis, scale=alt.Scale(domain=[0, most], nice=False),
                    axis=alt.Axis(labelExpr=seconds("datum.value"), tickCount=5)),
            x2=alt.X2("to_s:Q"), y=y, color=colour, tooltip=tips(*told),
            opacity=alt.Opacity("shade:Q", scale=None, legend=None),
        )
    )  # fmt: skip
    base = alt.Chart(data(ends)).encode(y=y)
    whiskers = [
        base.transform_filter("isValid(datum.low_s)")
        .mark_rule(strokeWidth=1.4, yOffset=7, aria=False, color=INK)
        .encode(x=alt.X("low_s:Q"), x2=alt.X2("to_s:Q"))
    ]
    names, labels = [], []
    for weight in ("bold", "normal"):
        mine = base.transform_filter(f"datum.weight == '{weight}'")
        names.append(
            mine.mark_text(align="left", dy=-7, aria=False, limit=330, fontWeight=weight, color=INK).encode(
                x=alt.value(2), text=alt.Text("layout:N")
            )
        )
        labels.append(
            mine.mark_text(align="left", dx=4, dy=8, aria=False, fontWeight=weight, color=INK).encode(
                x=alt.X("to_s:Q"), text=alt.Text("label:N")
            )
        )
    return Figure(
        key=key,
        title=title,
        text=f"{axis}, by layout: "
        + "; ".join(f"{bar.name} {units.format_time(sum(bar.columns.values()))} ({bar.label})" for bar in bars),
        note=note,
        chart=alt.layer(drawn, *whiskers, *names, *labels).properties(width="container", height=_ROW * len(bars)),
        rows=[
            {"layout": bar.name, **{f"{name}_s": bar.columns.get(name, 0.0) for name in shown},
             "whole_s": sum(bar.columns.values()),
             **({"low_s": bar.band[0], "high_s": bar.band[1]} if bar.band else {}), **dict(bar.tips)}
            for bar in bars
        ],
    )  # fmt: skip


def _parts(bar: Stack) -> list[dict[str, Any]]:
    """Return the parts of one bar, from the left, each with the whole breakdown to show when pointed at."""
    whole = sum(bar.columns.values())
    told = {
        COLUMNS[name][0]: f"{units.format_time(value)} ({percent(value / whole)})"
        for name, value in bar.columns.items()
        if value > 0
    }
    shared = {"layout": bar.name, "whole": units.format_time(whole), "shade": _FAINT if bar.faint else 1.0,
              **({"80 % range": " to ".join(map(units.format_time, bar.band))} if bar.band else {}),
              **dict(bar.tips), **told}  # fmt: skip
    found, ground = [], 0.0
    for name in COLUMNS:
        value = bar.columns.get(name, 0.0)
        if value > 0:
            word = COLUMNS[name][0]
            found.append({**shared, "column": word, "part": f"{word}: {told[word]}", "from_s": ground,
                          "to_s": ground + value})  # fmt: skip
            ground += value
    return found


def _end(bar: Stack) -> dict[str, Any]:
    """Return where a bar and its band end, and what stands there."""
    whole = sum(bar.columns.values())
    low_s, high_s = bar.band or (None, whole)
    return {"layout": bar.name, "low_s": low_s, "to_s": max(whole, high_s), "label": bar.label,
            "weight": "bold" if bar.bold else "normal"}  # fmt: skip
