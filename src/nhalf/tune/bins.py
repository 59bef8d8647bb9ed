"""Bins: the fewest ranges of sizes, each with one path, that lose nothing beyond the noise.

Between measured sizes times lie on straight lines, for a message takes alpha + n beta; so two paths cross where their
lines do, not at the middle between two sizes. A path is good enough where it loses no more than noise on the best one,
and the library's own choice is left where that is good enough.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.quantiles import Z80

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.breakdown import Array
    from nhalf.tune.paths import Path
    from nhalf.tune.sweeps import Curve, Sweep

_STRANGE: Final = 3.0
"""So many times the margin from every path, a time of the library's choice is that of none of them."""
LARGEST: Final = 2**64 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Sizes from `start` to `end` [bytes], both in it, and their path; None leaves them to the library."""

    start: int
    end: int
    path: Path | None


def margin(sweep: Sweep) -> float:
    """Return how much one mean may be longer than another by chance [1]: the 80 % quantile of two with their noise."""
    return float(np.expm1(Z80 * sweep.noise * np.sqrt(2.0 / max(sweep.repeats, 1.0))))


def bins(sweep: Sweep, default: Curve, low: float, high: float) -> list[Bin]:
    """Return the bins of a sweep between two sizes; `default` is what the library chooses by itself.

    Sizes that no path or not the default was measured at are left.
    """
    edges = _edges(sweep, default, low, high)
    if len(edges) < 2:  # noqa: PLR2004  a range has two ends
        return []
    paths, good, cost = _good(sweep, default, edges)
    found: list[Bin] = []
    place = 0
    while place < len(edges) - 1:
        path, stop = _longest(good, cost, place)
        found.append(Bin(start=int(np.ceil(edges[place])), end=int(np.ceil(edges[stop])) - 1, path=paths[path]))
        place = stop
    found[-1] = replace(found[-1], end=int(edges[-1]))
    return _joined([each for each in found if each.end >= each.start])


def _edges(sweep: Sweep, default: Curve, low: float, high: float) -> Array:
    """Return the sizes at which a choice may change: those that were measured, and where two lines cross."""
    curves = [default, *sweep.curves.values()]
    sizes = np.unique(np.concatenate([each.size_bytes for each in curves]))
    sizes = np.unique(np.clip(sizes, low, high))
    times = [each.at(sizes) for each in curves]
    crossings = []
    for one, first in enumerate(times):
        for second in times[one + 1 :]:
            apart = first - second
            with np.errstate(invalid="ignore", divide="ignore"):
                turns = apart[:-1] * apart[1:] < 0
                share = apart[:-1] / (apart[:-1] - apart[1:])
            crossings.append((sizes[:-1] + share * np.diff(sizes))[turns])
    # Where a path is good enough by the noise ends between crossings too: looked for on a grid of 64 sizes an octave.
    octaves = max(int(np.ceil(64 * np.log2(max(high / max(low, 1.0), 1.0)))), 1)
    grid = np.geomspace(max(low, 1.0), max(high, 1.0), octaves + 1)
    found: Array = np.unique(np.round(np.concatenate([sizes, *crossings, grid[(grid > low) & (grid < high)]])))
    return found


def _good(sweep: Sweep, default: Curve, edges: Array) -> tuple[list[Path | None], Array, Array]:
    """Return the paths, the library's choice first; where each is good enough between edges, and what it loses."""
    paths: list[Path | None] = [None, *sweep.curves]
    curves = [default, *sweep.curves.values()]
    known = np.stack([each.at(edges) for each in curves])
    times = np.where(np.isnan(known), np.inf, known)
    measured = np.isfinite(times[0])
    times[0] = np.where(_sure(default, sweep, edges), times[0], np.inf)
    best = np.min(times, axis=0)
    with np.errstate(invalid="ignore"):
        enough = times <= best * (1.0 + margin(sweep))
        lost = np.where(np.isfinite(best), times / best - 1.0, 0.0)
    enough[0] |= ~measured | ~np.isfinite(best)  # where the default is not known, nothing is won for sure
    enough[1:] &= measured
    return paths, enough[:, :-1] & enough[:, 1:], np.maximum(lost[:, :-1], lost[:, 1:])


def _sure(default: Curve, sweep: Sweep, edges: Array) -> Array:
    """Return where the library's choice is good enough whichever it is: between two sizes it may switch anywhere.

    What it runs at a measured size is the path whose time is nearest to its own; between two of them it is either.
    """
    at, curves = default.size_bytes, list(sweep.curves.values())
    known = np.stack([each.at(at) for each in curves])
    off = np.abs(np.log(np.where(np.isnan(known), np.inf, known) / default.time_s))
    runs = np.argmin(off, axis=0)
    times = np.stack([each.at(edges) for each in curves])
    good = times <= np.fmin.reduce(times) * (1.0 + margin(sweep))
    good |= ~np.isfinite(times)
    left = np.clip(np.searchsorted(at, edges, side="right") - 1, 0, len(at) - 1)
    right = np.clip(np.searchsorted(at, edges, side="left"), 0, len(at) - 1)
    place = np.arange(len(edges))
    found: Array = good[runs[left], place] & good[runs[right], place]
    # Where its time is that of no path that was measured, its own times are all that is known.
    strange = np.min(off, axis=0) > _STRANGE * margin(sweep)
    kept: Array = found | strange[left] | strange[right]
    return kept


def _longest(good: Array, cost: Array, place: int) -> tuple[int, int]:
    """Return the path of the bin that begins at a place, and its end: the default if it will do, else the longest.

    Of paths that reach as far, the one that loses least is taken; and a bin ends where another begins to be better, as
    long as that one reaches further.
    """
    reach = [_reach(row, place) for row in good]
    if reach[0] > place:
        return 0, reach[0]
    furthest = max(reach)
    if furthest == place:  # between two edges each path loses somewhere: the least loss at its worst
        return int(np.argmin(cost[:, place])), place + 1
    ends = [path for path in range(1, len(reach)) if reach[path] == furthest]
    path = min(ends, key=lambda each: float(np.sum(cost[each, place:furthest])))
    return path, _handed_over(good, cost, path, place, furthest)


def _reach(row: Array, place: int) -> int:
    """Return up to where a path is good enough without a break."""
    bad = np.flatnonzero(~row[place:].astype(bool))
    return place + int(bad[0]) if len(bad) else len(row)


def _handed_over(good: Array, cost: Array, path: int, place: int, furthest: int) -> int:
    """Return where a bin ends: where the next one's path takes over at least loss, within what both are good for."""
    if furthest >= good.shape[1]:
        return furthest
    nexts = [each for each in range(len(good)) if good[each, furthest]]
    following = max(nexts, key=lambda each: _reach(good[each], furthest), default=-1)
    if following <= 0:
        return furthest
    begin = furthest
    while begin > place + 1 and good[following, begin - 1] and cost[following, begin - 1] < cost[path, begin - 1]:
        begin -= 1
    return begin


def _joined(found: Sequence[Bin]) -> list[Bin]:
    """Return bins with neighbours of one path as one."""
    joined: list[Bin] = []
    for each in found:
        if joined and joined[-1].path == each.path:
            joined[-1] = replace(joined[-1], end=each.end)
        else:
            joined.append(each)
    return joined


def chosen(found: Sequence[Bin], size: float) -> Path | None:
    """Return the path of a size; None is the library's own choice."""
    return next((each.path for each in found if each.start <= size <= each.end), None)
