"""`nhalf lint`: whether a scaling curve can be read at all."""

from __future__ import annotations

from pathlib import Path

import click

from nhalf.cli import output_formats
from nhalf.cli.help_pages import Grouped
from nhalf.decide import lint as rules
from nhalf.errors import WeakEvidenceError
from nhalf.loading import scaling
from nhalf.report import lint as report
from nhalf.report.view import View


@click.command(cls=Grouped)
@click.argument("curve")
@output_formats.option
def lint(curve: str) -> None:
    """Say what is wrong with a scaling curve in a CSV file: batches, engines or modes that were mixed, its limits.

    Columns: devices (or gpus, tp), batch (or concurrency), step_s (tpot_s, tpot_ms, itl_ms) or tokens_per_s, and any
    of model, system, engine, version, library, mode, weights, kv, isl, osl, context. Without a batch it is refused.
    calls, call_us, pure_us and skew_us say how many all-reduces a step has, how long one takes, how much of it waits.
    """
    points = scaling.read(Path(curve))
    findings = rules.lint(points, scaling.known(points))
    output_formats.show(
        View(
            document=lambda: report.document(points, findings), rows="findings",
            brief=lambda: report.brief(points, findings, file=curve),
            detail=lambda canvas: report.write(points, findings, canvas, file=curve),
        )
    )  # fmt: skip
    refused = [finding for finding in findings if finding.severity == "refused"]
    if refused:
        raise WeakEvidenceError(refused[0].text, where=curve)
