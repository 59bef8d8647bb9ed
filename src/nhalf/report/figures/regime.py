"""The regime map: what binds at every batch and layout, with the tokens per second of a user and their contours."""

from __future__ import annotations

import json
from itertools import pairwise
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf import units
from nhalf.points import points
from nhalf.predict.step import BINDING
from nhalf.report.fields import count
from nhalf.report.figures import figure
from nhalf.report.figures.figure import COLUMNS, Figure, altair, data, tips
from nhalf.report.view import percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.scenario import Scenario

    Cell = Mapping[str, Any]


BATCHES: Final = tuple(2**power for power in range(11))
_CELL: Final = 34
_PALE: Final = 0.25
_LETTERS: Final = 13
"""Letters of a layout's name in one line beside the map; longer names take more lines."""
_COLOURS: Final = dict(COLUMNS.values())
WORDS: Final = {BINDING[name]: word for name, (word, _) in COLUMNS.items()}


def regime(layouts: Mapping[str, Scenario], turns: Mapping[str, float], *, key: str, title: str) -> Figure:
    """Return the map of one system: a line for each layout, in the order given, a column for each batch.

    `turns` is the batch from which on the bytes of a layout's all-reduce count; a triangle in the map marks it.
    """
    rows = [_cells(name, scenario) for name, scenario in layouts.items()]
    cells = [cell for row in rows for cell in row]
    alt = altair()
    first, last = min(cell["doubling"] for cell in cells), len(BATCHES) - 1
    x = alt.X(
        "from_doubling:Q", title="batch", scale=alt.Scale(domain=[first - 0.5, last + 0.5], nice=False),
        axis=alt.Axis(values=list(range(first, last + 1)), labelExpr="format(pow(2, datum.value), 'd')", grid=False,
                      labelOverlap=False),
    )  # fmt: skip
    y = _layouts(list(layouts))
    words = list(dict.fromkeys(cell["binds"] for cell in cells))
    colour = alt.Color(
        "binds:N", scale=alt.Scale(domain=words, range=[_COLOURS[word] for word in words]),
        legend=alt.Legend(columns=3, columnPadding=10),
    )  # fmt: skip
    told = [
        "layout",
        "batch",
        "binds",
        "step",
        "per user",
        "per GPU",
        *(word for word, _ in COLUMNS.values()),
        "memory",
    ]
    held = {name for cell in cells for name in cell}
    shown = figure.tips(*(name for name in told if name in held))
    base = alt.Chart(data(cells)).encode(y=y)
    boxes = base.mark_rect(stroke="currentColor", strokeOpacity=0.25, strokeWidth=0.5).encode(
        x=x, x2=alt.X2("to_doubling:Q"), color=colour, opacity=alt.Opacity("shade:Q", scale=None, legend=None),
        tooltip=shown,
    )  # fmt: skip
    # The numbers lie on top of the boxes, and are pointed at like them.
    rates = base.mark_text(aria=False, fontSize=figure.numbers(last + 1 - first)).encode(
        x=alt.X("doubling:Q"), text=alt.Text("rate:N"), color=alt.Color("ink:N", scale=None), tooltip=shown
    )
    height = max(_CELL * len(layouts), 2 * _CELL)
    band = height / len(layouts)
    marks, at = _marks(turns, y, band), levels([cell["tokens_per_s_per_user"] for cell in cells])
    chart = alt.layer(boxes, *contours(rows, at, y, band), rates, *marks)
    return Figure(
        key=key,
        title=title,
        text=_text(cells),
        note="In each cell: tokens/s per user."
        + (f" Lines: where it falls below {', '.join(count(each) for each in at)}." if at else "")
        + " Pale: does not fit in memory."
        + (" Empty: fewer sequences than attention groups." if len({len(row) for row in rows}) > 1 else "")
        + (" Triangle: from this batch on an all-reduce takes twice its floor, so its bytes count." if marks else ""),
        chart=chart.properties(width="container", height=height),
        rows=[_record(cell) for cell in cells],
    )


def _layouts(names: list[str]) -> Any:  # noqa: ANN401  an altair channel
    """Return the axis of the layouts, in this order; a long name takes several lines, to leave room for the cells."""
    alt = altair()
    lines = json.dumps({name: wrap(name, _LETTERS) for name in names})
    axis = alt.Axis(grid=False, labelLimit=120, labelExpr=f"{lines}[datum.value]")
    return alt.Y("layout:N", sort=names, title=None, axis=axis)


def _cells(name: str, scenario: Scenario) -> list[dict[str, Any]]:
    """Return the cells of one layout; a batch that has no sequence for each attention rank is none."""
    kept = [batch for batch in BATCHES if batch >= scenario.layout.attention_dp]
    here = points(scenario, {"workload.batch": np.array(kept, dtype=np.float64)})
    found = []
    for place, batch in enumerate(kept):
        point = here.at(place)
        binds, step_s, memory = WORDS[point.binding], point.step_s, point.memory_bytes
        parts = {part: owed for part, owed in point.columns.items() if owed}
        fits, rate, doubling = point.fits_memory != "no", point.tokens_per_s_per_user, BATCHES.index(batch)
        found.append(
            {
                "layout": name, "batch": batch, "binds": binds, "step_s": step_s,
                "doubling": doubling, "from_doubling": doubling - 0.5, "to_doubling": doubling + 0.5,
                "tokens_per_s_per_user": rate, "fits": fits, "memory_bytes": memory,
                "shade": 1.0 if fits else _PALE,
                "ink": figure.on(_COLOURS[binds]) if fits else figure.INK,
                "rate": count(rate), "step": units.format_time(step_s),
                "per user": f"{count(rate)} tokens/s",
                "per GPU": f"{count(point.tokens_per_s_per_gpu)} tokens/s",
                "memory": f"{memory / 1e9:.1f} GB a device" + ("" if fits else ", does not fit"),
                **{COLUMNS[part][0]: _share(value, step_s) for part, value in parts.items() if value > 0},
            }
        )  # fmt: skip
    return found


def _share(value: float, whole: float) -> str:
    return f"{units.format_time(value)} ({percent(value / whole)})"


def _marks(turns: Mapping[str, float], y: Any, band: float) -> list[Any]:  # noqa: ANN401  altair
    """Return the triangles of the batches from which on bytes count, in rows of `band` pixels."""
    rows = [
        {"layout": name, "doubling": float(np.log2(at)), "label": f"bytes count from batch {at:.0f}"}
        for name, at in turns.items()
        if BATCHES[0] < at < BATCHES[-1]
    ]
    if not rows:
        return []
    alt = altair()
    notch = alt.Chart(data(rows)).mark_point(
        shape="triangle-up", filled=True, size=60, yOffset=band / 2 - 5, color=figure.INK, opacity=1
    )
    return [notch.encode(x=alt.X("doubling:Q"), y=y, tooltip=figure.tips("layout", "label"))]


def _record(cell: dict[str, Any]) -> dict[str, object]:
    """Return a row of the table."""
    names = ("layout", "batch", "binds", "step_s", "tokens_per_s_per_user", "memory_bytes", "fits")
    return {name: cell[name] for name in names}


def _text(cells: list[dict[str, Any]]) -> str:
    """Return the map in words: where what binds changes along each layout."""
    parts = []
    for layout in dict.fromkeys(cell["layout"] for cell in cells):
        mine = [cell for cell in cells if cell["layout"] == layout]
        turns = [mine[0], *(b for a, b in pairwise(mine) if a["binds"] != b["binds"])]
        parts.append(f"{layout}: " + ", ".join(f"{cell['binds']} from batch {cell['batch']}" for cell in turns))
    return f"What binds by layout and batch. {'; '.join(parts)}."


_LEVELS: Final = tuple(float(f"{step}e{power}") for power in range(-1, 5) for step in (1, 2, 5))
"""The tokens per second of a user at which contours may be drawn: 1, 2 and 5 of each power of ten."""
_MOST_LEVELS: Final = 6
_STROKES: Final = ((3.6, "#FFFFFF"), (1.6, "#000000"))
"""The width [pixels] and colour of each stroke of a line: black with a white edge stands out from every colour."""


def levels(rates: Sequence[float]) -> list[float]:
    """Return the tokens per second of a user at which contours are drawn, the highest first; of many half."""
    found = [level for level in _LEVELS if min(rates) < level <= max(rates)][::-1]
    while len(found) > _MOST_LEVELS:
        found = found[::2]
    return found


def edges(rows: Sequence[Sequence[Cell]], at: Sequence[float]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the edges that the contours run along: upright ones at a doubling, and level ones below a row.

    `rows` are the cells of each layout by rising batch, with `layout`, `doubling` and `tokens_per_s_per_user`.
    """
    upright = [
        {"layout": second["layout"], "at_doubling": second["doubling"] - 0.5, "per user": crossed}
        for row in rows
        for first, second in pairwise(row)
        if (crossed := _crossed(first, second, at))
    ]
    level = [
        {
            "layout": one["layout"],
            "from_doubling": one["doubling"] - 0.5,
            "to_doubling": one["doubling"] + 0.5,
            "per user": crossed,
        }
        for above, below in pairwise(rows)
        for one in above
        for other in below
        if one["doubling"] == other["doubling"] and (crossed := _crossed(one, other, at))
    ]
    return upright, level


def _crossed(one: Cell, other: Cell, at: Sequence[float]) -> str:
    """Return the levels that one of two cells reaches and the other does not, empty where there is none."""
    low, high = sorted((one["tokens_per_s_per_user"], other["tokens_per_s_per_user"]))
    crossed = [count(level) for level in at if low < level <= high]
    return f"{', '.join(crossed)} tokens/s" if crossed else ""


def contours(rows: Sequence[Sequence[Cell]], at: Sequence[float], y: Any, band: float) -> list[Any]:  # noqa: ANN401  altair
    """Return the contours at some levels as layers of a map whose rows are `band` pixels high."""
    alt = altair()
    upright, level = edges(rows, at)
    found = []
    for width, colour in _STROKES:
        if level:
            rule = alt.Chart(data(level)).mark_rule(
                strokeWidth=width, color=colour, aria=False, opacity=1, yOffset=band / 2
            )
            found.append(
                rule.encode(x=alt.X("from_doubling:Q"), x2=alt.X2("to_doubling:Q"), y=y, tooltip=tips("per user"))
            )
        if upright:
            tick = alt.Chart(data(upright)).mark_tick(size=band, thickness=width, color=colour, aria=False, opacity=1)
            found.append(tick.encode(x=alt.X("at_doubling:Q"), y=y, tooltip=tips("per user")))
    return found
