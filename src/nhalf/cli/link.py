"""`nhalf link`: what one message costs on a link."""

from __future__ import annotations

import click

from nhalf import units
from nhalf.cli import output_formats
from nhalf.cli.quantities import WithQuantities
from nhalf.decide.ladder import ladder
from nhalf.errors import InputError
from nhalf.loading.links import link as read_link
from nhalf.report import link as report
from nhalf.report.view import View

_TWO = 2


@click.command(cls=WithQuantities)
@click.argument("link_or_latency", nargs=-1, metavar="LATENCY BANDWIDTH | NAME", required=True)
@click.option("--size", "sizes", multiple=True, metavar="SIZE", help="A message size such as 16KiB; may be repeated.")
@output_formats.option
def link(link_or_latency: tuple[str, ...], sizes: tuple[str, ...]) -> None:
    """Say what a message costs: t(n) = alpha + n / beta, its regime, n_1/2 and a ladder of sizes."""
    if len(link_or_latency) > _TWO:
        raise InputError("too many arguments", where="nhalf link", allowed="LATENCY BANDWIDTH, or one catalogue name")
    found, origins = read_link(link_or_latency)
    asked = [units.parse(size, "size", where="--size") for size in sizes]
    points = ladder(found, asked)
    name = " ".join(link_or_latency)
    shown = [point for point in points if point.asked] or points
    output_formats.show(
        View(
            document=lambda: report.document(name, found, shown, origins),
            rows="points",
            brief=lambda: report.brief(name, found, points),
            below=lambda canvas: report.write(found, points, origins, canvas),
            found=found,
        )
    )
