"""Replay: the step run again from the ranks' own segments and the collectives, as it was and as it could be."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from nhalf.collective import Algorithm, Op
from nhalf.trace.budget import GAP_S
from nhalf.trace.fixed_time import plain
from nhalf.trace.segments import run, steps_of

if TYPE_CHECKING:
    from nhalf.trace.budget import Budget
    from nhalf.trace.fixed_time import Line, Pricing, Row
    from nhalf.trace.record import Floats, Kind
    from nhalf.trace.segments import Change, Segments
    from nhalf.trace.stragglers import Straggler
    from nhalf.trace.timeline import Timeline

GOOD_REPLAY = 0.03
"""A replay further than this from the measured step prices nothing."""
_NORM = re.compile(r"rms_?norm|layer_?norm|(?<![a-z])norm_kernel|fused_add_rms", re.IGNORECASE)
_NORM_LAUNCH_S = (
    1e-6  # the gap between two kernels of one graph, which fusing saves (assumed; eager launches leave more)
)

What: TypeAlias = Literal["bound", "modelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """One change: the step it leads to [s], the part of the step it saves, whether that is a bound, and why."""

    name: str
    step_s: float
    gain: float
    kind: What
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The self-check and the gains, largest first."""

    measured_s: float
    replayed_s: float
    gains: tuple[Gain, ...]

    @property
    def error(self) -> float:
        """Return how far the replay is from the measured step, as a part of it."""
        return abs(self.replayed_s / self.measured_s - 1.0) if self.measured_s else 0.0


def replay(
    timeline: Timeline, rows: list[Row], found: tuple[Straggler, ...], mean: Budget, price: Pricing | None
) -> Replayed:
    """Return what changes would gain; modelled ones only when the replay of the measured step is within 3 %."""
    steps = steps_of(timeline) if timeline.waits_known else []
    measured = float(np.mean([step.measured_s for step in steps])) if steps else mean.step_s
    again = run(steps, lambda step: (step.own, step.moving, step.tail)) if steps else mean.step_s
    gains: list[Gain] = _bounds(timeline, rows, mean)
    if steps and abs(again / measured - 1.0) <= GOOD_REPLAY:
        for name, change, kind, why in _changes(timeline, rows, found, price):
            after = measured - (again - run(steps, change))
            gains.append(Gain(name=name, step_s=after, gain=1.0 - after / measured, kind=kind, why=why))
    gains.sort(key=lambda gain: -gain.gain)
    return Replayed(measured_s=measured, replayed_s=again, gains=tuple(gains))


def _bounds(timeline: Timeline, rows: list[Row], mean: Budget) -> list[Gain]:
    """Return upper bounds of the gains, from the budget alone."""
    found = []

    def add(name: str, saved: float, why: str) -> None:
        if saved > 0:
            found.append(Gain(name=name, step_s=mean.step_s - saved, gain=saved / mean.step_s, kind="bound", why=why))

    if mean.exposed_wait_s is not None and mean.exposed_transfer_s is not None:
        hidden = min(mean.exposed_transfer_s, mean.compute_s)
        add("transfer overlapped with compute", hidden, "every transfer hides behind compute of the same step")
    else:
        add("communication removed", mean.exposed_s, "waiting and moving are not told apart")
    add(
        "fused with the norm",
        _norms_s(timeline, rows),
        "the norm's kernels and their launches vanish into the all-reduce",
    )
    return found


def _norms_s(timeline: Timeline, rows: list[Row]) -> float:
    """Return the time [s] of a step's norm kernels that could go into an all-reduce that is not fused yet."""
    reduces = sum(row.count_per_step for row in rows if row.kind.op is Op.ALL_REDUCE and not row.kind.fused)
    trace = timeline.traces[0]
    norms = [work for name, work in trace.works.items() if _NORM.search(name)]
    count = sum(work.count for work in norms) / max(1, len(trace.steps))
    if not norms or not reduces or trace.device != "gpu":
        return 0.0
    each = sum(work.total_s for work in norms) / sum(work.count for work in norms)
    return min(count, reduces) * (each + _NORM_LAUNCH_S)


def _changes(
    timeline: Timeline, rows: list[Row], found: tuple[Straggler, ...], price: Pricing | None
) -> list[tuple[str, Change, What, str]]:
    """Return the changes that the replay runs: name, what it does to a step, its label and its ground."""
    changes: list[tuple[str, Change, What, str]] = [
        ("no waits", _earliest, "bound", "every segment as short as on the quickest rank")
    ]
    every = [trace.rank for trace in timeline.traces]
    for group in dict.fromkeys(tuple(sorted((one.rank, *one.together_with))) for one in found):
        change = _as_the_others([every.index(rank) for rank in group])
        changes.append((removal(group), change, "modelled", "their segments become the others' median"))
    kinds = timeline.meetings.kinds
    lines = [next((row.line for row in rows if row.kind == plain(kind)), None) for kind in kinds]
    lows = np.array([next((row.transfer_low_s for row in rows if row.kind == plain(kind)), 0.0) for kind in kinds])
    known = any(line is not None for line in lines)
    label: What = "modelled" if known else "bound"
    ground = "latency of the line" if known else "if all of the quickest transfers were latency"
    changes.append(("latency halved", _scaled(lines, lows, kinds, (0.5, 1.0)), label, ground))
    ground = "bytes of the line" if known else "if all of the quickest transfers were bytes"
    changes.append(("bandwidth doubled", _scaled(lines, lows, kinds, (1.0, 0.5)), label, ground))
    one_shot = _one_shot(timeline.meetings.kinds, price)
    if one_shot:
        changes.append(("one-shot instead of ring", _replaced(one_shot), "modelled", "the law with the links given"))
    if any(_repeats(step, timeline) is not None for step in steps_of(timeline)[:1]):
        changes.append(
            ("small collectives fused", _fused(lines, lows, timeline), "modelled" if known else "bound",
             "calls with nothing between them pay one latency")
        )  # fmt: skip
    return changes


def removal(ranks: tuple[int, ...]) -> str:
    """Return the name of the change that takes away stragglers which belong together."""
    if len(ranks) > 1:
        return f"stragglers removed (ranks {', '.join(map(str, ranks))})"
    return f"straggler removed (rank {ranks[0]})"


def _earliest(step: Segments) -> tuple[Floats, Floats, Floats]:
    """Give every rank the shortest segments of all."""
    own = np.where(step.there, step.own, np.inf).min(axis=0)
    return (
        np.broadcast_to(np.where(np.isfinite(own), own, 0.0), step.own.shape),
        step.moving,
        np.full_like(step.tail, step.tail.min()),
    )


def _as_the_others(rows: list[int]) -> Change:
    def change(step: Segments) -> tuple[Floats, Floats, Floats]:
        own, tail = step.own.copy(), step.tail.copy()
        others = np.delete(np.where(step.there, step.own, np.nan), rows, axis=0)
        shared = np.any(~np.isnan(others), axis=0)
        for row in rows:
            known = step.there[row] & shared
            own[row, known] = np.minimum(own[row, known], np.nanmedian(others[:, known], axis=0))
            tail[row] = min(tail[row], float(np.median(np.delete(step.tail, rows))))
        return own, step.moving, tail

    return change


def _scaled(lines: list[Line | None], lows: Floats, kinds: tuple[Kind, ...], factors: tuple[float, float]) -> Change:
    """Return the change that scales the fixed part of every transfer and the part that its bytes cost, by two factors.

    What a transfer took beyond its line stays. Where no line tells the two parts apart, what the quickest calls took
    (`lows` [s]) is scaled by the smaller factor: a bound, as what others took beyond them is neither.
    """
    fixed, bytes_ = factors
    alphas = np.array([np.nan if line is None else line.fixed_s for line in lines])
    moved = np.array(
        [np.nan if a is None or not k.size_bytes else k.size_bytes / a.bandwidth_bytes_per_s
         for a, k in zip(lines, kinds, strict=True)]
    )  # fmt: skip

    def change(step: Segments) -> tuple[Floats, Floats, Floats]:
        alpha, beta = alphas[step.kind], moved[step.kind]
        unknown = np.isnan(alpha) | np.isnan(beta)
        first = np.minimum(np.nan_to_num(alpha), step.moving)
        second = np.minimum(np.nan_to_num(beta), step.moving - first)
        least = (1.0 - min(fixed, bytes_)) * np.minimum(lows[step.kind], step.moving)
        priced = step.moving - (1.0 - fixed) * first - (1.0 - bytes_) * second
        return step.own, np.where(unknown, step.moving - least, priced), step.tail

    return change


def _one_shot(kinds: tuple[Kind, ...], price: Pricing | None) -> dict[int, tuple[float, float]]:
    """Return, for each kind of all-reduce but one-shot, what that saves by the links' laws, and what it costs [s]."""
    found: dict[int, tuple[float, float]] = {}
    for i, kind in enumerate(kinds):
        if price is None or kind.op is not Op.ALL_REDUCE or kind.algorithm is Algorithm.ONE_SHOT or not kind.size_bytes:
            continue
        now, then = price(kind, None), price(kind, Algorithm.ONE_SHOT)
        if now is not None and then is not None:
            new = then.fixed_s + kind.size_bytes / then.bandwidth_bytes_per_s
            found[i] = now.fixed_s + kind.size_bytes / now.bandwidth_bytes_per_s - new, new
    return found


def _replaced(prices: dict[int, tuple[float, float]]) -> Change:
    """Return the change by the difference of two laws; a transfer ends no lower than the new law, and none grows."""

    def change(step: Segments) -> tuple[Floats, Floats, Floats]:
        moving = step.moving.copy()
        for kind, (saved, price) in prices.items():
            chosen = step.kind == kind
            old = step.moving[:, chosen]
            moving[:, chosen] = np.minimum(old, np.maximum(old - saved, price))
        return step.own, moving, step.tail

    return change


def _repeats(step: Segments, timeline: Timeline) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
    """Return which meetings follow one of the same kind with no room for compute between, None when none does."""
    room = GAP_S[timeline.traces[0].device] / 4
    close = np.all(~step.there | (step.own < room), axis=0)
    same = np.concatenate(([False], step.kind[1:] == step.kind[:-1]))
    found = close & same
    return found if np.any(found) else None


def _fused(lines: list[Line | None], lows: Floats, timeline: Timeline) -> Change:
    alphas = np.array([low if line is None else line.fixed_s for line, low in zip(lines, lows.tolist(), strict=True)])

    def change(step: Segments) -> tuple[Floats, Floats, Floats]:
        again = _repeats(step, timeline)
        if again is None:
            return step.own, step.moving, step.tail
        saved = np.minimum(alphas[step.kind], step.moving)
        return step.own, step.moving - np.where(again, saved, 0.0), step.tail

    return change
