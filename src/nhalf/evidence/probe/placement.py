"""Placement: a processor of its own for each rank that nhalf starts on this machine.

Two ranks that poll for each other on one processor wait for its scheduler, not for each other.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

_TOPOLOGY: Final = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def processors(count: int) -> list[int]:
    """Return a processor for each of `count` ranks, each of another core while there are enough; empty: no placing.

    There is none where the system places no process, or has fewer processors than ranks.
    """
    if sys.platform != "linux":
        return []
    mine = sorted(os.sched_getaffinity(0))
    if len(mine) < count:
        return []
    seen: set[str] = set()
    firsts: list[int] = []
    seconds: list[int] = []
    for cpu in mine:
        core = _core(cpu)
        (seconds if core in seen else firsts).append(cpu)
        seen.add(core)
    return sorted((firsts + seconds)[:count])


def place(processor: int | None) -> None:
    """Keep this process on a processor; None leaves it free."""
    if processor is not None and sys.platform == "linux":
        os.sched_setaffinity(0, {processor})


def _core(cpu: int) -> str:
    try:
        return Path(_TOPOLOGY.format(cpu)).read_text(encoding="ascii").strip()
    except OSError:
        return str(cpu)
