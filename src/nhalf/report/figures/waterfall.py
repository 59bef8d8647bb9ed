"""The waterfall of one token: each column from where the one before it ended, down to the whole step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.report.figures.figure import COLUMNS, INK, Figure, altair, data, seconds, tips
from nhalf.report.view import percent
from nhalf.report.words import whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.comparison import Row

_ROW: Final = 30
_WHOLE: Final = 0.55
_LATE: Final = 0.5


def waterfall(row: Row, key: str) -> Figure:
    """Return where the time of one step of a layout goes."""
    parts = [(COLUMNS[name][0], row.columns[name], COLUMNS[name][1]) for name in COLUMNS if row.columns[name] > 0]
    title = f"{row.scenario.system.name}, {row.layout_name}, batch {row.batch:g}: {units.format_time(row.step_s)}"
    return of_parts(parts, key=key, title=title, whole=whole(row))


def of_parts(parts: Sequence[tuple[str, float, str]], *, key: str, title: str, whole: str) -> Figure:
    """Return a waterfall of named times [s], each with its colour, that add up to `whole`."""
    alt = altair()
    summed = sum(value for _, value, _ in parts)
    rows = _rows([*parts], summed, whole)
    base = alt.Chart(data(rows)).encode(
        y=alt.Y("part:N", sort=[row["part"] for row in rows], title=None, axis=alt.Axis(labelLimit=130, grid=False)),
        tooltip=tips("part", "time", "share", "until here"),
    )
    axis = alt.Axis(labelExpr=seconds("datum.value"), tickCount=5)
    x = alt.X("from_s:Q", title="time", axis=axis, scale=alt.Scale(domain=[0, 1.3 * summed], nice=False))
    bars = base.mark_bar(height=16).encode(
        x=x,
        x2=alt.X2("to_s:Q"),
        color=alt.Color("colour:N", scale=None, legend=None),
        opacity=alt.Opacity("shade:Q", scale=None),
    )
    # A narrow page has no room right of the last bars: their labels stand on the left.
    labels = [
        base.transform_filter(f"{'' if place == 'from_s' else '!'}datum.late")
        .mark_text(align=align, dx=dx, aria=False)
        .encode(x=alt.X(f"{place}:Q"), text=alt.Text("label:N"))
        for place, align, dx in (("to_s", "left", 4), ("from_s", "right", -4))
    ]
    return Figure(
        key=key,
        title=title,
        text=f"Where the {whole} goes: " + "; ".join(f"{row['part']} {row['time']}, {row['share']}" for row in rows),
        chart=alt.layer(bars, *labels).properties(width="container", height=_ROW * len(rows)),
        rows=[{"part": name, "time_s": value} for name, value, _ in parts] + [{"part": whole, "time_s": summed}],
    )


def _rows(parts: list[tuple[str, float, str]], summed: float, whole: str) -> list[dict[str, Any]]:
    """Return the bars, each starting where the one before it ended, and the whole last."""
    ground, found = 0.0, []
    for name, value, colour in [*parts, (whole, summed, INK)]:
        start = 0.0 if name == whole else ground
        ground = start + value
        share = percent(value / summed) if summed else "0 %"
        time = units.format_time(value)
        label = time if name == whole else f"{time}, {share}"
        found.append(
            {
                "part": name, "from_s": start, "to_s": ground, "colour": colour, "time": time, "share": share,
                "shade": _WHOLE if name == whole else 1.0, "late": name != whole and start > _LATE * summed,
                "label": label, "until here": units.format_time(ground),
            }
        )  # fmt: skip
    return found
