"""Stragglers: which rank the others wait for, what that costs a step - or that nobody can tell."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nhalf import units
from nhalf.quantiles import student
from nhalf.trace.cause import cause_of

if TYPE_CHECKING:
    from nhalf.trace.cause import Cause
    from nhalf.trace.record import Floats, Ints
    from nhalf.trace.timeline import Timeline

_LEAST_SHARE = 0.005
"""A cost below this share of the step is not worth a name."""
_AGREES = 0.4
"""Share of the cost that the durations alone, without any clock, must show before it is believed against the bounds."""
_FEWEST_STEPS, _FEWEST_FOR_GROUP, _FEWEST_CALLS = 4, 4, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """A rank that others wait for: what a step would save without its lateness [s], with bounds, and the likely cause.

    `lateness_s` [s] is the mean over the calls at which it came last, `share_last` the share of calls. Where several
    ranks are late together, removing one gains nothing: the cost is then theirs together, and `together_with` names
    the others.
    """

    rank: int
    cost_s: float
    low_s: float
    high_s: float
    cause: Cause
    why: str
    lateness_s: float
    share_last: float
    together_with: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The stragglers, worst first, and a sentence on what cannot be told (empty when all can)."""

    stragglers: tuple[Straggler, ...]
    cannot_tell: str
    noise_s: float


def find(timeline: Timeline) -> Verdict:
    """Return the ranks that the others wait for, worst first.

    The cost of a rank is the sum of its lateness over the calls at which it came last: how much earlier each could
    have begun. It is measured with the clocks as estimated, from durations alone (the rank that waits for nobody has
    the shortest call), and between processes with the other estimate of the clocks; its interval holds all of them
    and the spread over the steps.
    """
    if not timeline.waits_known or not np.any(timeline.step >= 0):
        return _nobody("one rank alone, or calls that do not match, cannot show who waits for whom")
    counted = int(np.sum((timeline.split.last >= 0) & (timeline.step >= 0)))
    if counted < _FEWEST_CALLS:
        return _nobody(f"{counted} calls are too few to tell a slow rank from chance")
    costs = _costs(timeline)
    plain = _costs_of_durations(timeline)
    totals = costs.mean(axis=1)
    found: list[Straggler] = []
    doubts: list[str] = []
    for row in np.argsort(-totals).tolist():
        if totals[row] < _LEAST_SHARE * timeline.step_s:
            break
        judged = _judged(timeline, row, costs, plain)
        if isinstance(judged, str):
            doubts.append(judged)
        else:
            found.append(judged)
    if not found:
        found = _together(timeline)
    return Verdict(
        stragglers=tuple(found),
        cannot_tell="" if found or not doubts else doubts[0],
        noise_s=float(np.median(totals)),
    )


def _nobody(why: str) -> Verdict:
    return Verdict(stragglers=(), cannot_tell=why, noise_s=0.0)


def _judged(timeline: Timeline, row: int, costs: Floats, plain: Floats) -> Straggler | str:
    """Return a rank as a straggler, or why its cost is not believed."""
    few = len(timeline.labels) < _FEWEST_STEPS
    totals, own = costs.mean(axis=1), plain.mean(axis=1)
    rest = np.delete(costs, row, axis=0)
    rival = int(np.delete(np.arange(len(costs)), row)[np.argmax(rest.mean(axis=1))])
    low, high = _interval(_by_call(timeline, row, None) if few else costs[row])
    ahead, _ = _interval(_by_call(timeline, row, rival) if few else costs[row] - np.max(rest, axis=0))
    plain_lead = float(own[row] - np.delete(own, row).max())
    doubt = _doubt(timeline, row, ahead, plain_lead, float(totals[row] - totals[rival]))
    if doubt:
        return doubt
    ways = [float(totals[row]), float(own[row])]
    if timeline.traces[row].device == "cpu":
        # Between processes neither estimate of the clocks is sure; GPUs leave a collective together.
        ways.append(float(_costs_at_end_medians(timeline)[row].mean()))
    return _straggler(timeline, row, totals[row], min(low, *ways), max(high, *ways))


def _together(timeline: Timeline) -> list[Straggler]:
    """Return the ranks that are late together, when no rank alone is waited for: at most half of all.

    They are those whose mean arrival lies in the later half of the spread; their cost is how much later the last of
    them came than the last of the others.
    """
    inside = (timeline.step >= 0) & (timeline.split.last >= 0)
    start = timeline.aligned.start_s[:, inside]
    if len(start) < _FEWEST_FOR_GROUP or not start.shape[1] or np.any(np.isnan(start)):
        return []
    behind = (start - start.min(axis=0)).mean(axis=1)
    late = behind > behind.max() / 2
    if not 1 < late.sum() <= len(start) // 2:
        return []
    excess = np.maximum(start[late].max(axis=0) - start[~late].max(axis=0), 0.0)
    cost = _sums(timeline.step[inside], excess, len(timeline.labels))
    low, high = _interval(cost)
    lengths = timeline.aligned.end_s[:, inside] - timeline.aligned.start_s[:, inside]
    plain = float(np.mean(lengths[~late].min(axis=0) - lengths[late].min(axis=0)) * excess.size / len(timeline.labels))
    if low < _LEAST_SHARE * timeline.step_s or plain < _AGREES * cost.mean():
        return []
    rows = np.flatnonzero(late).tolist()
    ranks = [timeline.traces[row].rank for row in rows]
    return [
        replace(
            _straggler(timeline, row, float(cost.mean()), min(low, plain), max(high, plain)),
            together_with=tuple(rank for rank in ranks if rank != timeline.traces[row].rank),
        )
        for row in rows
    ]


def _doubt(timeline: Timeline, row: int, ahead_s: float, plain_s: float, lead_s: float) -> str:
    """Return why a rank's cost is not believed, "" when it is."""
    clock = timeline.aligned.clocks[row]
    rank = timeline.traces[row].rank
    calls = timeline.split.lateness_s[(timeline.split.last == row) & (timeline.step >= 0)]
    late = float(calls.mean())
    if ahead_s <= 0:
        return (
            f"no rank is late systematically: rank {rank} leads by {units.format_time(lead_s)} a step, "
            "which the spread of the steps swallows"
        )
    others = [c for i, c in enumerate(timeline.aligned.clocks) if i != row]
    width = max((c.high_s - c.low_s) / 2 for c in (clock, *others))
    if late <= width and plain_s < _AGREES * lead_s:
        return (
            f"lateness {units.format_time(late)} of rank {rank} is inside the clock interval of "
            f"+-{units.format_time(width)}, "
            "and the durations alone do not show it"
        )
    return ""


def _straggler(timeline: Timeline, row: int, cost_s: float, low_s: float, high_s: float) -> Straggler:
    chosen = (timeline.split.last == row) & (timeline.step >= 0)
    counted = (timeline.split.last >= 0) & (timeline.step >= 0)
    cause, why = cause_of(timeline, row)
    return Straggler(
        rank=timeline.traces[row].rank,
        cost_s=float(cost_s),
        low_s=max(0.0, low_s),
        high_s=high_s,
        cause=cause,
        why=why,
        lateness_s=float(timeline.split.lateness_s[chosen].mean()) if np.any(chosen) else 0.0,
        share_last=float(chosen.sum() / max(1, counted.sum())),
    )


def _costs(timeline: Timeline) -> Floats:
    """Return what each rank costs each step [s], (ranks, steps)."""
    lateness = timeline.split.lateness_s
    if timeline.meetings.groups > 1:
        lateness = np.minimum(lateness, _own_excess(timeline))
    return _by_step(timeline, timeline.split.last, lateness)


def _own_excess(timeline: Timeline) -> Floats:
    """Return how much longer the last rank's own segment was than the others' [s], (meetings,).

    With several groups a rank may come late because it was kept waiting in another group; only what happened since
    its own last meeting is charged to it.
    """
    own = segments(timeline)
    last = timeline.split.last
    columns = np.arange(own.shape[1])
    theirs = own.copy()
    theirs[np.maximum(last, 0), columns] = np.nan
    known = np.any(~np.isnan(theirs), axis=0)
    usual = np.zeros(len(columns))
    usual[known] = np.nanmin(theirs[:, known], axis=0)
    excess = own[np.maximum(last, 0), columns] - usual
    return np.where(np.isnan(excess), timeline.split.lateness_s, np.maximum(excess, 0.0))


def segments(timeline: Timeline) -> Floats:
    """Return the time [s] from the end of a rank's last meeting to its start of this one, (ranks, meetings)."""
    start, end = timeline.aligned.start_s, timeline.aligned.end_s
    own = np.full(start.shape, np.nan)
    for row in range(len(start)):
        there = np.flatnonzero(~np.isnan(start[row]))
        own[row, there[1:]] = start[row, there[1:]] - end[row, there[:-1]]
    return own


def _by_step(timeline: Timeline, last: Ints, lateness_s: Floats) -> Floats:
    """Return the sum of lateness by rank and step [s]."""
    ranks, steps = len(timeline.traces), len(timeline.labels)
    chosen = (last >= 0) & (timeline.step >= 0)
    flat = last[chosen] * steps + timeline.step[chosen]
    return _sums(flat, lateness_s[chosen], ranks * steps).reshape(ranks, steps)


def _sums(place: Ints, values: Floats, places: int) -> Floats:
    """Return the sum of the values that share an index."""
    return np.bincount(place, weights=values, minlength=places).astype(np.float64)


def _by_call(timeline: Timeline, row: int, rival: int | None) -> Floats:
    """Return an estimate of a rank's cost per step [s], less a rival's, from each call: for runs of few steps."""
    inside = (timeline.step >= 0) & (timeline.split.last >= 0)
    late, last = timeline.split.lateness_s[inside], timeline.split.last[inside]
    value = np.where(last == row, late, 0.0) - (np.where(last == rival, late, 0.0) if rival is not None else 0.0)
    return value * (len(value) / max(1, len(timeline.labels)))


def _costs_at_end_medians(timeline: Timeline) -> Floats:
    """Return the costs with clocks by which all ranks end together [s]."""
    moves = np.array([clock.end_median_s - clock.offset_s for clock in timeline.aligned.clocks])
    start = timeline.aligned.start_s - np.nan_to_num(moves)[:, None]
    came = np.where(np.isnan(start), -np.inf, start)
    counted = timeline.split.last >= 0
    last = np.where(counted, came.argmax(axis=0), -1)
    ordered = np.sort(came, axis=0)
    late = np.where(counted, ordered[-1] - ordered[-2], 0.0)
    length = timeline.aligned.end_s - timeline.aligned.start_s
    return _by_step(timeline, last, np.minimum(late, np.nan_to_num(np.nanmax(length, axis=0), nan=0.0)))


def _costs_of_durations(timeline: Timeline) -> Floats:
    """Return the costs that the durations show [s]: the shortest call's rank came last, by the distance to the next."""
    length = timeline.aligned.end_s - timeline.aligned.start_s
    held = np.where(np.isnan(length), np.inf, length)
    ordered = np.sort(held, axis=0)
    counted = timeline.split.last >= 0
    last = np.where(counted, held.argmin(axis=0), -1)
    with np.errstate(invalid="ignore"):
        late = np.where(counted, ordered[1] - ordered[0], 0.0)
    return _by_step(timeline, last, np.nan_to_num(late, posinf=0.0))


def _interval(values: Floats) -> tuple[float, float]:
    """Return the 95 % interval of the mean of independent values, by Student's t: steps are few."""
    if len(values) == 1:
        return float(values[0]), float(values[0])
    reach = float(student(len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))
    return float(values.mean()) - reach, float(values.mean()) + reach
