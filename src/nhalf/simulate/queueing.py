"""Queueing: when ports that serve one message at a time, in the order in which they ask, begin to serve each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.simulate.round import Ints


def one_by_one(asked: Array, needed: Array, turn: Array | None = None) -> Array:
    """Return when each port begins to serve each message [s]; of messages that ask at once the first comes first.

    All are of shape (ports, messages), or (ports, messages, draws): when a message asks, how long it is served, and
    what decides whose turn it is, where that is known more exactly than by when they ask.
    """
    turn = asked if turn is None else turn
    if not np.any(turn[:, 1:] < turn[:, :-1]):
        return _in_order(asked, needed)
    order = np.argsort(turn, axis=1, kind="stable")
    begun = _in_order(np.take_along_axis(asked, order, axis=1), along(needed, order))
    back = np.empty_like(begun)
    np.put_along_axis(back, order, begun, axis=1)
    return back


def along(values: Array, columns: Ints) -> Array:
    """Return the values at some columns of each row, or the first column where a row is one value repeated."""
    if values.strides[1] == 0 or values.shape[1] == 1:
        return values[:, :1]
    return np.take_along_axis(values, columns, axis=1)


def _in_order(asked: Array, needed: Array) -> Array:
    """Return when each port begins to serve each message, where messages come in the order in which they asked."""
    turns = np.ascontiguousarray(asked.swapaxes(0, 1))
    needs = np.broadcast_to(needed.swapaxes(0, 1), turns.shape)
    free = turns[0] + needs[0]
    for turn, need in zip(turns[1:], needs[1:], strict=True):
        np.maximum(free, turn, out=turn)
        np.add(turn, need, out=free)
    return np.ascontiguousarray(turns.swapaxes(0, 1))
