"""Contours of a map of cells: the edges between neighbours of which one reaches a level and the other does not.

The rows of a map are layouts, between which nothing lies, so a contour runs along the edges of cells from row to row
and around the numbers in them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from nhalf.report import verdict
from nhalf.report.figures.figure import altair, data, tips

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Cell = Mapping[str, Any]

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
    crossed = [verdict.count(level) for level in at if low < level <= high]
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
