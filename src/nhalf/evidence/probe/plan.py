"""What is asked of a measurement, and the cells that answer it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

from nhalf.collective import Mode, Op
from nhalf.evidence.probe.cell import FUSE, Cell, How, Number, Program, Step, label_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.evidence.probe.messages import Channel
    from nhalf.evidence.probe.placement import Placement

LOOPBACK: Final = "127.0.0.1"
PORT: Final = 29_577
"""Where ranks meet when nobody chooses another port; torchrun's is 29500."""
SOCKETS: Final = "sockets"
BACKENDS: Final = (SOCKETS, "mpi", "gloo", "nccl")
COLLECTIVES: Final = (
    Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_TO_ALL, Op.BROADCAST, Op.BARRIER,
)  # fmt: skip
_ELEMENT: Final = 4
"""Bytes of a float32, in which sums are made."""
PAIR_SIZES: Final = (8, 512, 16 * 1024, 262_144, 1_048_576, 4_194_304)
"""Sizes [bytes] at which every pair is measured: the smallest gives the latency, the largest two the bandwidth."""
_EXTRA: Final = 1024  # [bytes] where a fixed time is split
_LEAST_ALIKE, _MOST_LOOKED_AT = 3, 8  # ranks whose pairs are looked at beside a loop
_LOOK_SIZES: Final = (8, 16 * 1024, 65_536)  # [bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the user asked for. Times in [s], sizes in [bytes].

    `channels` are those of sockets; `hows` the ways of timing collectives, `pair_hows` those of messages; `pairs` asks
    for every pair, `overlap` how much hides under computing, `fuse` what m messages of `fuse_bytes` save when they
    become one. `host` is whom to connect to, `bind` where to be reached, `word` what both ends must know. `file` is
    where the samples go, also before the end. `launches` is how often the ranks are started anew, `placement` where.
    `loops` are tokens of a model to play; of the `ladder`, by rising batch, as many as show where a collective doubles.
    """

    backend: str = SOCKETS
    size: int = 2
    channels: tuple[Channel, ...] = ()
    ops: tuple[Op, ...] = (Op.SEND_RECV,)
    sizes_bytes: tuple[int, ...] = ()
    hows: tuple[How, ...] = ("isolated",)
    pair_hows: tuple[How, ...] = ("isolated",)
    budget_s: float = 12.0
    deadline_s: float = 30.0
    wait_s: float = 60.0
    target: float = 0.02
    seed: int = 1
    launches: int = 1
    sync: str = "auto"
    pairs: bool = False
    overlap: bool = False
    fuse: tuple[int, ...] = ()
    fuse_bytes: int = 16 * 1024
    host: str = ""
    bind: str = ""
    port: int = 0
    word: str = ""
    command: str = "nhalf measure"
    file: str = ""
    placement: Placement = "free"
    loops: tuple[Program, ...] = ()
    ladder: tuple[Program, ...] = ()

    @property
    def wires(self) -> tuple[str, ...]:
        """Return the channels of messages between two ranks."""
        return self.channels if self.backend == SOCKETS else (self.backend,)


def cells(request: Request, nodes: Mapping[int, int]) -> list[Cell]:
    """Return what to time, for ranks on these nodes."""
    if request.loops:
        return [*_alone(request), *(loop_cell(request, each) for each in request.loops), *_probes(request)]
    if request.pairs:
        return [
            Cell(channel=channel, op=Op.SEND_RECV, size_bytes=size, ranks=pair, label=label_of(channel, pair))
            for channel in request.wires
            for pair in combinations(range(request.size), 2)
            for size in PAIR_SIZES
        ]
    found: list[Cell] = []
    if Op.SEND_RECV in request.ops:
        found += _messages(request, nodes)
    for op in COLLECTIVES:
        if op in request.ops:
            found += _collectives(request, op)
    return found + _overlaps(request) + _fused(request)


def loop_cell(request: Request, program: Program) -> Cell:
    """Return what times the tokens of a program."""
    largest = max(program.steps, key=lambda step: step.size_bytes)
    ranks = tuple(sorted({rank for step in program.steps for rank in step.ranks}))
    return Cell(channel=request.wires[0], op=largest.op, size_bytes=largest.size_bytes, ranks=ranks, how="loop",
                mode=_mode(request, "loop"), number=_number(request), program=program)  # fmt: skip


def _alone(request: Request) -> list[Cell]:
    """Return each message of the loops by itself, in one of the groups that send it.

    Collectives follow one another as in the loop: after a barrier ranks are up to a latency apart.
    """
    kinds: dict[tuple[Op, int, int], Step] = {}
    for program in request.loops:
        for step in program.messages.values() if program.batch and not program.variant else ():
            kinds.setdefault((step.op, step.size_bytes, len(step.ranks)), step)
    return [
        Cell(channel=request.wires[0], op=step.op, size_bytes=step.size_bytes, ranks=step.ranks,
             how="isolated" if step.op is Op.SEND_RECV else "back_to_back", mode=_mode(request, "isolated"),
             number=_number(request))
        for step in kinds.values()
    ]  # fmt: skip


def _probes(request: Request) -> list[Cell]:
    """Return a short look at every pair of a few ranks, which tells whose link is slow."""
    if not _LEAST_ALIKE <= request.size <= _MOST_LOOKED_AT:
        return []
    channel = request.wires[0]
    return [
        Cell(channel=channel, op=Op.SEND_RECV, size_bytes=size, ranks=pair, label=label_of(channel, pair))
        for pair in combinations(range(request.size), 2) for size in _LOOK_SIZES
    ]  # fmt: skip


def _number(request: Request) -> Number:
    return "bf16" if request.backend in ("gloo", "nccl") else "f32"


def _messages(request: Request, nodes: Mapping[int, int]) -> list[Cell]:
    """Return messages between the first two ranks of a node, and between the first two nodes."""
    found = []
    for label, pair in example_pairs(nodes):
        for channel in request.wires:
            text = ", ".join(filter(None, (channel, label)))
            found += [
                Cell(channel=channel, op=Op.SEND_RECV, size_bytes=size, ranks=pair, how=how, mode=_mode(request, how),
                     label=text)
                for how in request.pair_hows for size in request.sizes_bytes
            ]  # fmt: skip
    return found


def example_pairs(nodes: Mapping[int, int]) -> list[tuple[str, tuple[int, int]]]:
    """Return a pair of ranks inside a node and one across, each where there is one, and named where there are both."""
    inside = next((pair for pair in combinations(nodes, 2) if nodes[pair[0]] == nodes[pair[1]]), None)
    across = next((pair for pair in combinations(nodes, 2) if nodes[pair[0]] != nodes[pair[1]]), None)
    found = [("in a node", inside), ("between nodes", across)]
    both = inside is not None and across is not None
    return [(name if both else "", pair) for name, pair in found if pair is not None]


def _collectives(request: Request, op: Op) -> list[Cell]:
    ranks = tuple(range(request.size))
    sizes = [0] if op is Op.BARRIER else sorted({whole(op, size, request.size) for size in request.sizes_bytes})
    hows = [how for how in request.hows if op is not Op.BARRIER or how != "graph"]
    found = [
        Cell(channel=request.backend, op=op, size_bytes=size, ranks=ranks, how=how, mode=_mode(request, how))
        for how in hows for size in sizes
    ]  # fmt: skip
    split = whole(op, min((size for size in sizes if size >= _EXTRA), default=max(sizes)), request.size)
    return [*found, Cell(channel=request.backend, op=op, size_bytes=split if op is not Op.BARRIER else 0, ranks=ranks,
                         how="split", mode=_mode(request, "isolated"))]  # fmt: skip


def _overlaps(request: Request) -> list[Cell]:
    if not request.overlap:
        return []
    chosen = [size for size in request.sizes_bytes if size >= _EXTRA][::3] or list(request.sizes_bytes[-1:])
    return [
        Cell(channel=request.backend, op=op, size_bytes=whole(op, size, request.size), how="overlap",
             ranks=tuple(range(request.size)), mode=_mode(request, "overlap"))
        for op in request.ops if op in COLLECTIVES and op is not Op.BARRIER for size in chosen
    ]  # fmt: skip


def _fused(request: Request) -> list[Cell]:
    """Return m messages one after another, and one that is m times as long, for each m."""
    op = next((op for op in request.ops if op in COLLECTIVES and op is not Op.BARRIER), None)
    if not request.fuse or op is None:
        return []
    ranks = tuple(range(request.size))
    size = whole(op, request.fuse_bytes, request.size)
    shapes = sorted({(size, m) for m in request.fuse} | {(size * m, 1) for m in request.fuse})
    return [
        Cell(channel=request.backend, op=op, size_bytes=each, ranks=ranks, count=count, label=FUSE,
             mode=_mode(request, "isolated"))
        for each, count in shapes
    ]  # fmt: skip


def whole(op: Op, size_bytes: int, ranks: int) -> int:
    """Return the size [bytes], or the next above it, that shares out evenly and holds whole numbers."""
    unit = _ELEMENT if op in (Op.ALL_REDUCE, Op.REDUCE_SCATTER, Op.REDUCE) else 1
    parts = ranks if op in (Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_TO_ALL) else 1
    step = unit * parts
    return -(-size_bytes // step) * step


def _mode(request: Request, how: How) -> Mode | None:
    if request.backend not in ("gloo", "nccl"):
        return None
    return Mode.GRAPH if how == "graph" else Mode.EAGER
