"""The first screen of `nhalf fit`: latency and bandwidth with their intervals, what is faster, and what to doubt."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf import units
from nhalf.evidence.crossing import names
from nhalf.evidence.verdict import QUANTITIES, is_wrong, of_curve, within
from nhalf.report.fit_answer import commands
from nhalf.report.fit_links import of_tiers
from nhalf.report.fit_parts import faster
from nhalf.report.view import Bars, Brief
from nhalf.report.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.evidence.curvefit import CurveFit
    from nhalf.evidence.intervals import Estimate
    from nhalf.report.fit_answer import Answer

_SIZES: Final = 5
_CURVES, _CONTESTS, _DOUBTS, _UNREAD = 8, 3, 3, 2
_OF_THE_READER: Final = (
    "switch", "one-line", "gap", "op-inferred", "ranks-inferred", "size-total", "nodes-unknown", "given",
    "library-choice", "predicted", "repeated-lines", "size-per-rank",
)  # fmt: skip
"""Notes that the figures show, or that say how a log was read: they stand under --detail."""


def brief(answer: Answer) -> Brief:
    """Return the first screen: of one curve its line and its sizes, of several a row each and which is faster."""
    curves = answer.fit.curves
    alone = len(curves) == 1 and answer.comparison is None
    verdict, number = _one(answer) if alone else (_several(answer), "")
    doubts = [f"Tripped: {text}" for text in answer.tripped] + _doubts(answer)
    settle, command, why = _next(commands(answer))
    named = f"The log names {answer.named}: taken as {answer.system}." if answer.named else ""
    closing = [_per_token(answer), named, settle, _written(answer)]
    return Brief(
        verdict=[answer.doctor, *verdict] if answer.doctor else verdict,
        number=number,
        title=_title(curves[0]) if len(curves) == 1 else f"{counted(len(curves), 'curve')}, 95 % in brackets",
        bars=_bars(curves[0]) if len(curves) == 1 else None,
        table=rows(curves) if len(curves) > 1 else None,
        notes=doubts,
        closing=[text for text in closing if text],
        next_command=command,
        next_why=why,
        warn=any(is_wrong(curve) or curve.misconfigured for curve in curves),
    )


def _one(answer: Answer) -> tuple[list[str], str]:
    """Return the verdict on the one curve, and the size at which its time doubles."""
    curve = answer.fit.curves[0]
    if is_wrong(curve) or curve.misconfigured or not curve.segments or curve.latency is curve.bandwidth is None:
        return [of_curve(curve)], ""
    latency = _said("Latency (alpha)", curve.latency, "s", curve.latency_refusal)
    bandwidth = _said("bandwidth (beta)", curve.bandwidth, "bytes/s", curve.bandwidth_refusal)
    whole = curve.latency is not None and curve.bandwidth is not None
    verdict = [f"{latency}, {bandwidth}."] if whole else [f"{latency}.", f"{bandwidth[0].upper()}{bandwidth[1:]}."]
    double = curve.double_floor_size_bytes
    if double is not None:
        batch = [math.ceil(double * mark.batch / mark.size_bytes) for mark in answer.marks[:1]]
        of = f": batch {batch[0]} of {answer.model}" if batch else ""
        return verdict, f"Latency counts more than bytes up to {units.format_size(double)}{of}."
    if curve.half_size_bytes is not None:
        return verdict, f"Both count alike at n_1/2 = {units.format_size(curve.half_size_bytes)}."
    return verdict, ""


def _said(name: str, found: Estimate | None, unit: str, refusal: str) -> str:
    return f"{name} {within(found, unit)}" if found is not None else f"{name}: {refusal}"


def _several(answer: Answer) -> list[str]:
    """Return what moved, or which curve is faster from where on."""
    said = [f"{text}." for text in answer.comparison.sentences()] if answer.comparison else []
    said += [f"{faster(contest)}." for contest in answer.contests[:_CONTESTS]]
    more = len(answer.contests) - _CONTESTS
    said += [f"{more} more pairs of curves with --detail."] if more > 0 else []
    return said or [f"{counted(len(answer.fit.curves), 'curve')}: {_ranges(answer.fit.curves)}."]


def _ranges(curves: Sequence[CurveFit]) -> str:
    """Return from where to where the values of curves reach."""
    found = []
    for name, unit in (("latency", "s"), ("bandwidth", "bytes/s")):
        values = sorted(each.value for curve in curves if (each := getattr(curve, name)) is not None)
        ends = dict.fromkeys(units.format_value(value, unit) for value in (values[:1] + values[-1:]))
        found.append(f"{name} {' to '.join(ends)}" if values else f"no {name}")
    return ", ".join(found)


def _title(curve: CurveFit) -> str:
    how = QUANTITIES.get(curve.series.key.quantity or "", "")
    sizes = curve.series.sizes_bytes
    span = f"{units.format_size(float(sizes[0]))} to {units.format_size(float(sizes[-1]))}" if len(sizes) else ""
    many = f"; {counted(len(sizes), 'size')}, {span}" if len(sizes) > 1 else ""
    return f"{curve.series.key}{f', {how}' if how else ''}{many}"


def _bars(curve: CurveFit) -> Bars | None:
    """Return some sizes of a sweep, each with its time and the part of it that is latency."""
    sizes, times = curve.fitted_points
    if curve.latency is None or len(sizes) < 2 or curve.misconfigured:  # noqa: PLR2004  one size is no sweep
        return None
    wanted = np.geomspace(sizes[0], sizes[-1], _SIZES)
    if curve.double_floor_size_bytes is not None:  # the sizes where the answer changes
        double = curve.double_floor_size_bytes
        wanted = np.array([sizes[0], double / 16, double / 2, double * 2, double * 16, sizes[-1]])
    at = np.unique(np.abs(np.log(sizes)[None, :] - np.log(wanted)[:, None]).argmin(axis=1))
    fixed = [min(curve.latency.value / time, 1.0) for time in times[at].tolist()]
    return Bars(
        heads=("size", "time"),
        rows=[
            (units.format_size(size), units.format_time(time))
            for size, time in zip(sizes[at].tolist(), times[at].tolist(), strict=True)
        ],
        names=("latency", "bytes"),
        parts=[(share, 1.0 - share) for share in fixed],
        remarks=[f"{100 * share:.0f} % latency" for share in fixed],
    )


def rows(curves: Sequence[CurveFit]) -> tuple[list[str], list[list[str]]]:
    """Return a row for each of the first curves."""
    found = [
        [
            name,
            _cell(curve.latency, "s"),
            _cell(curve.bandwidth, "bytes/s"),
            units.format_size(curve.half_size_bytes) if curve.half_size_bytes is not None else "-",
        ]
        for name, curve in zip(names(curves)[:_CURVES], curves, strict=False)
    ]
    if len(curves) > _CURVES:
        found.append([f"{len(curves) - _CURVES} more with --detail", "", "", ""])
    return ["<curve", "latency", "bandwidth", "n_1/2"], found


def _cell(found: Estimate | None, unit: str) -> str:
    """Return a value with the numbers of its interval: `411 GB/s (383-416)`."""
    if found is None or found.low is None or found.high is None:
        return "-" if found is None else units.format_value(found.value, unit)
    value, low, high = (units.format_value(each, unit) for each in (found.value, found.low, found.high))
    ends = [end.removesuffix(f" {value.split()[-1]}") for end in (low, high)]
    return f"{value} ({'-'.join(ends)})"


def _doubts(answer: Answer) -> list[str]:
    """Return what to know before a number is used, the first of them."""
    curves = answer.fit.curves
    several = len(curves) > 1
    of: dict[str, list[str]] = {}
    for name, curve in zip(names(curves), curves, strict=True):
        for note in curve.notes:
            if note.code not in _OF_THE_READER and not (note.code == "not-the-link" and not several):
                of.setdefault(note.text, []).append(name)
    found = [
        f"{text[0].upper()}{text[1:]}." if len(who) == len(curves) else f"{', '.join(who)}: {text}."
        for text, who in of.items()
    ]
    found += [*answer.mark_doubts, *(answer.comparison.doubts if answer.comparison else ())]
    found = list(dict.fromkeys(found))
    more = len(found) - _DOUBTS
    if answer.fit.skipped:
        said = [f"{each.file}{f':{each.line}' if each.line else ''}: {each.why}" for each in answer.fit.skipped]
        others = f"; and {len(said) - _UNREAD} more" if len(said) > _UNREAD else ""
        return [*found[:_DOUBTS], f"Not read: {'; '.join(said[:_UNREAD])}{others}."]
    return [*found[:_DOUBTS], f"{counted(more, 'other note')} with --detail."] if more > 0 else found


def _per_token(answer: Answer) -> str:
    """Return what the messages of a model take."""
    if not answer.marks:
        return ""
    mark = answer.marks[0]
    per = f"{units.format_time(mark.time_s)} at batch {mark.batch}, {units.format_time(mark.per_token_s)} per token"
    return f"{answer.model}'s all-reduce of {units.format_size(mark.size_bytes)} takes {per}."


def _written(answer: Answer) -> str:
    """Return what went into the cluster file, and which curve the link of each tier was taken from."""
    if not answer.links:
        return ""
    own = dict(zip(map(id, answer.fit.curves), names(answer.fit.curves), strict=True))
    links = [f"{tier.replace('_', '-')} link from {own[id(curve)]}" for tier, curve in of_tiers(answer.fit).items()]
    return f"Written to {answer.links}: {'; '.join([*answer.written, *links])}."


def _next(found: Sequence[str]) -> tuple[str, str, str]:
    """Return what the next command is for, the command itself, and what is to be done beside it."""
    settle = next((text.removeprefix("# ") for text in found if text.startswith("# ")), "").removesuffix(":")
    command, _, beside = next((text for text in found if not text.startswith("# ")), "").partition("  # ")
    return f"To settle: {settle}." if settle else "", command, beside
