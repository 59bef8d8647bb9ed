"""`-o FILE`: an answer as a page or a figure, for every command that has one.

A command adds `@page_file.option`, takes `pages`, and ends with
`page_file.write(pages, lambda: <command>_page.page(answer))`: nothing is imported or made where no file is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nhalf.report.page import Page


def write(files: Sequence[str], make: Callable[[], Page]) -> None:
    """Write an answer to each of the files, and say on standard error which they are."""
    if not files:
        return
    from nhalf.cli import output
    from nhalf.report import export

    for file in files:
        export.write(file, make, command=export.typed())
        output.tell(f"wrote {file}")


def is_page(file: str) -> bool:
    """Tell whether a file is a page or a figure by its name, for commands whose `-o` writes other files too."""
    return file.lower().endswith((".html", ".svg", ".png"))


def check(files: Sequence[str]) -> None:
    """Refuse files that cannot be made before any work is done.

    Raises
    ------
    InputError
        One is neither a page nor a figure, or the extra [report] is not installed.
    """
    if files:
        from nhalf.report import export

        for file in files:
            export.check(file)


def _checked(_context: click.Context, _parameter: click.Parameter, files: tuple[str, ...]) -> tuple[str, ...]:
    check(files)
    return files


option = click.option(
    "-o",
    "--output",
    "pages",
    multiple=True,
    metavar="FILE",
    callback=_checked,
    help="A page (report.html) or a figure (NAME.svg, NAME.png; NAME picks which). Needs nhalf[report].",
)
