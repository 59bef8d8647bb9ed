"""`nhalf trace`: what communication cost in a run that a profiler watched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from nhalf import units
from nhalf.cli import output, output_formats
from nhalf.cli.help_pages import Grouped
from nhalf.cli.progress import reading
from nhalf.cli.trace_next import next_commands
from nhalf.decide.observed import fit_of
from nhalf.errors import InputError, WeakEvidenceError
from nhalf.files.writing import write_text
from nhalf.loading import tracing
from nhalf.report import cluster_file
from nhalf.report import trace as report
from nhalf.report.trace_brief import brief
from nhalf.report.trace_document import difference_document, document, write_difference
from nhalf.report.view import View
from nhalf.trace.difference import difference
from nhalf.trace.study import Options, Study, study


@click.command(cls=Grouped)
@click.argument("files", nargs=-1, metavar="FILES...")
@click.option("--links", metavar="LINK|FIT",
              help='"5us,400GB/s", a link of the catalogue, a cluster file, or the JSON of nhalf fit.')  # fmt: skip
@click.option("--model", metavar="MODEL", help="Sizes where the trace has none: a name or a config.json, with --batch.")
@click.option("--batch", metavar="N", help="Sequences that decode together: sizes with --model, and tokens/s.")
@click.option("--step", metavar="REGEX", help="The marks that are steps, where the profiler marked none.")
@click.option("--patterns", multiple=True, metavar="FILE", help="More kernels that are communication (TOML).")
@click.option("--diff", nargs=2, metavar="BEFORE AFTER", help="Compare two runs: files or folders.")
@click.option("-o", "--output", "outputs", multiple=True, metavar="FILE",
              help="Also write: .json wait tracks for Perfetto, .html a page, .toml a cluster file.")  # fmt: skip
@click.option("--workers", type=click.IntRange(min=1), help="Files read at once.  [default: all cores]")
@output_formats.option
def trace(  # noqa: PLR0917  one parameter per option
    files: tuple[str, ...],
    links: str | None,
    model: str | None,
    batch: str | None,
    step: str | None,
    patterns: tuple[str, ...],
    diff: tuple[str, str] | None,
    outputs: tuple[str, ...],
    workers: int | None,
) -> None:
    """Say what communication cost in FILES: the traces of one or more ranks of one run, a folder, or a pattern.

    Read are PyTorch profiler traces (plain, .gz, .zst), Flight Recorder JSON for sizes, and Nsight Systems .sqlite.
    """
    if bool(diff) == bool(files):
        raise InputError(
            "give FILES, or two runs with --diff", where="nhalf trace", allowed="nhalf trace rank*.json.gz"
        )
    options = Options(
        patterns=tuple(Path(name) for name in patterns),
        step=tracing.step_marks(step),
        sizes=tracing.sizes(model, batch),
        price=tracing.price(links),
        tokens_per_step=float(units.parse_count(batch, where="--batch")) if batch else None,
        workers=workers,
    )
    tracing.check_outputs(outputs, compares=bool(diff))
    if diff:
        _compare(diff, options)
        return
    result = _studied(list(files), options)
    fit = fit_of(result)
    after = next_commands(result, links=bool(links), batch=bool(batch), outputs=outputs)
    output_formats.show(
        View(
            document=lambda: document(result, fit),
            rows="collectives",
            brief=lambda: brief(result, next_commands=after),
            below=lambda canvas: report.write(result, canvas, fit=fit),
            following=after,
        )
    )
    _write(result, outputs)


def _compare(runs: tuple[str, str], options: Options) -> None:
    """Write how two runs differ."""
    found = difference(*(_studied([run], options) for run in runs))
    if not output_formats.write(lambda: difference_document(found), "changes"):
        canvas = output.canvas()
        write_difference(found, canvas)
        output.write(canvas.text)
    if not found.changes:
        raise WeakEvidenceError(
            "no collective of one run has a partner in the other, so nothing can be compared", where="--diff",
            allowed="the same collectives, sizes and ranks", do="where sizes are unknown, give --model and --batch",
        )  # fmt: skip


def _studied(names: list[str], options: Options) -> Study:
    """Return the study of one run, with a line of progress on a terminal."""
    with reading() as tell:
        return study(names, replace(options, progress=tell))


def _write(result: Study, outputs: tuple[str, ...]) -> None:
    """Write the tracks and the page."""
    for name in outputs:
        if name.endswith(".json"):
            from nhalf.report.trace_tracks import tracks

            write_text(Path(name), tracks(result.timeline))
        elif name.endswith(".toml"):
            for text in cluster_file.write(Path(name), cluster_file.of_trace(result, date=cluster_file.today())):
                output.tell(text)
        else:
            from nhalf.report.trace_page import page

            write_text(Path(name), page(result))
