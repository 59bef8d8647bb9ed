"""A machine to simulate on: a network from links and a topology, or from the fabric of a system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nhalf.errors import InputError, did_you_mean
from nhalf.fabric import Fabric, Span, Topology
from nhalf.link import Link
from nhalf.simulate import network
from nhalf.simulate.program import check_ranks
from nhalf.simulate.rails import rails

if TYPE_CHECKING:
    from nhalf.simulate.network import Network

TOPOLOGIES = ("switch", "mesh", "ring", "torus", "tree", "nodes", "rails", "multicast")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Machine:
    """A network and the same thing as a law sees it: the span of a group of ranks on two tiers of links.

    `group` is how many ranks share a node, a leaf or a row of the torus; `plain` says that a law can know all there is
    to know of the network (a switch, or nodes of switches).
    """

    network: Network
    span: Span
    group: int
    plain: bool
    words: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wiring:
    """How ranks hang together, as a user gives it; 0 and None where nothing was said."""

    topology: str = "switch"
    group: int = 0
    oversubscription: float = 1.0
    nics: int = 0
    pod: int = 0
    inter: Link | None = None
    hop_latency_s: float | None = None


def from_links(ranks: int, link: Link, wiring: Wiring) -> Machine:
    """Return the machine of some ranks on links of one kind, or of two where nodes are joined.

    Raises
    ------
    InputError
        An unknown topology, or a group that is missing or does not divide the ranks.
    """
    check_ranks(ranks)
    kind = wiring.topology.strip().casefold()
    if kind not in TOPOLOGIES:
        raise InputError(
            f"{wiring.topology!r} is no topology known here",
            where="--topology",
            allowed=", ".join(TOPOLOGIES),
            do=did_you_mean(wiring.topology, TOPOLOGIES),
        )
    if kind in _GROUP and not wiring.group:
        raise InputError(
            f"the topology {kind} needs to know how many ranks are in a {_GROUP[kind]}",
            where="--ranks-per-node",
            allowed=f"a divisor of {ranks}",
        )
    if wiring.group and ranks % wiring.group:
        raise InputError(
            f"{ranks} ranks do not divide into groups of {wiring.group}",
            where="--ranks-per-node",
            allowed=f"a divisor of {ranks}",
        )
    inter = wiring.inter or link
    built = _build(kind, ranks, link, wiring)
    nodes = ranks // wiring.group if kind in ("nodes", "rails") else 1
    rails = float(wiring.nics or wiring.group or 1)
    span = Span(ranks=ranks, nodes=nodes, intra=link, inter=inter, rails=rails)
    return Machine(
        network=built,
        span=span,
        group=wiring.group,
        plain=kind in ("switch", "nodes", "multicast"),
        words=_words(kind, ranks, wiring),
    )


_PAIR = 2
_GROUP = {"torus": "row", "tree": "leaf", "nodes": "node", "rails": "node"}


def _build(kind: str, ranks: int, link: Link, wiring: Wiring) -> Network:
    hop = wiring.hop_latency_s
    if kind == "mesh":
        return network.mesh(ranks, link)
    if kind in ("ring", "torus"):
        columns = ranks if kind == "ring" else wiring.group
        return network.torus(columns, ranks // columns, link, hop_latency_s=hop, kind=kind)
    if kind == "tree":
        return network.tree(
            ranks, link, leaf=wiring.group, oversubscription=wiring.oversubscription, hop_latency_s=hop or 0.0
        )
    if kind in ("nodes", "rails"):
        inter, nics = wiring.inter or link, wiring.nics or wiring.group
        joined = network.nodes(ranks, link, inter, per_node=wiring.group, nics=nics)
        if kind == "nodes":
            return joined
        over, pod = wiring.oversubscription, wiring.pod or ranks // wiring.group
        return rails(joined, inter, nics=nics, pod=pod, oversubscription=over, hop_latency_s=hop or 0.0)
    return (network.multicast if kind == "multicast" else network.switch)(ranks, link)


def _words(kind: str, ranks: int, wiring: Wiring) -> str:
    group = wiring.group
    if kind == "torus":
        return f"a torus of {ranks // group} x {group}"
    if kind == "tree":
        return f"a fat tree of {ranks // group} leaves of {group}, oversubscribed {wiring.oversubscription:g} to 1"
    if kind in ("nodes", "rails"):
        found = f"{ranks // group} nodes of {group} with {_nics(wiring.nics or group)} each"
        leaf = f"{wiring.pod or ranks // group} nodes a leaf, oversubscribed {wiring.oversubscription:g} to 1"
        return found if kind == "nodes" else f"{found} on rails, {leaf}"
    kinds = {"mesh": "a full mesh", "ring": "a ring", "multicast": "a switch that adds up and copies"}
    return kinds.get(kind, "a switch that blocks nothing")


def _nics(count: int) -> str:
    return "1 NIC" if count == 1 else f"{count} NICs"


def from_fabric(fabric: Fabric, ranks: int) -> Machine:
    """Return the machine of some consecutive ranks on a system's fabric, full nodes first.

    Raises
    ------
    InputError
        Ranks beyond one node that do not fill whole nodes.
    """
    check_ranks(ranks)
    span = fabric.span(ranks)
    if span.nodes > 1:
        return _across_nodes(fabric, ranks, span)
    if fabric.topology == Topology.MESH:
        pair = Link(
            fabric.intra_node.latency_s, float(fabric.intra_node.bandwidth_bytes_per_s) / (fabric.devices_per_node - 1)
        )
        return Machine(network=network.mesh(ranks, pair), span=span, group=0, plain=False, words="a full mesh")
    if fabric.topology == Topology.TORUS and fabric.torus is not None:
        axes = [side for side in span.box if side > 1]
        if len(axes) > 2:  # noqa: PLR2004  what is built here has two dimensions
            raise InputError(
                f"a torus of {' x '.join(map(str, axes))} is not simulated",
                where="--ranks",
                allowed="ranks on a plane of the torus",
                do="use fewer --ranks",
            )
        columns, rows = (axes[-1] if axes else 1), (axes[0] if len(axes) > 1 else 1)
        wire = Link(
            fabric.intra_node.latency_s, float(fabric.intra_node.bandwidth_bytes_per_s) / (2 * len(fabric.torus.axes))
        )
        return Machine(
            network=network.torus(columns, rows, wire),
            span=span,
            group=columns,
            plain=False,
            words=f"a torus of {rows} x {columns}",
        )
    return Machine(
        network=network.switch(ranks, span.intra), span=span, group=0, plain=True, words="one node, on a switch"
    )


def more_than_sold(system: str, ranks: int) -> str:
    """Return a warning where there are more ranks than devices in a system that is sold as a pair; empty otherwise.

    The catalogue gives the links of such a system, not how many of it a network could join.
    """
    if "pair" not in system.split("-") or ranks <= _PAIR:
        return ""
    return f"{system} is {_PAIR} devices, {ranks} are assumed"


def _across_nodes(fabric: Fabric, ranks: int, span: Span) -> Machine:
    """Return the machine of ranks on several nodes, or racks where a rack is one domain."""
    per_node = fabric.devices_per_node
    nics = float(fabric.nics_per_node)
    if span.racks > 1 and fabric.nodes_per_rack is not None:
        per_node, nics = per_node * fabric.nodes_per_rack, nics * fabric.nodes_per_rack
    if ranks % per_node:
        raise InputError(
            f"{ranks} ranks do not fill nodes of {per_node}",
            where="--ranks",
            allowed=f"up to {per_node}, or a multiple of it",
        )
    count = max(1, min(per_node, round(nics)))
    built = network.nodes(ranks, span.intra, span.inter, per_node=per_node, nics=count)
    return Machine(
        network=built,
        span=span,
        group=per_node,
        plain=True,
        words=f"{ranks // per_node} nodes of {per_node} with {_nics(count)} each",
    )
