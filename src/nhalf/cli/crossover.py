"""`nhalf crossover`: from which batch on a model's collectives pay for their bytes."""

from __future__ import annotations

import click

from nhalf import units
from nhalf.cli import forms, output
from nhalf.decide.crossovers import turns
from nhalf.errors import InputError
from nhalf.loading import Request
from nhalf.loading.crossover import load
from nhalf.report import crossover as report


@click.command()
@click.argument("model")
@click.option("--on", "systems", metavar="SYSTEM[,SYSTEM]", help="Systems of the catalogue.")
@click.option("--tp", metavar="LIST", help="Tensor-parallel degrees.  [default: those of 2,4,8,16 that are legal]")
@click.option("--library", metavar="NAME", help="One library.  [default: all that were measured there]")
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
    report.write(found, model, canvas)
    output.write(canvas.text)
