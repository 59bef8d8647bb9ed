"""`nhalf explain`: what a word on the screens means."""

from __future__ import annotations

import click

from nhalf.cli import forms, output
from nhalf.report import glossary


@click.command()
@click.argument("words", nargs=-1, metavar="[WORD]")
@forms.option
def explain(words: tuple[str, ...]) -> None:
    r"""Say what a WORD means: a column, a marker, a note or a constant; without one, list them all.

    \b
      nhalf explain crossover
      nhalf explain per-layer overhead
    """
    entry = glossary.find(" ".join(words)) if words else None
    shown = [entry] if entry is not None else list(glossary.entries().values())
    if forms.write(lambda: glossary.document(shown), "words"):
        return
    canvas = output.canvas()
    if entry is None:
        glossary.write_list(canvas)
    else:
        glossary.write(entry, canvas)
    output.write(canvas.text)
