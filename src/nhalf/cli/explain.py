"""`nhalf explain`: what a word on the screens means."""

from __future__ import annotations

import click

from nhalf.cli import output, output_formats
from nhalf.cli.help_pages import Grouped
from nhalf.report import glossary


@click.command(cls=Grouped)
@click.argument("words", nargs=-1, metavar="[WORD]")
@output_formats.option
def explain(words: tuple[str, ...]) -> None:
    """Say what a WORD means: a column, a marker, a note or a constant; without one, list them all."""
    entry = glossary.find(" ".join(words)) if words else None
    shown = [entry] if entry is not None else list(glossary.entries().values())
    if output_formats.write(lambda: glossary.document(shown), "words"):
        return
    canvas = output.canvas()
    if entry is None:
        glossary.write_list(canvas, keys=output_formats.everything())
    else:
        glossary.write(entry, canvas)
    output.write(canvas.text)
