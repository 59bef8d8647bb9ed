"""Flips: the gain of every option at every batch, and the batches from which on other advice holds."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.decide.levers import levers, of_links
from nhalf.points import Points

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.breakdown import Array
    from nhalf.decide.levers import Lever
    from nhalf.decide.option import Option
    from nhalf.scenario import Scenario

LARGEST_BATCH: Final = 1024
"""Up to this batch, or the largest that is asked for, the advice is looked at for flips."""
_LASTING: Final = 1.15
"""An advice that holds for less than 15 % of a batch is a wiggle of a curve, not a flip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """The batch from which on another option gains most; an empty name: none on the list gains what can be told."""

    before: str
    after: str
    batch: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gains:
    """The part of the time per token [1] that each of some changes saves at each of `batches`, by their names.

    It is minus infinity where a change does not fit.
    """

    batches: Array
    by: Mapping[str, Array]


def steps(option: Option, batches: Array) -> Array:
    """Return the time per token [s] of every layout (rows) at every batch, infinite where it does not fit."""
    rows = []
    for index in range(len(option.layouts)):
        found = option.points(index, batches)
        rows.append(np.where(found.fit_codes > 0, found.tpot_s, np.inf))
    return np.stack(rows)


def gains(now: Option, options: Sequence[Option], batches: Array) -> Gains:
    """Return the gain of each option at every batch that fits before anything is bought."""
    before = np.min(steps(now, batches), axis=0)
    kept = batches[np.isfinite(before)]
    before = before[: len(kept)]
    found = {option.name: 1 - np.min(steps(option, kept), axis=0) / before for option in options} if len(kept) else {}
    return Gains(batches=kept, by=found)


def flips(options: Sequence[Option], found: Gains) -> tuple[Flip, ...]:
    """Return the batches at which the option that gains most changes, where the model can tell any from nothing."""
    kept = found.batches
    if not len(kept):
        return ()
    gained = np.array([found.by[each.name] for each in options])
    told = np.any(gained >= np.array([each.error for each in options])[:, np.newaxis], axis=0)
    best = np.where(told, np.argmax(gained, axis=0), -1)
    runs = _runs(best, kept)
    names = {-1: "", **{index: option.name for index, option in enumerate(options)}}
    return tuple(
        Flip(before=names[first], after=names[second], batch=start) for (first, _), (second, start) in pairwise(runs)
    )


def _runs(best: Array, batches: Array) -> list[tuple[int, int]]:
    """Return each winner that lasts with the batch at which it begins; short runs count for the one before."""
    edges = [0, *(np.flatnonzero(np.diff(best)) + 1).tolist(), len(best)]
    found: list[tuple[int, int]] = []
    for start, stop in pairwise(edges):
        winner, first = int(best[start]), int(batches[start])
        lasts = (float(batches[stop - 1]) + 1) / first >= _LASTING
        if found and (not lasts or found[-1][0] == winner):
            continue
        found.append((winner, first))
    return found


WIDER, QUICKER = "twice the bandwidth of the link", "half the latency of the link"


def link_gains(now: Option, batches: Array) -> Gains:
    """Return what a link twice as wide, and one half as late, saves of the fastest layout at every batch that fits.

    Of several tiers it is the one that gains most at that batch.
    """
    found = steps(now, batches)
    fastest, before = np.argmin(found, axis=0), np.min(found, axis=0)
    saved = np.zeros((2, len(batches)))
    for index, base in enumerate(now.layouts):
        scenario = now.scenario(index, batches)
        best = np.full((2, len(batches)), -np.inf)
        pairs = of_links(levers(base.having({"workload.batch": 1.0})))
        for pair in pairs:
            gain = np.stack([_gain(scenario, lever, before) for lever in pair])
            best = np.where(np.max(gain, axis=0) > np.max(best, axis=0), gain, best)
        saved = np.where(fastest == index, best, saved) if pairs else saved
    fits = np.isfinite(before)
    return Gains(batches=batches[fits], by=dict(zip((WIDER, QUICKER), saved[:, fits], strict=True)))


def _gain(scenario: Scenario, lever: Lever, before: Array) -> Array:
    """Return the part of the steps [1] that a lever saves at every batch."""
    moved = scenario.having({lever.path: scenario.value(lever.path) * lever.factor})
    found: Array = 1 - Points(scenario=moved, count=len(before)).tpot_s / before
    return found


def wider_runs(found: Gains) -> tuple[tuple[int, int], ...]:
    """Return the first and the last batch of each run of batches at which twice the bandwidth saves more."""
    wants = found.by[WIDER] > found.by[QUICKER]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], wants, [False]]).astype(int)))
    return tuple(
        (int(found.batches[start]), int(found.batches[stop - 1]))
        for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    )
