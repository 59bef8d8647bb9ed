"""The timeline: matched ranks on one clock, with every step that all of them went through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nhalf.trace import budget
from nhalf.trace.clocks import align, shifts_s
from nhalf.trace.matching import match

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.trace.budget import Parts
    from nhalf.trace.clocks import Aligned
    from nhalf.trace.matching import Meetings
    from nhalf.trace.record import Clockwork, Floats, Ints, RankTrace


_OUTLIER = 5.0
_FEWEST_TO_DROP = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timeline:
    """Ranks, their meetings on one clock, and their common steps.

    `labels` are the steps counted; `windows_s`, (ranks, steps, 2) [s], is when each rank went through each, on its own
    clock; `step`, (meetings,), says in which of them a meeting lies (-1: none). `parts` is each rank's budget of each
    step. `waits_known` is false for a single rank.
    """

    traces: tuple[RankTrace, ...]
    meetings: Meetings
    aligned: Aligned
    split: Split
    labels: tuple[str, ...]
    windows_s: Floats
    step: Ints
    parts: tuple[Parts, ...]
    waits_known: bool
    notes: tuple[str, ...]

    @property
    def step_s(self) -> float:
        """Return the mean length of a step [s]."""
        return float(np.mean(self.windows_s[:, :, 1] - self.windows_s[:, :, 0]))

    def common_s(self, row: int, time_s: Floats) -> Floats:
        """Return times [s] of a rank's own clock on the common one."""
        return self.aligned.on_common_clock(row, time_s, float(shifts_s(self.traces)[row]))


def build(traces: Sequence[RankTrace]) -> Timeline:
    """Return the timeline of one or several ranks.

    Raises
    ------
    WeakEvidenceError
        The ranks do not match.
    """
    notes: list[str] = []
    meetings = match(traces)
    aligned = align(traces, meetings)
    shares = split(meetings, aligned, traces[0].device)
    steps = _common_steps(traces, meetings, notes)
    windows = np.array(
        [[(t.steps.start_s[i], t.steps.end_s[i]) for i in row] for t, row in zip(traces, steps, strict=True)]
    ).reshape(len(traces), -1, 2)
    if windows.shape[1] == 1 and len(traces) > 1 and traces[0].steps.marker == "whole window":
        _from_first_to_last(windows, traces, meetings)
    first = (meetings.index >= 0).argmax(axis=0) if len(meetings) else np.empty(0, dtype=np.int64)
    step = np.full(len(meetings), -1)
    for row in range(len(traces)):
        mine = first == row
        began = traces[row].calls.start_s[meetings.index[row, mine]]
        number = _place(windows[row], began)
        step[mine] = number
    kept = _without_start(windows, traces, meetings, shares, step, notes)
    parts = tuple(
        budget.of_rank(trace, _waits(trace, row, meetings, shares), (windows[row, kept, 0], windows[row, kept, 1]))
        for row, trace in enumerate(traces)
    )
    labels = [traces[0].steps.labels[i] for i in steps[0]]
    renumber = np.full(len(labels) + 1, -1)
    renumber[kept] = np.arange(len(kept))
    return Timeline(
        traces=tuple(traces), meetings=meetings, aligned=aligned, split=shares,
        labels=tuple(labels[i] for i in kept.tolist()), windows_s=windows[:, kept], step=renumber[step], parts=parts,
        waits_known=len(traces) > 1 and len(meetings) > 0, notes=(*meetings.notes, *notes),
    )  # fmt: skip


def _common_steps(traces: Sequence[RankTrace], meetings: Meetings, notes: list[str]) -> list[list[int]]:
    """Return, for each rank, the indices of the steps that all ranks have.

    Steps with names of their own go by name; others by which of them the matched calls lie in.
    """
    if len(traces) == 1:
        return [list(range(len(traces[0].steps)))]
    if all(trace.steps.marker == "ProfilerStep" for trace in traces):
        shared = [label for label in traces[0].steps.labels if all(label in t.steps.labels for t in traces)]
        found = [[t.steps.labels.index(label) for label in shared] for t in traces]
    else:
        found = _steps_by_meetings(traces, meetings)
    most = max(len(trace.steps) for trace in traces)
    if len(found[0]) < most:
        notes.append(f"{len(found[0])} steps are common to all ranks, of up to {most}")
    return found


def _steps_by_meetings(traces: Sequence[RankTrace], meetings: Meetings) -> list[list[int]]:
    """Return the steps that the same meetings fall into on all ranks."""
    whole = np.all(meetings.index >= 0, axis=0)
    if not np.any(whole):
        fewest = min(len(trace.steps) for trace in traces)
        return [list(range(fewest)) for _ in traces]
    places = np.array([t.steps.of(t.calls.start_s[meetings.index[row, whole]]) for row, t in enumerate(traces)])
    tuples, counts = np.unique(places[:, np.all(places >= 0, axis=0)], axis=1, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    chosen: list[Ints] = []
    for i in order.tolist():
        column = tuples[:, i]
        if all(np.all(column != other) for other in chosen):
            chosen.append(column)
    chosen.sort(key=lambda column: int(column[0]))
    return [[int(column[row]) for column in chosen] for row in range(len(traces))]


def _from_first_to_last(windows: Floats, traces: Sequence[RankTrace], meetings: Meetings) -> None:
    """Let the one window of each rank run from the first meeting of all to the last: captures differ in length."""
    whole = np.flatnonzero(np.all(meetings.index >= 0, axis=0))
    if not len(whole):
        return
    for row, trace in enumerate(traces):
        calls = meetings.index[row, whole]
        windows[row, 0] = trace.calls.start_s[calls].min(), trace.calls.end_s[calls].max()


def _place(windows: Floats, time_s: Floats) -> Ints:
    """Return in which window each time [s] lies, -1 for none."""
    if not len(windows):
        return np.full(len(time_s), -1)
    index = np.searchsorted(windows[:, 0], time_s, side="right") - 1
    inside = (index >= 0) & (time_s < windows[np.maximum(index, 0), 1])
    return np.where(inside, index, -1)


def _without_start(
    windows: Floats, traces: Sequence[RankTrace], meetings: Meetings, shares: Split, step: Ints, notes: list[str]
) -> Ints:
    """Drop the first step where its first call shows that the profilers started apart."""
    every = np.arange(windows.shape[1])
    if len(every) == 1:
        _after_first_call(windows, traces, meetings, shares, step, notes)
        return every
    late = _skews(meetings, shares)
    if len(every) < _FEWEST_TO_DROP or len(late) < _FEWEST_TO_DROP or step[0] != 0:
        return every
    others = late[1:]
    usual = float(np.percentile(others, 99))
    length = windows[:, :, 1] - windows[:, :, 0]
    if late[0] > _OUTLIER * max(usual, 1e-6) and late[0] > 0.1 * float(np.median(length)):
        notes.append(
            f"the first step was left out: its first call shows a skew of {1e3 * late[0]:.3g} ms, "
            "which is the start of the profilers, not the run's"
        )
        return every[1:]
    return every


def _skews(meetings: Meetings, shares: Split) -> Floats:
    """Return how long the first rank waited at each meeting that has a last one [s]."""
    if not len(meetings):
        return np.empty(0)
    return np.where(meetings.symmetric, np.nanmax(shares.wait_s, axis=0), 0.0)


def _after_first_call(
    windows: Floats, traces: Sequence[RankTrace], meetings: Meetings, shares: Split, step: Ints, notes: list[str]
) -> None:
    """Start the only window after its first call where that call shows that the profilers started apart."""
    late = _skews(meetings, shares)
    if len(late) < _FEWEST_TO_DROP or not meetings.symmetric[0] or np.any(meetings.index[:, 0] < 0):
        return
    if late[0] > _OUTLIER * max(float(late[1:].max()), 1e-6):
        step[0] = -1
        for row, trace in enumerate(traces):
            windows[row, 0, 0] = trace.calls.end_s[meetings.index[row, 0]]
        notes.append(
            f"the first call was left out: its skew of {1e3 * late[0]:.3g} ms is the start of the profilers, "
            "not the run's"
        )


def _waits(trace: RankTrace, row: int, meetings: Meetings, shares: Split) -> Floats:
    """Return what each call of a rank waited [s]; one that was not matched counts as moving all the time."""
    waits = np.zeros(len(trace.calls))
    there = meetings.index[row] >= 0 if len(meetings) else np.empty(0, dtype=bool)
    if np.any(there):
        waits[meetings.index[row, there]] = shares.wait_s[row, there]
    return waits


_TWO = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split:
    """Every meeting split, as columns; (ranks, meetings) or (meetings,), [s].

    `wait_s` is the time until the last rank came, NaN where a rank took no part; `transfer_s` what followed, at most
    the shortest duration (`shortest_s`), which bounds it without any clock. `last` is the row that came last, -1
    where that has no meaning; `lateness_s` how long after the last but one it came.
    """

    wait_s: Floats
    transfer_s: Floats
    shortest_s: Floats
    last: Ints
    lateness_s: Floats


def split(meetings: Meetings, aligned: Aligned, device: Clockwork) -> Split:
    """Return wait and transfer of every meeting.

    On GPUs the transfer ends when the first rank leaves: the others' kernels only take longer to go. Processes are
    woken one by one and early ones may be served first, so there it ends when half of them have left.

    A broadcast, a reduction to one rank or a message may be left before the last one comes: their transfer is the
    shortest duration, and what is longer is waiting.
    """
    start, end = aligned.start_s, aligned.end_s
    length = end - start
    there = ~np.isnan(start)
    if not start.shape[1]:
        empty = np.empty(0)
        return Split(
            wait_s=length, transfer_s=empty, shortest_s=empty, last=np.empty(0, dtype=np.int64), lateness_s=empty
        )
    shortest = np.nanmin(length, axis=0)
    came = np.where(there, start, -np.inf)
    last = came.argmax(axis=0)
    arrival = came.max(axis=0)
    before = np.partition(came, -_TWO, axis=0)[-_TWO] if len(start) >= _TWO else arrival
    counted = meetings.symmetric & (there.sum(axis=0) >= _TWO)
    left = np.nanmin(end, axis=0) if device == "gpu" else np.nanmedian(end, axis=0)
    moved = np.clip(left - arrival, 0.0, shortest)
    transfer = np.where(counted, moved, shortest)
    wait = np.where(counted, np.clip(arrival - start, 0.0, length), length - shortest)
    return Split(
        wait_s=np.where(there, wait, np.nan),
        transfer_s=transfer,
        shortest_s=shortest,
        last=np.where(counted, last, -1),
        lateness_s=np.where(counted, arrival - before, 0.0),
    )
