"""Little's law: the batch at which a deployment keeps up with a rate of requests, and whether one does.

References
----------
J. D. C. Little, "A Proof for the Queuing Formula: L = lambda W", Operations Research 9(3), 1961: the sequences in
flight are the rate times how long each stays, its output tokens times the time of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.errors import InputError
from nhalf.points import at_batches

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.points import Points
    from nhalf.scenario import Scenario

LARGEST: Final = 4096
"""Batches of a replica up to this one are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The smallest batch of a replica that finishes requests as fast as they come; that which finishes most if none.

    `most_per_s` is how many requests/s all replicas finish at that most.
    """

    batch: int
    settles: bool
    most_per_s: float


def finished_per_s(found: Points) -> Array:
    """Return how many requests/s the replicas of a deployment finish, by what runs at once."""
    stay_s = found.scenario.workload.output_tokens * found.tpot_s
    rate: Array = found.running / stay_s * found.scenario.layout.replicas
    return rate


def settled(scenario: Scenario, rate_per_s: float) -> Settled:
    """Return the batch at which the replicas of a deployment keep up with a rate of requests [1/s].

    A batch B finishes B / (output tokens x time per token of B) requests/s; the law's fixed point is where that is the
    rate, and the next whole batch keeps up. Batches that would wait for room in the cache are none.

    Raises
    ------
    InputError
        Requests have no length.
    """
    if not np.all(np.greater(scenario.workload.output_tokens, 0)):
        raise InputError("requests have no length", where="--rate", do="add --isl 1024 --osl 512")
    found = at_batches(scenario, np.arange(1.0, LARGEST + 1))
    room = (found.fit_codes > 0) & (found.running == found.batch)
    finished = np.where(room, finished_per_s(found), 0.0)
    enough = np.flatnonzero(finished >= rate_per_s)
    place = int(enough[0]) if len(enough) else int(np.argmax(finished))
    return Settled(batch=place + 1, settles=bool(len(enough)), most_per_s=float(np.max(finished)))
