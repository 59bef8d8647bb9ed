"""The command line: one thin file per command, each loaded only when it is asked for."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click

from nhalf.errors import NhalfError
from nhalf.printable import shown
from nhalf.version import VERSION

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "link": "What one message costs on a link: time, n_1/2, regime, a ladder of sizes.",
    "decode": "The time per token of a model on a system, term by term, and what would change it.",
    "collective": "Every algorithm of a collective by size: who wins where, and what the library runs.",
    "crossover": "The batch at which each collective of a model turns from latency to bandwidth.",
    "plan": "Which layout to run on so many devices: every legal one, ranked, with the line that launches it.",
    "buy": "Latency or bandwidth? What each option saves, by batch and by money, and where the advice flips.",
    "whatif": "What each change would save, by batch: `nhalf buy` without prices.",
    "sweep": "Every combination of some axes of a scenario, written to CSV, JSON or Parquet.",
    "lint": "Whether a scaling curve can be read at all: batches, engines and regimes that were mixed.",
    "fit": "Alpha, beta and the whole curve from the logs you already have, with intervals and refusals.",
    "measure": "Times links and collectives here, on one machine or many, and fits what it measured.",
    "predict": "Every row of a table of serving runs: time per token, its band, what binds, or why not.",
    "validate": "Predictions against your measurements: error, bias and coverage, with limits that can fail.",
    "calibrate": "The constants of your stack from serving benchmarks, and which of them the runs cannot tell.",
    "simulate": "A collective message by message: who waits for whom, and how it differs from the law.",
    "trace": "What communication costs in profiler traces, who waits for whom, and what would help.",
    "topo": "Reads `nvidia-smi topo -m` into a fabric, and names the weakest edge of the ring.",
    "explain": "What a word on the screens means: nhalf explain crossover.",
    "catalog": "The systems, models, links and engines that nhalf knows, every value with its source.",
    "completion": "The script that completes commands, options, systems and models in bash, zsh or fish.",
}
"""Each command and its line of help; the module of the same name holds it."""
_INTERRUPTED = 130
_LONG_WORD = re.compile(r"\S{400,}|\s{80,}")
"""A word of a message that only a slip or damage makes so long: a name of thousands of letters, or as many blanks."""
_SHOWN = 80
_LONGEST = 3000


class _LazyGroup(click.Group):
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


@click.group(
    cls=_LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(VERSION, prog_name="nhalf", message="%(prog)s %(version)s")
@click.pass_context
def nhalf(context: click.Context) -> None:
    """Say what the interconnect costs distributed inference, and what would change it.

    Start with: nhalf decode llama-3.1-70b --on h100-sxm --tp 1,2,4,8,16 --batch 1 --weights fp8
    """
    if context.invoked_subcommand is None:
        from nhalf.cli.help_pages import welcome

        click.echo(welcome(), nl=False)


def main() -> None:
    """Run the command line and leave with the exit code of the contract."""
    code = run(sys.argv[1:])
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
    except OSError as error:
        code = _fail(f"the answer cannot be written: {error.strerror or error}", 2)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; every failure is one message on standard error."""
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    try:
        nhalf.main(arguments, prog_name="nhalf", standalone_mode=False)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except SystemExit:  # click leaves so when the reader of a pipe has gone, which is no failure of ours
        return 0
    except BrokenPipeError:
        sys.stderr.close()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  the last line of defence: no user sees a traceback
        return _fail(*_told(error))
    return 0


def _told(error: BaseException) -> tuple[str, int]:
    """Return what a user is told of a failure, and the exit code of the contract."""
    if isinstance(error, NhalfError):
        return _short(str(error)), error.exit_code
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return f"a command is missing\n\n{error.format_message()}", 2
    if isinstance(error, click.ClickException):
        where = f" ({error.ctx.command_path} --help)" if isinstance(error, click.UsageError) and error.ctx else ""
        return _short(f"{error.format_message()}{where}"), 2
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return "interrupted", _INTERRUPTED
    if isinstance(error, OSError):
        return f"the answer cannot be written: {error.strerror or error}", 2
    return f"internal error: {type(error).__name__}: {error}. This is a defect of nhalf", 1


def _short(message: str) -> str:
    """Return a message without the thousands of letters that a damaged file or a slip puts into it."""
    text = _LONG_WORD.sub(lambda word: f"{word[0][:_SHOWN]}...", message)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _fail(message: str, code: int) -> int:
    """Print a message on standard error and return the code."""
    click.echo(f"nhalf: {shown(message)}", err=True)
    return code
