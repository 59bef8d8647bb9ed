"""Convoy: a rank that is a little late and costs far more than it is late, because ports serve in order of arrival.

With a rendezvous a message is posted when both its ranks are ready. Ranks that are ready together send in turns, each
to another one; where one is late, what the others have for it is posted last at each of them. They then all reach it at
once, one after the other through its one port, after their own ports have been busy with the rest. Ports that all
messages share (`fair`) have no order to lose.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nhalf.simulate.engine import run as play

if TYPE_CHECKING:
    from nhalf.simulate.engine import Run

MATTERS = 0.05
"""A convoy that costs less than this share of the time is not spoken of."""
MOST_MESSAGES = 50_000
"""Messages up to which it is worth while to play a program twice more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convoy:
    """What a convoy costs: the lateness that it comes from, and the times [s] with all ranks together and fair ports.

    `lost_s` is what it adds to the time beyond that lateness.
    """

    late_s: float
    together_s: float
    fair_s: float
    lost_s: float


def convoy(run: Run) -> Convoy | None:
    """Return the convoy of a run, None where no rank is late, ports are fair, or lateness costs what it is."""
    starts, ports = run.conditions.starts_s, run.conditions.ports
    if starts is None or starts.ndim > 1 or not starts.any() or ports == "fair":
        return None
    if run.messages > MOST_MESSAGES or run.program.is_paired():
        return None
    known = replace(run.conditions, port_slowness=None)  # the network of a run is as slow already
    late = float(starts.max())
    together = float(play(run.program, run.network, replace(known, starts_s=None), record=False).time_s)
    lost = float(run.time_s) - together - late
    if lost < MATTERS * together:
        return None
    fair = float(play(run.program, run.network, replace(known, ports="fair"), record=False).time_s)
    if float(run.time_s) - fair < MATTERS * together:
        return None
    return Convoy(late_s=late, together_s=together, fair_s=fair, lost_s=lost)
