"""Clocks: how far the clock of one rank is ahead of another's, from the quickest of many exchanges of readings.

References
----------
F. Cristian, "Probabilistic clock synchronization", Distributed Computing 3 (1989): the error of one exchange is at most
half of its round trip.
"""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.evidence.probe.backend import Messenger
    from nhalf.evidence.probe.messages import Result

SIZE: Final = 8
"""A reading of the clock [bytes]."""
_EXCHANGES: Final = 200
_READING: Final = struct.Struct("!q")


def compare(messenger: Messenger, *, leads: bool) -> Result:
    """Return how far the other rank's clock is ahead [ns], and the most that this may be wrong; only the leader knows.

    Both ranks call it; the one that does not lead answers with its clock.
    """
    if not leads:
        for _ in range(_EXCHANGES):
            messenger.receive()
            messenger.fill(_READING.pack(time.perf_counter_ns()))
            messenger.send()
        return {}
    best: tuple[int, int] | None = None
    for _ in range(_EXCHANGES):
        start = time.perf_counter_ns()
        messenger.send()
        messenger.receive()
        end = time.perf_counter_ns()
        (there,) = _READING.unpack(messenger.received())
        trip = end - start
        if best is None or trip < best[0]:
            best = trip, there - (start + end) // 2
    trip, ahead = best or (0, 0)
    return {"ahead_ns": ahead, "error_ns": trip // 2}


def shared(ranks: Mapping[int, Mapping[str, Any]]) -> bool:
    """Return whether all ranks read one clock: one kernel, booted once, has one."""
    boots = {info.get("boot") for info in ranks.values()}
    return len(boots) == 1 and "" not in boots
