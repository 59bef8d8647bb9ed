"""Ranking: how good a layout is at each batch, whether it keeps the limits there, where it is best, and the front."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from nhalf.decide.candidates import Choice, first_token_doubt
from nhalf.decide.little import finished_per_s

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nhalf.breakdown import Array
    from nhalf.decide.candidates import Candidate, Wish


def scores(candidate: Candidate, wish: Wish) -> Array:
    """Return what is wanted most of, at every batch; money goes as tokens of a GPU do."""
    found = candidate.points
    if wish.goal == "latency":
        return found.tokens_per_s_per_user
    if wish.users is None:
        return found.tokens_per_s_per_gpu
    # A replica's share is rounded up: what nobody asked for counts for nothing.
    layout = candidate.layout
    served: Array = np.minimum(found.running * layout.replicas, wish.users) * found.tokens_per_s_per_user
    return served / (layout.devices * layout.replicas)


def meets(candidate: Candidate, wish: Wish) -> Array:
    """Return whether the limits hold at every batch: 0 no, 1 perhaps, 2 yes."""
    found = np.where(candidate.marginal, 1, 2)
    if wish.tpot_s is not None:
        found = np.where(candidate.tpot_at(wish.odds) <= wish.tpot_s, found, 0)
    if wish.rate_per_s is not None:
        found = np.where(finished_per_s(candidate.points) >= wish.rate_per_s, found, 0)
    if wish.ttft_s is not None and np.any(found > 0) and candidate.first_s is not None:
        low, high = (end * first_token_doubt(wish.odds) for end in candidate.first_s)
        found = np.where(low > wish.ttft_s, 0, np.where(high > wish.ttft_s, np.minimum(found, 1), found))
    return found


def best(candidate: Candidate, wish: Wish) -> Choice:
    """Return the best point of a layout: of those that meet the limits, else the one that misses them least."""
    held, wanted = meets(candidate, wish), scores(candidate, wish)
    if np.any(held > 0):
        place = int(np.argmax(np.where(held > 0, wanted, -np.inf)))
    else:
        place = int(np.argmin(missed(candidate, wish)))
    return choice(candidate, place, code=held[place], score=wanted[place])


def choice(candidate: Candidate, place: int, *, code: int, score: float, pareto: bool = False) -> Choice:
    """Return one point of a layout as a row."""
    return Choice(
        points=candidate.points, place=place, candidate=candidate, meets=word(code), score=float(score), pareto=pareto
    )


def word(code: int) -> Literal["yes", "marginal", "no"]:
    """Return the word of a code of `meets`."""
    return "yes" if code == 2 else "marginal" if code == 1 else "no"  # noqa: PLR2004  the codes of meets


def missed(candidate: Candidate, wish: Wish) -> Array:
    """Return by what factor the limits are missed at every batch: the worse of the two, at least 1 where they hold."""
    factors = np.ones(len(candidate.batches))
    if wish.tpot_s is not None:
        factors = np.maximum(factors, candidate.tpot_at(wish.odds) / wish.tpot_s)
    if wish.ttft_s is not None and candidate.first_s is not None:
        factors = np.maximum(factors, candidate.first_s[0] * first_token_doubt(wish.odds) / wish.ttft_s)
    if wish.rate_per_s is not None:
        factors = np.maximum(factors, wish.rate_per_s / finished_per_s(candidate.points))
    return factors


def front(one: Array, other: Array) -> NDArray[np.bool_]:
    """Return which points are on the front when more of both is better; of points that are the same, the first.

    Both arrays are of shape (n,); a point with a value that is not finite is on no front.
    """
    usable = np.flatnonzero(np.isfinite(one) & np.isfinite(other))
    # From the largest of one down, a point is on the front when it has more of the other than every point before it.
    order = usable[np.lexsort((usable, -other[usable], -one[usable]))]
    best_before = np.concatenate([[-np.inf], np.maximum.accumulate(other[order])[:-1]])
    found = np.zeros(len(one), dtype=bool)
    found[order[other[order] > best_before]] = True
    return found
