"""The agenda of the event engine: what is due, by time and then by number.

Here it is a heap of (time, number) for `heapq`, which is written in C. Taking leaves a hole at the top, which the next
entry fills: most events put one off. Compiled, `binary_heap` takes the place of this module.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from typing import NamedTuple

NEVER = 1e300


class Agenda(NamedTuple):
    """A heap of (time, number), and `hole[0]`, which says whether its first entry has been taken."""

    heap: list[tuple[float, int]]
    hole: list[int]


def empty(most: int) -> Agenda:
    """Return an empty agenda; the argument is for heaps that must know their size."""
    del most  # a list grows
    return Agenda(heap=[], hole=[0])


def put(agenda: Agenda, time: float, name: int) -> None:
    """Add an event."""
    if agenda.hole[0]:
        agenda.hole[0] = 0
        heapreplace(agenda.heap, (time, name))
    else:
        heappush(agenda.heap, (time, name))


def next_time(agenda: Agenda) -> float:
    """Return when the next event is due; NEVER when there is none."""
    if agenda.hole[0]:
        agenda.hole[0] = 0
        heappop(agenda.heap)
    return agenda.heap[0][0] if agenda.heap else NEVER


def take(agenda: Agenda) -> tuple[float, int]:
    """Take the next event off the agenda, which must hold one, after a look at `next_time`."""
    agenda.hole[0] = 1
    return agenda.heap[0]
