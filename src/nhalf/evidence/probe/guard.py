"""A deadline on a call into a library that nobody can interrupt: a process beside this one ends it when it is late."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_GUARD: Final = """
import os, select, signal, sys
late = not select.select([sys.stdin], [], [], float(sys.argv[2]))[0]
if late:
    sys.stderr.write(sys.argv[3] + "\\n")
    sys.stderr.flush()
    os.kill(int(sys.argv[1]), signal.SIGKILL)
"""


@contextlib.contextmanager
def within(seconds: float, told: str) -> Iterator[None]:
    """End this process with a message when the body takes longer than `seconds` [s], wherever it hangs."""
    command = [sys.executable, "-c", _GUARD, str(os.getpid()), str(seconds), told]
    guard = subprocess.Popen(command, stdin=subprocess.PIPE)  # noqa: S603  our own Python and our own words
    try:
        yield
    finally:
        guard.communicate()  # the end of its input is its end
