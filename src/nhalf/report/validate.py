"""The answer of `nhalf validate`: how far predictions are from measurements, as a page or a document."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from nhalf import units
from nhalf.report.document import envelope
from nhalf.report.view import Brief
from nhalf.report.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.breakdown import Array
    from nhalf.loading.case_checks import Finding
    from nhalf.report.canvas import Canvas
    from nhalf.validate import Miss, Ratio, Score, Switch, Validation

_FEW = 5
_REASONS = 2
"""Flags that are spelled out: they are sentences of whoever wrote the table."""
_GROUPS, _WORST = 6, 2
_HEADS = ("<system", "<engine", "<model", "rows", "refused", "median", "p90", "bias", "in range")
_SOME = 40
"""Places of doubtful rows that are named beyond those with a sentence: what a page holds, and an eye."""


def brief(found: Validation, doubts: Sequence[Finding], *, next_command: str) -> Brief:
    """Return the first screen: the verdict, the largest groups, the rows furthest off, and what looks wrong."""
    groups = sorted(found.groups, key=lambda score: -score.rows)[:_GROUPS]
    scored = found.overall.rows > found.overall.refused
    notes = [f"{len(found.groups) - len(groups)} smaller groups with --detail."] if len(found.groups) > _GROUPS else []
    notes += [
        f"{miss.place}, {miss.name}: {units.format_time(miss.measured_s)} measured, "
        f"{units.format_time(miss.predicted_s)} predicted."
        for miss in found.worst[:_WORST]
    ]
    notes += [f"Refused, {counted(rows)}: {reason}." for reason, rows in found.reasons[:1]]
    codes = Counter(doubt.code for doubt in doubts)
    notes += [f"Doubtful: {', '.join(f'{counted(n)} {code}' for code, n in codes.items())}."] if codes else []
    notes += [f"{doubt.place}: {doubt.text}." for doubt in doubts if doubt.code == "waiting"][:1]
    command, _, why = next_command.partition("  # ")
    return Brief(
        verdict=[verdict(found.overall)],
        number=f"{_number_line(found.overall)}." if scored else "",
        title="By system, engine and model",
        table=(_HEADS, [_row(score) for score in groups]),
        notes=notes,
        next_command=command,
        next_why=why,
        warn=not scored,
    )


def write(found: Validation, doubts: Sequence[Finding], canvas: Canvas, *, next_command: str) -> None:
    """Write the verdict, a line for each group, the worst rows, and what looks wrong in the table."""
    groups = found.groups
    canvas.paragraph(verdict(found.overall), bold=True)
    if found.overall.rows > found.overall.refused:
        canvas.paragraph(_number_line(found.overall))
    canvas.heading("By system, engine and model")
    canvas.table(_HEADS, [_row(score) for score in groups])
    _ratios(found.ratios, canvas)
    _switches(found.switches, canvas)
    _worst(found.worst, canvas)
    if found.reasons:
        canvas.heading("Refused")
        for reason, rows in found.reasons[:_FEW]:
            canvas.paragraph(f"  {counted(rows)}: {reason}", indent="    ")
    checks(doubts, canvas)
    canvas.following(next_command)


def left_out(*, flags: Sequence[str], unmeasured: int) -> list[str]:
    """Return what of a table was not looked at, and why: the flags of rows that have one, and rows without a time."""
    texts = list(dict.fromkeys(flags))
    others = len(texts) - _REASONS
    more = [f"and {counted(others, 'other reason')}"] if others > 0 else []
    some = ", ".join([*texts[:_REASONS], *more])
    found = [(len(flags), f"with a quality_flag ({some})"), (unmeasured, "without a tpot_s")]
    return [f"left out: {counted(rows)} {why}" for rows, why in found if rows]


def drafted(kept: Array, times_s: Array, *, compared: bool) -> list[str]:
    """Return what is done with rows that draft: `kept` tokens a step, NaN for others, and their times per token [s]."""
    rows = np.flatnonzero(np.isfinite(kept))
    if not len(rows):
        return []
    first = rows[0]
    whole, each = units.format_time(float(kept[first] * times_s[first])), units.format_time(float(times_s[first]))
    step = f"{kept[first]:.3g} x {each} = {whole} a step"
    if compared:
        end = "compared with a step that drafts, without the time of the draft itself"
    else:
        end = "left out, since no plain step was timed"
    which = "1 row drafts" if len(rows) == 1 else f"{len(rows)} rows draft"
    return [f"{which} ({step}): {end}"]


def seen_before(seen: int, rows: int) -> str:
    """Return that some rows are runs which the constants were fitted on, and what judges them fairly."""
    which = "every row is a run" if seen == rows else f"{seen} of {counted(rows)} are runs"
    return f"{which} that the constants were fitted on: see --builtin for runs that they have not seen"


def verdict(score: Score) -> str:
    """Return how far predictions are off, in words."""
    if math.isnan(score.median_error):
        return f"None of {counted(score.rows)} could be scored: nothing was compared."
    side = "slow" if score.bias > 0 else "fast"
    if score.rows - score.refused == 1:
        return f"The one prediction is {percent(abs(score.bias))} too {side}: one row says little."
    lean = f"the middle one is {percent(abs(score.bias))} too {side}"
    return (
        f"Predictions are {percent(score.median_error)} off in the median and {percent(score.p90_error)} at the 90th "
        f"percentile of {counted(score.rows - score.refused)}; {lean}."
    )


def _number_line(score: Score) -> str:
    """Return the coverage of the bands, and how many rows were refused."""
    refused = f", {score.refused} of {counted(score.rows)} refused" if score.refused else ""
    return f"80 % bands hold {percent(score.coverage)} of the measured times{refused}"


def percent(share: float) -> str:
    """Return a share in per cent, two digits, and `-` where it is unknown."""
    return "-" if math.isnan(share) else f"{100 * share:.1f} %" if abs(share) < 0.1 else f"{100 * share:.0f} %"  # noqa: PLR2004


def signed(share: float) -> str:
    """Return a share in whole per cent with its sign, none where it rounds to 0, and `-` where it is unknown."""
    return "-" if math.isnan(share) else f"{round(100 * share):+d} %" if round(100 * share) else "0 %"


def _row(score: Score) -> list[str]:
    """Return the cells of a group."""
    return [
        score.system,
        score.engine,
        score.model,
        str(score.rows),
        str(score.refused) if score.refused else "",
        percent(score.median_error),
        percent(score.p90_error),
        signed(score.bias),
        percent(score.coverage),
    ]


def _compared(found: Ratio | Switch) -> list[str]:
    """Return the cells of what one change makes of a step, as measured and as predicted."""
    return [str(found.pairs), f"{found.measured:.2f}", f"{found.predicted:.2f}", percent(found.median_error)]


def _ratios(ratios: Sequence[Ratio], canvas: Canvas) -> None:
    """Write what doubling the devices makes of a step: where communication shows."""
    if not ratios:
        return
    canvas.heading("Step on twice the devices over step (where communication shows)")
    rows = [[f"TP{ratio.fewer} -> TP{ratio.more}", *_compared(ratio), signed(ratio.bias)] for ratio in ratios]
    canvas.table(["<", "pairs", "measured", "predicted", "off", "bias"], rows)


def _switches(switches: Sequence[Switch], canvas: Canvas) -> None:
    """Write what another library, mode or fabric makes of a step that differs in nothing else."""
    if not switches:
        return
    canvas.heading("Step of one over the other, all else alike (where communication shows)")
    rows = [[f"{switch.column} {switch.after} / {switch.before}", *_compared(switch)] for switch in switches]
    canvas.table(["<", "pairs", "measured", "predicted", "off"], rows)


def _worst(misses: Sequence[Miss], canvas: Canvas) -> None:
    """Write the rows that are furthest off."""
    if not misses:
        return
    canvas.heading("Furthest off")
    rows = [
        [
            miss.place.removeprefix("line "),
            miss.name,
            units.format_time(miss.measured_s),
            units.format_time(miss.predicted_s),
            signed(miss.predicted_s / miss.measured_s - 1),
        ]
        for miss in misses
    ]
    canvas.table(["line", "<row", "measured", "predicted", "off"], rows)


def checks(doubts: Sequence[Finding], canvas: Canvas) -> None:
    """Write what looks wrong in a table, by code, with the first lines of each."""
    if not doubts:
        return
    canvas.heading("Doubtful rows (they count unless --skip-doubtful)")
    codes: dict[str, list[Finding]] = {}
    for doubt in doubts:
        codes.setdefault(doubt.code, []).append(doubt)
    for code, found in codes.items():
        canvas.paragraph(f"  {code}: {counted(len(found))}", indent="    ")
        for doubt in found[:_FEW]:
            canvas.paragraph(f"    {doubt.place}: {doubt.text}", indent="      ")
        others = found[_FEW : _FEW + _SOME]
        if others:
            named = ", ".join(doubt.place.removeprefix("line ") for doubt in others)
            more = len(found) - _FEW - len(others)
            rest = f" and {more} more, in the document (--json)" if more else ""
            canvas.paragraph(f"    and {'line' if len(others) == 1 else 'lines'} {named}{rest}", indent="      ")


def document(found: Validation, doubts: Sequence[Finding]) -> dict[str, Any]:
    """Return the document of the contract."""
    body = {
        "groups": [_score(score) for score in found.groups],
        "overall": _score(found.overall),
        "worst": [
            {
                "file": miss.file,
                "line": miss.line,
                "row": miss.name,
                "measured_s": miss.measured_s,
                "predicted_s": miss.predicted_s,
            }
            for miss in found.worst
        ],
        "ratios": [
            {
                "from": ratio.fewer,
                "to": ratio.more,
                "pairs": ratio.pairs,
                "measured": ratio.measured,
                "predicted": ratio.predicted,
                "median_error": ratio.median_error,
                "bias": ratio.bias,
            }
            for ratio in found.ratios
        ],
        "switches": [
            {
                "column": switch.column,
                "before": switch.before,
                "after": switch.after,
                "pairs": switch.pairs,
                "measured": switch.measured,
                "predicted": switch.predicted,
                "median_error": switch.median_error,
            }
            for switch in found.switches
        ],
        "reasons": [{"refused": reason, "rows": rows} for reason, rows in found.reasons],
        "findings": findings(doubts),
    }
    return envelope("validate", body)


def findings(doubts: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return the doubtful rows of a table, each with its file and line."""
    return [{"file": doubt.file, "line": doubt.line, "code": doubt.code, "text": doubt.text} for doubt in doubts]


def _score(score: Score) -> dict[str, Any]:
    """Return a score; what is unknown is null."""
    numbers = ("median_error", "p90_error", "bias", "coverage")
    return {
        "system": score.system or None,
        "engine": score.engine or None,
        "model": score.model or None,
        "rows": score.rows,
        "refused": score.refused,
        **{name: None if math.isnan(getattr(score, name)) else getattr(score, name) for name in numbers},
    }
