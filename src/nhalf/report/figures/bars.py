"""Bars for and against: the tornado of elasticities, and what each change would save."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.report.figures import figure
from nhalf.report.figures.figure import BLUE, GREY, ORANGE, Figure, altair, data
from nhalf.report.view import percent
from nhalf.report.words import input_name, link_name, whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.decide.comparison import Panel
    from nhalf.scenario import Scenario

_ROW: Final = 34
_MOST: Final = 12
_MATTERS: Final = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: its name, its value, how that is written, and what to show when pointed at."""

    name: str
    value: float
    label: str
    colour: str
    tips: tuple[tuple[str, str], ...] = ()


def tornado(scenario: Scenario, elasticities: Mapping[str, float], key: str) -> Figure:
    """Return the inputs that move the step of a scenario most, in per cent of the step per per cent of the input."""
    origins = scenario.origins
    moved = sorted(elasticities.items(), key=lambda item: -abs(item[1]))
    moved = [(path, value) for path, value in moved if path in origins and abs(value) >= _MATTERS][:_MOST]
    whole = "prefill" if scenario.workload.phase == "prefill" else "step"
    bars = []
    for path, value in moved:
        origin = origins[path]
        tips = (
            ("input", path),
            ("1 % more of it", f"{value:+.3f} % of the {whole}"),
            ("value", units.format_value(origin.value, origin.unit)),
            ("kind", origin.kind),
            ("source", origin.source),
        )
        colour = ORANGE if value > 0 else BLUE
        bars.append(Bar(name=input_name(path), value=value, label=f"{value:+.2f}", colour=colour, tips=tips))
    return of_bars(
        bars,
        key=key,
        title=f"{scenario.system.name}, {scenario.layout.name}, batch {float(scenario.workload.batch):g}",
        axis=f"% of the {whole} per % of the input",
        note="Orange: more of it makes the step longer (times). Blue: more of it makes it shorter (rates).",
    )


def levers(panel: Panel, key: str) -> Figure:
    """Return what each change would save of the fastest layout's step."""
    row = panel.fastest
    found = sorted(panel.levers, key=lambda lever: -lever.gain)
    link = link_name(row.scenario.system, "intra_node")
    bars = [
        Bar(
            name=lever.name.replace("in-node link", link),
            value=lever.gain,
            label=percent(lever.gain),
            colour=BLUE if lever.path.startswith("system.fabric") else GREY,
            tips=(
                ("change", lever.name), ("input", f"{lever.path} x {lever.factor:g}"),
                ("saves", f"{percent(lever.gain)} of the {whole(row)}"),
                ("which is", units.format_time(max(lever.gain, 0.0) * row.step_s)),
            ),
        )
        for lever in found
    ]  # fmt: skip
    return of_bars(
        bars,
        key=key,
        title=f"{panel.system}, {row.layout_name}, batch {panel.batch:g}",
        axis=f"part of the {whole(row)} saved",
        note="Blue: the links. Grey: everything else.",
        share=True,
    )


def of_bars(bars: Sequence[Bar], *, key: str, title: str, axis: str, note: str = "", share: bool = False) -> Figure:
    """Return bars from zero, the longest first as given, with each name above its bar: names need the whole width.

    `share` tells that the values are parts of a whole, and are to be written in per cent.
    """
    style, column = ("~%", "share") if share else ("~g", "elasticity")
    alt = altair()
    rows: list[dict[str, Any]] = [
        {
            "bar_name": bar.name,
            "bar_value": bar.value,
            "bar_label": bar.label,
            "bar_colour": bar.colour,
            **dict(bar.tips),
        }
        for bar in bars
    ]
    told = list(dict.fromkeys(name for bar in bars for name, _ in bar.tips))
    low, high = (end(0.0, *(bar.value for bar in bars)) for end in (min, max))
    room = 0.18 * (high - low or 1.0)
    order = [bar.name for bar in bars]
    base = alt.Chart(data(rows)).encode(y=alt.Y("bar_name:N", sort=order, axis=None))
    scale = alt.Scale(domain=[low - (room if low < 0 else 0.0), high + room], nice=False)
    value = alt.X("bar_value:Q", title=axis, scale=scale, axis=alt.Axis(format=style, tickCount=5))
    drawn = base.mark_bar(height=11, yOffset=7).encode(
        x=value,
        color=alt.Color("bar_colour:N", scale=None, legend=None),
        tooltip=figure.tips(*told),
    )
    names = base.mark_text(align="left", dy=-7, aria=False, limit=330).encode(
        x=alt.value(2), text=alt.Text("bar_name:N")
    )
    ends = [
        base.transform_filter(f"datum.bar_value {sign} 0")
        .mark_text(align=align, dx=dx, dy=8, aria=False)
        .encode(x=alt.X("bar_value:Q"), text=alt.Text("bar_label:N"))
        for sign, align, dx in ((">=", "left", 4), ("<", "right", -4))
    ]
    zero = alt.Chart(data([{"bar_value": 0.0}])).mark_rule(opacity=0.6, aria=False).encode(x=alt.X("bar_value:Q"))
    return Figure(
        key=key,
        title=title,
        text=f"{axis}: " + "; ".join(f"{bar.name} {bar.label}" for bar in bars),
        note=note,
        chart=alt.layer(drawn, zero, names, *ends).properties(width="container", height=max(_ROW * len(bars), _ROW)),
        rows=[{"name": bar.name, column: bar.value, **dict(bar.tips)} for bar in bars],
    )
