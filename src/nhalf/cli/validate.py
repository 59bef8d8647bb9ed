"""`nhalf validate`: predictions against measurements, with limits that can fail."""

from __future__ import annotations

import click
import numpy as np

from nhalf.cli import flags, next_command, output, output_formats
from nhalf.cli.help_pages import Grouped
from nhalf.errors import InputError
from nhalf.loading.case_options import options
from nhalf.report import validate as report
from nhalf.report.view import View
from nhalf.report.words import counted


@click.command(cls=Grouped)
@click.argument("cases", nargs=-1, metavar="[CASES]...")
@click.option("--builtin", is_flag=True, help="Run the measured tables that ship, misses included.")
@click.option("--fail-if", "gates", multiple=True, metavar="LIMIT", help="Exit 3 when it holds: 'median>10%'.")
@click.option("--skip-doubtful", is_flag=True, help="Leave out rows that the checks find doubtful.")
@flags.inputs("validate")
@output_formats.option
def validate(
    cases: tuple[str, ...], builtin: bool, gates: tuple[str, ...], stack: str | None, skip_doubtful: bool,
    **defaults: str | None,
) -> None:  # fmt: skip
    """Compare predictions with measured times per token: error, bias and coverage by system, engine and model.

    CASES are CSV tables with a column tpot_s, or results of a serving benchmark, as `nhalf calibrate` reads them; say
    what a file does not behind its name: run.json@tp=8,batch=16. Rows with a text in the column quality_flag are left
    out.
    """
    from nhalf.loading import bench
    from nhalf.loading.case_assumptions import assumptions
    from nhalf.loading.case_checks import findings
    from nhalf.loading.case_table import read_table
    from nhalf.loading.cases import cases as load
    from nhalf.loading.golden import SERVING, fitted_on
    from nhalf.loading.measured import flags_of, kept_tokens, measured_s, unflagged, unmeasured
    from nhalf.loading.predictions import predictions
    from nhalf.validate import gate, require, require_scored
    from nhalf.validate import validate as compare

    limits = [gate(text) for text in gates]
    if bool(cases) == builtin:
        raise InputError("name a table, or --builtin", where="CASES", allowed="files of runs, or --builtin alone")
    chosen = options(stack, defaults)
    table = bench.read(cases) if cases else read_table(SERVING)
    loaded = load(table, chosen)
    times = measured_s(table)
    for each in assumptions(loaded):
        if each.unusual:
            output.warn(each.text)
    scored = unflagged(table)
    missing = int(np.sum(unmeasured(table, times)))
    times[~scored] = np.nan
    drafts = report.drafted(kept_tokens(table, times), times, compared=True) if cases else []
    for text in [*report.left_out(flags=flags_of(table), unmeasured=missing), *drafts]:
        output.warn(text)
    doubts = findings(loaded, times)
    if skip_doubtful:
        scored[[doubt.row for doubt in doubts]] = False
        output.warn(f"left out: {counted(len({doubt.row for doubt in doubts}), 'doubtful row')}")
    if builtin and stack is None:
        from nhalf.calibrate.unseen import unseen

        output.warn("every row is predicted by constants that saw no run of its family of models")
        predicted = unseen(table)
    else:
        if stack is None and (seen := int(np.sum(fitted_on(table, times)))):
            output.warn(report.seen_before(seen, int(np.sum(np.isfinite(times)))))
        predicted = predictions(loaded)
    found = compare(predicted, times, scored)
    yours = "" if cases else "  # with runs of your own in bench.csv"
    refit = next_command.command("calibrate", {"bench": cases or ("bench.csv",), "--output": "my-stack.toml"}) + yours
    output_formats.show(
        View(
            document=lambda: report.document(found, doubts), rows="groups",
            brief=lambda: report.brief(found, doubts, next_command=refit),
            detail=lambda canvas: report.write(found, doubts, canvas, next_command=refit),
        )
    )  # fmt: skip
    require_scored(found, where=table.path)
    require(limits, found.overall)
