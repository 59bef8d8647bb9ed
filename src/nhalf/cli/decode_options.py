"""The options of `nhalf decode` beyond model, layout and workload: phase, draft, experts, remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from nhalf.loading.options import NAMES, Options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nhalf.loading import Request

Command = TypeVar("Command", bound="Callable[..., Any]")

_OPTIONS: Final = (
    click.option("--replicas", metavar="N", help="Copies of the layout, each with a batch of its own.  [default: 1]"),
    click.option("--phase", metavar="PHASE", help="decode, or prefill (with --isl).  [default: decode]"),
    click.option("--chunk", metavar="N", help="Tokens of a prompt that a prefill takes at a time.  [default: all]"),
    click.option("--kv-transfer", metavar="LINK", help="Hand over the cache: LATENCY,BANDWIDTH or a link's name."),
    click.option("--cp-exchange", metavar="WAY", help="all-gather or ring, in prefills.  [default: all-gather]"),
    click.option("--draft-tokens", metavar="N", help="Tokens drafted and checked each step, with --acceptance."),
    click.option("--acceptance", metavar="A", help="The chance that a drafted token is kept: 0.8."),
    click.option(
        "--exchange",
        metavar="WAY",
        help="Tokens to experts: all-gather or all-to-all.  [default: all-gather; plan: both]",
    ),
    click.option("--skew", metavar="RATIO", help="Busiest expert rank over the mean, with all-to-all.  [default: 1]"),
    click.option("--fuse-norm", is_flag=True, help="Do the norm in the kernel of its all-reduce."),
    click.option("--fuse", metavar="M", help="Run M small collectives as one."),
    click.option("--overlap", metavar="FRACTION", help="Share of the collectives that may run under compute."),
    click.option("--two-batch-overlap", is_flag=True, help="One half of the batch computes, the other communicates."),
    click.option("--quantised-all-reduce", metavar="DTYPE", help="Send all-reduces in fp8."),
    click.option("--kernel-bypass", metavar="on|off", help="Messages between nodes past the kernel, or through it."),
    click.option("--p2p", metavar="on|off", help="off: devices of a node reach each other through the host alone."),
)


def add(command: Command, options: tuple[Callable[[Command], Command], ...]) -> Command:
    """Add options to a command, whose help lists them in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def options(command: Command) -> Command:
    """Add the options to a command."""
    return add(command, _OPTIONS)


def asked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options among the flags that were given, by name."""
    return {name: given[name] for name in NAMES if given.get(name) not in (None, False)}


def updated(request: Request | None, given: Mapping[str, Any]) -> Options:
    """Return a request's options with those that flags give.

    Raises
    ------
    InputError
        A flag is not possible.
    """
    return (Options() if request is None else request.options).updated(asked(given))
