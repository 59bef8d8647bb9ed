"""`nhalf topo`: the matrix of `nvidia-smi topo -m` as links."""

from __future__ import annotations

import re
from pathlib import Path

import click

from nhalf.catalog import store
from nhalf.catalog.topology import GENERATIONS, lender, machine
from nhalf.cli import output, output_formats
from nhalf.cli.help_pages import Grouped
from nhalf.cli.quantities import Count
from nhalf.errors import InputError
from nhalf.evidence.readers.detection import parsed
from nhalf.evidence.readers.source import sources
from nhalf.evidence.readers.topo import read
from nhalf.files.writing import write_text
from nhalf.report import topo as report


@click.command(cls=Grouped)
@click.argument("source")
@click.option("--on", "system", metavar="SYSTEM", help="A system with these GPUs: says how fast an NVLink is.")
@click.option(
    "--pcie", type=Count(), metavar="N", help=f"Generation of the slots: {', '.join(map(str, GENERATIONS))}.  [assumed]"
)
@click.option("--save", metavar="FILE", help="Write the machine as a system like SYSTEM, for NHALF_CATALOG.")
@output_formats.option
def topo(source: str, system: str | None, pcie: int | None, save: str | None) -> None:
    """Read `nvidia-smi topo -m` from SOURCE (a file, or - for standard input) into links.

    Read are `rocm-smi --showtopo` and `amd-smi topology` as well. Each cell becomes a link under the tool's letters,
    and the weakest edge of the ring of GPUs is named.
    """
    if save and not system:
        do = "add --on SYSTEM: the system of the catalogue that the rest of yours is like"
        raise InputError("--save is given without --on", where="--save", do=do)
    log = sources(source)[0][0]
    found = machine(parsed(log, lambda text: read(text, where=log.name)), on=system, pcie=pcie)
    if save and system:
        name = "-".join(re.findall(r"[a-z0-9]+", Path(save).stem.casefold())) or "my-box"
        like = store.find("system", system, where="--on")
        lent = lender(found, like)
        write_text(Path(save), report.catalogue(found, name=name, like=like, lender=lent))
        curves = f"the curves measured on {lent} stand in" if lent else "no measured curve stands in on these links"
        output.tell(f"{save} holds the system {name} ({curves}):")
        output.tell(f"NHALF_CATALOG={save} nhalf decode MODEL --on {name}")
    if output_formats.write(lambda: report.document(found), "links"):
        return
    canvas = output.canvas()
    report.write(found, canvas, whole=output_formats.everything())
    output.write(canvas.text)
