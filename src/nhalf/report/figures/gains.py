"""Gains: what each of some changes saves, with its band and the model's error; and the same against the batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf.report.figures.figure import BLUE, GREY, INK, PALETTE, VERMILION, Figure, altair, data, tips
from nhalf.report.view import percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.breakdown import Array

_ROW: Final = 42
_HEIGHT: Final = 280
_LEAST: Final = 0.02
_DEEPEST: Final = -1.0
"""A change that makes steps more than twice as long is drawn at this end of the axis [1]."""
_DASHES: Final = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [4, 4], [12, 4])
_POINTS: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """One bar: the part saved [1] with the ends of its 80 % band, None where it does not fit; `error` of the model."""

    name: str
    gain: float | None
    low: float | None
    high: float | None
    error: float
    told: bool
    tips: tuple[tuple[str, str], ...] = ()


def gains(bars: Sequence[Gain], *, key: str, title: str, axis: str, room: tuple[float, float]) -> Figure:
    """Return a bar for each change from zero, its band as a whisker, and the zone in which the model cannot tell.

    The axis reaches over `room`, so that several figures share it.
    """
    alt = altair()
    rows = [_row(bar) for bar in bars]
    told = [
        "change",
        "saves",
        "80 % range",
        "error of the model",
        *dict.fromkeys(tip for bar in bars for tip, _ in bar.tips),
    ]
    order = [bar.name for bar in bars]
    y = alt.Y("change:N", sort=order, axis=None)
    low, high = max(_DEEPEST, room[0]), max(room[1], _LEAST)
    pad = 0.06 * (high - low)
    scale = alt.Scale(domain=[low - pad, high + pad], nice=False, clamp=True)
    x = alt.X("gain:Q", title=axis, scale=scale, axis=alt.Axis(format="~%", tickCount=5))
    base = alt.Chart(data(rows)).encode(y=y)
    held = base.transform_filter("datum.fits")
    zone = base.mark_bar(height=_ROW, color=INK, opacity=0.07, aria=False)
    bar = held.mark_bar(height=12, yOffset=9)
    whisker = held.mark_rule(yOffset=9, strokeWidth=1.6, color=INK, aria=False)
    zero = alt.Chart(data([{"gain": 0.0}])).mark_rule(opacity=0.7, aria=False).encode(x=alt.X("gain:Q"))
    names = base.mark_text(align="left", dy=-8, aria=False, limit=330)
    layers = [
        zone.encode(x=alt.X("from_error:Q", title=axis, scale=scale, axis=alt.Axis(format="~%", tickCount=5)),
                    x2=alt.X2("to_error:Q")),
        bar.encode(x=x, color=alt.Color("colour:N", scale=None, legend=None), tooltip=tips(*told)),
        whisker.encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), tooltip=tips(*told)),
        zero,
        names.encode(x=alt.value(2), text=alt.Text("label:N")),
    ]  # fmt: skip
    return Figure(
        key=key,
        title=title,
        text=f"{axis}: " + "; ".join(f"{row['label']}, 80 % range {row['80 % range']}" for row in rows),
        note="Grey zone: below the model's error, so it cannot be told from nothing. Blue: saves. Orange: costs.",
        chart=alt.layer(*layers).properties(width="container", height=_ROW * len(bars)),
        rows=[
            {"name": bar.name, "gain": bar.gain, "gain_low": bar.low, "gain_high": bar.high, "model_error": bar.error,
             "above_model_error": bar.told, **dict(bar.tips)}
            for bar in bars
        ],
    )  # fmt: skip


def _row(bar: Gain) -> dict[str, Any]:
    """Return a bar as the chart holds it."""
    shared = {"change": bar.name, "from_error": -bar.error, "to_error": bar.error,
              "error of the model": percent(bar.error), **dict(bar.tips)}  # fmt: skip
    if bar.gain is None or bar.low is None or bar.high is None:
        return {**shared, "fits": False, "saves": "does not fit in memory", "80 % range": "-",
                "label": f"{bar.name}: does not fit"}  # fmt: skip
    colour = GREY if not bar.told else BLUE if bar.gain > 0 else VERMILION
    return {
        **shared, "fits": True, "gain": bar.gain, "low": bar.low, "high": bar.high, "colour": colour,
        "saves": percent(bar.gain) if bar.gain >= 0 else f"-{percent(-bar.gain)}",
        "80 % range": f"{100 * bar.low:.2g} to {100 * bar.high:.2g} %",
        "label": f"{bar.name}: {_signed(bar.gain)}{'' if bar.told else ' (cannot be told)'}",
    }  # fmt: skip


def _signed(gain: float) -> str:
    """Return a gain in per cent with its sign."""
    text = f"{100 * gain:.1f}" if abs(gain) < 0.0995 else f"{100 * gain:.0f}"  # noqa: PLR2004  two digits
    return f"{'+' if gain > 0 else ''}{text} %" if float(text) else "0 %"


def curves(
    batches: Array,
    by: Mapping[str, Array],
    *,
    key: str,
    title: str,
    errors: Sequence[float] = (),
    flips: Sequence[tuple[int, str]] = (),
) -> Figure:
    """Return what each change saves against the batch, the levels of the model's error, and where advice flips."""
    alt = altair()
    picked = _picked(batches)
    points = [
        {"change": name, "batch": float(batches[at]), "gain": max(float(values[at]), _DEEPEST),
         "saves": _signed(float(values[at]))}
        for name, values in by.items() for at in picked if np.isfinite(values[at])
    ]  # fmt: skip
    names = list(by)
    held = [float(each) for values in by.values() for each in values[picked] if np.isfinite(each)]
    low, high = max(_DEEPEST, min([0.0, *held])), max([_LEAST, *held, *errors])
    pad = 0.08 * (high - low)
    x = alt.X("batch:Q", title="batch", scale=alt.Scale(type="log", base=2, domain=[1, float(batches[-1])], nice=False),
              axis=alt.Axis(values=[2.0**power for power in range(0, 13, 2)], format="d", grid=True))  # fmt: skip
    y = alt.Y(
        "gain:Q", title="part of the time per token saved", axis=alt.Axis(format="~%", tickCount=5),
        scale=alt.Scale(domain=[low - pad, high + pad], nice=False),
    )  # fmt: skip
    base = alt.Chart(data(points)).encode(x=x, y=y)
    legend = alt.Legend(columns=1, labelLimit=300, symbolType="stroke", symbolStrokeWidth=2.2)
    colour = alt.Color(
        "change:N", scale=alt.Scale(domain=names, range=[PALETTE[at % len(PALETTE)] for at in range(len(names))]),
        legend=legend,
    )  # fmt: skip
    lines = base.mark_line(strokeWidth=2.2).encode(
        color=colour,
        strokeDash=alt.StrokeDash(
            "change:N",
            legend=legend,
            scale=alt.Scale(domain=names, range=[_DASHES[at % len(_DASHES)] for at in range(len(names))]),
        ),
    )
    spots = base.mark_point(size=90, opacity=0, filled=True).encode(tooltip=tips("change", "batch", "saves"))
    return Figure(
        key=key,
        title=title,
        text="Part of the time per token saved, by batch. " + _told(batches, by, flips),
        note=("Dotted: the model's error; what lies below it cannot be told from nothing." if errors else "")
        + (" Dashed upright: from this batch on other advice holds." if flips else ""),
        chart=alt.layer(*_levels(errors), *_flips(flips), lines, spots).properties(width="container", height=_HEIGHT),
        rows=[{"change": each["change"], "batch": each["batch"], "gain": each["gain"]} for each in points],
    )


def _picked(batches: Array) -> list[int]:
    """Return the places of batches in about equal ratios: all small ones, and both ends."""
    last = len(batches) - 1
    return sorted({0, last, *np.unique(np.geomspace(1, last + 1, _POINTS).astype(int) - 1).tolist()})


def _levels(errors: Sequence[float]) -> list[Any]:
    """Return the levels of the model's error."""
    if not errors:
        return []
    alt = altair()
    rows = [{"gain": error, "label": f"the model's error, {percent(error)}"} for error in errors]
    base = alt.Chart(data(rows)).encode(y=alt.Y("gain:Q"))
    text = base.mark_text(align="right", dy=-6, dx=-2, opacity=0.75, aria=False)
    return [
        base.mark_rule(strokeDash=[1, 3], opacity=0.9, aria=False),
        text.encode(x=alt.value("width"), text=alt.Text("label:N")),
    ]


def _flips(flips: Sequence[tuple[int, str]]) -> list[Any]:
    """Return where the advice flips, with what holds from there on."""
    if not flips:
        return []
    alt = altair()
    rows = [{"batch": batch, "label": f"from {batch}: {name}"} for batch, name in flips]
    base = alt.Chart(data(rows)).encode(x=alt.X("batch:Q"))
    return [base.mark_rule(strokeDash=[5, 4], opacity=0.7).encode(tooltip=tips("label"))]


def _told(batches: Array, by: Mapping[str, Array], flips: Sequence[tuple[int, str]]) -> str:
    """Return the curves in words: both ends of each, and the flips."""
    parts = []
    for name, values in by.items():
        held = np.flatnonzero(np.isfinite(values))
        if not len(held):
            parts.append(f"{name}: does not fit")
            continue
        ends = [f"{_signed(float(values[at]))} at batch {batches[at]:g}" for at in (held[0], held[-1])]
        parts.append(f"{name}: {' and '.join(ends)}")
    parts += [f"from batch {batch} on {name}" for batch, name in flips]
    return f"{'; '.join(parts)}."
