"""The Pareto front: what a user gets against what a GPU gives, a dot for each point and a line through the best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from nhalf.report.fields import count
from nhalf.report.figures.figure import BLUE, GREY, INK, VERMILION, Figure, altair, data, tips

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEIGHT: Final = 340
_LOOKS: Final = {
    "chosen": ("diamond", 190, VERMILION), "tied": ("square", 90, VERMILION), "front": ("circle", 55, BLUE),
    "other": ("circle", 16, GREY),
}  # fmt: skip
"""Shape, size [square pixels] and colour of each kind of point: shapes tell them apart where colours do not."""
_WORDS: Final = {"chosen": "chosen", "tied": "cannot be told from it", "front": "on the front", "other": "other points"}
Role = Literal["chosen", "tied", "front", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """One point: its name, tokens/s per user and per GPU, what it is, and what to show when pointed at.

    `front` tells whether nothing is better in both, `meets` whether it is within the limits.
    """

    name: str
    per_user: float
    per_gpu: float
    role: Role
    front: bool = False
    meets: bool = True
    tips: tuple[tuple[str, str], ...] = ()


def pareto(
    spots: Sequence[Spot], *, key: str, title: str, room: tuple[float, float], limit: tuple[float, str] | None = None
) -> Figure:
    """Return tokens/s per GPU against tokens/s per user, on axes that reach to `room` (per user, per GPU).

    `limit` is the least tokens/s per user that is wanted, with its words; points beyond it are pale.
    """
    alt = altair()
    x, y = (
        kind(f"{name}:Q", title=title, scale=alt.Scale(domain=[0, 1.06 * most], nice=False),
             axis=alt.Axis(format="~s", tickCount=6))
        for kind, name, title, most in (
            (alt.X, "per_user", "tokens/s per user", room[0]), (alt.Y, "per_gpu", "tokens/s per GPU", room[1])
        )
    )  # fmt: skip
    # The most important points come last, on top of the others.
    drawn = sorted((_row(spot) for spot in spots), key=lambda row: -list(_WORDS.values()).index(row["what"]))
    roles = [role for role in _LOOKS if any(row["what"] == _WORDS[role] for row in drawn)]
    words = [_WORDS[role] for role in roles]
    told = ["layout", "tokens/s per user", "tokens/s per GPU"]
    told += dict.fromkeys(tip for spot in spots for tip, _ in spot.tips)
    ranges = [[_LOOKS[role][place] for role in roles] for place in range(3)]
    points = alt.Chart(data(drawn)).mark_point(filled=True, strokeWidth=0).encode(
        x=x, y=y, tooltip=tips(*told), opacity=alt.Opacity("shade:Q", scale=None),
        shape=alt.Shape("what:N", scale=alt.Scale(domain=words, range=ranges[0])),
        size=alt.Size("what:N", scale=alt.Scale(domain=words, range=ranges[1])),
        color=alt.Color("what:N", scale=alt.Scale(domain=words, range=ranges[2])),
    )  # fmt: skip
    front = sorted((spot for spot in spots if spot.front), key=lambda spot: spot.per_user)
    line = (
        alt.Chart(data([_row(spot) for spot in front]))
        .mark_line(color=BLUE, strokeWidth=1.5, aria=False)
        .encode(x=x, y=y, order=alt.Order("per_user:Q"))
    )
    named = [_row(spot) for spot in spots if spot.role == "chosen"]
    name = alt.Chart(data(named)).mark_text(align="left", dx=10, dy=-9, fontWeight="bold", color=INK, aria=False)
    layers = [*_limit(limit), line, points, name.encode(x=x, y=y, text=alt.Text("layout:N"))]
    return Figure(
        key=key,
        title=title,
        text=_text(spots, front),
        note="Each point is a layout at a batch. On the line nothing is faster for a user without less for a GPU."
        + (" Pale: beyond the limits." if any(not spot.meets for spot in spots) else ""),
        chart=alt.layer(*layers).properties(width="container", height=_HEIGHT),
        rows=[
            {"layout": spot.name, "tokens_per_s_per_user": spot.per_user, "tokens_per_s_per_gpu": spot.per_gpu,
             "what": _WORDS[spot.role], "on_front": spot.front, "meets": spot.meets, **dict(spot.tips)}
            for spot in spots if spot.front or spot.role != "other"
        ],
    )  # fmt: skip


def _row(spot: Spot) -> dict[str, Any]:
    """Return a point as the chart holds it."""
    return {
        "layout": spot.name, "per_user": spot.per_user, "per_gpu": spot.per_gpu, "what": _WORDS[spot.role],
        "shade": (0.75 if spot.role == "other" else 1.0) if spot.meets else 0.3,
        "tokens/s per user": count(spot.per_user), "tokens/s per GPU": count(spot.per_gpu),
        **dict(spot.tips),
    }  # fmt: skip


def _limit(limit: tuple[float, str] | None) -> list[Any]:
    """Return the line of the least tokens/s per user."""
    if limit is None:
        return []
    alt = altair()
    base = alt.Chart(data([{"per_user": limit[0], "label": limit[1]}])).encode(x=alt.X("per_user:Q"))
    rule = base.mark_rule(strokeDash=[5, 4], opacity=0.8, aria=False)
    text = base.mark_text(align="left", dx=4, dy=8, opacity=0.85, aria=False)
    return [rule, text.encode(y=alt.value(0), text=alt.Text("label:N"))]


def _text(spots: Sequence[Spot], front: Sequence[Spot]) -> str:
    """Return the chart in words."""
    parts = [
        f"{_WORDS[role]}: " + "; ".join(f"{s.name} {count(s.per_user)} and {count(s.per_gpu)}" for s in found[:12])
        for role, found in (
            ("chosen", [spot for spot in spots if spot.role == "chosen"]),
            ("tied", [spot for spot in spots if spot.role == "tied"]),
            ("front", front),
        )
        if found
    ]
    return f"Tokens/s per user and per GPU of {len(spots)} points. {'. '.join(parts)}."
