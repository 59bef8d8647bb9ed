"""`nhalf trace`: what communication cost in a run that a profiler watched."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nhalf import units
from nhalf.catalog import build, reading, stated, store
from nhalf.catalog import files as catalogue
from nhalf.cli import following, forms, output
from nhalf.cli.help_pages import Grouped
from nhalf.collective import Op
from nhalf.decide.observed import fit_of
from nhalf.errors import InputError, WeakEvidenceError
from nhalf.loading.files import read_json, read_text, write_text
from nhalf.loading.links import link as read_link
from nhalf.printable import shown
from nhalf.report import trace as report
from nhalf.report import trace_difference
from nhalf.report.trace_brief import brief
from nhalf.report.trace_document import difference_document, document
from nhalf.report.view import View
from nhalf.trace import pricing
from nhalf.trace.difference import difference
from nhalf.trace.study import Options, Study, study

if TYPE_CHECKING:
    from nhalf.link import Link
    from nhalf.trace.fixed import Pricing

_ELEMENT_BYTES = 2.0  # activations are summed in 16 bits by every engine that is read here
_TWO = 2


@click.command(cls=Grouped)
@click.argument("files", nargs=-1, metavar="FILES...")
@click.option("--links", metavar="LINK|FIT",
              help='"5us,400GB/s", a link of the catalogue, or a file of nhalf fit: JSON or links.toml.')  # fmt: skip
@click.option("--model", metavar="MODEL", help="Sizes where the trace has none: a name or a config.json, with --batch.")
@click.option("--batch", metavar="N", help="Sequences that decode together: sizes with --model, and tokens/s.")
@click.option("--step", metavar="REGEX", help="The marks that are steps, where the profiler marked none.")
@click.option("--patterns", multiple=True, metavar="FILE", help="More kernels that are communication (TOML).")
@click.option("--diff", nargs=2, metavar="BEFORE AFTER", help="Compare two runs: files or folders.")
@click.option("-o", "--output", "outputs", multiple=True, metavar="FILE",
              help="Also write: .json wait tracks for Perfetto, .html a page; may be repeated.")  # fmt: skip
@click.option("--workers", type=click.IntRange(min=1), help="Files read at once.  [default: all cores]")
@forms.option
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
        step=_regex(step),
        sizes=_sizes(model, batch),
        price=_price(links),
        tokens_per_step=float(units.parse_count(batch, where="--batch")) if batch else None,
        workers=workers,
    )
    _check(outputs if not diff else ())
    if diff and outputs:
        raise InputError("a comparison writes no file", where="-o", do="leave -o out, or --diff")
    if diff:
        _compare(diff, options)
        return
    result = _studied(list(files), options)
    fit = fit_of(result)
    after = _next(result, links=bool(links), batch=bool(batch), outputs=outputs)
    forms.show(
        View(
            document=lambda: document(result, fit),
            rows="collectives",
            brief=lambda: brief(result, next_commands=after),
            detail=lambda canvas: report.write(result, canvas, next_commands=after, fit=fit),
        )
    )
    _write(result, outputs)


def _compare(runs: tuple[str, str], options: Options) -> None:
    """Write how two runs differ."""
    found = difference(*(_studied([run], options) for run in runs))
    if not forms.write(lambda: difference_document(found), "changes"):
        canvas = output.canvas()
        trace_difference.write(found, canvas)
        output.write(canvas.text)
    if not found.changes:
        raise WeakEvidenceError(
            "no collective of one run has a partner in the other, so nothing can be compared", where="--diff",
            allowed="the same collectives, sizes and ranks", do="where sizes are unknown, give --model and --batch",
        )  # fmt: skip


def _studied(names: list[str], options: Options) -> Study:
    """Return the study of one run, with a line of progress on a terminal."""
    if not sys.stderr.isatty():
        return study(names, options)
    done: list[str] = []

    def tell(name: str) -> None:
        done.append(name)
        click.echo(f"\rread {len(done)} files, {shown(name)[:60]:<60}", nl=False, err=True)

    try:
        return study(names, replace(options, progress=tell))
    finally:
        click.echo("\r" + " " * 90 + "\r", nl=False, err=True)


def _regex(text: str | None) -> str | None:
    """Return the marker's expression, checked."""
    if text is not None:
        try:
            re.compile(text)
        except re.error as error:
            raise InputError(
                f"{text!r} is no regular expression: {error}", where="--step", allowed="ProfilerStep#"
            ) from error
    return text


def _sizes(model: str | None, batch: str | None) -> dict[Op, float] | None:
    """Return the bytes of an all-reduce by the model: the hidden vectors of the batch."""
    if model is None:
        return None
    if batch is None:
        raise InputError("--model needs --batch to say a size", where="nhalf trace", do="add --batch 8")
    return {Op.ALL_REDUCE: _hidden_size(model) * units.parse_count(batch, where="--batch") * _ELEMENT_BYTES}


def _hidden_size(model: str) -> int:
    """Return the hidden size of a built-in model or of a config.json; nothing else of the config is asked."""
    path = Path(model)
    path = path / "config.json" if path.is_dir() else path
    if path.suffix != ".json":
        return store.transformer(model, where="--model")[0].hidden_size
    config = read_json(path)
    text = config.get("text_config")
    found = config.get("hidden_size") or (text.get("hidden_size") if isinstance(text, dict) else None)
    if not isinstance(found, int) or isinstance(found, bool) or found <= 0:
        raise InputError("the config says no hidden_size", where=str(path), allowed="a positive whole number")
    return found


def _price(links: str | None) -> Pricing | None:
    """Return the prices of the links or the fit."""
    if links is None:
        return None
    path = Path(links)
    if path.suffix == ".toml":
        return pricing.of_link(_link_in(path))
    if path.suffix == ".json" or path.is_file():
        return pricing.of_fits(read_json(path), str(path))
    parts = [part for part in re.split(r"[,\s]+", links.strip()) if part]
    if len(parts) > _TWO or not parts:
        raise InputError(f"{links!r} is no link", where="--links", allowed='"5us,400GB/s", one name, or a fit.json')
    return pricing.of_link(read_link(parts)[0])


def _link_in(path: Path) -> Link:
    """Return the link of a file such as `nhalf fit -o links.toml` writes: that inside a node, or else across nodes."""
    found = stated.links_in(reading.parse(read_text(path), where=str(path), dates=catalogue.dates()), where=str(path))
    for name in ("intra-node", "inter-node"):
        if name in found:
            return build.link(found[name], where=f"{path}: {name}")[0]
    raise InputError("no link is named after a tier", where=str(path), allowed="intra-node, inter-node",
                     do="write it with nhalf fit -o links.toml")  # fmt: skip


def _check(outputs: tuple[str, ...]) -> None:
    """Refuse an output that is neither kind, before the work is done."""
    for name in outputs:
        if Path(name).suffix not in (".json", ".html"):
            raise InputError(f"{name!r} has no known ending", where="-o", allowed=".json (Perfetto), .html (page)")


def _write(result: Study, outputs: tuple[str, ...]) -> None:
    """Write the tracks and the page."""
    for name in outputs:
        if name.endswith(".json"):
            from nhalf.report.trace_tracks import tracks

            write_text(Path(name), tracks(result.timeline))
        else:
            from nhalf.report.trace_page import page

            write_text(Path(name), page(result))


def _links_of(result: Study) -> list[str]:
    """Return how the links of a run become known: invented ones, or another machine's, would price another run."""
    if any(row.kind.family == "gloo" for row in result.rows):
        return ["nhalf measure --backend gloo -o run.json", "nhalf fit run.json -o links.toml"]
    return ["nhalf fit nccl-tests.log -o links.toml  # the log of nccl-tests on these ranks"]


def _next(result: Study, *, links: bool, batch: bool, outputs: tuple[str, ...]) -> list[str]:
    """Return the commands to run next, or what they lack."""
    if not result.timeline.waits_known or not result.timeline.meetings.whole:
        return ["# the same, and the other ranks' files"]
    if any(row.kind.size_bytes is None for row in result.rows) and not batch:
        sized = following.command("trace", {"--model": "config.json", "--batch": 8})
        return [f"{sized}  # with your model and batch"]
    if not links and any(row.line is None for row in result.rows):
        return [*_links_of(result), following.command("trace", {"--links": "links.toml"})]
    if not outputs:
        return [following.command("trace", {"--output": ("report.html", "tracks.json")})]
    return ["# to compare two runs: nhalf trace --diff BEFORE AFTER"]
