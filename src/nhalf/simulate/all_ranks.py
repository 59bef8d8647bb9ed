"""Everyone to everyone at once: the round in which each rank sends to every other, a few receivers at a time.

Its messages have no list: 16,384 ranks send 268 million, of which those to some hundred receivers are in memory. Where
all ranks begin together and all messages and ports are alike, every rank does what the first one does, and only that
one is played.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nhalf.errors import InputError
from nhalf.simulate.queueing import one_by_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from nhalf.breakdown import Array
    from nhalf.simulate.network import Network
    from nhalf.simulate.round import AllPairs, Ints


_CELLS = 2**24
"""Messages in a block: 134 MB of arrivals."""
_MOST_CELLS = 2**28
"""Messages that are played one by one: all pairs of 16,384 ranks take half a minute."""
_TIE = 1e-9
"""Arrivals closer than this share of the time that the port needs are at once, and served by their senders' numbers."""


def last_ends(network: Network, ready: Array, played: AllPairs, tick: Callable[[int], None]) -> Array:
    """Return when the last message that each rank sends or receives ends [s], for ranks that are ready at given times.

    `tick` is told of messages as they are done.

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
    """Tell whether an array is one value, repeated."""
    return values.strides == (0,) or bool(np.all(values == values[0]))


def _blocks(ranks: int) -> Iterator[slice]:
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
        own = np.arange(len(end))
        end[own, own + block.start] = -np.inf
        np.maximum(last, end.max(axis=0), out=last)
        last[block] = np.maximum(last[block], end.max(axis=1))
        tick(end.size - len(end))
    return last


def _on_switch(network: Network, ready: Array, played: AllPairs, latency: float, tick: Callable[[int], None]) -> Array:
    """Return the last ends where each rank has a port out and a port in that serve in order of arrival."""
    ranks, every = len(ready), slice(None)
    out, back = network.capacity_bytes_per_s[:ranks], network.capacity_bytes_per_s[ranks:]
    senders = Senders.of(ready, played, out)
    last = np.full(ranks, -np.inf)
    for block in _blocks(ranks):
        arrivals = senders.begun(block)
        arrivals += latency
        for target, arrival in zip(range(block.start, block.stop), arrivals, strict=True):
            size = np.broadcast_to(played.sizes_of(every, slice(target, target + 1))[:, 0], ranks)
            order, asked = _by_arrival(arrival, target, float(size.max() / back[target]))
            end = _served(asked, size[order] / back[target])
            # Where a sender's port is the slower one, its last byte leaves it later than the receiver's could take it.
            np.maximum(end, asked + size[order] / out[order], out=end)
            last[order] = np.maximum(last[order], end)
            last[target] = max(last[target], end.max())
            tick(ranks - 1)
    return last


def _by_arrival(arrival: Array, target: int, needed_s: float) -> tuple[Ints, Array]:
    """Return the senders of what a rank receives in the order in which it arrives, and when it does [s]."""
    arrival[target] = np.inf  # a rank sends itself nothing: let that come last
    order = np.argsort(arrival)[:-1]
    asked = arrival[order]
    later = np.diff(asked) > _TIE * needed_s
    if not later.all():
        # The sort is quick and does not keep the order of what is equal; nor is what should be, to the last bit.
        edges = np.flatnonzero(np.diff(later, prepend=True, append=True))
        for start, stop in zip(edges[::2], edges[1::2] + 1, strict=True):
            order[start:stop].sort()
        asked = arrival[order]
    return order, asked


def _served(asked: Array, needed: Array) -> Array:
    """Return when a port has served messages that ask at given times [s], in order."""
    done = np.cumsum(needed)
    return np.maximum.accumulate(asked - done + needed) + done


@dataclass(slots=True, kw_only=True)
class Senders:
    """Ranks that send to every other when both are ready; receivers are asked for in blocks, in their order.

    `ready` [s] is when each rank is ready; `weight` [1 or bytes] of a receiver times `unit_s` [s] of a sender is how
    long its port takes for a message. `passed` is the weight of the receivers so far that were ready when each sender
    was, `own` that up to the sender itself, `total` that of all; all three count the sender itself.
    """

    ready: Array
    weight: Array
    unit_s: Array
    passed: Array
    own: Array
    total: Array
    by_time: Ints
    groups: Ints

    @classmethod
    def of(cls, ready: Array, played: AllPairs, out_bytes_per_s: Array) -> Self:
        """Return the senders of a round of all pairs."""
        ranks = len(ready)
        size = np.asarray(played.size_bytes, dtype=np.float64)
        by_target = size.ndim > 0 and size.shape[0] == 1
        weight = size[0] if by_target else np.ones(ranks)
        unit = 1 / out_bytes_per_s if by_target else np.broadcast_to(size.reshape(-1), ranks) / out_bytes_per_s
        own, passed = np.zeros(ranks), np.zeros(ranks)
        for rank in range(ranks):
            passed += weight[rank] * (ready[rank] <= ready)
            own[rank] = passed[rank]
        by_time = np.argsort(ready, kind="stable")
        starts = np.flatnonzero(np.diff(ready[by_time], prepend=-np.inf))
        return cls(
            ready=ready,
            weight=weight,
            unit_s=unit,
            passed=np.zeros(ranks),
            own=own,
            total=passed,
            by_time=by_time,
            groups=np.append(starts, ranks),
        )

    def begun(self, block: slice) -> Array:
        """Return when the port of each rank begins to serve its message to each of some receivers [s].

        The shape is (receivers, ranks); what a rank would send itself is undefined. Blocks are asked for in order.
        """
        found = np.empty((block.stop - block.start, len(self.ready)))
        for row, target in zip(found, range(block.start, block.stop), strict=True):
            self._to_one(target, row)
        self._to_late_ones(block, found)
        return found

    def _to_one(self, target: int, row: Array) -> None:
        """Set when each rank begins to send to one that was ready when it was."""
        # What comes before it goes to the ranks from the sender's next one on, around the end.
        np.subtract(self.passed, self.own, out=row)
        row[target:] += self.total[target:]
        row *= self.unit_s
        row += self.ready
        self.passed += self.weight[target] * (self.ready[target] <= self.ready)

    def _to_late_ones(self, block: slice, found: Array) -> None:
        """Set when each rank begins to send to those that were ready after it, group by group of the same time."""
        unit = self.unit_s[self.by_time]
        free = (self.ready + (self.total - self.weight) * self.unit_s)[self.by_time]
        for start, stop in zip(self.groups[1:-1], self.groups[2:], strict=True):
            late, begun = self.by_time[start:stop], free[:start]
            np.maximum(begun, self.ready[late[0]], out=begun)
            inside = late[(late >= block.start) & (late < block.stop)]
            for target in inside.tolist():
                earlier = self.by_time[:start]
                found[target - block.start, earlier] = begun + self._ahead(target, late, earlier) * unit[:start]
            begun += unit[:start] * self.weight[late].sum()

    def _ahead(self, target: int, late: Ints, earlier: Ints) -> float | Array:
        """Return the weight of the group's members from each earlier rank on, round to the target."""
        if len(late) == 1:
            return 0.0
        sums = np.concatenate([[0.0], np.cumsum(self.weight[late])])
        ahead = sums[np.searchsorted(late, target)] - sums[np.searchsorted(late, earlier)]
        return np.asarray(np.where(earlier > target, ahead + sums[-1], ahead), dtype=np.float64)
