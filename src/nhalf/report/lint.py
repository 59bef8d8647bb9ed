"""The answer of `nhalf lint`: whether a scaling curve can be read, and what to know before it is."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from nhalf.decide.scaling_curve import curves
from nhalf.evidence.waiting import SAID
from nhalf.report.document import envelope
from nhalf.report.view import Brief
from nhalf.report.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.scaling_curve import Finding, Point
    from nhalf.report.canvas import Canvas

_KINDS: Final = 7
_MOST: Final = 20
"""Findings of one kind that a page shows; a table of thousands has one fault thousands of times."""
_LONGEST: Final = 60
"""Letters of a list of batches that still fit into a command."""
_STAND_INS: Final = {"model": "llama-3.1-70b", "system": "h100-sxm"}
"""What a command is about where a table does not say."""


def brief(points: Sequence[Point], findings: Sequence[Finding], *, file: str) -> Brief:
    """Return the first screen: the verdict, and a row for each kind of finding, the first of its kind."""
    total = Counter(finding.code for finding in findings)
    first = {finding.code: finding for finding in reversed(findings)}
    rows = [
        [f"line {found.row}" if (found := first[code]).row else "file", code, _short(found.text)]
        for code in dict.fromkeys(finding.code for finding in findings)
    ]
    more = [f"{count - 1} more of {code}" for code, count in total.items() if count > 1]
    more += [f"{len(rows) - _KINDS} more kinds"] if len(rows) > _KINDS else []
    command, _, why = _next(points).partition("  # ")
    return Brief(
        verdict=[verdict(points, findings)],
        title=f"{file}, {counted(len(points))}, {counted(len(findings), 'finding')}",
        table=(["<", "<", "<"], rows[:_KINDS]) if rows else None,
        notes=[f"{', '.join(more)}: --detail."] if more else [],
        next_command=command,
        next_why=why,
        warn=any(finding.severity != "note" for finding in findings),
    )


def _short(text: str) -> str:
    """Return the first part of a finding, whole where it is of waiting, whose end is what matters."""
    return text if text.endswith(SAID) else text.partition(": ")[0].partition("; ")[0]


def write(points: Sequence[Point], findings: Sequence[Finding], canvas: Canvas, *, file: str) -> None:
    """Write the verdict, how many findings there are, and each of them."""
    canvas.paragraph(verdict(points, findings), bold=True)
    canvas.paragraph(f"{counted(len(findings), 'finding')} in {counted(len(points))}")
    if findings:
        canvas.heading("Findings")
    total, shown = Counter(finding.code for finding in findings), Counter[str]()
    for finding in findings:
        shown[finding.code] += 1
        if shown[finding.code] > _MOST:
            continue
        where = f"{file}:{finding.row}" if finding.row else file
        canvas.paragraph(f"  {finding.severity}: {where}: {finding.code}: {finding.text}", indent="    ")
    more = {code: count - _MOST for code, count in total.items() if count > _MOST}
    if more:
        listed = ", ".join(f"{count} of {code}" for code, count in more.items())
        canvas.paragraph(f"  and {listed}, with --csv or --json", indent="    ")
    canvas.following(_next(points))


def verdict(points: Sequence[Point], findings: Sequence[Finding]) -> str:
    """Return whether the table can be read, and as how many curves."""
    refused = [finding for finding in findings if finding.severity == "refused"]
    if refused:
        return f"Refused: {refused[0].text}."
    several = [curve for curve in curves(points).values() if len({point.devices for point in curve}) > 1]
    warned = sum(finding.severity == "warning" for finding in findings)
    text = f"{len(several)} curve{'s' if len(several) != 1 else ''} of one batch, engine and mode each"
    if not several:
        return "No two rows belong to one curve: nothing but the number of devices may change along it."
    return f"{text}; {warned} warning{'s' if warned != 1 else ''}." if warned else f"{text}, and nothing against them."


def _next(points: Sequence[Point]) -> str:
    """Return the command that predicts the same curve."""
    labels = points[0].labels
    devices = ",".join(str(each) for each in sorted({point.devices for point in points}))
    batches = ",".join(f"{each:g}" for each in sorted({point.batch for point in points if point.batch}))
    batch = f" --batch {batches}" if batches else ""
    if len(batches) > _LONGEST:
        batch = " --batch 1,16,128"
    unknown = " and ".join(name for name in _STAND_INS if not labels.get(name))
    model, system = (shlex.quote(labels.get(name) or instead) for name, instead in _STAND_INS.items())
    remark = f"  # the table names no {unknown}: put yours" if unknown else ""
    return f"nhalf decode {model} --on {system} --tp {devices}{batch}{remark}"


def document(points: Sequence[Point], findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the document of the contract."""
    return envelope(
        "lint",
        {
            "verdict": verdict(points, findings),
            "rows": len(points),
            "curves": sum(len({point.devices for point in curve}) > 1 for curve in curves(points).values()),
            "findings": [
                {
                    "code": finding.code,
                    "row": finding.row or None,
                    "severity": finding.severity,
                    "text": finding.text,
                }
                for finding in findings
            ],
        },
    )
