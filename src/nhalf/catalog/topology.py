"""Turns a topology matrix into links: each letter is a link of the catalogue, and the weakest edge sets the ring.

What the letters do not say is taken from the system that the user names, or assumed and said in a note: how fast one
NVLink is, which generation of PCIe the slots are, what lies between two sockets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from nhalf.catalog import resolve, store
from nhalf.errors import InputError
from nhalf.evidence.readers import topo_amd
from nhalf.evidence.readers.topo import ORDER, nvlinks
from nhalf.evidence.table import Note
from nhalf.fabric import Topology
from nhalf.link import Link

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.evidence.readers.topo import Matrix
    from nhalf.fabric import Fabric
    from nhalf.system import System

GENERATIONS: Final = (3, 4, 5, 6)
"""The generations of PCIe that the catalogue has 16 lanes of."""

# What a number of NVLinks means when nobody says what the GPUs are: the link of the catalogue with all its links, how
# many those are, the generation of PCIe that goes with it, and what else has as many.
_GUESSES: Final = {
    36: ("nvlink6", 36, 6, ""),
    18: ("nvlink4", 18, 5, "NV18 is NVLink 4 (H100, H200) or, twice as fast, NVLink 5 (B200, B300, GB200)"),
    12: ("nvlink3", 12, 4, "NV12 is NVLink 3 (A100), or the bridge of a pair of H100"),
    8: ("nvlink3", 12, 4, "NV8 is an A800 or H800: 8 links of 25 GB/s"),
    4: ("nvlink3-bridge", 4, 4, "NV4 is the bridge of RTX 3090, A40 or A6000; the links of an A30 are faster"),
    6: ("nvlink2", 6, 3, "NV6 is a V100 behind NVSwitch"),
}  # fmt: skip
_OLDER: Final = ("nvlink2", 6, 3, "NV1 and NV2 are V100 without NVSwitch")
_AMD: Final = ("xgmi-mi300x", 1, 5, "The tools of AMD do not say how fast a link is")
_SOCKETS: Final = {3: "smp-intel-skl", 4: "smp-amd-zen", 5: "smp-intel-spr", 6: "smp-intel-spr"}
"""What lies between two sockets of a machine with slots of a generation, for want of a letter that says so."""
_BETWEEN_SOCKETS: Final = ("SYS", "SOC")
_TRIES: Final = 20_000
"""Steps of the search for a better ring; 8 GPUs never need more than a few thousand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One cell of the matrix as a link, one way: `letters` are nvidia-smi's, `source` the link of the catalogue."""

    start: str
    end: str
    letters: str
    link: Link
    source: str

    @property
    def strength(self) -> tuple[float, int]:
        """Return what makes one edge weaker than another: its bandwidth, then how far its letters go around."""
        kind = "NV#" if nvlinks(self.letters) else self.letters
        return float(self.link.bandwidth_bytes_per_s), ORDER.index(kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine as its matrix shows it.

    `ring` is the GPUs in the order of their numbers, `better` an order whose weakest edge is stronger (empty when there
    is none); `weakest` is None for a single GPU.
    """

    matrix: Matrix
    edges: tuple[Edge, ...]
    ring: tuple[str, ...]
    weakest: Edge | None
    better: tuple[str, ...]
    better_weakest: Edge | None
    intra_node: Link | None
    topology: Topology
    notes: tuple[Note, ...]


def machine(matrix: Matrix, *, on: str | None = None, pcie: int | None = None) -> Machine:
    """Return the links of a matrix, and the ring that the GPUs make in the order of their numbers.

    `on` names a system of the catalogue with these GPUs, `pcie` the generation of the slots.

    Raises InputError when there is no such system or generation.
    """
    rates = _rates(matrix, on=on, pcie=pcie)
    edges = {pair: _edge(pair, letters, rates) for pair, letters in matrix.cells.items()}
    gpus = matrix.gpus
    ring = _ring_edges(gpus, edges)
    weakest = min(ring, key=lambda edge: edge.strength, default=None)
    better = _better(gpus, edges, weakest) if weakest else ()
    slowest_s = max((float(edge.link.latency_s) for edge in ring), default=0.0)
    between = {edges[pair].letters for pair in edges if set(pair) <= set(gpus)}
    mesh = between == {"XGMI"}
    switched = len(between) == 1 and bool(rates.links)
    ways = len(gpus) - 1 if mesh else 1
    return Machine(
        matrix=matrix,
        edges=tuple(edges.values()),
        ring=gpus,
        weakest=weakest,
        better=better,
        better_weakest=min(_ring_edges(better, edges), key=lambda edge: edge.strength, default=None),
        intra_node=Link(slowest_s, weakest.link.bandwidth_bytes_per_s * ways) if weakest else None,
        topology=Topology.MESH if mesh else Topology.SWITCH if switched else Topology.HOST,
        notes=(*matrix.notes, *rates.notes),
    )


def lender(machine: Machine, like: str) -> str:
    """Return the system whose measured curves stand in on a machine that is like another one, or nothing.

    They do where the node is the same in all that a matrix shows: its devices, how they are joined, and by what links.
    """
    fabric, link = store.system(like)[0].fabric, machine.intra_node
    if link is None or (len(machine.matrix.gpus), machine.topology) != (fabric.devices_per_node, fabric.topology):
        return ""
    pairs = (
        (link.latency_s, fabric.intra_node.latency_s),
        (link.bandwidth_bytes_per_s, fabric.intra_node.bandwidth_bytes_per_s),
    )
    return resolve.lender(like) if all(math.isclose(float(mine), float(other)) for mine, other in pairs) else ""


# --- what a letter costs ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rates:
    """What one NVLink and the slots are, and what had to be assumed about them; `links` is 0 without NVLinks."""

    nvlink: Link
    nvlink_source: str
    links: int
    slot: Link
    slot_source: str
    sockets: Link
    sockets_source: str
    notes: tuple[Note, ...]


def _rates(matrix: Matrix, *, on: str | None, pcie: int | None) -> _Rates:
    """Return what the letters of a matrix stand for."""
    most = max((nvlinks(letters) for letters in matrix.cells.values()), default=0)
    name, whole, generation, doubt = _GUESSES.get(most, _OLDER) if most else ("nvlink4", 1, 4, "")
    amd = bool(set(topo_amd.LETTERS) & set(matrix.cells.values()))
    if amd:
        name, whole, generation, doubt = _AMD
    notes: list[Note] = []
    link = store.link(name)[0]
    if on is not None:
        key = store.find("system", on, where="--on")
        fabric = _of_make(key, matrix).fabric
        if amd and fabric.topology == Topology.MESH:
            each = fabric.intra_node.bandwidth_bytes_per_s / (fabric.devices_per_node - 1)
            name, link = key, Link(fabric.intra_node.latency_s, each)
        elif most and fabric.topology != Topology.HOST:
            name, link, whole, doubt = key, fabric.intra_node, _whole(matrix, most), ""
            notes += _count_differs(key, fabric, matrix)
    if pcie is None:
        notes.append(Note(code="pcie-assumed", text=f"PCIe {generation} is assumed for the slots: say --pcie."))
    elif pcie not in GENERATIONS:
        raise InputError(f"PCIe {pcie} is not known", where="--pcie", allowed=", ".join(map(str, GENERATIONS)))
    if doubt and ("XGMI" in matrix.cells.values() if amd else most):
        code = "xgmi-assumed" if amd else "nvlink-assumed"
        notes.append(Note(code=code, text=f"{doubt}; {name} is taken: say --on SYSTEM."))
    slot, between = f"pcie{pcie or generation}-x16", _SOCKETS[pcie or generation]
    if set(_BETWEEN_SOCKETS) & set(matrix.cells.values()):
        text = f"Between sockets a figure of NCCL's is taken (link {between}): measure it."
        notes.append(Note(code="sockets-assumed", text=text))
    one = Link(link.latency_s, link.bandwidth_bytes_per_s / whole)
    sockets = store.link(between)[0]
    return _Rates(
        nvlink=one, nvlink_source=name, links=most, slot=store.link(slot)[0], slot_source=slot, sockets=sockets,
        sockets_source=between, notes=tuple(notes),
    )  # fmt: skip


def _of_make(key: str, matrix: Matrix) -> System:
    """Return a system whose devices the tool that printed a matrix can be about: those that its library runs on.

    Raises InputError when they are of another make.
    """
    found = store.system(key)[0]
    amd = bool(set(topo_amd.LETTERS) & set(matrix.cells.values()))
    library, tool, make = ("rccl", "rocm-smi", "AMD") if amd else ("nccl", "nvidia-smi", "NVIDIA")
    if not store.library(library, architecture=found.device.architecture)[0].at_home:
        raise InputError(
            f"{tool} knows no {found.device.name}: this matrix is of another machine", where="--on",
            allowed=f"a system with {make} GPUs", do="leave --on out, or name the system that the matrix is of",
        )  # fmt: skip
    return found


def _whole(matrix: Matrix, most: int) -> int:
    """Return how many NVLinks a GPU has: those of a cell behind a switch, those of a row between GPUs directly."""
    cells = [nvlinks(matrix.cells[pair]) for pair in matrix.cells if pair[0] == matrix.gpus[0]]
    joined = [count for count in cells if count]
    alike = len(joined) == len(matrix.gpus) - 1 and len(set(joined)) == 1
    return most if alike else max(sum(joined), most)


def _count_differs(key: str, fabric: Fabric, matrix: Matrix) -> list[Note]:
    """Return a note when the system has another number of devices than the matrix."""
    count = len(matrix.gpus)
    if count == fabric.devices_per_node:
        return []
    return [Note(code="count-differs", text=f"{key} has {fabric.devices_per_node} devices a node, this one {count}.")]


def _edge(pair: tuple[str, str], letters: str, rates: _Rates) -> Edge:
    """Return the link of one cell."""
    start, end = pair
    count = 1 if letters == "XGMI" else nvlinks(letters)
    if count:
        link = Link(rates.nvlink.latency_s, rates.nvlink.bandwidth_bytes_per_s * count)
        return Edge(start=start, end=end, letters=letters, link=link, source=rates.nvlink_source)
    if letters == "C2C":
        return Edge(start=start, end=end, letters=letters, link=store.link("nvlink-c2c")[0], source="nvlink-c2c")
    if letters in _BETWEEN_SOCKETS:
        narrow = min(float(rates.sockets.bandwidth_bytes_per_s), float(rates.slot.bandwidth_bytes_per_s))
        link = Link(rates.sockets.latency_s, narrow)
        return Edge(start=start, end=end, letters=letters, link=link, source=rates.sockets_source)
    return Edge(start=start, end=end, letters=letters, link=rates.slot, source=rates.slot_source)


# --- rings ------------------------------------------------------------------------------------------------------------


def _ring_edges(order: Sequence[str], edges: dict[tuple[str, str], Edge]) -> list[Edge]:
    """Return the edges of a ring; two GPUs have one, one has none."""
    if len(order) < 2:  # noqa: PLR2004
        return []
    closed = [*order, order[0]] if len(order) > 2 else list(order)  # noqa: PLR2004
    return [edges[pair] for pair in pairwise(closed)]


def _better(gpus: Sequence[str], edges: dict[tuple[str, str], Edge], weakest: Edge) -> tuple[str, ...]:
    """Return an order of the GPUs whose ring has the strongest weakest edge; empty when theirs has it already."""
    strengths = sorted({edge.strength for edge in edges.values()}, reverse=True)
    for least in strengths:
        if least <= weakest.strength:
            return ()
        order = _ring_above(gpus, edges, least)
        if order:
            return order
    return ()


def _ring_above(gpus: Sequence[str], edges: dict[tuple[str, str], Edge], least: tuple[float, int]) -> tuple[str, ...]:
    """Return a ring without an edge weaker than `least`, found by trying neighbours in order; empty when none is."""
    near = {gpu: [other for other in gpus if other != gpu and edges[gpu, other].strength >= least] for gpu in gpus}
    order = [gpus[0]]
    untried = [list(reversed(near[gpus[0]]))]
    for _ in range(_TRIES):
        if len(order) == len(gpus) and gpus[0] in near[order[-1]]:
            return tuple(order)
        if untried[-1]:
            following = untried[-1].pop()
            if following not in order:
                order.append(following)
                untried.append(list(reversed(near[following])))
        else:
            order.pop()
            untried.pop()
            if not order:
                return ()
    return ()
