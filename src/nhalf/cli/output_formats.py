"""Forms of an answer: a page for people, or with `--json`, `--csv`, `--md` its document or the rows of its table.

A command adds `@forms.option` and asks `forms.write(make, rows)` before it writes its page; the flags stay in click's
context, so that no function between has to hand them on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from nhalf.cli import output
from nhalf.errors import InputError
from nhalf.report.view import Brief, View, rows_of, write_brief, write_everything

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.report.view import Rows

Command = TypeVar("Command", bound="Callable[..., Any]")
Document = dict[str, Any]
_ASKED: Final = "nhalf.forms"


def _keep(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    """Keep a flag that is given in the context.

    Raises
    ------
    InputError
        More than one form is asked for.
    """
    if not given:
        return
    asked = context.meta.setdefault(_ASKED, parameter.name)
    if asked != parameter.name:
        raise InputError("more than one form is asked for", where="--json, --csv, --md", allowed="one of them")


_DETAIL: Final = "nhalf.detail"


def _keep_detail(context: click.Context, _parameter: click.Parameter, given: bool) -> None:
    """Keep in the context that everything is asked for."""
    context.meta[_DETAIL] = given


_FLAGS: Final = {
    "json": "Print the document of the contract.", "csv": "Print the rows as CSV.",
    "md": "Print the rows as a Markdown table.",
}  # fmt: skip


def option(command: Command) -> Command:
    """Add the flags of the form of the answer."""
    command = click.option(
        "--detail", is_flag=True, expose_value=False, callback=_keep_detail, help="Print everything, not one screen."
    )(command)
    for name, text in reversed(_FLAGS.items()):
        flag = click.option(f"--{name}", is_flag=True, expose_value=False, callback=_keep, help=text)
        command = flag(command)
    return command


def asked() -> str:
    """Return which form is asked for: `json`, `csv`, `md`, or nothing for a page."""
    context = click.get_current_context(silent=True)
    found: str = context.meta.get(_ASKED, "") if context is not None else ""
    return found


def everything() -> bool:
    """Tell whether everything is asked for, not one screen."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_DETAIL))


def show(view: View) -> None:
    """Write an answer in the form that is asked for: a document, its rows, the first screen, or everything."""
    if (kept := output.keeping()) is not None:
        kept.views.append(view)
        return
    if write(view.document, view.rows):
        return
    canvas = output.canvas()
    if everything():
        write_everything(view, canvas)
    else:
        write_brief(view.brief(), canvas)
    if view.asked_too is not None:
        view.asked_too(canvas)
    output.write(canvas.text)


def write(make: Callable[[], Document], rows: Rows, found: object | None = None) -> bool:
    """Write the document that `make` returns in the form that is asked for; return whether one was.

    `found` is what the command found, for those who ask in Python.
    """
    if (kept := output.keeping()) is not None:
        view = View(document=make, rows=rows, brief=lambda: Brief(verdict=[kept.text.strip()]), found=found)
        kept.views.append(view)
        return False
    form = asked()
    if not form:
        return False
    document = make()
    if form == "json":
        output.write_json(document)
        return True
    from nhalf.report.document import to_csv, to_markdown

    table = rows_of(document, rows)
    output.write(to_csv(table) if form == "csv" else to_markdown(table))
    return True
