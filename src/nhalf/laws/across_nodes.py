"""A collective that leaves its node: the library's plan chooses the path, what the fabric was measured at prices it.

NCCL's tuner chooses well and prices badly: what its constants expect between nodes holds for one InfiniBand alone. So
its plan decides which path runs, and the price is the measured floor inside a node, hops whose number grows with the
logarithm of the nodes (all-gather: linearly), and rates as shares of the NICs.

References
----------
The house's note on collectives across nodes (research/across-nodes.md). NVIDIA/nccl at 5067397c (2.30.7),
src/graph/tuning.cc, for bases, the growth of a hop from LL to LL128, and the correction of trees by size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.breakdown import Input, Quantity, Term, chosen, leaf, maximum, total
from nhalf.collective import Mode, Op
from nhalf.fabric import Topology
from nhalf.laws import tuner
from nhalf.library import octave

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.curve import MeasuredCurve
    from nhalf.fabric import Span
    from nhalf.library import Library, TunerPath
    from nhalf.system import System
    from nhalf.transport import Transport

_SENDS: Final = (Op.ALL_TO_ALL, Op.SEND_RECV)
PRICED: Final = tuner.PLANNED | frozenset(_SENDS)
"""The operations that have a price across nodes."""
_BUFFER: Final = "4096"
"""The size [bytes] at which half of what a buffer costs a hop is paid: NCCL's slots of LL are of this order."""
_BULK: Final = "524288"
"""The size [bytes] at which half of what the protocol of large messages adds to a hop is paid."""
_INJECTED: Final = 192.0
"""The largest message [bytes] to a peer that a NIC takes with the command itself (CXI, inject)."""
_SMALL: Final = "16384"
"""Up to this size [bytes] the time inside a node is all latency, and is paid besides that between nodes."""
_INSIDE: Final = "0.8"
"""What a tree's bytes take inside a node, in times over the links of a device: the fit of nodes with 100 GB/s of NICs
beside nodes with 400, on the same links."""
_NVLS_S: Final = 10e-6
"""What a tree through NVSwitch takes beyond the floor of a ring in a node [s]: the house's note."""
_FLOOR_S: Final = 4.8e-6
"""What a ring costs beyond its steps [s]: the fit of nccl-tests on one to eight H100, link h100-sxm.intra_node."""
_TUNED: Final = ("nccl", "rccl")
"""Libraries whose own tuners plan across nodes."""
_HOP: Final = {
    "LL": f"h + d * n / (n + {_BUFFER})",
    "LL128": "h + d + more",
    "Simple": f"h + d + q * n / (n + {_BULK})",
    "-": f"h + d * n / (n + {_BUFFER})",
}
_TREE: Final = "floor + base + 2 * depth * hop"
_RING: Final = "floor + base + (k * m - k - m + 1) * step + 2 * (m - 1) * hop"
_GATHER: Final = "floor + base + (m - 1) * (hop + (k - 1) * step)"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Place:
    """Where a collective runs across nodes: the stretch of the fabric, and its transport.

    `inside` is NCCL's time [s] by size in a node of as many ranks, `has` the help there is, as for `tuner.plan`.
    """

    span: Span
    transport: Transport
    inside: Callable[[Quantity], Quantity]
    has: frozenset[str] = frozenset()


class Steps:
    """A time [s] inside a node where nothing was measured, of whatever size: a fixed time and the steps of a ring."""

    __slots__ = ("_time_s",)

    def __init__(self, op: Op, ranks: int, step_s: Quantity) -> None:
        """Keep the time of as many steps as the operation takes on a number of ranks."""
        turns = 2 if op == Op.ALL_REDUCE else 0 if op in _SENDS else 1
        self._time_s = _FLOOR_S + turns * (ranks - 1) * step_s

    def __call__(self, size_bytes: Quantity) -> Quantity:  # noqa: ARG002  a floor is the same at every size
        """Return the time [s]."""
        return self._time_s

    def __str__(self) -> str:
        """Return what a reader of a formula needs to know."""
        return f"{_FLOOR_S} + steps inside the node"


def place(op: Op, span: Span, system: System, library: Library) -> Place | None:
    """Return where a collective that leaves its node runs; None where no price is known for it.

    That is inside a node or a rack on one set of switches, without a transport, and for libraries that plan by no tuner
    of NCCL's kind, or by it alone.
    """
    transport = system.transport
    tuned = library.planner.partition("-")[0] in _TUNED and not library.planned
    switched = system.fabric.inter_rack is not None and span.racks == 1
    if span.nodes == 1 or switched or transport is None or op not in PRICED or not tuned:
        return None
    return Place(span=span, transport=transport, inside=_inside(op, span, system), has=_help(span, system, library))


def _inside(op: Op, span: Span, system: System) -> Callable[[Quantity], Quantity]:
    """Return NCCL's time [s] inside a node of the group: measured there, or its steps."""
    ranks = span.ranks_per_node
    for curve in system.curves:
        if _is_nccl(curve, op) and curve.nodes == 1 and ranks > 1 and curve.covers(ranks):
            return curve.at(ranks)
    return Steps(op, ranks, span.intra.latency_s)


def _is_nccl(curve: MeasuredCurve, op: Op) -> bool:
    """Tell whether a curve is what NCCL takes from its host, or the user's own of NCCL."""
    return (curve.key.library, curve.key.op) == ("nccl", op) and (bool(curve.own) or curve.key.mode == Mode.HOST)


def _help(span: Span, system: System, library: Library) -> frozenset[str]:
    """Return which help the tuner counts on: switches in a node that add up, where a group has whole nodes of them."""
    fabric = system.fabric
    whole = span.ranks_per_node == fabric.devices_per_node > 2  # noqa: PLR2004  two devices on a cable have no switch
    return frozenset({"nvls"} if whole and fabric.topology == Topology.SWITCH and library.tuner.has_nvls else ())


def across_nodes(op: Op, size_bytes: Quantity, place: Place, library: Library) -> Term:
    """Return the time [s] of a collective of `size_bytes` [bytes] (as nccl-tests counts them) over several nodes.

    Raises
    ------
    ValueError
        An operation that has no price (see `PRICED`), or a group inside one node.
    """
    if place.span.nodes == 1 or op not in PRICED:
        message = f"{op} on {place.span.nodes} nodes has no price across nodes"
        raise ValueError(message)
    if op in _SENDS:
        return _sends(size_bytes, place)
    plans = tuner.plan(op, size_bytes * place.transport.switch, place.span, library, has=place.has)
    plans = [(path, plan) for path, plan in plans if path.protocol != "LL128" or place.transport.ll128]
    base_s = _first_base(library)
    prices = tuple(_price(op, size_bytes, place, path, base_s) for path, _ in plans)
    return chosen(str(op), tuple(plan for _, plan in plans), prices)


def _first_base(library: Library) -> Quantity:
    """Return what the tuner charges once for a tree of LL [s], beyond which a path costs more than the floor."""
    path = library.tuner.tree_ll or library.tuner.paths[0]
    return 0.0 if path.base_s is None else path.base_s


def _inputs(size_bytes: Quantity, place: Place) -> dict[str, Input]:
    """Return the inputs of every path, by the symbols of the formulas."""
    span, transport = place.span, place.transport
    return {
        "n": size_bytes, "k": float(span.ranks_per_node), "m": float(span.nodes),
        "floor": leaf("inside a node", f"inside(minimum(n, {_SMALL}))", {"inside": place.inside, "n": size_bytes}),
        "step": span.intra.latency_s, "links": span.intra.bandwidth_bytes_per_s,
        "nics": span.rails * span.inter.bandwidth_bytes_per_s, "doubt": transport.doubt,
        "h": transport.hop_s, "d": transport.payload_s, "q": transport.bulk_s, "ll": transport.ll_bandwidth_bytes_per_s,
        "rho": transport.ll_tree_factor, "kap": transport.depth_factor,
    }  # fmt: skip


def _price(op: Op, size_bytes: Quantity, place: Place, path: TunerPath, base_s: Quantity) -> Term:
    """Return what one path costs on a fabric [s]."""
    inputs, shares = _inputs(size_bytes, place), place.transport
    own = 0.0 if path.base_s is None else path.base_s
    inputs["base"] = _NVLS_S if path.family == "nvls-tree" else maximum(own - base_s, 0.0)
    inputs["more"] = 3.5e-6
    inputs["hop"] = leaf("hop", _HOP[path.protocol], inputs)
    inputs["depth"] = leaf("depth", "1 + kap * (log2_floor(m) - 1)", inputs, unit="1")
    inputs["turns"] = 2.0 if op == Op.ALL_REDUCE else 1.0
    inputs["v"] = 1.0 if place.span.nodes == 2 else 2.0  # noqa: PLR2004  one peer, or a parent and children
    inputs["power"] = leaf("power of two", "octave(n)", {"octave": octave, "n": size_bytes}, unit="1")
    inputs["correction"] = path.correction
    inputs |= {"tree": shares.tree_share, "ring": shares.ring_share, "nvls": shares.nvls_share}
    inputs["kept"] = shares.ll128_share if path.protocol == "LL128" else 1.0
    fixed, transfer = _formulas(op, path)
    name = f"{path.algorithm}/{path.protocol}" if path.family in ("ring", "tree") else f"{path.family}/{path.protocol}"
    return total(
        name,
        leaf("steps", f"doubt * ({fixed})", inputs, column="fixed"),
        leaf("transfer", f"doubt * {transfer}", inputs, column="transfer"),
    )


def _formulas(op: Op, path: TunerPath) -> tuple[str, str]:
    """Return the formulas of a path's fixed time and of its bytes."""
    slow = path.protocol == "LL"
    if path.family in ("tree", "nvls-tree", "collnet-direct", "collnet-chain"):
        if slow:
            return _TREE, "n / (correction(power) * rho * minimum(ll, nics / 2))"
        if path.family == "tree":
            return _TREE, f"n / (correction(power) * kept) * (v / (tree * nics) + {_INSIDE} / links)"
        return _TREE, f"n * (v / (nvls * nics) + {_INSIDE} / links)"
    fixed = _RING if op == Op.ALL_REDUCE else _GATHER
    if slow:
        return fixed, "turns * n / (2 * minimum(ll, nics / 2))"
    return fixed, "turns * (k * m - 1) / (k * m) * n / (ring * kept * minimum(links, nics))"


def _sends(size_bytes: Quantity, place: Place) -> Term:
    """Return the time [s] of sends to all remote peers: each is a message, and its bytes share the NICs."""
    span, transport = place.span, place.transport
    inputs: dict[str, Input] = {
        **_inputs(size_bytes, place),
        "p": transport.peer_s,
        "j": transport.inject_s,
        "A": transport.exchange_share,
        "small": np.where(np.asanyarray(size_bytes) / span.ranks <= _INJECTED, 1.0, 0.0),
    }
    return total(
        "sends",
        leaf("messages", "doubt * (floor + k * (m - 1) * (p + j * small))", inputs, column="fixed"),
        leaf("transfer", "doubt * k * n * (m - 1) / m / (A * nics)", inputs, column="transfer"),
    )
