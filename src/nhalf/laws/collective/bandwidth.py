"""algbw and busbw: what nccl-tests makes of a size and a time.

References
----------
NVIDIA/nccl-tests, doc/PERFORMANCE.md: algbw = S / t; busbw = algbw x a factor of the operation, so that it can be
compared with the bandwidth of a link whatever the number of ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.collective import Op

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity

_HALF = (Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_TO_ALL)


def algbw(size_bytes: Quantity, time_s: Quantity) -> Quantity:
    """Return the algorithm bandwidth [bytes/s]: the size that nccl-tests prints over the time."""
    return size_bytes / time_s


def bus_factor(op: Op, ranks: Quantity) -> Quantity:
    """Return busbw / algbw [1]: 2 (K - 1) / K for an all-reduce, (K - 1) / K for the split ones, else 1."""
    if op == Op.ALL_REDUCE:
        return 2 * (ranks - 1) / ranks
    if op in _HALF:
        return (ranks - 1) / ranks
    return 1.0


def busbw(op: Op, size_bytes: Quantity, time_s: Quantity, ranks: Quantity) -> Quantity:
    """Return the bus bandwidth [bytes/s], which no algorithm without help from the switch raises above the link's."""
    return algbw(size_bytes, time_s) * bus_factor(op, ranks)
