"""`nhalf predict`: every row of a table of serving runs, predicted or refused with a reason."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from nhalf.cli import flags, next_command, output, output_formats
from nhalf.cli.help_pages import Grouped
from nhalf.files.writing import write_text
from nhalf.loading.case_options import options
from nhalf.report import predict as report
from nhalf.report.view import View


@click.command(cls=Grouped)
@click.argument("cases", metavar="CASES.csv")
@click.option(
    "-o",
    "--output",
    "target",
    metavar="OUT.csv",
    help="The table.  [default: the pipe; a terminal gets a summary]",
)
@flags.inputs("predict")
@output_formats.option
def predict(cases: str, target: str | None, stack: str | None, **defaults: str | None) -> None:
    """Predict every row of CASES.csv: time per token with its 80 % band, a range for the first token, what binds.

    Columns: model, system, engine, weight_dtype, moe_dtype, kv_dtype, isl, osl, concurrency, tp, pp, cp,
    attention_dp, moe_tp, moe_ep; others pass through, and what was measured is never read.
    """
    from nhalf.loading.case_assumptions import assumptions
    from nhalf.loading.case_table import read_table
    from nhalf.loading.cases import cases as load
    from nhalf.loading.predictions import predictions

    flags.written_as(target, ".csv", "a table, which is written as CSV")
    chosen = options(stack, defaults)
    found = predictions(load(read_table(Path(cases)), chosen))
    shown = bool(target) or sys.stdout.isatty()  # a table of 39 columns is for files and pipes
    if not shown or output_formats.asked():  # no page that says it
        for each in assumptions(found.cases):
            if each.unusual:
                output.warn(each.text)
        for doubt in report.doubts(found):
            output.warn(doubt)
    if target:
        write_text(Path(target), report.table(found))
    if not shown and not output_formats.asked():
        output.write(report.table(found))
        return
    command = _next(target, measured="tpot_s" in found.cases.table.header)
    output_formats.show(
        View(
            document=lambda: report.document(found), rows="rows",
            brief=lambda: report.brief(found, next_command=command),
            detail=lambda canvas: report.write(found, canvas, next_command=command),
        )
    )  # fmt: skip


def _next(target: str | None, *, measured: bool) -> str:
    """Return the command to run next: a comparison where the table holds times, else what shows the predictions."""
    if measured:
        return next_command.command("validate")
    if target:
        return f"head {shlex.quote(target)}  # its column predicted_tpot_s"
    return f"{next_command.command('predict', {'--output': 'predicted.csv'})}  # every row, with its range"
