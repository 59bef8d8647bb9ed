"""Everyone to everyone at once: the round in which each rank sends to every other, in blocks of ranks.

Its messages have no list: 16,384 ranks send 268 million. On a mesh a block of senders is all that is in memory; on a
switch it is when each message reaches its receiver's port, 8 bytes a message. Where all ranks begin together and all
messages and ports are alike, every rank does what the first one does, and only that one is played.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nhalf.errors import InputError
from nhalf.simulate.queueing import along, one_by_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nhalf.breakdown import Array
    from nhalf.simulate.network import Network
    from nhalf.simulate.round import AllPairs

_CELLS = 4_000_000
"""Messages in a block: a hundred MB with all that is kept of them while they are sorted."""
_MOST_CELLS = 2**28
"""Messages whose arrivals are kept at once: 2 GB, all pairs of 16,384 ranks."""


def last_ends(network: Network, ready: Array, played: AllPairs, tick: Callable[[int], None]) -> Array:
    """Return when the last message that each rank sends or receives ends [s], for ranks that are ready at given times.

    The sums are those of the event engine in its order, so that ties fall the same way. `tick` is told of messages as
    they are done.

    Raises
    ------
    InputError
        Too many ranks, where they, their messages or their ports are not alike.
    """
    ranks = len(ready)
    latency = float(network.route(np.array([0]), np.array([1]))[1][0])
    if np.ndim(played.size_bytes) == 0 and _is_one(ready) and _is_one(network.capacity_bytes_per_s):
        tick(played.messages)
        return np.full(ranks, _one_rank(network, float(ready[0]), played, latency))
    if ranks * ranks > _MOST_CELLS:
        raise InputError(
            f"all pairs of {ranks:,} ranks that are not alike are {played.messages:,} messages",
            where="--ranks",
            allowed="2 to 16,384",
            do="simulate fewer ranks, or leave out what makes them differ: ranks that do the same are played as one",
        )
    if network.kind == "mesh":
        return _on_mesh(network, ready, played, latency, tick)
    return _on_switch(network, ready, played, latency, tick)


def _is_one(values: Array) -> bool:
    """Tell whether one value holds for all."""
    return values.strides == (0,) or bool(np.all(values == values[0]))


def _blocks(ranks: int) -> Iterator[slice]:
    """Yield the ranks in blocks."""
    step = max(1, _CELLS // ranks)
    for start in range(0, ranks, step):
        yield slice(start, min(start + step, ranks))


def _one_rank(network: Network, ready: float, played: AllPairs, latency: float) -> float:
    """Return when a rank's last message ends [s] where all do the same: its i-th message meets nobody's."""
    sending = float(np.asarray(played.size_bytes)) / float(network.capacity_bytes_per_s[0])
    if network.kind == "mesh":
        return ready + latency + sending
    left = np.full(played.ranks - 1, sending)
    left[0] += ready
    done = np.add.accumulate(left)
    begun = np.concatenate([[ready], done[:-1]])
    return float((one_by_one((begun + latency)[None, :], np.full((1, 1), sending)) + sending)[0, -1])


def _on_mesh(network: Network, ready: Array, played: AllPairs, latency: float, tick: Callable[[int], None]) -> Array:
    """Return the last ends where each pair has a link of its own."""
    ranks, every = len(ready), slice(None)
    capacity = network.capacity_bytes_per_s.reshape(ranks, ranks)
    last = np.full(ranks, -np.inf)
    for block in _blocks(ranks):
        end = np.maximum(ready[block, None], ready[None, :])
        end += latency
        end += played.sizes_of(block, every) / capacity[block]
        _set_own(end, block, -np.inf)
        np.maximum(last, end.max(axis=0), out=last)
        last[block] = np.maximum(last[block], end.max(axis=1))
        tick(end.size - len(end))
    return last


def _on_switch(network: Network, ready: Array, played: AllPairs, latency: float, tick: Callable[[int], None]) -> Array:
    """Return the last ends where each rank has a port out and a port in that serve in order of arrival."""
    ranks, every = len(ready), slice(None)
    out, back = network.capacity_bytes_per_s[:ranks], network.capacity_bytes_per_s[ranks:]
    arrival = np.empty((ranks, ranks))
    for block in _blocks(ranks):
        sources = np.arange(ranks)[block, None]
        targets = (sources + np.arange(1, ranks)) % ranks
        sending = np.broadcast_to(played.sizes_of(block, every) / out[block, None], (len(sources), ranks))
        begun = one_by_one(np.maximum(ready[sources], ready[targets]), along(sending, targets))
        begun += latency
        arrival[sources, targets] = begun
    last = np.full(ranks, -np.inf)
    for block in _blocks(ranks):
        asked = np.ascontiguousarray(arrival[:, block].T)
        _set_own(asked, block, np.inf)  # a rank sends itself nothing: let that come last
        size = played.sizes_of(every, block)
        needed = np.broadcast_to((size / back[None, block]).T, asked.shape)
        end = one_by_one(asked, needed)
        end += needed
        # Where a sender's port is the slower one, its last byte leaves it later than the receiver's port could take it.
        np.maximum(end, asked + (size / out[:, None]).T, out=end)
        _set_own(end, block, -np.inf)
        last[block] = np.maximum(last[block], end.max(axis=1))
        np.maximum(last, end.max(axis=0), out=last)
        tick(end.size - len(end))
    return last


def _set_own(values: Array, block: slice, value: float) -> None:
    """Set what a block of ranks would send itself or get from itself."""
    own = np.arange(len(values))
    values[own, own + block.start] = value
