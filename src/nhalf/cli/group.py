"""The group of all commands: it imports a command's module when the command runs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "link": "What one message costs on a link: time, n_1/2, regime, a ladder of sizes.",
    "decode": "The time per token of a model on a system, term by term, and what would change it.",
    "compare": "Two deployments at one load: the difference with its range, the odds, and where it flips.",
    "collective": "Every algorithm of a collective by size: who wins where, and what the library runs.",
    "crossover": "The batch at which each collective of a model turns from latency to bandwidth.",
    "plan": "Which layout to run on so many devices: every legal one, ranked, with the line that launches it.",
    "buy": "Latency or bandwidth? What each option saves, by batch and by money, and where the advice flips.",
    "whatif": "What each change would save, by batch: `nhalf buy` without prices.",
    "sweep": "Every combination of some axes of a scenario, written to CSV, JSON or Parquet.",
    "lint": "Whether a scaling curve can be read at all: batches, engines and regimes that were mixed.",
    "doctor": "Whether your logs are normal, and the likeliest cause and remedy where they are not.",
    "fit": "Alpha, beta and the whole curve from the logs you already have, with intervals and refusals.",
    "measure": "Times links and collectives here, on one machine or many, and fits what it measured.",
    "lab": "The article's claims on this machine: predicted from its links, then measured, on real ranks.",
    "predict": "Every row of a table of serving runs: time per token, its band, what binds, or why not.",
    "validate": "Predictions against your measurements: error, bias and coverage, with limits that can fail.",
    "calibrate": "The constants of your stack from serving benchmarks, and which of them the runs cannot tell.",
    "simulate": "A collective message by message: who waits for whom, and how it differs from the law.",
    "trace": "What communication costs in profiler traces, who waits for whom, and what would help.",
    "live": "What a running server pays for each token against its prediction, and since when and why.",
    "tune": "Which algorithm and protocol NCCL should take for a model's messages, and the files that say so.",
    "topo": "Reads `nvidia-smi topo -m` into a fabric, and names the weakest edge of the ring.",
    "app": "The question under the mouse: sliders, curves and the same numbers, in a browser on this machine.",
    "explain": "What a word on the screens means: nhalf explain crossover.",
    "catalog": "The systems, models, links and engines that nhalf knows, every value with its source.",
    "completion": "The script that completes commands, options, systems and models in bash, zsh or fish.",
}
"""Each command and its line of help; the module of the same name holds it."""


class LazyGroup(click.Group):
    """A group that imports a command's module when the command runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of a newcomer's path."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported now."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(f"nhalf.cli.{cmd_name}"), cmd_name)
        if not isinstance(command, click.Command):
            return None
        from nhalf.cli.completing import prepare

        return prepare(command)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin as a word does, without importing any."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; what the system refuses it to read is an error of its input."""
        try:
            return super().invoke(ctx)
        except OSError as error:
            if error.filename is None:
                raise  # the answer cannot be written
            from nhalf.errors import InputError, quoted

            what = f"the file cannot be read: {error.strerror or error}"
            raise InputError(what, where=quoted(str(error.filename)), do="check the path") from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name, with a suggestion when there is none."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from nhalf.errors import InputError, did_you_mean

            raise InputError(
                f"there is no command {args[0]!r}",
                where="nhalf",
                allowed=", ".join(COMMANDS),
                do=did_you_mean(args[0], COMMANDS),
            )
        return super().resolve_command(ctx, args)
