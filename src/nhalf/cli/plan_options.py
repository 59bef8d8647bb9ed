"""The options of `nhalf plan` whose defaults are its own: degrees to look at, lengths of prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from nhalf.cli import decode_options, flags
from nhalf.loading.planning import OUTPUT, PROMPT

if TYPE_CHECKING:
    from collections.abc import Callable

Command = TypeVar("Command", bound="Callable[..., Any]")

_PROMPTS: Final = (
    click.option("--context", metavar="N", help="Tokens in the cache of each sequence, instead of --isl and --osl."),
    click.option(
        "--isl", metavar="N", help=f"Prompt tokens, with --osl.  [default: {PROMPT}, if --context is not given]"
    ),
    click.option(
        "--osl", metavar="N", help=f"Output tokens, with --isl.  [default: {OUTPUT}, if --context is not given]"
    ),
)
_SEARCHED: Final = (
    click.option("--tp", metavar="LIST", help="Tensor-parallel degrees to look at: 4,8.  [default: all]"),
    click.option("--pp", metavar="LIST", help="Pipeline stages to look at.  [default: all]"),
    click.option("--ep", metavar="LIST", help="Expert-parallel degrees to look at.  [default: all]"),
    click.option("--attention-dp", metavar="LIST", help="Attention data-parallel degrees to look at.  [default: all]"),
    click.option(
        "--cp", metavar="LIST", help="Context-parallel degrees to look at.  [default: 1, for long prompts all]"
    ),
)


def options(command: Command) -> Command:
    """Add the flags of the degrees, the lengths, the stack, the inputs and the remedies to a command."""
    return decode_options.add(decode_options.options(command), (*_SEARCHED, *_PROMPTS, *flags.WORKLOAD))
