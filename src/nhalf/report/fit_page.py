"""The answer of `nhalf fit` as a page: each curve with its line, its misfit, and the decode messages on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf import units
from nhalf.evidence.verdict import of_curve, within
from nhalf.report.figures import latency
from nhalf.report.figures.figure import size
from nhalf.report.fit_parts import faster, from_batch
from nhalf.report.page import Card, Page, Section, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.evidence.curvefit import CurveFit
    from nhalf.evidence.decode_messages import Mark
    from nhalf.report.fit_answer import Answer

_SHOWN: Final = 12
_BETWEEN: Final = 48
_FEW: Final = 2


def page(answer: Answer) -> Page:
    """Return the page of a fit; of many curves the first twelve are drawn."""
    curves = answer.fit.curves
    drawn = [curve for curve in curves if len(curve.fitted_points[0]) >= _FEW][:_SHOWN]
    sections = [_section(place, curve, answer.marks) for place, curve in enumerate(drawn)]
    marks = Section(key="messages", title="Decode messages on the curve", table=_marks(answer.marks))
    notes = [f"{curve.series.key}: {note.text}" for curve in curves for note in curve.notes]
    notes += [*answer.mark_doubts, *answer.tripped]
    notes += [f"not read: {skip.file}{f':{skip.line}' if skip.line else ''}: {skip.why}" for skip in answer.fit.skipped]
    if len(curves) > len(drawn):
        notes.insert(0, _left_out(curves, len(drawn)))
    files = list(dict.fromkeys(Path(curve.series.key.file).name for curve in curves if curve.series.key.file))
    return Page(
        title=f"Fit of {', '.join(files[:_FEW])}{' and more' if len(files) > _FEW else ''}" if files else "Fit",
        verdict=[
            *(of_curve(curve) for curve in curves[:_SHOWN]),
            *(f"{faster(each)}." for each in answer.contests[:_SHOWN]),
            *dict.fromkeys(filter(None, (from_batch(mark, answer.fit) for mark in answer.marks))),
        ],
        cards=_cards(curves[0]) if len(curves) == 1 else [card for curve in drawn for card in _cards(curve)[:1]],
        sections=[*sections, *([marks] if answer.marks else [])],
        notes=notes,
    )


def _left_out(curves: Sequence[CurveFit], drawn: int) -> str:
    """Return how many curves are not drawn, and why."""
    short = sum(len(curve.fitted_points[0]) < _FEW for curve in curves)
    reasons = [f"{short} without two sizes"] if short else []
    more = len(curves) - drawn - short
    reasons += [f"{more} beyond the first {_SHOWN}"] if more else []
    return f"{len(curves) - drawn} of {len(curves)} curves are not drawn: {' and '.join(reasons)}"


def _cards(curve: CurveFit) -> list[Card]:
    """Return the numbers of a curve with their intervals."""
    key = str(curve.series.key)
    cards = []
    for name, found, unit, refusal in (
        ("latency", curve.latency, "s", curve.latency_refusal),
        ("bandwidth", curve.bandwidth, "bytes/s", curve.bandwidth_refusal),
    ):
        if found is None:
            cards.append(Card(label=f"{name}, {key}", number="not measured", beside=(refusal,)))
        else:
            number, _, ends = within(found, unit).partition(" (")
            cards.append(Card(label=f"{name}, {key}", number=number, beside=(f"95 % {ends.removesuffix(')')}",)))
    if curve.half_size_bytes is not None:
        number = units.format_size(curve.half_size_bytes)
        cards.append(Card(label="n_1/2", number=number, beside=(_doubling(curve),)))
    return cards


def _doubling(curve: CurveFit) -> str:
    """Return in words where the time doubles its floor."""
    if curve.double_floor_size_bytes is not None:
        return f"doubles its floor at {units.format_size(curve.double_floor_size_bytes)}"
    if curve.double_floor_between_bytes is not None:
        low, high = map(units.format_size, curve.double_floor_between_bytes)
        return f"doubles its floor between {low} and {high}, where no size was run"
    return "never doubles its floor here"


def _section(place: int, curve: CurveFit, marks: Sequence[Mark]) -> Section:
    """Return the pictures of one curve."""
    drawing = _curve(curve, marks)
    key = str(curve.series.key)
    figures = [latency.latency(drawing, key=f"latency-{place}", title="Time against size")]
    missed = latency.misfit(drawing, key=f"misfit-{place}", title="How far the one line is from the points")
    figures += [missed] if missed is not None else []
    return Section(key="latency" if place == 0 else f"latency-of-{place}", title=key, figures=figures)


def _curve(curve: CurveFit, marks: Sequence[Mark]) -> latency.Curve:
    """Return a fit as a curve to draw: its segments, its points, and the messages on it."""
    sizes, times = curve.fitted_points
    good = curve.series.good
    lows, highs = curve.series.low_s[good], curve.series.high_s[good]
    at = np.geomspace(float(sizes[0]), float(sizes[-1]), _BETWEEN)
    line = curve.line
    spans = zip(sizes.tolist(), lows.tolist(), highs.tolist(), strict=True)
    return latency.Curve(
        sizes_bytes=at,
        times_s=curve.times_at(at),
        kind="fitted",
        points=list(zip(sizes.tolist(), times.tolist(), strict=True)),
        intervals=[(size, low, high) for size, low, high in spans if 0 < low < high],
        latency_s=line.latency_s if line else None,
        bandwidth_bytes_per_s=line.bandwidth_bytes_per_s if line else None,
        floor_s=curve.floor_s,
        half_size_bytes=curve.half_size_bytes if not curve.misconfigured else None,
        double_floor_size_bytes=curve.double_floor_size_bytes,
        written=units.format_size,
        messages=[
            (f"batch {mark.batch}", mark.size_bytes, mark.time_s)
            for mark in marks
            if mark.curve == str(curve.series.key)
        ],
    )


def _marks(marks: Sequence[Mark]) -> Table:
    """Return the decode messages as a table, each with its curve where there are several."""
    several = len({mark.curve for mark in marks}) > 1
    regime = {True: "latency-bound", False: "bandwidth counts", None: "unknown"}
    return Table(
        heads=(*(("<curve",) if several else ()), "batch", "message", "time", "80 % range", "per step", "<regime"),
        rows=[
            (
                *((mark.curve,) if several else ()),
                f"{mark.batch}", size(mark.size_bytes), units.format_time(mark.time_s),
                f"{units.format_time(mark.low_s)} to {units.format_time(mark.high_s)}",
                units.format_time(mark.per_token_s), regime[mark.on_floor],
            )
            for mark in marks
        ],
    )  # fmt: skip
