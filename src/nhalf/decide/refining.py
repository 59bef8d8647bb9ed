"""Refining: the batch of the leading layouts, between those of the grid, up to the largest that keeps the limits."""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.decide import ranking
from nhalf.decide.candidates import evaluate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nhalf.breakdown import Array
    from nhalf.decide.candidates import Candidate, Wish

    Rates = Callable[[Candidate, Wish], Array]

_LEADING: Final = 12
"""So many layouts are refined, the best of them surely among them: as many as an answer shows."""
_FINE: Final = 32
"""A gap between two batches of the grid is cut into so many parts at most: 1 % of a batch, as the grid goes."""


def refined(candidates: Sequence[Candidate], wish: Wish) -> tuple[Candidate, ...]:
    """Return the candidates; the leading ones have, besides the batches of the grid, the best between those."""
    found = _leading(candidates, wish, _served)
    return _leading(found, wish, _decoded) if wish.pools else found


def refine(candidate: Candidate, wish: Wish) -> Candidate:
    """Return a candidate with the best batch between those of the grid among its own, where there is a better one."""
    return _refine(candidate, wish, _served)


def _served(candidate: Candidate, wish: Wish) -> Array:
    """Return tokens/s of a device at every batch, 0 where the limits do not hold."""
    return np.where(ranking.meets(candidate, wish) > 0, candidate.points.tokens_per_s_per_gpu, 0.0)


def _decoded(candidate: Candidate, wish: Wish) -> Array:
    """Return tokens/s of a device that prefills nothing at every batch, 0 where the limit of a token does not hold."""
    rates: Array = candidate.batches / candidate.decode_s / candidate.layout.devices
    return rates if wish.tpot_s is None else np.where(candidate.decode_at(wish.odds) <= wish.tpot_s, rates, 0.0)


def _leading(candidates: Sequence[Candidate], wish: Wish, rates: Rates) -> tuple[Candidate, ...]:
    """Return the candidates, those refined that may be among the first.

    A step is not shorter for a larger batch, so up to the next batch of the grid a device gives at most as many times
    more as that is larger. In the order of that bound, layouts are refined until it is below what enough of them give.
    """
    found, leaders = list(candidates), list[float]()
    bounds = np.array([_bound(each, wish, rates) for each in found])
    for place in np.argsort(-bounds, kind="stable").tolist():
        if len(leaders) == _LEADING and bounds[place] <= leaders[0]:
            break
        found[place] = _refine(found[place], wish, rates)
        (heapq.heappush if len(leaders) < _LEADING else heapq.heappushpop)(
            leaders, float(np.max(rates(found[place], wish)))
        )
    return tuple(found)


def _gap(candidate: Candidate, wish: Wish, rates: Rates) -> tuple[float, float]:
    """Return the batches of the grid between which the best one lies; the same twice where that is of the grid.

    Where the next batch breaks a limit, it is below that, else it may be on either side. Memory that only may do is no
    gain: the largest batch that surely fits is of the grid. The fastest token is that of the smallest batch.
    """
    found, batches = rates(candidate, wish), candidate.batches
    best = int(np.argmax(found))
    alone = float(batches[best]), float(batches[best])
    if (
        wish.batches
        or wish.users
        or wish.rate_per_s
        or wish.goal == "latency"
        or not found[best]
        or best + 1 == len(batches)
    ):
        return alone
    if candidate.marginal[best + 1]:
        return alone
    before = best - 1 if best and found[best + 1] else best
    return float(batches[before]), float(batches[best + 1])


def _bound(candidate: Candidate, wish: Wish, rates: Rates) -> float:
    """Return the most tokens/s that a device may give between the batches of the grid."""
    low, high = _gap(candidate, wish, rates)
    return float(np.max(rates(candidate, wish))) * high / low


def _refine(candidate: Candidate, wish: Wish, rates: Rates) -> Candidate:
    """Return a candidate with the best batch of its gap among its own."""
    low, high = _gap(candidate, wish, rates)
    group = candidate.layout.attention_dp
    step = group * max(1, round((high - low) / group / _FINE))
    between = np.arange(low + step, high, step)
    if not len(between):
        return candidate
    fine = evaluate(candidate.scenario, replace(wish, batches=tuple(between.tolist())))
    if fine is None:
        return candidate
    given = rates(fine, wish)
    best = int(np.argmax(given))
    if given[best] <= np.max(rates(candidate, wish)):
        return candidate
    batches = np.sort(np.append(candidate.batches, fine.batches[best]))
    return evaluate(candidate.scenario, replace(wish, batches=tuple(batches.tolist())), candidate.alike) or candidate
