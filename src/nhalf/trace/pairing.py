"""Pairing: the calls of one lane on several ranks, put side by side by number, by step, or by order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.trace.record import Floats, Ints, RankTrace

_GOOD = 0.95
_FEWEST_SHIFTS, _MOST_SHIFTS, _SAMPLE = 64, 4096, 4096
_HALF = 0.5
_RHYTHM, _CLEARLY = 12, 0.7


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Paired:
    """The calls of one lane side by side: `index` (ranks, meetings); how many of all agreed, and where not."""

    index: Ints
    agreed: int
    all: int
    how: str
    where: str


@dataclass(frozen=True, slots=True)
class Sequence_:  # noqa: N801  a rank's sequence of calls; `Sequence` is the abstract one
    """The calls of one rank in one lane, in the order of their starts."""

    trace: RankTrace
    calls: Ints

    @property
    def seq(self) -> Ints:
        """Return the sequence numbers."""
        return self.trace.calls.seq[self.calls]

    @property
    def start_s(self) -> Floats:
        """Return the starts [s]."""
        return self.trace.calls.start_s[self.calls]

    @property
    def end_s(self) -> Floats:
        """Return the ends [s]."""
        return self.trace.calls.end_s[self.calls]

    def labels(self) -> list[tuple[str, float | None]]:
        """Return what must agree across ranks: operation and size."""
        table = [(str(kind.op), kind.size_bytes) for kind in self.trace.kinds]
        return [table[k] for k in self.trace.calls.kind[self.calls].tolist()]


def pair(lane: Sequence[Sequence_]) -> Paired:
    """Return the calls of a lane side by side, by the best key that the ranks share."""
    # Numbers that half of the calls share are numbers; where they disagree, order would only paper over it.
    numbered = _by_number(lane) if all(np.all(one.seq >= 0) for one in lane) else None
    if numbered is not None and numbered.agreed >= _HALF * numbered.all:
        return numbered
    by_step, by_order = _by_step(lane), _by_order(lane)
    if by_step is not None and by_step.agreed >= _GOOD * by_step.all:
        # Marks of the host may cut the device's calls elsewhere on each rank, by as many calls in every step.
        truer = by_order.agreed >= _GOOD * by_order.all and _spread(lane, by_order) < _HALF * _spread(lane, by_step)
        return by_order if truer else by_step
    # Ties go to the surer key: max() keeps the first of equals.
    found = [one for one in (numbered, by_step, by_order) if one is not None]
    return max(found, key=lambda one: one.agreed / one.all)


def _spread(lane: Sequence[Sequence_], paired: Paired) -> float:
    """Return how unevenly the ends of the worst rank lie from the first one's [s]."""
    ends = [one.trace.calls.end_s[row] for one, row in zip(lane, paired.index, strict=True)]
    order = np.argsort(ends[0])
    return max(_unevenness((end - ends[0])[order]) for end in ends[1:])


def _by_number(lane: Sequence[Sequence_]) -> Paired:
    """Pair by sequence number; calls that share one (coalesced) by their order under it."""
    numbers, place = np.unique(np.concatenate([one.seq for one in lane]), return_inverse=True)
    places = np.split(place, np.cumsum([len(one.seq) for one in lane])[:-1])
    turns = [_turn(each) for each in places]
    most = 1 + max(int(turn.max()) for turn in turns)
    keys = [each * most + turn for each, turn in zip(places, turns, strict=True)]
    low, high = max(each.min() for each in places), min(each.max() for each in places)
    every = np.unique(np.concatenate(keys))
    wanted = every[(every // most >= low) & (every // most <= high)]
    common = np.all([np.isin(wanted, each) for each in keys], axis=0)
    sorters = [np.argsort(each) for each in keys]
    index = np.array([
        one.calls[sorter[np.searchsorted(each, wanted[common], sorter=sorter)]]
        for one, each, sorter in zip(lane, keys, sorters, strict=True)
    ])  # fmt: skip
    left = wanted[~common]
    where = f"sequence number {numbers[left[0] // most]}" if len(left) else ""
    if not len(wanted):
        where = "the sequence numbers, which have none in common"
    return _checked(lane, index, max(1, len(wanted)), "sequence number", where)


def _turn(numbers: Ints) -> Ints:
    """Return how many times each number stands before it in a row."""
    order = np.argsort(numbers, kind="stable")
    rising = numbers[order]
    turn = np.empty(len(numbers), dtype=np.int64)
    turn[order] = np.arange(len(numbers)) - np.searchsorted(rising, rising)
    return turn


def _by_step(lane: Sequence[Sequence_]) -> Paired | None:
    """Pair the calls of steps with the same label by their order inside; None when the ranks share no step."""
    marked = [one.trace.steps for one in lane]
    if any(steps.marker != "ProfilerStep" for steps in marked):
        return None
    common = [label for label in marked[0].labels if all(label in steps.labels for steps in marked[1:])]
    inside: list[dict[str, Ints]] = []
    for one, steps in zip(lane, marked, strict=True):
        step = steps.of(one.start_s)
        inside.append({label: one.calls[step == i] for i, label in enumerate(steps.labels) if label in set(common)})
    if not any(len(calls[label]) for calls in inside for label in common):
        return None
    columns, uneven, total, where = [], [], 0, ""
    for label in common:
        counts = [len(calls[label]) for calls in inside]
        total += max(counts)
        if min(counts) == max(counts):
            columns.append(np.array([calls[label] for calls in inside], dtype=np.int64))
        else:
            uneven.append(label)
            where = where or f"{label}: {_counts(lane, counts)}"
    index = np.concatenate(columns, axis=1) if columns else np.empty((len(lane), 0), dtype=np.int64)
    if uneven and index.shape[1]:
        repaired = [_by_time(lane, index, [calls[label] for calls in inside]) for label in uneven]
        index = np.concatenate([index, *repaired], axis=1)
    return _checked(lane, index, total, "order inside steps", where)


def _counts(lane: Sequence[Sequence_], counts: Sequence[int]) -> str:
    return ", ".join(f"rank {one.trace.rank} has {n} calls" for one, n in zip(lane, counts, strict=True))


def _by_time(lane: Sequence[Sequence_], known: Ints, calls: Sequence[Ints]) -> Ints:
    """Pair the calls of a step in which some are missing by their ends, less the usual distance of the ranks' ends."""
    reference = int(np.argmin([len(some) for some in calls]))
    base = lane[reference].trace.calls.end_s
    wanted = base[calls[reference]]
    index = np.full((len(lane), len(wanted)), -1, dtype=np.int64)
    index[reference] = calls[reference]
    order = np.argsort(base[known[reference]])
    for row, one in enumerate(lane):
        if row == reference or not len(wanted) or not len(calls[row]):
            continue
        ends = one.trace.calls.end_s
        apart = ends[known[row]] - base[known[reference]]
        expected = wanted + np.interp(wanted, base[known[reference]][order], apart[order])
        own = ends[calls[row]]
        nearest = np.abs(own[None, :] - expected[:, None]).argmin(axis=1)
        back = np.abs(own[None, :] - expected[:, None]).argmin(axis=0)
        mutual = back[nearest] == np.arange(len(wanted))
        index[row, mutual] = calls[row][nearest[mutual]]
    return index[:, np.all(index >= 0, axis=0)]


def _by_order(lane: Sequence[Sequence_]) -> Paired:
    """Pair by order alone: each rank is shifted against the longest until labels and the spacing of the ends agree."""
    reference = max(lane, key=lambda one: len(one.calls))
    shifts = [0 if one is reference else _shift(reference, one) for one in lane]
    low = max(max(0, shift) for shift in shifts)
    high = min(shift + len(one.calls) for shift, one in zip(shifts, lane, strict=True))
    if high <= low:
        return Paired(
            index=np.empty((len(lane), 0), dtype=np.int64), agreed=0, all=1, how="order", where="the beginning"
        )
    index = np.array([one.calls[low - shift : high - shift] for shift, one in zip(shifts, lane, strict=True)])
    return _checked(lane, index, high - low, "order", "")


def _shift(reference: Sequence_, other: Sequence_) -> int:
    """Return by how many calls `other` begins after `reference`.

    Of the shifts whose labels agree best, the one at which the ends keep the most even distance, trend removed: ranks
    leave a collective together, while a shift by a step shows how much steps differ.
    """
    codes: dict[tuple[str, float | None], int] = {}
    ours, theirs = (
        np.array([codes.setdefault(label, len(codes)) for label in one.labels()]) for one in (reference, other)
    )
    n, m = len(ours), len(theirs)
    steps = max(1, len(reference.trace.steps))
    reach = min(_MOST_SHIFTS, max(_FEWEST_SHIFTS, 3 * n // steps, abs(n - m) + 1))
    tried: list[tuple[float, float, float, int]] = []
    for shift in range(-min(reach, m - 1), min(reach, n - 1) + 1):
        low, high = max(0, shift), min(n, shift + m)
        if high - low < _HALF * min(n, m):
            continue
        a, b = slice(low, high), slice(low - shift, high - shift)
        agree = float(np.mean(ours[a] == theirs[b]))
        apart = (other.end_s[b] - reference.end_s[a])[:: max(1, (high - low) // _SAMPLE)]
        tried.append((agree, _unevenness(apart), -(high - low), shift))
    if not tried:
        return 0
    best = max(agree for agree, *_ in tried)
    good = [entry for entry in tried if entry[0] >= best - 0.01]
    plain = min(good, key=lambda entry: (entry[2], abs(entry[3])))
    # Few calls have no rhythm, and any two are even: a shift must earn its lost overlap with many that fit better.
    better = [entry for entry in good if -entry[2] >= _RHYTHM and entry[1] < _CLEARLY * plain[1]]
    return min(better, key=lambda entry: (entry[1], abs(entry[3])))[3] if better else plain[3]


def _unevenness(apart: Floats) -> float:
    """Return the mean distance of values from their straight line."""
    if len(apart) < 3:  # noqa: PLR2004  two points are always a line
        return float(np.ptp(apart)) if len(apart) else 0.0
    x = np.linspace(-1.0, 1.0, len(apart))
    centred = apart - apart.mean()
    return float(np.mean(np.abs(centred - x * (x @ centred) / (x @ x))))


def _checked(lane: Sequence[Sequence_], index: Ints, total: int, how: str, where: str) -> Paired:
    """Return the pairing with the calls whose labels disagree counted, and left out."""
    tables = []
    codes: dict[str, int] = {}
    for one in lane:
        ops = np.array([codes.setdefault(str(kind.op), len(codes)) for kind in one.trace.kinds], dtype=np.int64)
        sizes = np.array([np.nan if kind.size_bytes is None else kind.size_bytes for kind in one.trace.kinds])
        tables.append((ops, sizes))
    agree = np.ones(index.shape[1], dtype=bool)
    first = lane[0].trace.calls.kind[index[0]] if index.shape[1] else index[0]
    for row in range(1, len(lane)):
        kind = lane[row].trace.calls.kind[index[row]] if index.shape[1] else index[row]
        same_op = tables[0][0][first] == tables[row][0][kind]
        a, b = tables[0][1][first], tables[row][1][kind]
        agree &= same_op & ((a == b) | np.isnan(a) | np.isnan(b))
    if not np.all(agree):
        bad = int(np.flatnonzero(~agree)[0])
        call = lane[0].trace.calls
        moment = call.start_s[index[0, bad]]
        step = int(lane[0].trace.steps.of(np.array([moment]))[0])
        named = lane[0].trace.steps.labels[step] if step >= 0 else "no step"
        where = where or f"call {bad} ({named}): the ranks name different operations or sizes"
    return Paired(index=index[:, agree], agreed=int(agree.sum()), all=max(total, 1), how=how, where=where)
