"""Pareto fronts: the points that no other beats in both of two things at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nhalf.breakdown import Array


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
