"""Lateness: how much of the last rank's lateness reaches the end of a collective, and how many ranks it drags along.

A rank that is late by itself delays the end of most collectives by just as much: the time is the last arrival plus the
time of ranks that start together. A program hides some of that where a late rank's part is not needed at once (a chain,
a reduce to one rank), and adds to it where messages for a late rank queue behind each other (a convoy).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nhalf.simulate.engine import run as play

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.simulate.engine import Run
    from nhalf.simulate.straggler import Skew

SAME = 0.01
"""Differences below this share of how far the ranks of a draw are apart are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Draws on one side of the last arrival plus the time together: their share, and by how much they are beside it.

    `mean_s` and `most_s` [s] are over these draws; both are 0 where there are none.
    """

    share: float
    mean_s: float
    most_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """What becomes of lateness over the draws in which ranks are apart, `draws` of them.

    `passed_on` [1] is the mean delay of the end over the mean lateness of the last rank, None where nobody is late on
    average. Some draws end sooner than the last arrival plus the time together, where lateness is `hidden`, some later,
    where a convoy has `added` to it. `dragged` is how many other ranks end later than their own lateness explains, on
    average.
    """

    draws: int
    passed_on: float | None
    hidden: Side
    added: Side
    dragged: float


def lateness(run: Run, skew: Skew) -> Lateness | None:
    """Return what becomes of the lateness of many draws of a skew; None where no draw has ranks apart."""
    starts = run.conditions.starts_s
    if starts is None:
        return None
    apart = starts.max(axis=0) - starts.min(axis=0)
    chosen = np.flatnonzero(apart > 0)
    if not len(chosen):
        return None
    known = replace(run.conditions, starts_s=None, port_slowness=None)  # the network of a run is as slow already
    together = play(run.program, run.network, known, record=False)
    last = starts.max(axis=0)
    delays = np.asarray(run.time_s) - float(together.time_s)
    beyond = (delays - last)[chosen]
    tolerance = SAME * apart[chosen]
    late_s = float(last.mean()) - skew.offset_s
    own = run.finished_s[:, chosen] - together.finished_s[:, None] - starts[:, chosen]
    waiting = (own > tolerance).sum(axis=0) - (
        own[starts[:, chosen].argmax(axis=0), np.arange(len(chosen))] > tolerance
    )
    return Lateness(
        draws=len(chosen),
        passed_on=(float(delays.mean()) - skew.offset_s) / late_s if late_s > 0 else None,
        hidden=_side(-beyond, tolerance),
        added=_side(beyond, tolerance),
        dragged=float(waiting.mean()),
    )


def _side(beyond: Array, tolerance: Array) -> Side:
    """Return the draws that go beyond their tolerance."""
    found = beyond[beyond > tolerance]
    if not len(found):
        return Side(share=0.0, mean_s=0.0, most_s=0.0)
    return Side(share=len(found) / len(beyond), mean_s=float(found.mean()), most_s=float(found.max()))
