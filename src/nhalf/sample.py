"""A sample: one measured time of one collective or message."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from nhalf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.collective import Mode, Op

Timing: TypeAlias = Literal["isolated", "back_to_back", "graph", "predicted"]
TIMINGS: Final[tuple[str, ...]] = get_args(Timing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One point: `op` on `ranks` ranks with a message of `size_bytes` [bytes] took `seconds` [s].

    `size_bytes` follows nccl-tests (the total buffer for an all-gather). `quantity` says what `seconds` is: the time
    of one that started alone (`isolated`), the mean of a run without pauses (`back_to_back`), the same inside a
    captured graph (`graph`), or a model's number (`predicted`); they differ, so a fit keeps them apart. `nodes` and
    `mode` are None when unknown. `environment` holds what the source said about the machine, the library and its
    version. `repeat` numbers the runs of one point from 0.

    Raises InputError when the size is negative or not finite, the time is not positive and finite, there is fewer than
    one rank or node, the repeat is negative, or the quantity is unknown.
    """

    op: Op
    size_bytes: float
    ranks: int
    seconds: float
    nodes: int | None = None
    mode: Mode | None = None
    quantity: Timing = "isolated"
    environment: Mapping[str, str] = field(default_factory=dict)
    repeat: int = 0

    def __post_init__(self) -> None:
        """Refuse a point that cannot have been measured."""
        where = f"sample of {self.op}, {self.size_bytes!r} bytes, {self.ranks!r} ranks"
        if not (math.isfinite(self.size_bytes) and self.size_bytes >= 0):
            raise InputError(f"size {self.size_bytes!r} is not a size", where=where, allowed="0 bytes or more")
        if not (math.isfinite(self.seconds) and self.seconds > 0):
            raise InputError(f"time {self.seconds!r} is not a time", where=where, allowed="more than 0 s, finite")
        if self.ranks < 1 or (self.nodes is not None and self.nodes < 1) or self.repeat < 0:
            raise InputError(
                f"ranks {self.ranks!r}, nodes {self.nodes!r}, repeat {self.repeat!r} cannot be",
                where=where,
                allowed="1 or more ranks and nodes, a repeat of 0 or more",
            )
        if self.quantity not in TIMINGS:
            raise InputError(f"quantity {self.quantity!r} is unknown", where=where, allowed=", ".join(TIMINGS))
