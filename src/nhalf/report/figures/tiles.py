"""Tiles: what binds over two inputs, with the tokens per second of a user in each tile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nhalf.report.fields import count
from nhalf.report.figures import figure
from nhalf.report.figures.figure import COLUMNS, Figure, altair, data, tips
from nhalf.report.words import joined

if TYPE_CHECKING:
    from collections.abc import Sequence

_TILE: Final = 30
_PALE: Final = 0.25
_LETTERED: Final = 14
"""Columns up to which a tile has room for its number."""
_COLOURS: Final = dict(COLUMNS.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One tile: its column and row, what binds ("" where it is not legal), and the tokens/s of a user."""

    across: str
    down: str
    binds: str
    per_user: float
    fits: bool
    tips: tuple[tuple[str, str], ...] = ()


def tiles(found: Sequence[Tile], *, key: str, title: str, axes: tuple[str, str]) -> Figure:
    """Return the map over two inputs, whose names are `axes` (across, down)."""
    alt = altair()
    columns, rows = (list(dict.fromkeys(getattr(tile, name) for tile in found)) for name in ("across", "down"))
    words = list(dict.fromkeys(tile.binds for tile in found if tile.binds))
    drawn = [_row(tile, axes) for tile in found]
    told = [*axes, "binds", "per user", *dict.fromkeys(tip for tile in found for tip, _ in tile.tips)]
    base = alt.Chart(data(drawn)).encode(
        x=alt.X("across:N", sort=columns, title=axes[0],
                axis=alt.Axis(labelAngle=0 if len("".join(columns)) <= _LETTERED * 4 else -50, labelOverlap="greedy")),
        y=alt.Y("down:N", sort=rows, title=axes[1], axis=alt.Axis(labelLimit=110)),
        tooltip=tips(*told),
    )  # fmt: skip
    boxes = base.mark_rect(stroke="currentColor", strokeOpacity=0.25, strokeWidth=0.5).encode(
        color=alt.Color("colour:N", scale=None), opacity=alt.Opacity("shade:Q", scale=None)
    )
    legend = alt.Chart(data([{"binds": word} for word in words])).mark_rect(opacity=0).encode(
        color=alt.Color("binds:N", scale=alt.Scale(domain=words, range=[_COLOURS[word] for word in words]),
                        legend=alt.Legend(columns=4, symbolOpacity=1))
    )  # fmt: skip
    layers = [legend, boxes]
    if len(columns) <= _LETTERED:
        layers.append(
            base.mark_text(aria=False, fontSize=figure.numbers(len(columns))).encode(
                text=alt.Text("rate:N"), color=alt.Color("ink:N", scale=None)
            )
        )
    chart = alt.layer(*layers).resolve_scale(color="independent")
    return Figure(
        key=key,
        title=title,
        text=_text(found, axes),
        note=("In each tile: tokens/s per user. " if len(columns) <= _LETTERED else "")
        + "Pale: does not fit in memory. Empty: not legal.",
        chart=chart.properties(width="container", height=max(_TILE * len(rows), 2 * _TILE)),
        rows=[
            {axes[0]: tile.across, axes[1]: tile.down, "binds": tile.binds, "tokens_per_s_per_user": tile.per_user,
             "fits": tile.fits}
            for tile in found
        ],
    )  # fmt: skip


def _row(tile: Tile, axes: tuple[str, str]) -> dict[str, Any]:
    """Return a tile as the chart holds it."""
    colour = _COLOURS.get(tile.binds, "#FFFFFF")
    return {
        "across": tile.across, "down": tile.down, axes[0]: tile.across, axes[1]: tile.down,
        "binds": tile.binds or "not legal", "colour": colour,
        "shade": 0.0 if not tile.binds else 1.0 if tile.fits else _PALE,
        "ink": figure.on(colour) if tile.fits else figure.INK,
        "rate": count(tile.per_user) if tile.binds else "",
        "per user": f"{count(tile.per_user)} tokens/s" if tile.binds else "", **dict(tile.tips),
    }  # fmt: skip


def _text(found: Sequence[Tile], axes: tuple[str, str]) -> str:
    """Return the map in words: what binds in each row."""
    parts = []
    for row in dict.fromkeys(tile.down for tile in found):
        mine = [tile for tile in found if tile.down == row]
        words = list(dict.fromkeys(tile.binds or "not legal" for tile in mine))
        parts.append(f"{row}: {joined(words)}")
    return f"What binds, by {axes[1]}, each over {axes[0]}. {'; '.join(parts)}."
