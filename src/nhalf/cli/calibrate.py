"""`nhalf calibrate`: the constants of your stack from runs of a serving benchmark."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from nhalf.cli import flags, next_command, output, output_formats
from nhalf.cli.help_pages import Grouped
from nhalf.loading.case_options import options
from nhalf.report import calibrate as report
from nhalf.report import cluster_file
from nhalf.report.validate import drafted, left_out
from nhalf.report.view import View
from nhalf.report.words import counted


@click.command(cls=Grouped)
@click.argument("bench", nargs=-1, required=True, metavar="BENCH...")
@click.option(
    "-o",
    "--output",
    "target",
    metavar="STACK.toml",
    help="Where the stack goes, for --stack; an existing cluster file takes it in, for --on.",
)
@click.option("--skip-doubtful", is_flag=True, help="Leave out rows that the checks find doubtful.")
@flags.inputs("calibrate")
@output_formats.option
def calibrate(bench: tuple[str, ...], target: str | None, skip_doubtful: bool, **defaults: str | None) -> None:
    """Refit the constants that the runs in BENCH... identify, and keep priors for the rest.

    BENCH is a CSV case table with the column tpot_s, or output of vllm bench serve, sglang.bench_serving, genai-perf,
    aiperf or llama-bench. Say what a file does not behind its name: run.json@tp=8,batch=16. Where you know them, the
    columns calls, call_us, pure_us and skew_us [us] say how many all-reduces a step has, how long one takes, how long
    one that waits for no rank, and how far apart ranks come: waiting is taken out before anything is fitted.
    """
    from nhalf.calibrate.evidence import evidence
    from nhalf.calibrate.prior import prior
    from nhalf.calibrate.split import splits
    from nhalf.calibrate.stack import refit
    from nhalf.loading import bench as readers
    from nhalf.loading.case_assumptions import assumptions
    from nhalf.loading.case_checks import findings
    from nhalf.loading.cases import cases
    from nhalf.loading.measured import flags_of, kept_tokens, measured_s, unflagged, unmeasured
    from nhalf.loading.waiting import waiting, without

    flags.written_as(target, ".toml", "a stack, which is written as TOML")
    table = readers.read(bench)
    chosen = options(None, defaults)
    loaded = cases(table, chosen)
    times = measured_s(table)
    scored = unflagged(table)
    missing = int(np.sum(unmeasured(table, times)))
    for text in left_out(flags=flags_of(table), unmeasured=missing):
        output.warn(text)
    times[~scored] = np.nan
    kept = kept_tokens(table, times)
    for text in drafted(kept, times, compared=False):
        output.warn(text)
    times[np.isfinite(kept)] = np.nan
    doubts = findings(loaded, times)
    if skip_doubtful:
        times[[doubt.row for doubt in doubts]] = np.nan
        output.warn(f"left out: {counted(len({doubt.row for doubt in doubts}), 'doubtful row')}")
    times, waits = without(times, waiting(loaded, times))
    for text in waits:
        output.warn(text)
    runs = evidence(loaded, times)  # where no run can be used, its error says why, once
    for row, reason in enumerate(loaded.refused):
        if reason and np.isfinite(times[row]):
            output.warn(f"{table.named(row)} is left out: {reason}")
    for each in assumptions(loaded):
        if each.unusual:
            output.warn(each.text)
    engines = sorted(set(runs.engine.tolist()))
    found = report.Calibrated(
        fit=refit(runs, prior(calibrated=True, engine=engines[0] if len(engines) == 1 else "")),
        splits=splits(loaded, times),
        doubts=doubts,
        engine=", ".join(engines),
        path=" ".join(bench),
    )
    if target:
        cluster_file.write_stack(Path(target), found)
    command = _next(bench, target, worse=found.fit.worse)
    output_formats.show(
        View(
            document=lambda: report.document(found), rows="constants",
            brief=lambda: report.brief(found, next_command=command),
            detail=lambda canvas: report.write(found, canvas, next_command=command),
        )
    )  # fmt: skip


def _next(bench: tuple[str, ...], target: str | None, *, worse: bool) -> str:
    """Return the command to run next; a refit that is worse than what all stacks say is not offered."""
    if worse:
        plain = next_command.command("validate", {"cases": bench})
        return f"{plain}  # without --stack: the constants of all stacks predict these runs better"
    if target:
        return next_command.command("validate", {"cases": bench, "--stack": target})
    return next_command.command("calibrate", {"--output": "my-stack.toml"})
