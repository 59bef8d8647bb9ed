"""`nhalf crossover`: from which batch on a model's collectives pay for their bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nhalf import units
from nhalf.cli import flags, next_command, output_formats
from nhalf.cli.help_pages import Grouped
from nhalf.decide.regime import of_link, turns
from nhalf.errors import InputError
from nhalf.loading.crossover import load
from nhalf.loading.links import link_of
from nhalf.loading.model import model_of
from nhalf.report import crossover as report
from nhalf.report import crossover_brief
from nhalf.report.view import View

if TYPE_CHECKING:
    from nhalf.decide.regime import Turn
    from nhalf.report.view import Brief


@click.command(cls=Grouped)
@click.argument("model")
@flags.inputs("crossover")
@click.option("--link", metavar="LINK", help="A bare link instead of a system: 5us,400GB/s, or one of the catalogue.")
@output_formats.option
def crossover(model: str, link: str | None, **given: str | None) -> None:
    """Say from which batch on the collectives of MODEL turn from latency to bandwidth, by both measures of it."""
    if link is not None:
        stated = [flag for flag, value in given.items() if value]
        if stated:
            raise InputError(f"a bare link has no {stated[0]}", where="--link", do="leave it out, or leave --link out")
        _of_link(model, link)
        return
    degrees = None if given["tp"] is None else units.parse_int_list(given["tp"], where="--tp")
    scenarios, told = load(flags.request(model, {**given, "tp": None}), degrees=degrees)
    found = turns(scenarios)
    after = _next(report.leading(found))

    def first() -> Brief:
        return crossover_brief.brief(found, scenarios, told, next_command=after[1])

    output_formats.show(
        View(
            document=lambda: report.document(found, model, first(), told),
            rows="crossovers",
            brief=first,
            below=lambda canvas: report.write(found, canvas, told),
            following=after,
        )
    )


def _of_link(model: str, text: str) -> None:
    """Answer for a bare link."""
    transformer = model_of(model)[0]
    found = of_link(transformer, link_of(text, where="--link"), text)
    after = next_command.command("crossover", {"--link": None, "--on": "h100-sxm"})

    blocks = transformer.block_count
    output_formats.show(
        View(
            document=lambda: report.document_of_link(found, transformer.name, blocks),
            rows="crossovers",
            brief=lambda: crossover_brief.of_link(found, transformer.name, blocks, next_command=after),
        )
    )


def _next(lead: Turn) -> tuple[str, str]:
    """Return the commands to run next: the step with the group of the verdict, and its all-reduce by size."""
    degree, on = lead.crossover.ranks, {"--on": lead.system}
    all_reduce = {"op": "all-reduce", "--ranks": degree, "--library": lead.library}
    return (
        next_command.command("decode", {**on, "--tp": degree, "--batch": "1,16,128"}),
        next_command.command("collective", {**on, **all_reduce}),
    )
