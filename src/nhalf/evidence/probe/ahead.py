"""Starts a command ahead of ordinary work, so that what else runs on this machine is not measured as latency.

`python ahead.py first COMMAND...`: a real-time process, below the relay; one that runs for ten seconds without a pause
is ended. For a pair of ranks only: more of them that poll would stop the machine.

`python ahead.py often COMMAND...`: an ordinary process whose group outweighs the others, and which takes turns of
0.1 ms, so that more ranks than processors, which poll for one another, soon come to their turn.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import struct
import sys
from pathlib import Path
from typing import Final

_PRIORITY: Final = 10
_LONGEST_US: Final = 10_000_000
_SET_ATTRIBUTES: Final = {"x86_64": 314, "aarch64": 274}
"""The number of the system call sched_setattr."""
_SLICE_NS: Final = 100_000
_NICEST: Final = -20


def main(how: str, command: list[str]) -> None:
    """Become the command, as far ahead as this machine allows."""
    if how == "first":
        resource.setrlimit(resource.RLIMIT_RTTIME, (_LONGEST_US, _LONGEST_US))
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    else:
        _often()
    os.execvp(command[0], command)  # noqa: S606  the command that was given


def _often() -> None:
    with contextlib.suppress(OSError):
        os.setsid()  # a group of its own
        Path("/proc/self/autogroup").write_text(str(_NICEST), encoding="ascii")
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICEST)
    if (number := _SET_ATTRIBUTES.get(os.uname().machine)) is not None:
        # struct sched_attr: size, policy (0: ordinary), flags, niceness, priority, and the slice where Linux has one.
        attributes = struct.pack("IIQiIQQQ", 48, 0, 0, _NICEST, 0, _SLICE_NS, 0, 0)
        ctypes.CDLL(None).syscall(number, 0, attributes, 0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
