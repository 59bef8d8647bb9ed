"""Segments: a step as each rank's own times between the collectives, which can be run again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from nhalf.trace.budget import Cover

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.trace.record import Floats, Ints
    from nhalf.trace.timeline import Timeline

_MOST_STEPS = 40


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Segments:
    """One step as segments [s]: own time before each meeting, (ranks, meetings), and after the last one, (ranks,).

    `moving` is how long each rank stayed after the last one came, `exposed` how much of that no compute covered, both
    (ranks, meetings): what compute covered cannot be saved. `joined` meetings begin when their last rank comes; the
    others keep each rank for `alone`.
    """

    own: Floats
    tail: Floats
    moving: Floats
    exposed: Floats
    alone: Floats
    there: np.ndarray[tuple[int, int], np.dtype[np.bool_]]
    kind: Ints
    joined: np.ndarray[tuple[int], np.dtype[np.bool_]]
    measured_s: float


Change: TypeAlias = Callable[[Segments], tuple["Floats", "Floats", "Floats"]]
"""What a change makes of a step: own, moving, tail."""


def steps_of(timeline: Timeline) -> list[Segments]:
    """Return the steps as segments; of many, some spread evenly."""
    numbers = np.arange(len(timeline.labels))
    if len(numbers) > _MOST_STEPS:
        numbers = np.unique(np.linspace(0, len(numbers) - 1, _MOST_STEPS).astype(np.int64))
    covers = [Cover(trace.busy_s) for trace in timeline.traces]
    order = np.argsort(timeline.step, kind="stable")
    ordered = timeline.step[order]
    found = []
    for number in numbers.tolist():
        low, high = np.searchsorted(ordered, (number, number + 1))
        if high > low:
            found.append(_segments(timeline, covers, number, np.sort(order[low:high])))
    return found


def _segments(timeline: Timeline, covers: Sequence[Cover], number: int, chosen: Ints) -> Segments:
    """Cut one step at its meetings."""
    start, end = timeline.aligned.start_s[:, chosen], timeline.aligned.end_s[:, chosen]
    there = ~np.isnan(start)
    ranks = len(start)
    own = np.zeros(start.shape)
    moving = np.nan_to_num(end - start - timeline.split.wait_s[:, chosen])
    exposed = moving.copy()
    windows = np.array([timeline.common_s(row, timeline.windows_s[row, number]) for row in range(ranks)])
    tail = windows[:, 1] - windows[:, 0]
    # Ranks that enter the step apart carry that into their first segment, so that all start from one moment.
    begun = windows[:, 0].min()
    for row in range(ranks):
        mine = np.flatnonzero(there[row])
        since = np.concatenate(([begun], end[row, mine]))
        own[row, mine] = start[row, mine] - since[:-1]
        tail[row] = windows[row, 1] - since[-1]
        ends = timeline.traces[row].calls.end_s[timeline.meetings.index[row, chosen[mine]]]
        exposed[row, mine] -= covers[row].within(ends - moving[row, mine], ends)
    return Segments(
        own=own,
        tail=tail,
        moving=moving,
        exposed=exposed,
        alone=np.nan_to_num(end - start),
        there=there,
        kind=timeline.meetings.kind[chosen],
        joined=timeline.split.last[chosen] >= 0,
        measured_s=float(np.mean(windows[:, 1] - begun)),
    )


def run(steps: Sequence[Segments], change: Change) -> float:
    """Return the mean length [s] of the steps with a change: each meeting begins when its last rank comes."""
    lengths = []
    for step in steps:
        own, moving, tail = change(step)
        moving = np.maximum(moving, step.moving - step.exposed)
        now = np.zeros(len(own))
        for k in range(own.shape[1]):
            who = step.there[:, k]
            ready = now[who] + own[who, k]
            if step.joined[k]:
                now[who] = ready.max() + moving[who, k]
            else:
                # A rank may leave before the others come: what it stayed beyond its transfer it spent waiting.
                now[who] = ready + step.alone[who, k] - (step.moving[who, k] - moving[who, k])
        lengths.append(float(np.mean(now + tail)))
    return float(np.mean(lengths))
