"""`nhalf sweep`: every combination of some axes of a scenario, into a file."""

from __future__ import annotations

import contextlib
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nhalf.cli import flags, next_command, output, output_formats, page_file
from nhalf.cli.help_pages import Grouped
from nhalf.cli.progress import SweepProgress
from nhalf.cli.quantities import Count
from nhalf.cli.sweep_table import Standard, check_room, files_of
from nhalf.decide import workers
from nhalf.decide.grid import TASK_POINTS, Tally
from nhalf.errors import InputError
from nhalf.loading import axes
from nhalf.loading.readers import not_empty
from nhalf.report import sweep as report
from nhalf.report import sweep_file

if TYPE_CHECKING:
    from collections.abc import Generator

    from nhalf.decide.grid import Grid
    from nhalf.report.page import Page


@click.command(cls=Grouped)
@click.argument("model")
@flags.inputs("sweep")
@click.option("--axis", "texts", multiple=True, metavar="NAME=VALUES", help="One axis; repeat it. Batch and tp too.")
@click.option(
    "-o",
    "--output",
    "files",
    multiple=True,
    metavar="FILE",
    help="Every row: a .csv, .json or .parquet file, - for CSV on the output; or a page (report.html), a figure (.svg, "
    ".png).  [default: what they say as a whole]",
)
@click.option(
    "--workers", metavar="N", type=Count(),
    help="Processes of this machine.  [default: as many as cores are idle, one where that is faster]",
)  # fmt: skip
@click.option("--cluster", metavar="ADDRESS", help="A Dask scheduler: tcp://host:8786.")
@click.option("--task-points", metavar="N", type=Count(), default=TASK_POINTS, help="Points of one task.")
@output_formats.option
def sweep(model: str, texts: tuple[str, ...], files: tuple[str, ...], **given: Any) -> None:  # noqa: ANN401
    """Predict every combination of the axes of MODEL: a name, a config.json, or a scenario.toml.

    An axis is tp, pp, ep, attention-dp, cp, batch, context, isl, osl, system, engine, library, mode, weights, kv,
    overlap, or the path of any input: --axis batch=1:512:x2 --axis system.fabric.inter_node.latency_s=1us:50us. A point
    that is not legal keeps its row, with the reason.
    """
    pages, file = files_of(files)
    not_empty({"--cluster": given["cluster"]})
    if given["cluster"] and given["workers"]:
        raise InputError("both are given", where="--workers and --cluster", allowed="one of them")
    axes.check_apart(texts, given)
    loaded = axes.grid(flags.request(model, given), texts)
    for warning in loaded.warnings:
        output.warn(warning)
    grid, tally = loaded.grid, Tally()
    if file not in ("", "-"):
        check_room(Path(file), grid.points)
    written = Standard() if file in ("", "-") else sweep_file.table(Path(file))
    progress = SweepProgress(grid.points)
    try:
        with contextlib.closing(_portions(grid, file, given)) as portions:
            for each, pieces in portions:
                written.append(pieces)
                tally.join(each)
                progress.at(tally.points)
    except BaseException:
        progress.end()
        if part := written.abandon():
            output.warn(f"partial: {tally.points} of {grid.points} points are in {part}")
        raise
    written.close()
    progress.end()

    def document() -> dict[str, Any]:
        return report.document(grid, tally, file, loaded.defaults)

    if file != "-" and not output_formats.write(document, "best_by_first_axis"):
        canvas = output.canvas()
        report.write(grid, tally, loaded.defaults, canvas, next_command=_next(file))
        output.write(canvas.text)
    page_file.write(pages, lambda: _page(loaded, tally))


def _next(file: str) -> str:
    """Return the command to run next: what reads the file, or writes one."""
    kind = file.rpartition(".")[2].lower()
    if kind == "parquet":
        return f'python -c "import polars; print(polars.read_parquet({file!r}))"'
    return f"head {shlex.quote(file)}" if file else next_command.command("sweep", {"--output": "sweep.csv"})


def _page(loaded: axes.Loaded, tally: Tally) -> Page:
    """Return the page of a sweep; its module is loaded only when one is asked for."""
    from nhalf.report.sweep_page import page

    return page(loaded.grid, tally, loaded.defaults, warnings=loaded.warnings)


def _portions(grid: Grid, file: str, given: dict[str, Any]) -> Generator[workers.Portion, None, None]:
    """Return the points with their rows, portion by portion, by whoever was asked to evaluate them."""
    made = partial(report.rows, "" if file == "-" else Path(file).suffix.lower()) if file else None
    tasks = grid.tasks(given["task_points"])
    if given["cluster"]:
        return workers.cluster(grid, tasks, made, given["cluster"])
    count = given["workers"] or workers.fitting(grid.points)
    return workers.alone(grid, tasks, made) if count == 1 else workers.processes(grid, tasks, made, count)
