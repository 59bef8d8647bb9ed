"""A cell: one thing that is timed again and again: an operation, a size, the ranks, the way of timing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from nhalf.collective import Mode, Op

How: TypeAlias = Literal["isolated", "back_to_back", "graph", "split", "overlap"]
HOWS: Final[tuple[str, ...]] = get_args(How)
"""The first three are quantities of a sample; `split` times the start and the wait of an operation apart, `overlap`
times it alone, a computation alone, and both at once."""
FUSE: Final = "fuse"
"""The label of cells that tell what fusing messages saves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What is timed: `op` with a message of `size_bytes` [bytes] among `ranks` over `channel`.

    `count` of them in a row are timed as one. A cell of op send-recv has two ranks; the first of them holds the clock.
    `label` tells curves apart that differ in nothing else.
    """

    channel: str
    op: Op
    size_bytes: int
    ranks: tuple[int, ...]
    how: How = "isolated"
    mode: Mode | None = None
    count: int = 1
    label: str = ""

    @property
    def is_extra(self) -> bool:
        """Return whether it is no point of a curve, but was asked for by itself."""
        return self.label == FUSE or self.how in ("split", "overlap")

    @property
    def is_pair(self) -> bool:
        """Return whether two ranks pass messages, rather than a group doing a collective."""
        return self.op is Op.SEND_RECV
