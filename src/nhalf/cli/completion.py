"""`nhalf completion`: the script that completes commands, options, systems and models in a shell."""

from __future__ import annotations

from typing import Final

import click

from nhalf.cli import output
from nhalf.cli.completing import VARIABLE
from nhalf.errors import InputError, did_you_mean

_SHELLS: Final = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", metavar="bash|zsh|fish")
def completion(shell: str) -> None:
    """Print the script that makes a SHELL complete commands, options, and the names of systems and models.

    bash:  eval "$(nhalf completion bash)" in ~/.bashrc (4.4 or later)

    zsh:  eval "$(nhalf completion zsh)" in ~/.zshrc, after compinit

    fish:  nhalf completion fish > ~/.config/fish/completions/nhalf.fish
    """
    from click.shell_completion import get_completion_class

    from nhalf.cli import nhalf

    name = shell.lower()
    found = get_completion_class(name) if name in _SHELLS else None
    if found is None:
        raise InputError(
            f"{shell!r} is no shell that is known", where="nhalf completion", allowed=", ".join(_SHELLS),
            do=did_you_mean(name, _SHELLS),
        )  # fmt: skip
    output.write(found(nhalf, {}, "nhalf", VARIABLE).source())
