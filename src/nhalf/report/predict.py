"""The answer of `nhalf predict`: the table with its new columns, a page, or a document."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from nhalf import units
from nhalf.loading.case_assumptions import assumptions
from nhalf.loading.predictions import NUMBERS
from nhalf.predict import incast
from nhalf.report.document import envelope, of
from nhalf.report.view import Bars, Brief
from nhalf.report.words import INCAST, counted, most

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.loading.predictions import Predictions
    from nhalf.report.canvas import Canvas

COLUMNS = ("predicted_tpot_s", "low_s", "high_s", "ttft_low_s", "ttft_high_s", "binding", "refused")
"""What is added to the columns of the table."""
_FEW = 5
_PARTS, _LEAST_SURE, _DOUBTS = 5, 4, 2
"""Rows of the first screen."""


def table(found: Predictions) -> str:
    """Return the table as CSV: the same rows in the same order, and the new columns."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    header = found.cases.table.header
    # A table that went through before has the columns already: they are written anew.
    kept = [index for index, name in enumerate(header) if name not in COLUMNS]
    writer.writerow([*(header[index] for index in kept), *COLUMNS])
    times = [found.tpot_s, found.low_s, found.high_s, found.ttft_low_s, found.ttft_high_s]
    added = zip(*(_texts(values) for values in times), found.binding, found.refused, strict=True)
    rows = found.cases.table.rows
    if len(kept) == len(header):
        writer.writerows([*row, *new] for row, new in zip(rows, added, strict=True))
    else:
        writer.writerows([*(row[index] for index in kept), *new] for row, new in zip(rows, added, strict=True))
    return target.getvalue()


def _texts(values: Array) -> list[str]:
    """Return times as texts that say every digit; empty where there is none."""
    return [repr(value) if value == value else "" for value in values.tolist()]  # noqa: PLR0124  NaN


def brief(found: Predictions, *, next_command: str) -> Brief:
    """Return the first screen: how many rows, what takes the most time in them, and those that are least sure."""
    words = Counter(most(word) for word in found.binding if word).most_common(_PARTS)
    assumed = [f"{each.column} {each.value} in {counted(each.rows)}" for each in assumptions(found.cases)]
    reasons = Counter(reason for reason in found.refused if reason).most_common(1)
    more = len(doubts(found)) - _DOUBTS
    notes = [*doubts(found)[:_DOUBTS], *([f"{counted(more, 'other doubt')} with --detail."] if more > 0 else [])]
    notes += [f"Refused, {counted(rows)}: {reason}." for reason, rows in reasons]
    command, _, why = next_command.partition("  # ")
    return Brief(
        verdict=[f"{_verdict(found)}."],
        number=_number_line(found),
        title="What takes the most time" if words else "",
        bars=Bars(
            heads=("<part", "rows"), rows=[(word, str(rows)) for word, rows in words], names=("rows",),
            parts=[(float(rows),) for _, rows in words],
        ) if words else None,
        table=(["<least sure", "per token", "<80 % range"], _least_sure(found)) if words else None,
        notes=notes,
        assumed=", ".join([*assumed[:_DOUBTS], *(["and more"] if len(assumed) > _DOUBTS else [])]),
        next_command=command,
        next_why=why,
        warn=not words,
    )  # fmt: skip


def _verdict(found: Predictions) -> str:
    count, refused = len(found.refused), sum(bool(reason) for reason in found.refused)
    return f"{count - refused} of {counted(count)} predicted" + (
        f", {refused} refused with a reason" if refused else ""
    )


def _number_line(found: Predictions) -> str:
    """Return from where to where times per token reach, and how wide their bands are."""
    times = found.tpot_s[np.isfinite(found.tpot_s)]
    if not len(times):
        return ""
    half = np.nanmedian(np.sqrt(found.high_s / found.low_s)) - 1
    least, middle, most = (units.format_time(float(value)) for value in (times.min(), np.median(times), times.max()))
    return f"{least} to {most} per token, {middle} in the middle; 80 % range about {100 * half:.0f} % either way."


def _least_sure(found: Predictions) -> list[list[str]]:
    """Return the rows with the widest bands."""
    width = np.where(np.isfinite(found.tpot_s), found.high_s / found.low_s, 0.0)
    rows = []
    for row in np.argsort(-width, kind="stable")[:_LEAST_SURE].tolist():
        if not width[row]:
            continue
        group = found.cases.groups[int(found.group[row])]
        name = f"{found.cases.table.named(row)}: {group.model} on {group.system}, {group.scenario.layout.name}"
        low, high = (units.format_time(float(ends[row])) for ends in (found.low_s, found.high_s))
        rows.append([name, units.format_time(float(found.tpot_s[row])), f"{low} to {high}"])
    return rows


def write(found: Predictions, canvas: Canvas, *, next_command: str) -> None:
    """Write what was predicted, what binds, and what was refused."""
    refused = Counter(reason for reason in found.refused if reason)
    canvas.paragraph(_verdict(found), bold=True)
    words = Counter(most(word) for word in found.binding if word)
    if words:
        canvas.paragraph(_number_line(found))
        canvas.heading("What takes the most time")
        canvas.table(["<largest part", "rows"], [[word, str(rows)] for word, rows in words.most_common()])
    canvas.listed("Doubtful", doubts(found))
    assumed = assumptions(found.cases)
    if assumed:
        canvas.heading("Assumed where the table does not say")
        canvas.table(
            ["<column", "<value", "rows", "<why"],
            [[each.column, each.value, str(each.rows), each.reason] for each in assumed],
        )
    if refused:
        canvas.heading("Refused")
        for reason, rows in refused.most_common(_FEW):
            canvas.paragraph(f"  {counted(rows)}: {reason}", indent="    ")
        others = len(refused) - _FEW
        if others > 0:
            reasons = "1 other reason" if others == 1 else f"{others} other reasons"
            canvas.paragraph(f"  and {reasons}, in the column `refused`")
    canvas.following(next_command)


def doubts(found: Predictions) -> list[str]:
    """Return what no time holds and may happen, with the number of rows that it may happen to."""
    rows = sum(len(group.rows) for group in found.cases.groups if incast.possible(group.scenario))
    said = [f"{counted(rows)}: {INCAST}."] if rows else []
    full = int(np.count_nonzero(found.numbers["running"] < _asked(found)))
    if full:
        said.append(f"{counted(full)}: the KV cache has no room for all sequences, so fewer run than were asked for.")
    over = found.fits_memory.count("no")
    return [*said, f"{counted(over)}: does not fit in memory."] if over else said


def _asked(found: Predictions) -> Array:
    """Return the batch of every row, NaN where it is refused."""
    asked = np.full(len(found.refused), np.nan)
    for group in found.cases.groups:
        asked[group.rows] = group.scenario.workload.batch
    return asked


def document(found: Predictions) -> dict[str, Any]:
    """Return the document: one entry for each row."""
    rows = [
        {
            "line": found.cases.table.line(row),
            "predicted_tpot_s": _number(found.tpot_s[row]),
            **{name: _number(getattr(found, name)[row]) for name in ("low_s", "high_s", "ttft_low_s", "ttft_high_s")},
            "binding": found.binding[row] or None,
            **{name: _number(found.numbers[name][row]) for name in NUMBERS if not name.startswith(("tpot", "ttft"))},
            "fits_memory": found.fits_memory[row] or None,
            "refused": found.refused[row],
        }
        for row in range(len(found.refused))
    ]
    assumed = [of(each, "column", "value", "rows", "reason") for each in assumptions(found.cases)]
    return envelope("predict", {"rows": rows, "assumed": assumed, "doubts": doubts(found)})


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
