"""`nhalf crossover`: from which batch on a model's collectives pay for their bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nhalf import units
from nhalf.cli import flags, following, forms
from nhalf.decide.crossovers import turns
from nhalf.loading.crossover import load
from nhalf.report import crossover as report
from nhalf.report.crossover_brief import brief
from nhalf.report.view import View

if TYPE_CHECKING:
    from nhalf.decide.crossovers import Turn


@click.command()
@click.argument("model")
@flags.inputs("crossover")
@forms.option
def crossover(model: str, **given: str | None) -> None:
    """Say from which batch on the collectives of MODEL turn from latency to bandwidth, by both measures of it."""
    degrees = None if given["tp"] is None else units.parse_int_list(given["tp"], where="--tp")
    loaded = load(flags.request(model, {**given, "tp": None}), degrees=degrees)
    found = turns(loaded)
    following_ones = _next(report.leading(found))
    calls = loaded[0].transformer.block_count
    forms.show(
        View(
            document=lambda: report.document(found, model),
            rows="crossovers",
            brief=lambda: brief(found, model, calls=calls, next_command=following_ones[0]),
            detail=lambda canvas: report.write(found, model, canvas, next_commands=following_ones),
        )
    )


def _next(lead: Turn) -> tuple[str, str]:
    """Return the commands to run next: the step with the group of the verdict, and its all-reduce by size."""
    degree, on = lead.crossover.ranks, {"--on": lead.system}
    all_reduce = {"op": "all-reduce", "--ranks": degree, "--library": lead.library}
    return (
        following.command("decode", {**on, "--tp": degree, "--batch": "1,16,128"}),
        following.command("collective", {**on, **all_reduce}),
    )
