"""`nhalf decode`: the time per token of a model on a system."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nhalf import loading
from nhalf.cli import flags, output, output_formats, page_file
from nhalf.cli import next_command as to_follow
from nhalf.cli.help_pages import Grouped
from nhalf.decide.comparison import compare
from nhalf.files.writing import write_text
from nhalf.loading.buying import within_a_node
from nhalf.loading.degrees import FLAGS
from nhalf.loading.readers import not_empty
from nhalf.loading.scenario_file import write_request
from nhalf.report import decode as report
from nhalf.report.decode_parts import write_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.comparison import Comparison
    from nhalf.report.canvas import Canvas
    from nhalf.report.page import Page
    from nhalf.scenario import Scenario


@click.command(cls=Grouped)
@click.argument("model")
@flags.inputs("decode")
@click.option("--anchor", "anchors", multiple=True, metavar="POINT", help="A measured step: 'tp=8,batch=16: 9.8ms'.")
@click.option("--explain", is_flag=True, help="Print the whole term tree of each row.")
@click.option("--save", metavar="FILE", help="Write the request as a scenario file.")
@page_file.option
@output_formats.option
def decode(
    model: str,
    explain: bool,
    save: str | None,
    anchors: tuple[str, ...],
    pages: tuple[str, ...],
    **given: Any,  # noqa: ANN401  click's flags
) -> None:
    """Predict the time per token of MODEL: a name, a config.json (or its folder), or a scenario.toml."""
    not_empty({"--save": save})
    request = flags.request(model, given, prefills=True)
    taken: tuple[loading.Default, ...] = ()
    if request.degrees == loading.Degrees() and request.model == model and all(given[name] is None for name in FLAGS):
        request, taken = within_a_node(request)
    loaded = loading.scenarios(request)
    loaded = replace(loaded, defaults=(*taken, *loaded.defaults))
    for warning in loaded.warnings:
        output.warn(warning)
    launched = request.mode is not None and "mode" not in request.assumed
    scenarios = _anchored(loaded.scenarios, anchors)
    peers = () if anchors else loading.with_peers(request)
    comparison = compare(scenarios, cache_link=loaded.cache_link, launched=launched, with_peers=peers)
    following = _next(request, comparison)
    view = report.view(comparison, loaded.defaults, loaded.warnings, next_command=following)
    output_formats.show(replace(view, asked_too=lambda canvas: _trees(comparison, canvas)) if explain else view)
    page_file.write(pages, lambda: _page(comparison, loaded))
    if save:
        write_text(Path(save), write_request(loaded.request, loaded.scenarios, folder=Path(save).parent))
        if anchors:
            output.warn("the anchors are not part of the saved request")
    comparison.require_fit()


def _trees(comparison: Comparison, canvas: Canvas) -> None:
    """Write the whole term tree of each row."""
    for row in comparison.rows:
        write_tree(row.step, canvas, f"{row.layout_name}, batch {row.batch:g}, term by term")


def _anchored(scenarios: Sequence[Scenario], anchors: tuple[str, ...]) -> Sequence[Scenario]:
    """Return the scenarios with their constants pulled to measured steps, if there are any."""
    if not anchors:
        return scenarios
    from nhalf.calibrate.anchor import anchored, parse_anchor

    return anchored(scenarios, [parse_anchor(text) for text in anchors], output.warn)


def _page(comparison: Comparison, loaded: loading.Loaded) -> Page:
    """Return the page of a comparison; its module is loaded only when one is asked for."""
    from nhalf.report.decode_page import page

    return page(comparison, loaded.defaults, loaded.warnings)


def _next(request: loading.Request, comparison: Comparison) -> str:
    """Return the command to run next: the same at three batches, or each term of it, or on so many devices as fit."""
    if all(row.fits_memory == "no" for row in comparison.rows):
        row = min(comparison.rows, key=lambda each: each.memory_bytes)
        degree = row.tp * 2 ** math.ceil(math.log2(row.memory_bytes / row.memory.usable_bytes))
        return to_follow.command("decode", {"--tp": degree})
    if request.batches is not None and len(request.batches) > 1:
        return to_follow.command("decode", {"--explain": True})
    return to_follow.command("decode", {"--batch": "1,16,128"})
