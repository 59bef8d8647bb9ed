"""`nhalf catalog`: what nhalf knows, every value with its source."""

from __future__ import annotations

import click

from nhalf.catalog import listing
from nhalf.cli import output, output_formats
from nhalf.cli.help_pages import Grouped
from nhalf.decide.ladder import hierarchy
from nhalf.report import catalog as report


@click.command(cls=Grouped)
@click.argument("kind", required=False)
@click.argument("name", required=False)
@output_formats.option
def catalog(kind: str | None, name: str | None) -> None:
    """List what is known, or show every value of one thing with its source.

    KIND is one of systems, devices, links, fabrics, libraries, engines, models, hierarchy, curves, sources (one or
    many).
    NAME is an id or another name of it; of curves, any part of SYSTEM/LIBRARY VERSION/MODE/OP.

    NHALF_CATALOG names a file or folder of your own: it adds to what is known, and overrides it.
    """
    meant = None if kind is None else listing.kind_of(kind)
    listed = listing.entries(meant, name)
    yours = listing.yours()
    rungs = hierarchy(listing.rungs()) if meant == "hierarchy" and name is None else []
    if output_formats.write(lambda: report.document(listed, yours=yours, rungs=rungs), report.rows):
        return
    canvas = output.canvas()
    whole = output_formats.everything()
    report.write(listed, canvas, named=name is not None, yours=yours, rungs=rungs, whole=whole)
    output.write(canvas.text)
