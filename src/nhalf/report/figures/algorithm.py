"""The algorithm chart: every algorithm of a collective against size, what the library runs, and what that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.report.figures import figure
from nhalf.report.figures.figure import GREY, ORANGE, PALETTE, VERMILION, Figure, altair, data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.choice import Choice
    from nhalf.decide.collective import Flip, Row
    from nhalf.decide.collective_case import Question

_HEIGHT: Final = 300
_COLOURS: Final = PALETTE[:-1]
_TIPS: Final = ("algorithm", "size", "time", "fixed", "bytes", "busbw")
_DASHES: Final = ([1, 0], [7, 3], [2, 2], [8, 3, 2, 3], [4, 2], [1, 3], [10, 2], [6, 2, 1, 2, 1, 2])
"""Lines differ by their dashes too, for readers who see no colours."""


def algorithms(
    question: Question, rows: Sequence[Row], choices: Sequence[Choice], flips: Sequence[Flip], *, key: str
) -> Figure:
    """Return the laws of the algorithms that the machine can run, what was measured, and the library's choice."""
    shown = [row for row in rows if row.kind == "measured" or (row.runs and row.algorithm in question.available)]
    low, high = min(row.size_bytes for row in shown), max(row.size_bytes for row in shown)
    bottom, top = figure.log_range([row.time_s for row in shown])
    x, y = figure.size_axis("size_bytes", low=low, high=high), figure.time_axis("time_s", low=bottom, high=top)
    named = _named(shown, choices)
    lines = [
        *_others([row for row in shown if _name(row) not in named], x, y),
        *_lines([row for row in shown if _name(row) in named], named, x, y),
    ]
    alt = altair()
    return Figure(
        key=key,
        title=f"{question.op}, {question.ranks} ranks: time by algorithm",
        text=_text(flips, question, rows),
        note="Ringed: what the library runs. Grey: the others; point at one. Upright: where the fastest changes.",
        chart=alt.layer(*_flips(flips, x), *lines, *_chosen(choices, x, y)).properties(
            width="container", height=_HEIGHT
        ),
        rows=[_record(row) for row in shown],
    )


def _name(row: Row) -> str:
    return f"{row.algorithm} (measured)" if row.kind == "measured" else row.algorithm


def _named(rows: Sequence[Row], choices: Sequence[Choice]) -> list[str]:
    """Return the lines that get a colour: what was measured, what is fastest or run at some size, and the ring."""
    wins = {row.algorithm for row in rows if row.fastest} | {each.algorithm for each in choices} | {"ring"}
    names = list(dict.fromkeys(_name(row) for row in rows if row.kind == "measured" or row.algorithm in wins))
    return names[: len(_COLOURS)]


def _others(rows: Sequence[Row], x: Any, y: Any) -> list[Any]:  # noqa: ANN401  altair channels
    """Return the algorithms that are neither run nor fastest anywhere, as quiet lines."""
    if not rows:
        return []
    line = altair().Chart(data([{**_record(row), **_tips(row)} for row in rows]))
    quiet = line.mark_line(strokeWidth=1, color=GREY, opacity=0.45, point={"size": 40, "opacity": 0}, aria=False)
    return [quiet.encode(x=x, y=y, detail=altair().Detail("algorithm:N"), tooltip=figure.tips(*_TIPS))]


def _lines(rows: Sequence[Row], names: list[str], x: Any, y: Any) -> list[Any]:  # noqa: ANN401  altair channels
    """Return the lines with a colour; what was measured is drawn in the ink of the page."""
    alt = altair()
    measured = {_name(row) for row in rows if row.kind == "measured"}
    palette = iter(_COLOURS)
    colours = [figure.INK if name in measured else next(palette) for name in names]
    dashes = [[1, 0] if name in measured else _DASHES[place % len(_DASHES)] for place, name in enumerate(names)]
    legend = alt.Legend(columns=2, symbolType="stroke", symbolStrokeWidth=2.5, symbolSize=260)
    line = alt.Chart(data([{**_record(row), **_tips(row)} for row in rows]))
    return [
        line.mark_line(strokeWidth=2.2, point={"size": 26, "filled": True}).encode(
            x=x,
            y=y,
            color=alt.Color("algorithm:N", scale=alt.Scale(domain=names, range=colours), legend=legend),
            strokeDash=alt.StrokeDash("algorithm:N", scale=alt.Scale(domain=names, range=dashes), legend=legend),
            tooltip=figure.tips(*_TIPS),
        )
    ]


def _record(row: Row) -> dict[str, object]:
    return {
        "algorithm": _name(row), "size_bytes": row.size_bytes, "time_s": row.time_s, "fixed_s": row.fixed_s,
        "transfer_s": row.transfer_s, "busbw_bytes_per_s": row.busbw_bytes_per_s,
    }  # fmt: skip


def _tips(row: Row) -> dict[str, str]:
    """Return what to show of a point when it is pointed at."""
    return {
        "size": figure.size(row.size_bytes),
        "time": units.format_time(row.time_s),
        "fixed": units.format_time(row.fixed_s),
        "bytes": units.format_time(row.transfer_s),
        "busbw": units.format_bandwidth(row.busbw_bytes_per_s) if row.busbw_bytes_per_s else "-",
    }


def _flips(flips: Sequence[Flip], x: Any) -> list[Any]:  # noqa: ANN401  an altair channel
    """Return a line at each size where the fastest law changes."""
    if not flips:
        return []
    rows = [
        {
            "size_bytes": flip.size_bytes,
            "label": f"{flip.before} below, {flip.after} above {figure.size(flip.size_bytes)}",
        }
        for flip in flips
    ]
    rule = altair().Chart(data(rows)).mark_rule(strokeWidth=1.5, opacity=0.35)
    return [rule.encode(x=x, tooltip=figure.tips("label"))]


def _chosen(choices: Sequence[Choice], x: Any, y: Any) -> list[Any]:  # noqa: ANN401  altair channels
    """Return rings around the law of what the library runs."""
    rows = [
        {
            "size_bytes": each.size_bytes, "time_s": each.time_s, "runs": each.algorithm,
            "size": figure.size(each.size_bytes), "decided by": each.decided_by,
            "loses": "unclear" if each.lost_s is None else units.format_time(each.lost_s) if each.lost_s else "nothing",
        }
        for each in choices
        if each.time_s is not None
    ]  # fmt: skip
    if not rows:
        return []
    ring = altair().Chart(data(rows)).mark_point(filled=False, size=110, stroke="currentColor", opacity=0.9)
    return [ring.encode(x=x, y=y, tooltip=figure.tips("size", "runs", "decided by", "loses"))]


def losses(choices: Sequence[Choice], per_token: int, *, key: str) -> Figure | None:
    """Return what the library's choices cost a token against the fastest law; None where nothing is lost."""
    lost = [each for each in choices if each.lost_s and not each.is_fastest]
    if not lost:
        return None
    rows = [
        {
            "size_bytes": each.size_bytes, "lost_per_token_s": per_token * (each.lost_s or 0.0),
            "size": figure.size(each.size_bytes), "runs": each.algorithm, "fastest": each.fastest,
            "loses": f"{units.format_time(per_token * (each.lost_s or 0.0))} a token",
            "colour": VERMILION if each.time_s and each.time_s > 2 * each.fastest_s else ORANGE,
        }
        for each in lost
    ]  # fmt: skip
    alt = altair()
    y = alt.Y(
        "lost_per_token_s:Q", title="lost a token", scale=alt.Scale(type="symlog", constant=1e-5),
        axis=alt.Axis(labelExpr=figure.seconds("datum.value"), values=[0, *(10.0**p for p in range(-5, 2))]),
    )  # fmt: skip
    sizes = [each.size_bytes for each in choices]
    chart = alt.Chart(data(rows)).mark_bar(width=8).encode(
        x=figure.size_axis("size_bytes", low=min(sizes), high=max(sizes)), y=y,
        color=alt.Color("colour:N", scale=None, legend=None), tooltip=figure.tips("size", "runs", "fastest", "loses"),
    )  # fmt: skip
    return Figure(
        key=key,
        title=f"Lost a token of {per_token} collectives, against the fastest law",
        text="Lost by the library's choice against the fastest law: "
        + "; ".join(f"{row['size']} {row['loses']} ({row['runs']} instead of {row['fastest']})" for row in rows),
        note="Red: more than twice the time of the fastest law."
        if any(row["colour"] == VERMILION for row in rows)
        else "",
        chart=chart.properties(width="container", height=160),
        rows=[{name: row[name] for name in ("size_bytes", "runs", "fastest", "lost_per_token_s")} for row in rows],
    )


def _text(flips: Sequence[Flip], question: Question, rows: Sequence[Row]) -> str:
    """Return the chart in words."""
    first = question.fastest(min(row.size_bytes for row in rows))
    turns = "".join(f", {flip.after} from {figure.size(flip.size_bytes)}" for flip in flips)
    return f"Time of a {question.op} on {question.ranks} ranks by algorithm: {first} is fastest at first{turns}."
