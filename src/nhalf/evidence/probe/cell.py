"""A cell: one thing that is timed again and again: an operation, a size, the ranks, the way of timing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from nhalf.collective import Mode, Op

if TYPE_CHECKING:
    from collections.abc import Sequence

How: TypeAlias = Literal["isolated", "back_to_back", "graph", "split", "overlap", "loop"]
HOWS: Final[tuple[str, ...]] = get_args(How)
"""The first three are quantities of a sample; `split` times the start and the wait of an operation apart, `overlap`
times it alone, a computation alone, and both at once; `loop` times whole tokens of a model."""
Number: TypeAlias = Literal["f32", "bf16"]
"""What is summed; bf16 where a backend has it, elsewhere as many bytes of f32."""
FUSE: Final = "fuse"
"""The label of cells that tell what fusing messages saves."""
LADDER: Final = "layers"
"""The variant of a loop without the end of a step: only what its layers exchange."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One collective of a token, or a message from the first of two ranks to the second, of `size_bytes` [bytes].

    `name` says what it is for; `share` is how much of it lies on the path of a token: ranks side by side, and parts of
    a batch that follow each other, share one step of the path.
    """

    name: str
    op: Op
    size_bytes: int
    ranks: tuple[int, ...]
    share: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The communication of one token of a model over `tp` x `pp` ranks, in order; batch 0 has the smallest messages.

    `work` is the product of matrices before each step: rows, inner and columns, zeros for none; `passes` says how many
    parts the batch has. `variant` is how it differs from life: "fuse 4", "overlap"; empty: not at all.
    """

    tp: int
    pp: int
    ep: int
    batch: int
    steps: tuple[Step, ...]
    work: tuple[int, int, int] = (0, 0, 0)
    passes: int = 1
    variant: str = ""

    @property
    def messages(self) -> dict[tuple[Op, int, tuple[int, ...]], Step]:
        """Return one step of each kind that differs by operation, size and ranks."""
        return {(step.op, step.size_bytes, step.ranks): step for step in self.steps}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What is timed: `op` with a message of `size_bytes` [bytes] among `ranks` over `channel`.

    `count` of them in a row are timed as one. A cell of op send-recv has two ranks; the first of them holds the clock.
    `label` tells curves apart that differ in nothing else. A loop has a `program`, whose largest message is its size.
    `algorithm` is what sockets do; libraries choose by themselves.
    """

    channel: str
    op: Op
    size_bytes: int
    ranks: tuple[int, ...]
    how: How = "isolated"
    mode: Mode | None = None
    count: int = 1
    label: str = ""
    number: Number = "f32"
    algorithm: str = ""
    program: Program | None = None

    @property
    def is_extra(self) -> bool:
        """Return whether it is no point of a curve, but was asked for by itself."""
        return self.label == FUSE or self.how in ("split", "overlap", "loop")

    @property
    def is_pair(self) -> bool:
        """Return whether two ranks pass messages, rather than a group doing a collective."""
        return self.op is Op.SEND_RECV and self.program is None


def label_of(channel: str, pair: Sequence[int]) -> str:
    """Return the label of a pair of ranks, one of all pairs."""
    return f"{channel}, {pair[0]}-{pair[1]}"
