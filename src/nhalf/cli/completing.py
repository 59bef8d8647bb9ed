"""What a shell is offered for a word that is being typed: systems, models, engines, libraries, words, and files.

The types stand in for those of the options only while a shell asks, so no other run pays for them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VARIABLE: Final = "_NHALF_COMPLETE"
"""The variable by which a shell asks, as click names it."""
_WORDS: Final = {
    "--goal": ("tokens-per-gpu", "latency", "cost"),
    "--ports": ("fifo", "fair", "blocking"), "--protocol": ("rendezvous", "eager"), "shell": ("bash", "zsh", "fish"),
    "op": ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce", "all-to-all", "barrier", "send-recv"),
    "kind": ("systems", "devices", "links", "libraries", "engines", "models", "hierarchy", "curves", "sources"),
}  # fmt: skip
"""The words of options and arguments that are no inputs of a scenario."""
_FILES: Final = ("-o", "--save", "--timeline", "files", "logs", "cases", "bench", "curve", "source")


class _Words(click.types.StringParamType):
    """A text that is completed after its last comma; a path is completed as one where `files` allows it."""

    def __init__(self, *, kind: str = "", words: tuple[str, ...] = (), files: bool = False) -> None:
        self.kind, self.words, self.files = kind, words, files

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return what begins as the word does."""
        from click.shell_completion import CompletionItem

        del ctx, param
        if self.files and (not (self.words or self.kind) or incomplete[:1] in (".", "/", "~")):
            return [CompletionItem(incomplete, type="file")]
        before, comma, last = incomplete.rpartition(",")
        return [CompletionItem(f"{before}{comma}{name}") for name in self._known() if name.startswith(last.lower())]

    def _known(self) -> tuple[str, ...]:
        if not self.kind:
            return self.words
        from nhalf.catalog import store

        return tuple(store.names(self.kind))


def prepare(command: click.Command) -> click.Command:
    """Return a command that can be completed, where a shell asks."""
    if VARIABLE not in os.environ:
        return command
    for param in command.params:
        found = type_of(param)
        if found is not None:
            param.type = found
    return command


def type_of(param: click.Parameter) -> _Words | None:
    """Return the type that completes a parameter, None where nothing is known of it."""
    from nhalf.loading.inputs import INPUTS

    known = {row.on_command_line: row for row in INPUTS if row.words or row.catalogue}
    for name in (*param.opts, param.name or ""):
        row = known.get("--model" if name == "model" else name)
        if row is not None:
            kind = "" if row.catalogue == "file" else row.catalogue
            return _Words(kind=kind, words=row.words, files=not (kind or row.words) or name == "model")
        if name in _WORDS:
            return _Words(words=_WORDS[name])
        if name in _FILES:
            return _Words(files=True)
    return None
