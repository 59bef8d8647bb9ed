"""The command line: one thin file per command, each loaded only when it is asked for."""

from __future__ import annotations

import re
import sys

import click

from nhalf.cli.group import LazyGroup
from nhalf.errors import NhalfError
from nhalf.printable import shown
from nhalf.version import VERSION

_INTERRUPTED = 130
_LONG_WORD = re.compile(r"\S{400,}|\s{80,}")
"""A word of a message that only a slip or damage makes so long: a name of thousands of letters, or as many blanks."""
_MEANT = {
    "--devices": "--gpus", "--gpu": "--gpus", "--num-gpus": "--gpus", "--system": "--on", "--dtype": "--weights",
    "--concurrency": "--users", "--input-len": "--isl", "--output-len": "--osl",
}  # fmt: skip
"""What other tools call an option, and what it is here: letters alone would lead elsewhere."""
_SHOWN = 80
_LONGEST = 3000


@click.group(
    cls=LazyGroup,
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
        from nhalf.cli.welcome import welcome

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
        return _short(f"{_meant(error) or error.format_message()}{where}"), 2
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return "interrupted", _INTERRUPTED
    if isinstance(error, OSError):
        return f"the answer cannot be written: {error.strerror or error}", 2
    return f"internal error: {type(error).__name__}: {error}. This is a defect of nhalf", 1


def _meant(error: click.ClickException) -> str:
    """Return the message about an option of other tools that has another name here, or nothing."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return ""
    own = {name for parameter in error.ctx.command.params for name in parameter.opts}
    meant = _MEANT.get(error.option_name, "")
    return f"No such option '{error.option_name}'. Did you mean '{meant}'?" if meant in own else ""


def _short(message: str) -> str:
    """Return a message without the thousands of letters that a damaged file or a slip puts into it."""
    text = _LONG_WORD.sub(lambda word: f"{word[0][:_SHOWN]}...", message)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _fail(message: str, code: int) -> int:
    """Print a message on standard error and return the code."""
    click.echo(f"nhalf: {shown(message)}", err=True)
    return code
