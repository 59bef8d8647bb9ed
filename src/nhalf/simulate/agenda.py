"""The agenda of the event engine: what is due, by time and then by number.

Two sequences hold it: here `times` is a heap of (time, number) for `heapq`, which is written in C, and `names` only
says whether there is a hole. Taking leaves one at the top, which the next entry fills: most events put one off.
Compiled, `binary_heap` takes the place of this module.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import MutableSequence

NEVER = 1e300


def empty() -> tuple[list[tuple[float, int]], list[int]]:
    """Return an agenda with nothing on it."""
    return [], [0]


def put(times: list[tuple[float, int]], names: MutableSequence[int], time: float, name: int) -> None:
    """Add an event."""
    if names[0]:
        names[0] = 0
        heapreplace(times, (time, name))
    else:
        heappush(times, (time, name))


def next_time(times: list[tuple[float, int]], names: MutableSequence[int]) -> float:
    """Return when the next event is due; NEVER when there is none."""
    if names[0]:
        names[0] = 0
        heappop(times)
    return times[0][0] if times else NEVER


def take(times: list[tuple[float, int]], names: MutableSequence[int]) -> tuple[float, int]:
    """Take the next event off the agenda, which must hold one, after a look at `next_time`."""
    names[0] = 1
    return times[0]
