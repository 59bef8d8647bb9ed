"""The Pareto front: what a user gets against what a GPU gives, a dot for each point and a line through the best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nhalf.report import verdict
from nhalf.report.figures.figure import BLUE, GREY, ORANGE, Figure, altair, data, tips

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEIGHT: Final = 320


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """One point: its name, tokens/s per user and per GPU, whether it is on the front and the chosen one, and tips."""

    name: str
    per_user: float
    per_gpu: float
    best: bool
    chosen: bool = False
    tips: tuple[tuple[str, str], ...] = ()


def pareto(spots: Sequence[Spot], *, key: str, title: str) -> Figure:
    """Return tokens/s per GPU against tokens/s per user."""
    rows = [
        {
            "name": spot.name, "per_user": spot.per_user, "per_gpu": spot.per_gpu,
            "tokens/s per user": verdict.count(spot.per_user), "tokens/s per GPU": verdict.count(spot.per_gpu),
            **dict(spot.tips),
        }
        for spot in spots
    ]  # fmt: skip
    told = [
        "name",
        "tokens/s per user",
        "tokens/s per GPU",
        *dict.fromkeys(tip for spot in spots for tip, _ in spot.tips),
    ]
    alt = altair()
    x, y = (
        kind(f"{name}:Q", title=title, scale=alt.Scale(type="log", nice=False), axis=alt.Axis(format="~s", tickCount=6))
        for kind, name, title in ((alt.X, "per_user", "tokens/s per user"), (alt.Y, "per_gpu", "tokens/s per GPU"))
    )
    others, best, chosen = (
        data([row for row, spot in zip(rows, spots, strict=True) if wanted(spot)])
        for wanted in (lambda s: not s.best, lambda s: s.best, lambda s: s.chosen)
    )
    shown = tips(*told)
    layers = [
        alt.Chart(others).mark_point(filled=True, color=GREY, size=28, opacity=0.7).encode(x=x, y=y, tooltip=shown),
        alt.Chart(best)
        .mark_line(color=BLUE, strokeWidth=1.5, aria=False)
        .encode(x=x, y=y, order=alt.Order("per_user:Q")),
        alt.Chart(best).mark_point(filled=True, color=BLUE, size=60, opacity=1).encode(x=x, y=y, tooltip=shown),
        alt.Chart(chosen)
        .mark_point(filled=False, color=ORANGE, size=260, strokeWidth=3)
        .encode(x=x, y=y, tooltip=shown),
    ]
    front = sorted((spot for spot in spots if spot.best), key=lambda spot: spot.per_user)
    return Figure(
        key=key,
        title=title,
        text="Best by tokens/s per user and per GPU: "
        + "; ".join(f"{s.name} {verdict.count(s.per_user)} and {verdict.count(s.per_gpu)}" for s in front),
        note="Blue: nothing is better in both. Orange ring: the chosen one.",
        chart=alt.layer(*layers).properties(width="container", height=_HEIGHT),
        rows=[
            {"name": s.name, "tokens_per_s_per_user": s.per_user, "tokens_per_s_per_gpu": s.per_gpu, "best": s.best}
            for s in spots
        ],
    )
