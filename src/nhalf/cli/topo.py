"""`nhalf topo`: the matrix of `nvidia-smi topo -m` as links."""

from __future__ import annotations

from pathlib import Path

import click

from nhalf.catalog import store
from nhalf.catalog.topology import GENERATIONS, lender, machine
from nhalf.cli import flags, output, output_formats
from nhalf.cli.help_pages import Grouped
from nhalf.cli.quantities import Count
from nhalf.evidence.readers.detection import parsed
from nhalf.evidence.readers.source import sources
from nhalf.evidence.readers.topo import read
from nhalf.report import cluster_file
from nhalf.report import topo as report


@click.command(cls=Grouped)
@click.argument("source")
@click.option("--on", "--like", "system", metavar="SYSTEM",
              help="A system with these GPUs: says how fast an NVLink is.")  # fmt: skip
@click.option(
    "--pcie", type=Count(), metavar="N", help=f"Generation of the slots: {', '.join(map(str, GENERATIONS))}.  [assumed]"
)
@click.option("-o", "--output", "--save", "save", metavar="FILE.toml",
              help="Write the machine into a cluster file, for --on; a new one is like SYSTEM.")  # fmt: skip
@output_formats.option
def topo(source: str, system: str | None, pcie: int | None, save: str | None) -> None:
    """Read `nvidia-smi topo -m` from SOURCE (a file, or - for standard input) into links.

    Read are `rocm-smi --showtopo` and `amd-smi topology` as well. Each cell becomes a link under the tool's letters,
    and the weakest edge of the ring of GPUs is named.
    """
    log = sources(source)[0][0]
    if save:
        flags.written_as(save, ".toml", "a cluster file, which is TOML")
        system = system or cluster_file.like_of(Path(save))
    found = machine(parsed(log, lambda text: read(text, where=log.name)), on=system, pcie=pcie)
    if save:
        like = store.find("system", system, where="--on") if system else ""
        lent = lender(found, like) if like else ""
        told = cluster_file.write(Path(save), report.tables(found, lender=lent), like=like)
        curves = f"the curves measured on {lent} stand in" if lent else "no measured curve stands in on these links"
        output.tell(f"wrote {save} ({'; '.join([curves, *told])}): nhalf decode MODEL --on {save}")
    if output_formats.write(lambda: report.document(found), "links"):
        return
    canvas = output.canvas()
    report.write(found, canvas, whole=output_formats.everything())
    output.write(canvas.text)
