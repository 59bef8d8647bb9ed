"""The `nhalf decode` that a command hands on: every choice of a request as its flags, for the same number."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from nhalf.cli import decode_options
from nhalf.loading.degrees import FLAGS

if TYPE_CHECKING:
    from nhalf.loading import Request

NAMES: Final = ("weights", "kv", "engine", "library", "mode", "stack", "links")
"""The choices of a request that are texts, by the names of their flags."""


def command(request: Request, *, batches: str) -> str:
    """Return the command that decodes a request at some batches, with every choice that stands in the request."""
    flags = {
        "on": ",".join(request.systems),
        **{flag: ",".join(map(str, getattr(request.degrees, flag))) for flag in FLAGS},
        "batch": batches,
        "context": request.context,
        "isl": request.prompt,
        "osl": request.output,
        **{name: getattr(request, name) for name in NAMES},
    }
    shown = [
        f"--{flag.replace('_', '-')} {shlex.quote(str(value))}"
        for flag, value in flags.items()
        if value is not None and not (flag in FLAGS and value == "1")
    ]
    shown += decode_options.shown(request.options)
    shown += [f"--set {shlex.quote(f'{path}={value}')}" for path, value in request.changes.items()]
    return f"nhalf decode {shlex.quote(request.model)} {' '.join(shown)}"
