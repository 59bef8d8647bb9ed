"""Asking: a command of the command line, run in this process, whose answer comes back as a view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nhalf.cli import nhalf as commands
from nhalf.cli import output
from nhalf.errors import InputError, NoAnswerError, did_you_mean
from nhalf.report.view import Said

if TYPE_CHECKING:
    from collections.abc import Mapping


def ask(name: str, *arguments: object, **flags: object) -> Said:
    """Return the answer of a command: arguments as on its line, flags by their names with `_` for `-`.

    A list is what commas part, or several of a flag that may be repeated; True sets a switch; None leaves a flag out.

    >>> ask("link", "5us", "400GB/s").view.document()["half_size_bytes"]
    2000000.0

    Raises
    ------
    InputError
        A flag that the command does not have, or what the command refuses.
    """
    command = commands.get_command(click.Context(commands), name)
    if command is None:
        raise InputError(f"there is no command {name!r}", where="nhalf")
    asked = command
    if isinstance(command, click.Group):  # `simulate`, whose operations have flags of their own
        asked = command.get_command(click.Context(command), str(arguments[0]) if arguments else "") or command
    with output.kept() as kept:
        try:
            command.main(
                [*map(str, arguments), *_words(asked, flags)], prog_name=f"nhalf {name}", standalone_mode=False
            )
        except NoAnswerError as error:
            if not kept.views:
                raise
            return Said(view=kept.views[-1], problem=str(error), warnings=kept.warnings)
        except click.ClickException as error:
            raise InputError(error.format_message(), where=f"nhalf.{name}") from error
    if not kept.views:
        raise InputError("the command has no answer to return", where=f"nhalf.{name}", do="run it on the command line")
    return Said(view=kept.views[-1], warnings=kept.warnings)


def _words(command: click.Command, flags: Mapping[str, object]) -> list[str]:
    """Return flags as words of a command line."""
    known: dict[str, click.Option] = {}
    for option in command.params:
        if isinstance(option, click.Option):
            known |= {word.lstrip("-").replace("-", "_"): option for word in option.opts if word.startswith("--")}
    words: list[str] = []
    for key, value in flags.items():
        if key not in known:
            names = ", ".join(name for name in known if name not in ("help", "detail", "json", "csv", "md"))
            raise InputError(
                f"there is no {key!r}", where=f"nhalf.{command.name}", allowed=names, do=did_you_mean(key, known)
            )
        words += _word(known[key], "--" + key.replace("_", "-"), value)
    return words


def _word(option: click.Option, flag: str, value: Any) -> list[str]:  # noqa: ANN401  a keyword
    """Return one flag with its value as words of a command line."""
    if value is None or value is False:
        return []
    if option.is_flag:
        return [flag]
    several = value if isinstance(value, list | tuple) else [value]
    if option.multiple:
        return [word for each in several for word in (flag, str(each))]
    return [flag, ",".join(map(str, several))]
