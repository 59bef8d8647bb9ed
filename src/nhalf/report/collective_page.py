"""The answer of `nhalf collective` as a page: the algorithms against size, what the library loses, the fixed time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nhalf import units
from nhalf.collective import Op
from nhalf.report import planned
from nhalf.report.collective import verdict
from nhalf.report.figures import latency
from nhalf.report.figures.algorithm import algorithms, losses
from nhalf.report.figures.figure import PALETTE, size
from nhalf.report.figures.waterfall import of_parts
from nhalf.report.page import Card, Constant, Page, Section

if TYPE_CHECKING:
    from nhalf.report.collective_answer import Answer


def page(found: Answer) -> Page:
    """Return the page of an answer."""
    question = found.question
    sections = [*_by_size(found), *_fixed(found)]
    return Page(
        title=f"{question.op} on {found.loaded.subject}",
        verdict=[verdict(found)],
        cards=_cards(found),
        sections=[section for section in sections if section.figures],
        constants=[Constant(path=path, datum=datum) for path, datum in found.loaded.origins.items()],
        notes=[*planned.notes(question, found.known), *(f"{flag} {why}" for flag, why in found.loaded.defaults)],
    )


def _cards(found: Answer) -> list[Card]:
    """Return what was measured or planned at three sizes, with the law beside it."""
    measured = {row.size_bytes: row.time_s for row in found.rows if row.kind != "law"}
    read = next((row.kind for row in found.rows if row.kind != "law"), "")
    choices = found.choices
    cards = []
    for each in dict.fromkeys((choices[0], choices[len(choices) // 2], choices[-1])):
        law = f"{units.format_time(each.fastest_s)} by the law of {each.fastest}"
        best = measured.get(each.size_bytes)
        kind = read if best is not None else "planned by the tuner's constants" if each.plan else "by the law"
        time = best if best is not None else each.plan.time_s if each.plan else each.fastest_s
        label = f"{size(each.size_bytes)}, {kind}" if found.question.op != Op.BARRIER else kind
        cards.append(Card(label=label, number=units.format_time(time), beside=(law,)))
    return cards


def _by_size(found: Answer) -> list[Section]:
    """Return the charts against size; a barrier has none."""
    question = found.question
    if question.op == Op.BARRIER or len(found.loaded.sizes_bytes) < 2:  # noqa: PLR2004  a line has two ends
        return []
    drawn = [algorithms(question, found.rows, found.choices, found.flips, key="algorithms")]
    lost = losses(found.choices, found.per_token, key="losses")
    sections = [
        Section(
            key="algorithms",
            title="Which algorithm, at which size",
            lead="Laws of the links alone, without software; what was measured stands beside them.",
            figures=drawn,
        )
    ]
    curve = _measured(found)
    if curve is not None:
        title = f"{found.loaded.library}, {question.ranks} ranks, {question.mode}"
        lead = "Left of the crossover a message pays for latency, right of it for bandwidth."
        figures = [latency.latency(curve, key="latency", title=title)]
        missed = latency.misfit(curve, key="misfit", title="How far the one line is from what was measured")
        figures += [missed] if missed is not None else []
        sections.append(Section(key="latency", title="What was measured", lead=lead, figures=figures))
    if lost is not None:
        sections.append(Section(key="losses", title="What the library's own choice costs", figures=[lost]))
    return sections


def _measured(found: Answer) -> latency.Curve | None:
    """Return the measured curve of the question between the sizes asked for, or None."""
    curve, ranks = found.question.curve, found.question.ranks
    if curve is None:
        return None
    low, high = found.loaded.sizes_bytes[0], found.loaded.sizes_bytes[-1]
    sizes = np.geomspace(low, high, 60)
    points: list[tuple[float, float]] = []
    if curve.is_measured(ranks):
        place = curve.ranks.index(ranks)
        pairs = zip(curve.sizes_bytes[place].tolist(), curve.times_s[place].tolist(), strict=True)
        points = [(at, time) for at, time in pairs if low <= at <= high]
    line = curve.line(ranks)
    return latency.Curve(
        sizes_bytes=sizes,
        times_s=np.asarray(curve.time_s(sizes, ranks)),
        kind="measured" if points else "between measured rank counts",
        points=points,
        latency_s=line.latency_s,
        bandwidth_bytes_per_s=line.bandwidth_bytes_per_s,
        floor_s=curve.floor_s(ranks),
        half_size_bytes=line.half_size_bytes,
        double_floor_size_bytes=curve.double_floor_size_bytes(ranks),
    )


def _fixed(found: Answer) -> list[Section]:
    """Return where the fixed time goes."""
    fixed = found.fixed
    if fixed is None:
        return []
    parts = [
        (part.name, part.time_s, PALETTE[place % len(PALETTE)])
        for place, part in enumerate(fixed.parts)
        if part.time_s > 0
    ]
    title = f"{units.format_time(fixed.total_s)} {fixed.kind}, {fixed.algorithm}"
    lead = " ".join(f"{part.name} ({part.kind}): {part.lever}." for part in fixed.parts if part.lever)
    drawing = of_parts(parts, key="fixed", title=title, whole="fixed time")
    return [Section(key="fixed", title="Where the fixed time goes", lead=lead, figures=[drawing])]
