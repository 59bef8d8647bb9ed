"""The next command: one of nhalf's, with the flags of the command line that is being answered.

A flag that the next command has too is carried over, so that its answer is about the same question. Flags of where an
answer goes are not: they are of this answer.
"""

from __future__ import annotations

import shlex
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_OF_THE_ANSWER: Final = ("--json", "--csv", "--md", "--output", "--save", "--timeline", "--explain", "--all")
"""Flags of the form of an answer, and of the files that it is written to."""


def command(name: str, changed: Mapping[str, object] | None = None) -> str:
    """Return the command line of a command of nhalf, with what was typed of this one's flags that it has too.

    `changed` maps flags (`--tp`) and arguments (`model`) to the values to put there instead: None leaves one out, True
    writes the flag alone, a tuple repeats it.
    """
    typed = dict(_typed())
    if (changed or {}).get("--batch") is not None:
        typed = {key: value for key, value in typed.items() if key not in ("--users", "--rate")}  # one says the load
    values = {**typed, **(changed or {})}
    words = ["nhalf", *name.split()]
    for param in sorted(_command(name).params, key=lambda param: _key(param) in _OF_THE_ANSWER):
        key = _key(param)
        if key in values and (key not in _OF_THE_ANSWER or key in (changed or {})):
            words += _words(param, values[key])
    return shlex.join(words)


def _command(name: str) -> click.Command:
    """Return a command by its name; that of `nhalf simulate` is one of its two."""
    *_, last = name.split()
    module = {"simulate decode": "simulate_decode", "simulate": "simulate"}.get(name, last)
    found = getattr(import_module(f"nhalf.cli.{module}"), "collective" if name == "simulate" else last)
    if not isinstance(found, click.Command):
        raise TypeError(name)
    return found


def _typed() -> Iterator[tuple[str, Any]]:
    """Yield the flags and arguments that were typed, with their values."""
    context = click.get_current_context(silent=True)
    if context is None:
        return
    for param in context.command.params:
        if param.name is None or context.get_parameter_source(param.name) is not ParameterSource.COMMANDLINE:
            continue
        if param.name in context.params:
            yield _key(param), context.params[param.name]


def _key(param: click.Parameter) -> str:
    """Return the longest spelling of a flag, or the name of an argument."""
    return max(param.opts, key=len)


def _words(param: click.Parameter, value: Any) -> list[str]:  # noqa: ANN401  whatever a flag holds
    """Return the words that state one flag or argument."""
    if value is None or value is False:
        return []
    several = value if isinstance(value, tuple | list) else (value,)
    if isinstance(param, click.Argument):
        return [str(each) for each in several]
    if value is True:
        return [param.opts[0]]
    return [word for each in several for word in (param.opts[0], str(each))]
