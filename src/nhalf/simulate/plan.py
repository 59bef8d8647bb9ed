"""The plan of a run: what waits for what, and which way each message goes, as the sequences that the kernels read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Plan(NamedTuple):
    """What waits for what and which way it goes; the names are those of Graph and Paths, ragged lists by offsets.

    Where one value holds for all, a table has that one entry and its mask is 0 (else -1): the entry of i is at
    `i & mask`. `stride` is set where each step is followed by the one `stride` places on, and by no other. No path has
    more than `1 << shift` links.
    """

    stride: int
    next_start: Sequence[int]
    next_step: Sequence[int]
    send_start: Sequence[int]
    receive_start: Sequence[int]
    receive: Sequence[int]
    source_step: Sequence[int]
    target_step: Sequence[int]
    size: Sequence[float]
    size_mask: int
    route: Sequence[int]
    path_start: Sequence[int]
    path: Sequence[int]
    shift: int
    latency: Sequence[float]
    latency_mask: int
    rate: Sequence[float]
    rate_mask: int
    capacity: Sequence[float]
    adding: Sequence[float]
    adding_mask: int
    rendezvous: int
