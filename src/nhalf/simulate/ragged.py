"""Ragged lists: what belongs to each of many values, as one sorted array and where the entries of each value begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from nhalf.simulate.round import Ints

Indices: TypeAlias = NDArray[np.int32]


def offsets(values: Ints | Indices, length: int) -> Indices:
    """Return where the entries of each of `length` values start in a sorted list of them, and where the last end."""
    found = np.zeros(length + 1, dtype=np.int32)
    np.cumsum(np.bincount(values, minlength=length), out=found[1:])
    return found


def grouped(values: Ints | Indices) -> Indices:
    """Return the places of the entries of an array, those of the lowest value first, each value's in order."""
    if not len(values):
        return np.zeros(0, dtype=np.int32)
    place = np.full(int(values.max()) + 1, -1, dtype=np.int32)
    count = np.arange(len(values), dtype=np.int32)
    place[values] = count
    if np.array_equal(place[values], count):
        return place[place >= 0]  # all are different: no need to sort
    return np.argsort(values, kind="stable").astype(np.int32)
