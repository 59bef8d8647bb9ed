"""The nearest point that fits in memory, where what was asked for does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf.decide.candidates import Wish
from nhalf.decide.search import search

if TYPE_CHECKING:
    from nhalf.decide.candidates import Choice
    from nhalf.scenario import Scenario

_DOUBLINGS: Final = 7


def nearest(base: Scenario, gpus: int, batches: tuple[int, ...] | None = None) -> tuple[Choice, int] | None:
    """Return the layout of fewest devices that holds some batches (None: any), and the devices it was found on.

    Looked at are so many devices and their doublings up to 128 times as many; None where even those do not hold it.
    """
    for count in (gpus * 2**power for power in range(_DOUBLINGS + 1)):
        rows = search(base, count, Wish(goal="latency", batches=batches)).rows
        if rows:
            return min(rows, key=lambda row: row.layout.devices), count
    return None
