"""What is kept of one rank's trace: its communication calls, when its device was busy, its steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.collective import Algorithm, Op

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
SizeSource: TypeAlias = Literal["argument", "shapes", "flight recorder", "model"]
Clockwork: TypeAlias = Literal["gpu", "cpu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of communication in one rank's trace: what ran, how large, in which group.

    `name` is the kernel's function (or `gloo:all_reduce`), `family` the pattern that recognised it. `size_bytes`
    follows nccl-tests and is None when the trace does not say; `size_source` says where it came from. `group` is a key
    that is equal on all ranks of the group ("" when unknown), `members` its ranks (empty when unknown), `ranks` its
    size. `fused` kernels also do the norm that follows. `peers` is (source, destination) of a point-to-point message.
    """

    name: str
    family: str
    op: Op
    algorithm: Algorithm | None = None
    fused: bool = False
    size_bytes: float | None = None
    size_source: SizeSource | None = None
    group: str = ""
    members: tuple[int, ...] = ()
    ranks: int | None = None
    peers: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calls:
    """The communication calls of one rank in the order of their starts, as columns of equal length.

    `start_s` and `end_s` [s] are on the rank's own clock, after its origin; `kind` indexes `RankTrace.kinds`; `seq` is
    the sequence number in the group, -1 when unknown; `launch_s` [s] is when the host launched it, NaN when unknown.
    """

    start_s: Floats
    end_s: Floats
    kind: Ints
    seq: Ints
    launch_s: Floats

    def __len__(self) -> int:
        """Return the number of calls."""
        return len(self.start_s)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Steps:
    """The steps of one rank: their label (equal on all ranks), start and end [s], and what marked them."""

    labels: tuple[str, ...]
    start_s: Floats
    end_s: Floats
    marker: str

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.labels)

    def of(self, time_s: Floats) -> Ints:
        """Return the index of the step in which each time [s] lies, -1 for none."""
        if not len(self):
            return np.full(len(time_s), -1)
        index = np.searchsorted(self.start_s, time_s, side="right") - 1
        inside = (index >= 0) & (time_s < self.end_s[np.maximum(index, 0)])
        return np.where(inside, index, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One kind of compute on one rank: how often it ran and how long in all [s]."""

    count: int
    total_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a trace says about its run: backend, world size, host, and the ranks of each process group by name."""

    backend: str = ""
    world_size: int | None = None
    host: str = ""
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RankTrace:
    """One rank, reduced: nothing here grows with the events that are neither communication nor busy time.

    Times are [s] after `origin_ns` [ns], the rank's own clock. `busy_s` holds the merged intervals, (n, 2), in which
    the device computed. `works` sums compute by kernel name; `suspects` [s] by name are kernels that sound like
    communication and match no pattern. `lost` counts the events that damage took, which are not among `events`.
    """

    rank: int
    file: str
    origin_ns: int
    device: Clockwork
    header: Header
    kinds: tuple[Kind, ...]
    calls: Calls
    steps: Steps
    busy_s: Floats
    works: Mapping[str, Work]
    suspects: Mapping[str, float]
    window_s: tuple[float, float]
    events: int
    lost: int = 0
    notes: tuple[str, ...] = ()


def merged(start_s: Floats, end_s: Floats) -> Floats:
    """Return the union of intervals as rising, disjoint rows (start, end) [s]."""
    if not len(start_s):
        return np.empty((0, 2))
    order = np.argsort(start_s, kind="stable")
    start, reach = start_s[order], np.maximum.accumulate(end_s[order])
    opens = np.concatenate(([True], start[1:] > reach[:-1]))
    closes = np.concatenate((opens[1:], [True]))
    return np.column_stack((start[opens], reach[closes]))
