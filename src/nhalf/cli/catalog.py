"""`nhalf catalog`: what nhalf knows, every value with its source."""

from __future__ import annotations

import click

from nhalf.catalog.listing import entries
from nhalf.cli import output
from nhalf.report import catalog as report


@click.command()
@click.argument("kind", required=False)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the document of the contract.")
def catalog(kind: str | None, name: str | None, as_json: bool) -> None:
    """List the systems, engines, libraries, links and models, or show the values of one."""
    listed = entries(kind, name)
    if as_json:
        output.write_json(report.document(listed))
        return
    canvas = output.canvas()
    report.write(listed, canvas)
    output.write(canvas.text)
