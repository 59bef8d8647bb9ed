"""A communication library as values: what it can run where, when it switches, and the constants of its own tuner."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from nhalf.tape import recorded

if TYPE_CHECKING:
    from nhalf.breakdown import Array, Quantity
    from nhalf.citation import Datum
    from nhalf.collective import Algorithm, Mode, Op

_FIRST_CORRECTED: Final = 6  # log2 of the 64 bytes at which NCCL's table of corrections begins
_MANTISSA_BITS, _BIAS = 52, 1023  # IEEE 754, double
Family: TypeAlias = Literal["ring", "tree", "nvls", "nvls-tree", "collnet-direct", "collnet-chain", "pat"]
"""The algorithms of NCCL's tuner, each with its own count of steps."""
Ranks: TypeAlias = Literal["any", "powers of two", "others"]
"""For which numbers of ranks a rule holds."""


class Octave:
    """floor(log2(n / 64)) [1]: how many doublings above 64 bytes a size lies; negative below.

    A function that says what it is: as an input of a formula it is printed and written to documents.
    """

    __slots__ = ()

    @recorded
    def __call__(self, size_bytes: Quantity) -> Quantity:
        """Return the octave of a size [bytes]: a float for a float, an array for an array."""
        if isinstance(size_bytes, np.ndarray):
            # The exponent of a float is its logarithm's floor, exactly and without a logarithm.
            exponents = np.ascontiguousarray(size_bytes, dtype=np.float64).view(np.int64) >> _MANTISSA_BITS
            return (exponents - (_BIAS + _FIRST_CORRECTED)).astype(np.float64)
        return float(math.frexp(size_bytes)[1] - 1 - _FIRST_CORRECTED)

    def __str__(self) -> str:
        """Return what a reader of a formula needs to know."""
        return "floor(log2(n / 64 B))"


octave: Final = Octave()


class Correction:
    """What a tuner multiplies a path's bandwidth with, by the power of two below the size: 64 B, 128 B, ...

    Call it with the `octave` of a size. Sizes below the first take its factor; above the last nothing is corrected. A
    function and no noun: its factors are no inputs that anybody sets.
    """

    __slots__ = ("_table", "factors")

    def __init__(self, factors: tuple[float, ...]) -> None:
        """Keep the factors, and an array of them with the 1 that follows."""
        self.factors = factors
        self._table: Array = np.array((*factors, 1.0))

    @recorded
    def __call__(self, octave: Quantity) -> Quantity:
        """Return the factor [1] for an octave: a float for a float, an array for an array."""
        if isinstance(octave, np.ndarray):
            return self._table.take(octave.astype(np.intp), mode="clip")
        return float(self._table[min(max(int(octave), 0), len(self.factors))])

    def __str__(self) -> str:
        """Return what a reader of a formula needs to know."""
        return f"{min(self.factors):g} to {max(self.factors):g} by size" if self.factors else "1"


NO_CORRECTION: Final = Correction(())


class Plateau:
    """What a tuner multiplies a path's latency with: `factor` from `from_bytes` a rank and channel on, else 1."""

    __slots__ = ("factor", "from_bytes")

    def __init__(self, factor: float = 1.0, from_bytes: float = 64.0) -> None:
        """Keep the factor and where it begins."""
        self.factor = factor
        self.from_bytes = from_bytes

    @recorded
    def __call__(self, share_bytes: Quantity) -> Quantity:
        """Return the factor [1] for the bytes of one rank and channel."""
        if isinstance(share_bytes, np.ndarray):
            return np.where(share_bytes >= self.from_bytes, self.factor, 1.0)
        return self.factor if share_bytes >= self.from_bytes else 1.0

    def __str__(self) -> str:
        """Return what a reader of a formula needs to know."""
        return f"{self.factor:g} from {self.from_bytes:g} bytes a rank and channel"


NO_PLATEAU: Final = Plateau()


class Rate(NamedTuple):
    """What a path carries on one count of nodes: `share` [1] of the bus, at most `bandwidth_limit_bytes_per_s`."""

    share: Quantity
    bandwidth_limit_bytes_per_s: Quantity | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TunerPath:
    """The constants of one algorithm and protocol in NCCL's tuner.

    `base_s` [s] is charged once, `intra_step_s` and `inter_step_s` [s] for each step inside a node and between nodes;
    `bandwidth_share` is the part of the bus bandwidth that the protocol carries, `bandwidth_limit_bytes_per_s`
    [bytes/s] what it cannot exceed, both on two nodes. `in_node_step_s` [s] is a step where no node is left; `in_node`
    and `many_nodes` are the rates on one node and on three or more, where they differ. A step of None takes the latency
    of the link; a base of None is 0, and a limit of None is none.
    """

    algorithm: Algorithm
    protocol: str
    bandwidth_share: Quantity
    base_s: Quantity | None = None
    intra_step_s: Quantity | None = None
    inter_step_s: Quantity | None = None
    bandwidth_limit_bytes_per_s: Quantity | None = None
    family: Family = "ring"
    in_node_step_s: Quantity | None = None
    in_node: Rate | None = None
    many_nodes: Rate | None = None
    correction: Correction = NO_CORRECTION
    plateau: Plateau = NO_PLATEAU

    def rate(self, nodes: int) -> Rate:
        """Return what the path carries on a number of nodes."""
        two = Rate(share=self.bandwidth_share, bandwidth_limit_bytes_per_s=self.bandwidth_limit_bytes_per_s)
        return (self.in_node or two) if nodes == 1 else two if nodes == 2 else (self.many_nodes or two)  # noqa: PLR2004

    def step_s(self, nodes: int) -> Quantity | None:
        """Return a step [s] inside a node, for a group on a number of nodes; None for the latency of the link."""
        return self.in_node_step_s if nodes == 1 and self.in_node_step_s is not None else self.intra_step_s


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tuner:
    """The paths that NCCL's tuner chooses between, None where the library has none of the kind.

    Rings and trees are always there; those that are `helped` need switches that add up (NVLS, CollNet) or one rank a
    node (PAT). `channels` is how many a collective is spread over.
    """

    tree_ll: TunerPath | None = None
    tree_ll128: TunerPath | None = None
    tree_simple: TunerPath | None = None
    ring_ll: TunerPath | None = None
    ring_ll128: TunerPath | None = None
    ring_simple: TunerPath | None = None
    helped: tuple[TunerPath, ...] = ()
    channels: float = 16.0

    @property
    def paths(self) -> tuple[TunerPath, ...]:
        """Return the paths that need no help, trees first."""
        own = (self.tree_ll, self.tree_ll128, self.tree_simple, self.ring_ll, self.ring_ll128, self.ring_simple)
        return tuple(path for path in own if path is not None)

    @property
    def has_nvls(self) -> bool:
        """Tell whether the architecture has switches in a node that add up, as far as the tuner counts on them."""
        return any(path.family == "nvls" for path in self.helped)


@dataclass(frozen=True, slots=True, kw_only=True)
class SymmetricKernels:
    """What NCCL expects of its kernels on registered buffers: fixed times [s] and the rates of a port [bytes/s].

    `low_latency_base_s` is that of the kernel that sends flags with its data, `base_s` that of the others;
    `multicast_bandwidth_bytes_per_s` is the rate with multicast.
    """

    low_latency_base_s: float
    base_s: float
    bandwidth_bytes_per_s: float
    multicast_bandwidth_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A library's own rule for one operation and number of ranks: which algorithm it runs up to which size.

    `algorithms` come in order of size, one more than `limits` [bytes]; a size runs the first whose limit it does not
    pass (with `strict`, does not reach). Sizes are those of the message, or with `per_pair` of what one rank sends to
    another. `ranks` are the first and last number of ranks that it holds for, `only` which of them; no `architectures`
    are all. `mode` is None where it holds for all; a `variant` is not the library's default.
    """

    library: str
    version: str
    op: Op
    algorithms: tuple[str, ...]
    limits: tuple[Datum, ...]
    ranks: tuple[int, int]
    source: str
    locator: str
    date: str
    architectures: tuple[str, ...] = ()
    mode: Mode | None = None
    variant: str = ""
    only: Ranks = "any"
    per_pair: bool = False
    strict: bool = False
    note: str = ""

    def holds(self, ranks: int, architecture: str, mode: Mode | None) -> bool:
        """Tell whether the rule is for a number of ranks, an architecture and a mode; None asks for any mode."""
        power = not ranks & (ranks - 1)
        if not self.ranks[0] <= ranks <= self.ranks[1] or self.only == ("others" if power else "powers of two"):
            return False
        if self.architectures and architecture not in self.architectures:
            return False
        return None in (self.mode, mode) or self.mode == mode

    def choice(self, size_bytes: float, ranks: int) -> str:
        """Return the algorithm that the library runs for a size [bytes]."""
        size = size_bytes / ranks if self.per_pair else size_bytes
        for algorithm, limit in zip(self.algorithms, self.limits, strict=False):
            if size < limit.value or (size == limit.value and not self.strict):
                return algorithm
        return self.algorithms[-1]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Library:
    """A communication library.

    `in_node` and `across_nodes` are the algorithms it can run there: a kernel that reads its peers' memory directly
    does not cross a NIC. `tuner_factor` multiplies a time that is the tuner's plan and no measurement: 1, with the
    doubt about such a path as its interval. `planner` names the tuner (nccl, rccl-gfx942, prior), and `at_home` says
    that it is the library's own, where another stands in for it on a machine that its own does not know. Where it is
    `planned`, the tuner's constants are also the price of a path across nodes, and not what a fabric was measured at.
    `tray_ranks` is on how many ranks at most its own kernel leaves a tray of an NVLink domain, 0 where none does.
    """

    name: str
    in_node: tuple[Algorithm, ...]
    across_nodes: tuple[Algorithm, ...]
    tuner: Tuner
    tuner_factor: Quantity = 1.0
    planner: str = ""
    at_home: bool = True
    planned: bool = False
    tray_ranks: int = 0
