"""Bars that move: the time per token by layout, as sliders of a page set batch, latency and bandwidth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf import units
from nhalf.report.figures.figure import BLUE, INK, Figure, altair, seconds
from nhalf.report.words import joined

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.decide.moving import Grid

_ROW: Final = 30
_ROOM: Final = 1.4
"""What a label needs beside the longest bar [1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slider:
    """A slider of a figure: its name on the page, and the powers of two between which it moves in eighths."""

    name: str
    label: str
    low: float
    high: float
    value: float = 0.0


SLIDERS: Final = (
    Slider(name="batch", label="batch", low=0, high=10),
    Slider(name="latency", label="latency of every link, times", low=-2, high=2),
    Slider(name="bandwidth", label="bandwidth of every link, times", low=-2, high=2),
)


def moving(grids: Sequence[Grid], *, key: str, title: str) -> Figure:
    """Return the time per token of some layouts, with what a page needs to move it without asking anybody."""
    alt = altair()
    rows = [_row(each) for each in grids]
    order = [str(row["layout"]) for row in rows]
    base = alt.Chart(alt.Data(values=rows, name="moved")).encode(y=alt.Y("layout:N", sort=order, title=None))
    x = alt.X("time_s:Q", title="time per token", scale=alt.Scale(zero=True),
              axis=alt.Axis(labelExpr=seconds("datum.value"), tickCount=5))  # fmt: skip
    shade = alt.Opacity("shade:Q", scale=None)
    bars = base.mark_bar(height=13, color=BLUE).encode(x=x, opacity=shade)
    here = base.mark_tick(color=INK, thickness=2, size=19).encode(x=alt.X("catalogue_s:Q"))
    room = base.mark_rule(opacity=0, aria=False).encode(x=alt.X("room_s:Q"))
    text = base.mark_text(align="left", dx=5, color=INK).encode(x=x, text="label:N")
    off = max(each.error for each in grids)
    said = joined([f"{row['layout']} {row['label']}" for row in rows])
    return Figure(
        key=key,
        title=title,
        text=f"Time per token at batch 1: {said}.",
        note="Tick: the same batch on the catalogue's links. Pale: does not fit in memory. Between the points that "
        f"this page holds times are read off straight lines, at most {100 * off:.1f} % from what nhalf says (4,000 "
        "tries for each layout).",
        chart=alt.layer(bars, here, room, text).properties(width="container", height=max(_ROW * len(rows), 60)),
        rows=[{name: value for name, value in row.items() if name not in ("shade", "label", "room_s")} for row in rows],
        moves={"sliders": SLIDERS, "grids": [_held(each) for each in grids]},
    )


def _row(grid: Grid) -> dict[str, Any]:
    """Return a layout at batch 1 on the catalogue's links, as the page's script makes it for every other place."""
    one, latency, byte = (int(np.flatnonzero(nodes == 1.0)[0]) for nodes in grid.axes.nodes)
    time_s = _rounded(float(grid.times_s[one, latency, byte]))
    label = f"{units.format_time(time_s)}, {1 / time_s:.3g} tokens/s per user"
    return {"layout": grid.scenario.layout.name, "time_s": time_s, "catalogue_s": time_s, "label": label,
            "room_s": _ROOM * time_s, "shade": 1.0 if grid.fits[one] else 0.3}  # fmt: skip


def _held(grid: Grid) -> Mapping[str, Any]:
    """Return what the script reads lines off."""
    return {
        "layout": grid.scenario.layout.name,
        "nodes": [nodes.tolist() for nodes in grid.axes.nodes],
        "times_s": [_rounded(value) for value in grid.times_s.ravel().tolist()],
        "fits": [int(fits) for fits in grid.fits.tolist()],
    }


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")
