"""`nhalf sweep`: every combination of some axes of a scenario, into a file."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nhalf import units
from nhalf.cli import flags, following, forms, output, page_file
from nhalf.decide import farm
from nhalf.decide.grid import TASK_POINTS, Tally
from nhalf.errors import InputError
from nhalf.loading import axes
from nhalf.report import sweep as report
from nhalf.report import sweep_file
from nhalf.report.sweep_rows import Rows

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from nhalf.decide.grid import Grid
    from nhalf.report.page import Page

_EVERY_S = 10.0
_ROW_BYTES = {False: 200, True: 50}  # of a row of text and of Parquet, at least


@click.command()
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
@click.option("--workers", metavar="N", type=click.IntRange(min=1), default=1, help="Processes of this machine.")
@click.option("--cluster", metavar="ADDRESS", help="A Dask scheduler: tcp://host:8786.")
@click.option("--task-points", metavar="N", type=click.IntRange(min=1), default=TASK_POINTS, help="Points of one task.")
@forms.option
def sweep(model: str, texts: tuple[str, ...], files: tuple[str, ...], **given: Any) -> None:  # noqa: ANN401
    """Predict every combination of the axes of MODEL: a name, a config.json, or a scenario.toml.

    An axis is tp, pp, ep, attention-dp, cp, batch, context, isl, osl, system, engine, library, mode, weights, kv, or
    the path of any input: --axis batch=1:512:x2 --axis system.fabric.inter_node.latency_s=1us:50us. A point that is not
    legal keeps its row, with the reason.
    """
    pages, file = _files(files)
    if given["cluster"] and given["workers"] > 1:
        raise InputError("both are given", where="--workers and --cluster", allowed="one of them")
    loaded = axes.grid(flags.request(model, given), texts)
    for warning in loaded.warnings:
        output.warn(warning)
    grid, tally = loaded.grid, Tally()
    if file not in ("", "-"):
        _check_room(Path(file), grid.points)
    written = Rows(_Standard() if file == "-" else sweep_file.writer(Path(file)) if file else _Nothing())
    progress = _Progress(grid.points)
    try:
        with contextlib.closing(_answers(grid, given)) as answered:
            for task, answers in answered:
                tally.add(grid, task, answers)
                if file:
                    written.write(report.columns(grid, task, answers))
                progress.at(tally.points)
    except BaseException:
        progress.end()
        if part := written.abandon():
            output.warn(f"partial: {tally.points} of {grid.points} points are in {part}")
        raise
    written.close()
    progress.end()
    if file != "-" and not forms.write(lambda: report.document(grid, tally, file), "best_by_first_axis"):
        canvas = output.canvas()
        report.write(grid, tally, loaded.defaults, canvas, next_command=_next(file))
        output.write(canvas.text)
    page_file.write(pages, lambda: _page(loaded, tally))


def _next(file: str) -> str:
    """Return the command to run next: what reads the file, or writes one."""
    kind = file.rpartition(".")[2].lower()
    if kind == "parquet":
        return f'python -c "import polars; print(polars.read_parquet({file!r}))"'
    return f"head {shlex.quote(file)}" if file else following.command("sweep", {"--output": "sweep.csv"})


def _files(files: tuple[str, ...]) -> tuple[list[str], str]:
    """Return the pages that are asked for, and the file of the table, empty where none is.

    With --csv and no file the table goes to the output, as with `-o -`.

    Raises
    ------
    InputError
        There is more than one table.
    """
    pages = [file for file in files if page_file.is_page(file)]
    tables = [file for file in files if file not in pages]
    if len(tables) > 1:
        raise InputError("a sweep is written to one table", where="-o", allowed="one table, and pages beside it")
    page_file.check(pages)
    alone = "-" if not files and forms.asked() == "csv" else ""
    return pages, tables[0] if tables else alone


def _check_room(path: Path, points: int) -> None:
    """Refuse a table that the disk cannot hold.

    Raises
    ------
    InputError
        Its rows take more than is free.
    """
    folder = path.parent
    if not folder.is_dir():
        return  # the writer says so
    needed, free = points * _ROW_BYTES[path.suffix.lower() == ".parquet"], shutil.disk_usage(folder).free
    if needed > free:
        least, left = (units.format_size(float(each), binary=False) for each in (needed, free))
        raise InputError(
            f"{points:.3g} rows take about {least}, and {left} are free",
            where=str(path), do="shorten an axis, or write .parquet",
        )  # fmt: skip


def _page(loaded: axes.Loaded, tally: Tally) -> Page:
    """Return the page of a sweep; its module is loaded only when one is asked for."""
    from nhalf.report.sweep_page import page

    return page(loaded.grid, tally, loaded.defaults, warnings=loaded.warnings)


def _span(seconds: float) -> str:
    """Return a time [s] in the unit that suits it."""
    for length, name in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {name}"
    return f"{seconds:.0f} s"


def _answers(grid: Grid, given: dict[str, Any]) -> Generator[farm.Answered, None, None]:
    """Return the tasks with their numbers, by whoever was asked to evaluate them."""
    tasks = grid.tasks(given["task_points"])
    if given["cluster"]:
        return farm.cluster(grid, tasks, given["cluster"])
    return farm.here(grid, tasks) if given["workers"] == 1 else farm.processes(grid, tasks, given["workers"])


class _Nothing:
    """No table: only a page, or what the points say as a whole, was asked for."""

    def write(self, columns: Mapping[str, Any]) -> None:
        """Write nothing."""

    def close(self) -> None:
        """Close nothing."""

    def abandon(self) -> str:
        """Leave nothing."""
        return ""


class _Standard:
    """CSV on the standard output."""

    def __init__(self) -> None:
        self.begun = False

    def write(self, columns: Mapping[str, Any]) -> None:
        """Write rows, after the header the first time."""
        if not self.begun:
            output.write(",".join(columns) + "\n")
            self.begun = True
        output.write(sweep_file.plain_csv(columns))

    def close(self) -> None:
        """Leave the standard output open."""

    def abandon(self) -> str:
        """Leave what was written."""
        return ""


class _Progress:
    """How far a sweep is, on standard error: a line that is written over on a terminal, else one now and then."""

    def __init__(self, points: int) -> None:
        self.points, self.begun = points, time.monotonic()
        self.told = self.begun
        self.terminal = sys.stderr.isatty()

    def at(self, done: int) -> None:
        """Say how far it is, when there is something new to say."""
        now = time.monotonic()
        if now - self.told < (0.2 if self.terminal else _EVERY_S):
            return
        self.told = now
        rate = done / (now - self.begun)
        left = (self.points - done) / rate
        line = f"sweep: {100 * done / self.points:.0f} % of {self.points} points, {rate:.3g}/s, {_span(left)} left"
        click.echo(f"\r\x1b[K{line}" if self.terminal else line, err=True, nl=not self.terminal)

    def end(self) -> None:
        """Wipe the line."""
        if self.terminal:
            click.echo("\r\x1b[K", err=True, nl=False)
