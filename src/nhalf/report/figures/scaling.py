"""The scaling curve: the step of each layout as a stack of its columns, the node boundary and the turn-over set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.report.fields import count
from nhalf.report.figures.figure import COLUMNS, Figure, altair, data, seconds, tips
from nhalf.report.view import percent
from nhalf.report.words import joined, whole

if TYPE_CHECKING:
    from nhalf.decide.comparison import Panel, Row

_HEIGHT: Final = 260
_HEADROOM: Final = 1.14
_FAINT: Final = 0.35


def scaling(panel: Panel, key: str) -> Figure:
    """Return the scaling curve of one system and batch: layouts by their devices, times [s] stacked by column."""
    rows = sorted(panel.rows, key=lambda row: row.scenario.layout.devices)
    names = [row.layout_name for row in rows]
    parts = [part for row in rows for part in _parts(row)]
    alt = altair()
    x = alt.X("layout:N", sort=names, title="layout", axis=alt.Axis(labelAngle=-40 if _long(names) else 0))
    y = alt.Y(
        "from_s:Q",
        title=f"time of a {whole(rows[0])}",
        axis=alt.Axis(labelExpr=seconds("datum.value"), tickCount=6),
        scale=alt.Scale(domain=[0, _HEADROOM * max(max(row.high_s, row.step_s) for row in rows)], nice=False),
    )
    shown = [name for name in COLUMNS if any(row.columns[name] > 0 for row in rows)]
    colour = alt.Color(
        "column:N",
        scale=alt.Scale(domain=[COLUMNS[name][0] for name in shown], range=[COLUMNS[name][1] for name in shown]),
    )
    told = ["layout", "part", "step", "80 % band", "rate", *(COLUMNS[name][0] for name in shown), "memory"]
    bars = (
        alt.Chart(data(parts))
        .mark_bar(stroke="currentColor", strokeWidth=0.4, strokeOpacity=0.4)
        .encode(
            x=x, y=y, y2=alt.Y2("to_s:Q"), color=colour, tooltip=tips(*told),
            opacity=alt.Opacity("shade:Q", scale=None, legend=None),
        )
    )  # fmt: skip
    layers = [bars, *_band_and_best(panel, rows), *_boundary(rows)]
    return Figure(
        key=key,
        title=f"{panel.system}, batch {panel.batch:g}",
        text=_text(panel, rows),
        note="* within 5 % of the fastest that fits; the whisker is the 80 % band; pale bars do not fit in memory.",
        chart=alt.layer(*layers).properties(width="container", height=_HEIGHT),
        rows=[_record(row) for row in rows],
    )


def _long(names: list[str]) -> bool:
    """Tell whether the names of layouts need to be turned to have room."""
    return sum(len(name) for name in names) > 40  # noqa: PLR2004  letters that a phone has room for


def _parts(row: Row) -> list[dict[str, Any]]:
    """Return the bars of one layout, from the ground up, each with the whole breakdown to show when pointed at."""
    breakdown = {COLUMNS[name][0]: _share(value, row) for name, value in row.columns.items() if value > 0}
    shared = {
        "layout": row.layout_name,
        "step": units.format_time(row.step_s),
        "80 % band": f"{units.format_time(row.low_s)} to {units.format_time(row.high_s)}",
        "rate": f"{count(row.tokens_per_s_per_user)} tokens/s per user",
        "memory": f"{row.memory_bytes / 1e9:.1f} GB a device, fits: {row.fits_memory}",
        "shade": 1.0 if row.fits_memory != "no" else _FAINT,
        **breakdown,
    }
    ground, found = 0.0, []
    for name in COLUMNS:
        value = row.columns[name]
        if value > 0:
            word = COLUMNS[name][0]
            ends = {"from_s": ground, "to_s": ground + value}
            found.append({**shared, **ends, "column": word, "part": f"{word}: {_share(value, row)}"})
            ground += value
    return found


def _share(value: float, row: Row) -> str:
    """Return a time and its share of the step."""
    return f"{units.format_time(value)} ({percent(value / row.step_s)})"


def _band_and_best(panel: Panel, rows: list[Row]) -> list[Any]:
    """Return the whiskers of the bands, and the rate above each bar with a mark on the turn-over set."""
    alt = altair()
    tops = [
        {
            "layout": row.layout_name, "low_s": row.low_s, "high_s": row.high_s,
            "label": f"{count(row.tokens_per_s_per_user)}/s" + ("*" if row in panel.tied else ""),
            "weight": "bold" if row in panel.tied else "normal",
        }
        for row in rows
    ]  # fmt: skip
    base = alt.Chart(data(tops)).encode(x=alt.X("layout:N", sort=[row.layout_name for row in rows]))
    whisker = base.mark_rule(strokeWidth=1.2, opacity=0.7, aria=False).encode(y=alt.Y("low_s:Q"), y2=alt.Y2("high_s:Q"))
    plain, bold = (
        base.transform_filter(f"datum.weight == '{weight}'")
        .mark_text(dy=-8, fontWeight=weight, opacity=opacity)
        .encode(y=alt.Y("high_s:Q"), text=alt.Text("label:N"))
        for weight, opacity in (("normal", 0.75), ("bold", 1.0))
    )
    return [whisker, plain, bold]


def _boundary(rows: list[Row]) -> list[Any]:
    """Return the line before the first layout that needs more than one node."""
    beyond = [row.layout_name for row in rows if row.nodes > 1]
    if not beyond or rows[0].nodes > 1:
        return []
    alt = altair()
    where = data([{"layout": beyond[0], "label": "more than one node"}])
    sort = [row.layout_name for row in rows]
    at = alt.X("layout:N", sort=sort, bandPosition=0)
    base = alt.Chart(where).encode(x=at)
    rule = base.mark_rule(strokeDash=[5, 4], opacity=0.8, aria=False)
    text = base.mark_text(align="right", dx=-5, dy=8, opacity=0.8).encode(y=alt.value(0), text=alt.Text("label:N"))
    return [rule, text]


def _record(row: Row) -> dict[str, object]:
    """Return a row of the table."""
    return {
        "system": row.scenario.system.name, "layout": row.layout_name, "devices": row.scenario.layout.devices,
        "nodes": row.nodes, "batch": row.batch, "step_s": row.step_s, "low_s": row.low_s, "high_s": row.high_s,
        **{f"{name}_s": value for name, value in row.columns.items()},
        "tokens_per_s_per_user": row.tokens_per_s_per_user, "memory_bytes": row.memory_bytes,
        "fits_memory": row.fits_memory, "binding": row.binding, "kind": row.kind,
    }  # fmt: skip


def _text(panel: Panel, rows: list[Row]) -> str:
    """Return the chart in words."""
    steps = "; ".join(f"{row.layout_name} {units.format_time(row.step_s)}, bound by {row.binding}" for row in rows)
    best = joined([row.layout_name for row in panel.tied]) if panel.tied else "none"
    return f"Time of a {whole(rows[0])} by layout, stacked by column: {steps}. Fastest that fit: {best}."
