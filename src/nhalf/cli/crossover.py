"""`nhalf crossover`: from which batch on a model's collectives pay for their bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nhalf import units
from nhalf.cli import following, forms, output
from nhalf.decide.crossovers import turns
from nhalf.errors import InputError
from nhalf.loading import Request
from nhalf.loading.crossover import load
from nhalf.report import crossover as report

if TYPE_CHECKING:
    from nhalf.decide.crossovers import Turn


@click.command()
@click.argument("model")
@click.option("--on", "systems", metavar="SYSTEM[,SYSTEM]", help="Systems of the catalogue.")
@click.option("--tp", metavar="LIST", help="Tensor-parallel degrees.  [default: those of 2,4,8,16 that are legal]")
@click.option(
    "--library", metavar="NAME", help="One of `nhalf catalog libraries`.  [default: all that were measured there]"
)
@click.option("--mode", metavar="MODE", help="graph, eager or host.  [default: graph, and host for NCCL]")
@forms.option
def crossover(model: str, systems: str | None, tp: str | None, library: str | None, mode: str | None) -> None:
    """Say from which batch on the collectives of MODEL turn from latency to bandwidth, by both measures of it."""
    if systems is None:
        raise InputError(
            "the system is missing", where="--on", do="add --on h100-sxm; `nhalf catalog` lists the others"
        )
    request = Request(model=model, systems=tuple(systems.split(",")), library=library, mode=mode)
    degrees = None if tp is None else units.parse_int_list(tp, where="--tp")
    found = turns(load(request, degrees=degrees))
    if forms.write(lambda: report.document(found, model), "crossovers"):
        return
    canvas = output.canvas()
    report.write(found, model, canvas, next_commands=_next(report.leading(found)))
    output.write(canvas.text)


def _next(lead: Turn) -> tuple[str, str]:
    """Return the commands to run next: the step with the group of the verdict, and its all-reduce by size."""
    degree, on = lead.crossover.ranks, {"--on": lead.system}
    all_reduce = {"op": "all-reduce", "--ranks": degree, "--library": lead.library}
    return (
        following.command("decode", {**on, "--tp": degree, "--batch": "1,16,128"}),
        following.command("collective", {**on, **all_reduce}),
    )
