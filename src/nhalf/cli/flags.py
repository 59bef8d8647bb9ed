"""Flags: those of a command's inputs, made of the table of inputs, and the request that they make."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from nhalf.errors import InputError
from nhalf.loading import readers
from nhalf.loading.inputs import BY_NAME, of_command

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nhalf.loading import Request
    from nhalf.loading.inputs import Input

Command = TypeVar("Command", bound="Callable[..., Any]")

LIBRARY: Final = BY_NAME["library"].help_of("decode")
_FORMATS: Final = (
    ".csv", ".htm", ".html", ".json", ".jsonl", ".md", ".parquet", ".png", ".svg", ".toml", ".tsv", ".xlsx", ".yaml",
)  # fmt: skip
"""Suffixes that promise a format."""


def inputs(command: str) -> Callable[[Command], Command]:
    """Return what adds the flags of a command's inputs; its function has them by the names of the inputs."""

    def add(function: Command) -> Command:
        for row in reversed(tuple(of_command(command))):
            function = _option(row, command)(function)
        return function

    return add


def _option(row: Input, command: str) -> Callable[[Command], Command]:
    words = (row.on_command_line, row.name)
    if row.is_switch:
        return click.option(*words, is_flag=True, help=row.help_of(command))
    several = row.read in (readers.changes, readers.texts)
    return click.option(*words, metavar=row.metavar_of(command), multiple=several, help=row.help_of(command))


def request(model: str, given: Mapping[str, Any], *, prefills: bool = False) -> Request:
    """Return the request that the flags make; where MODEL is a scenario file, flags that are given win over it.

    Raises
    ------
    InputError
        The system is missing, a flag is not possible, or a prefill is asked for where there is none.
    """
    from nhalf.loading import Request
    from nhalf.loading.scenario_file import is_request, read_request

    values = {name: given[name] for name in BY_NAME if given.get(name) not in (None, (), False) and name != "model"}
    readers.not_empty({BY_NAME[name].on_command_line: value for name, value in values.items()})
    if model.endswith(".toml") and is_request(Path(model)):
        found = _without_lengths(read_request(Path(model)), values).updated(values)
    else:
        if "system" not in values:
            raise InputError(
                "the system is missing", where="--on", do="add --on h100-sxm; `nhalf catalog` lists the others"
            )
        found = Request(model=model, systems=()).updated(values)
    if found.options.phase == "prefill" and not prefills:
        raise InputError("this command predicts decode steps", where="--phase", do="use nhalf decode --phase prefill")
    return found


def _without_lengths(saved: Request, stated: Mapping[str, Any]) -> Request:
    """Return a saved request without the context or the load that what is stated replaces, or the prompts."""
    if {"users", "batch", "rate"} & set(stated):
        saved = replace(saved, batches=None, users=None, options=saved.options.having({"rate": None}))
    if "context" in stated:
        dropped: tuple[str, ...] = ("isl", "osl")
    elif "isl" in stated or "osl" in stated:
        dropped = ("context",)
    else:
        return saved
    assumed = {name: reason for name, reason in saved.assumed.items() if name not in dropped}
    return replace(saved, assumed=assumed, **dict.fromkeys(dropped))  # type: ignore[arg-type]


def written_as(file: str | None, suffix: str, holds: str) -> None:
    """Refuse an output file whose name promises another format than the one that is written; `holds` says what is.

    Raises
    ------
    InputError
        It does.
    """
    found = Path(file or "").suffix.lower()
    if file and found in _FORMATS and found != suffix:
        name = Path(file).with_suffix(suffix)
        raise InputError(f"{file!r} is no name for {holds}", where="-o", allowed=f"*{suffix}", do=f"write -o {name}")
