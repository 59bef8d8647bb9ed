"""The answer of `nhalf trace` as one page of HTML that needs nothing else: budget, step strip, heat map."""

from __future__ import annotations

from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nhalf import units
from nhalf.printable import shown
from nhalf.report.export import typed
from nhalf.report.trace import number, verdict
from nhalf.report.view import percent
from nhalf.report.words import counted
from nhalf.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nhalf.trace.study import Study
    from nhalf.trace.timeline import Timeline

_COLOURS = {
    "compute": "#56b4e9",
    "overlapped": "#009e73",
    "transfer": "#e69f00",
    "wait": "#d55e00",
    "exposed": "#e69f00",
    "gaps": "#999999",
    "idle": "#88888833",
}
_WIDTH, _ROW = 960, 22
_MOST_COLUMNS = 240
_MOST_METERS = 3
_STYLE = "svg{width:100%;min-width:40rem;height:auto;display:block}svg text{fill:currentColor;font-size:12px}"


def page(study: Study) -> str:
    """Return the page."""
    timeline = study.timeline
    names = list(dict.fromkeys(Path(trace.file).parent.name or Path(trace.file).name for trace in timeline.traces))
    title = f"What communication costs in {', '.join(names[:_MOST_METERS])}"
    first, *more = verdict(study)
    ranks, steps = counted(len(timeline.traces), "rank"), counted(len(timeline.labels), "step")
    css = resources.files("nhalf.report").joinpath("templates/page.css").read_text(encoding="utf-8")
    parts = [
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{escape(title)}</title>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<meta name='generator' content='nhalf {VERSION}'><style>{css}{_STYLE}</style></head><body>",
        f"<header><p class='brand'>nhalf</p><h1>{escape(title)}</h1><p class='workload'>{ranks}, {steps}</p></header>",
        f"<main><section class='answer'><p class='verdict'><strong>{escape(first)}</strong></p>",
        "".join(_cards(study)),
        "".join(f"<p>{escape(sentence)}</p>" for sentence in [*more, number(study)]) + "</section>",
        _section("Where a step goes", _legend(), *_budgets(study)),
        _section("One step of two ranks", *_strip(timeline)) if timeline.waits_known else "",
        _section("Who was waited for, rank by collective", *_heat(timeline)) if timeline.waits_known else "",
        _section("What would help", *_gains(study)),
        _section("Notes", "<ul>", *(f"<li>{escape(note)}</li>" for note in study.notes), "</ul>")
        if study.notes
        else "",
        f"<section><h2>The command</h2><pre><code>{escape(typed())}</code></pre>",
        f"<p class='note'>nhalf {VERSION}. This file needs no network.</p></section></main></body></html>\n",
    ]
    return shown("\n".join(part for part in parts if part))


def _section(title: str, *parts: str) -> str:
    return f"<section><h2>{title}</h2><div class='scroll'>{''.join(parts)}</div></section>"


def _cards(study: Study) -> Iterator[str]:
    """Yield the step, what communication is exposed of it, and what would save most."""
    mean, time = study.mean, units.format_time
    known = mean.exposed_transfer_s is not None and mean.exposed_wait_s is not None
    split = [f"{time(mean.exposed_transfer_s or 0.0)} moving bytes", f"{time(mean.exposed_wait_s or 0.0)} waiting"]
    yield "<div class='cards'>"
    yield _card("a step, mean of all ranks", time(mean.step_s), [])
    share = f"{percent(mean.exposed_s / mean.step_s)} of a step"
    yield _card("exposed communication of a step", time(mean.exposed_s), [share, *(split if known else [])])
    for gain in study.replayed.gains[:1]:
        most = "at most" if gain.kind == "bound" else gain.kind
        yield _card(f"{gain.name}: would save", percent(gain.gain), [f"of a step, {most}"])
    yield "</div>"


def _card(label: str, number: str, beside: Sequence[str]) -> str:
    lines = "".join(f"<p class='beside'>{escape(line)}</p>" for line in beside)
    return f"<div class='card'><p class='label'>{escape(label)}</p><p class='number'>{escape(number)}</p>{lines}</div>"


def _legend() -> str:
    names = [name for name in _COLOURS if name != "exposed"]
    marks = "".join(
        f"<rect x='{i * 110}' y='4' width='12' height='12' fill='{_COLOURS[name]}'/>"
        f"<text x='{i * 110 + 17}' y='14'>{name}</text>"
        for i, name in enumerate(names)
    )
    return f"<svg viewBox='0 0 {_WIDTH} 20' role='img' aria-label='legend'>{marks}</svg>"


def _budgets(study: Study) -> Iterator[str]:
    """Yield a bar for each rank."""
    longest = max(one.step_s for one in study.budgets)
    yield f"<svg viewBox='0 0 {_WIDTH} {_ROW * len(study.budgets) + 4}' role='img' aria-label='budget of a step'>"
    for i, (trace, one) in enumerate(zip(study.timeline.traces, study.budgets, strict=True)):
        y, x = i * _ROW, 70.0
        yield f"<text x='0' y='{y + 14}'>rank {trace.rank}</text>"
        split = one.exposed_wait_s is not None and one.exposed_transfer_s is not None
        exposed = (
            [("transfer", one.exposed_transfer_s), ("wait", one.exposed_wait_s)]
            if split
            else [("exposed", one.exposed_s)]
        )
        for name, value in (("compute", one.compute_s), ("overlapped", one.overlapped_s), *exposed,
                            ("gaps", one.gap_s), ("idle", one.idle_s)):  # fmt: skip
            width = max(0.0, value or 0.0) / longest * (_WIDTH - 80)
            title = f"{name}: {units.format_time(max(0.0, value or 0.0))}"
            yield _box(x, y + 2, width, _ROW - 6, _COLOURS[name], title)
            x += width
    yield "</svg>"


def _box(  # noqa: PLR0913  a rectangle
    x: float, y: float, width: float, height: float, colour: str, title: str, *, opacity: float = 1.0
) -> str:
    return (
        f"<rect x='{x:.2f}' y='{y:.1f}' width='{max(width, 0.0):.2f}' height='{height}' fill='{colour}' "
        f"fill-opacity='{opacity:.2f}'>"
        f"<title>{escape(title)}</title></rect>"
    )


def _two_rows(timeline: Timeline) -> tuple[int, int]:
    """Return the rank that waits most and the one that waits least."""
    waits = np.nansum(timeline.split.wait_s[:, timeline.step >= 0], axis=1)
    return int(np.argmax(waits)), int(np.argmin(waits))


def _strip(timeline: Timeline) -> Iterator[str]:
    """Yield the middle step of the two ranks that differ most."""
    number = len(timeline.labels) // 2
    rows = _two_rows(timeline)
    windows = [timeline.common_s(row, timeline.windows_s[row, number]) for row in rows]
    begin, end = min(w[0] for w in windows), max(w[1] for w in windows)
    scale = (_WIDTH - 80) / (end - begin) if end > begin else 0.0
    yield f"<svg viewBox='0 0 {_WIDTH} {2 * _ROW + 20}' role='img' aria-label='one step of two ranks'>"
    for i, row in enumerate(rows):
        y = i * _ROW
        yield f"<text x='0' y='{y + 14}'>rank {timeline.traces[row].rank}</text>"
        for name, start, stop in _pieces(timeline, row, begin, end):
            yield _box(70 + (start - begin) * scale, y + 2, (stop - start) * scale, _ROW - 6, _COLOURS[name],
                       f"{name}: {units.format_time(stop - start)}")  # fmt: skip
    label = f"{timeline.labels[number]}, {units.format_time(end - begin)}"
    yield f"<text x='70' y='{2 * _ROW + 14}'>{escape(label)}</text></svg>"


def _pieces(timeline: Timeline, row: int, begin: float, end: float) -> Iterator[tuple[str, float, float]]:
    """Yield compute, waits and transfers of a rank between two times [s]."""
    for start, stop in timeline.common_s(row, timeline.traces[row].busy_s).tolist():
        if stop > begin and start < end:
            yield "compute", max(start, begin), min(stop, end)
    starts, ends = timeline.aligned.start_s[row], timeline.aligned.end_s[row]
    for k in np.flatnonzero((ends > begin) & (starts < end)).tolist():
        turn = float(starts[k] + timeline.split.wait_s[row, k])
        yield "wait", max(float(starts[k]), begin), max(turn, begin)
        yield "transfer", max(turn, begin), float(ends[k])


def _heat(timeline: Timeline) -> Iterator[str]:
    """Yield the heat map: how late each rank came to each collective of a step, mean over the steps."""
    late = _lateness(timeline)
    ranks, places = late.shape
    top = float(np.nanmax(late)) if late.size and np.any(np.isfinite(late)) else 0.0
    width = (_WIDTH - 80) / max(1, places)
    yield f"<svg viewBox='0 0 {_WIDTH} {_ROW * ranks + 20}' role='img' aria-label='lateness by rank and collective'>"
    for row in range(ranks):
        yield f"<text x='0' y='{row * _ROW + 14}'>rank {timeline.traces[row].rank}</text>"
        for place in range(places):
            value = float(late[row, place])
            if not np.isfinite(value):
                continue
            share = value / top if top > 0 else 0.0
            title = f"rank {timeline.traces[row].rank}, collective {place}: {units.format_time(value)} after the first"
            box = 70 + place * width, row * _ROW + 1.0, width, _ROW - 3
            yield _box(*box, _COLOURS["wait"], title, opacity=0.06 + 0.94 * share)
    text = f"collective of the step, 0 to {places - 1}; darkest: {units.format_time(top)} after the first"
    yield f"<text x='70' y='{ranks * _ROW + 14}'>{escape(text)}</text></svg>"


def _lateness(timeline: Timeline) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return how long after the first each rank came [s], (ranks, place in the step), mean over the steps."""
    counted = (timeline.step >= 0) & (timeline.split.last >= 0)
    start = timeline.aligned.start_s[:, counted]
    step = timeline.step[counted]
    if not len(step):
        return np.empty((len(start), 0))
    after = start - np.nanmin(start, axis=0)
    order = np.argsort(step, kind="stable")
    place = np.empty(len(step), dtype=np.int64)
    place[order] = np.arange(len(step)) - np.searchsorted(step[order], step[order])
    places = min(int(place.max()) + 1, _MOST_COLUMNS)
    total, count = np.zeros((len(start), places)), np.zeros((len(start), places))
    for row in range(len(start)):
        good = np.isfinite(after[row]) & (place < places)
        total[row] = np.bincount(place[good], weights=after[row, good], minlength=places)
        count[row] = np.bincount(place[good], minlength=places)
    with np.errstate(invalid="ignore"):
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _gains(study: Study) -> Iterator[str]:
    yield "<table><tr><th class='left'>change</th><th>saves</th><th>of the step</th><th class='left'>kind</th></tr>"
    for gain in study.replayed.gains:
        saved = units.format_time(gain.gain * study.replayed.measured_s)
        kind = "at most" if gain.kind == "bound" else gain.kind
        yield (
            f"<tr><td class='left'>{escape(gain.name)}</td><td>{saved}</td><td>{percent(gain.gain)}</td>"
            f"<td class='left'>{kind}</td></tr>"
        )
    yield "</table>"
