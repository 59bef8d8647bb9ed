"""The answer of `nhalf link`, as text and as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nhalf import units
from nhalf.report.view import Bars, Brief, percent, ranged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.citation import Datum
    from nhalf.decide.ladder import Point
    from nhalf.link import Link
    from nhalf.report.canvas import Canvas

_MOST = 11
_WORDS = {"latency": "latency-bound", "bandwidth": "bandwidth-bound"}


def write(link: Link, points: Sequence[Point], origins: Mapping[str, Datum], canvas: Canvas) -> None:
    """Write the whole ladder, and where the two numbers come from."""
    canvas.heading("A ladder of sizes: t(n) = alpha + n / beta")
    rows = [
        [
            units.format_size(point.size_bytes) + (" *" if point.asked else ""),
            units.format_time(point.time_s),
            units.format_bandwidth(point.effective_bandwidth_bytes_per_s),
            f"{100 * float(link.latency_s) / point.time_s:.3g} %" if point.time_s else "-",
        ]
        for point in points
    ]
    marked = [index for index, point in enumerate(points) if point.asked]
    canvas.table(["size", "time", "effective", "latency share"], rows, marked=marked)
    told = [f"{path} = {ranged(each)}: {each.kind}, {each.source}, {each.locator}" for path, each in origins.items()]
    canvas.listed("Sources", told)


def brief(name: str, link: Link, points: Sequence[Point]) -> Brief:
    """Return the first screen: what a message pays for, and a ladder with the latency as a bar."""
    half = float(link.half_size_bytes)
    asked = [point for point in points if point.asked]
    latency = float(link.latency_s)
    shown = sorted({id(point): point for point in (*asked, *points[1::2])}.values(), key=lambda each: each.size_bytes)
    advice = [_advice(point.size_bytes, half) for point in (asked[:2] or _ends(points))] if half else []
    return Brief(
        verdict=[_verdict(half, asked)],
        number="" if not half else f"Latency and bytes are equal at {_half_size(half)} (alpha x beta).",
        title=f"{name}: time = {units.format_time(latency)} + size / "
        f"{units.format_bandwidth(float(link.bandwidth_bytes_per_s))}",
        bars=Bars(
            heads=["size", "time", "reaches"],
            rows=[
                [
                    units.format_size(point.size_bytes),
                    units.format_time(point.time_s),
                    units.format_bandwidth(point.effective_bandwidth_bytes_per_s),
                ]
                for point in shown[:_MOST]
            ],
            names=["latency", "bytes"],
            parts=[
                [latency / point.time_s, 1 - latency / point.time_s] if point.time_s else [0.0, 1.0]
                for point in shown[:_MOST]
            ],
            remarks=["asked" if point.asked else "" for point in shown[:_MOST]],
            tones=["good" if point.asked else "plain" for point in shown[:_MOST]],
        ),
        closing=advice,
        next_command="nhalf decode llama-3.1-70b --on h100-sxm --tp 1,2,4,8,16 --batch 1,16,128",
    )


def _ends(points: Sequence[Point]) -> list[Point]:
    """Return a small and a large message of the ladder."""
    return [points[min(3, len(points) - 1)], points[-2 if len(points) > 1 else -1]]


def _advice(size: float, half: float) -> str:
    """Return what half the latency and twice the bandwidth save of a message: latency has 1 / (1 + n / n_1/2) of it."""
    share = 1 / (1 + size / half)
    return (
        f"At {units.format_size(size)}: half the latency saves {percent(share / 2)}, twice the bandwidth "
        f"{percent((1 - share) / 2)}."
    )


def _verdict(half: float, asked: Sequence[Point]) -> str:
    """Return what the sizes asked for pay for, or where the link turns."""
    size = _half_size(half)
    if not asked:
        if not half:
            return "This link has no latency: every message pays for its bytes alone."
        return f"Messages below {size} pay for latency, above it for bandwidth; there both cost the same."
    point = asked[0]
    message = f"A message of {units.format_size(point.size_bytes)} takes {units.format_time(point.time_s)}"
    seen = units.format_bandwidth(point.effective_bandwidth_bytes_per_s)
    why = f"it is {_WORDS[point.regime]} (n_1/2 = {size}) and sees {seen}"
    help_ = "a wider link buys next to nothing" if point.size_bytes < half / 10 else "both numbers count"
    if point.size_bytes > 10 * half:
        help_ = "a lower latency buys next to nothing"
    return f"{message}: {why}; {help_}."


def _half_size(half: float) -> str:
    """Return n_1/2 in binary units, as sizes of messages are counted, after the figure in SI where that is round."""
    plain, binary = units.format_size(half), units.format_size(half, binary=True)
    return plain if plain == binary else f"{plain} or {binary}"


def document(name: str, link: Link, points: Sequence[Point], origins: Mapping[str, Datum]) -> dict[str, Any]:
    """Return the document of the contract."""
    from nhalf.report.document import datum, envelope

    return envelope(
        "link",
        {
            "name": name,
            "latency_s": link.latency_s,
            "bandwidth_bytes_per_s": link.bandwidth_bytes_per_s,
            "half_size_bytes": link.half_size_bytes,
            "points": [point.as_dict() for point in points],
            "sources": [{"path": path, **datum(origin)} for path, origin in origins.items()],
        },
    )
