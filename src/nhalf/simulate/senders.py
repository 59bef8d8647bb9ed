"""Senders: when each of many ranks begins to send its message to each other, without a table of all pairs.

A message is posted when both its ranks are ready, and a port serves messages in the order in which they are posted. So
a rank first sends to all that were ready when it was, in turn from the next rank on, then to each that comes later, as
it comes. The bytes that it sends before the message to a rank are sums that follow from those of the rank before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from typing import Self

    from nhalf.breakdown import Array
    from nhalf.simulate.round import AllPairs, Ints


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
