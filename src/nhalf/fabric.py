"""A fabric: the links between devices, tier by tier, and the stretch of it that a group of ranks spans.

A latency of a message is that of its end points and the first switch, which is what a measurement between neighbours
holds, plus one hop for every switch beyond it. A bandwidth is paid once, whatever the number of hops (cut-through).

References
----------
W. J. Dally and B. Towles, "Principles and Practices of Interconnection Networks" (2004), chapters 3 (topologies) and
5 (torus); C. E. Leiserson, "Fat-Trees", IEEE Transactions on Computers 34 (1985), for trees of switches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from nhalf.errors import InputError
from nhalf.link import Link

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity


class Topology(StrEnum):
    """How the devices of a node hang together.

    `switch`: through a crossbar, so that one pair may use all of a device's bandwidth (NVSwitch, or two devices on one
    cable). `mesh`: by one link between each pair, so that a pair has one of them and only the full node has all (xGMI,
    Gaudi). `torus`: by links to the neighbours on each axis (TPU, Trainium). `host`: over PCIe and the host's bridges.
    """

    SWITCH = "switch"
    MESH = "mesh"
    TORUS = "torus"
    HOST = "host"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Switches:
    """The tree of switches between nodes, beyond the first switch, whose time is part of the latency of a link.

    A leaf reaches `nodes_per_leaf` nodes: with rails (one leaf for the first NIC of every node, one for the second, and
    so on) as many as it has ports down, without rails as many as those ports hold whole nodes. `leaves_per_pod` leaves
    share their spines; pods meet in a core (None: every leaf reaches every other over one spine). `hop_latency_s` [s]
    is one more switch with its cable; `oversubscription` [1] what the nodes of a leaf can send over what it carries up.
    """

    nodes_per_leaf: int
    hop_latency_s: Quantity
    oversubscription: Quantity
    leaves_per_pod: int | None = None

    def hops(self, nodes: int) -> int:
        """Return the switches beyond the first on the longest path among `nodes` consecutive nodes: 0, 2 or 4."""
        leaves = -(-nodes // self.nodes_per_leaf)
        if leaves == 1:
            return 0
        return 2 if self.leaves_per_pod is None or leaves <= self.leaves_per_pod else 4

    def hops_between(self, one: int, other: int) -> int:
        """Return the switches beyond the first between two nodes by their numbers."""
        leaf, far = one // self.nodes_per_leaf, other // self.nodes_per_leaf
        if leaf == far:
            return 0
        return 2 if self.leaves_per_pod is None or leaf // self.leaves_per_pod == far // self.leaves_per_pod else 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Torus:
    """A torus of `x` by `y` (by `z`) devices; a device has two links on each axis.

    An axis wraps around only where a group takes all of it: a part of an axis is a line.
    """

    x: int
    y: int
    z: int | None = None

    @property
    def axes(self) -> tuple[int, ...]:
        """Return the length of each axis."""
        return (self.x, self.y) if self.z is None else (self.x, self.y, self.z)

    def box(self, ranks: int) -> tuple[int, ...]:
        """Return the sides of the box that holds a group, as near to a cube as doubling the shortest side gets."""
        sides = [1] * len(self.axes)
        while math.prod(sides) < ranks:
            room = [axis for axis, side in enumerate(sides) if side < self.axes[axis]]
            if not room:
                break
            short = min(room, key=lambda axis: sides[axis])
            sides[short] = min(2 * sides[short], self.axes[short])
        return tuple(sides)

    def ports(self, box: tuple[int, ...]) -> int:
        """Return how many links of a device a box uses: two on a ring, one on a line, none on an axis of one."""
        used = zip(box, self.axes, strict=True)
        return sum(0 if side == 1 else 2 if side == whole and side > 2 else 1 for side, whole in used)  # noqa: PLR2004

    def diameter(self, box: tuple[int, ...]) -> int:
        """Return the links on the longest of the shortest paths inside a box."""
        used = zip(box, self.axes, strict=True)
        return sum(side // 2 if side == whole else side - 1 for side, whole in used)

    def distance(self, one: int, other: int) -> int:
        """Return the links between two devices, numbered along the last axis first."""
        places = [np.unravel_index(device, self.axes) for device in (one, other)]
        apart = [abs(int(a) - int(b)) for a, b in zip(*places, strict=True)]
        return sum(min(steps, axis - steps) for steps, axis in zip(apart, self.axes, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Span:
    """The part of a fabric that one group of ranks uses: `nodes` nodes with `ranks_per_node` ranks in each.

    `intra` is what a rank of the group sees inside a node when all of it communicates, `inter` what a NIC sees, hops
    included; `rails` is how many NICs of a node carry the group's traffic side by side. Where the group spans several
    racks that are one domain each (NVL72), a rack takes the place of a node. `hops` counts what lies on the longest
    path of the slowest tier: links of a torus, or switches beyond the first. `oversubscription` and `crossing` are for
    traffic between all nodes at once, which an ordered ring is not: see `inter_all`.
    """

    ranks: int
    nodes: int
    intra: Link
    inter: Link
    rails: Quantity
    racks: int = 1
    hops: int = 0
    box: tuple[int, ...] = ()
    oversubscription: Quantity = 1.0
    crossing: float = 0.0

    @property
    def ranks_per_node(self) -> int:
        """Return how many of the group's ranks share a node."""
        return self.ranks // self.nodes

    @property
    def tier(self) -> str:
        """Return the name of the slowest tier that the group crosses."""
        if self.racks > 1:
            return "inter_rack"
        return "intra_node" if self.nodes == 1 else "inter_node"

    @property
    def inter_all(self) -> Link:
        """Return the link of a NIC when every node sends to every other at once.

        A share `crossing` = (N - L) / (N - 1) of the messages leaves the leaf of L nodes, which carries 1 /
        `oversubscription` of what its nodes send; the slower of the two ways sets the pace.
        """
        share = np.maximum(1.0, self.crossing * np.asanyarray(self.oversubscription))
        if np.all(share == 1.0):
            return self.inter
        return Link(self.inter.latency_s, self.inter.bandwidth_bytes_per_s / share)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fabric:
    """The tiers of a cluster: `devices_per_node` devices on `intra_node` links, nodes on `inter_node` links.

    A link is that of one device, one direction: `intra_node` is all that a device can send to the others of a full
    node, `inter_node` is one NIC, of which a node has `nics_per_node`. `inter_rack` is given only where nodes are
    joined without NICs: then `nodes_per_rack` nodes make one domain, and it is the NIC that leaves it. Where a node is
    a rack on one set of switches, `devices_per_tray` of it sit in one tray, which only some kernels leave. `switches`
    is None where one switch reaches every node; `torus` is the shape of a node whose `topology` is a torus.
    """

    intra_node: Link
    inter_node: Link
    devices_per_node: int
    nics_per_node: Quantity
    topology: Topology = Topology.SWITCH
    inter_rack: Link | None = None
    nodes_per_rack: int | None = None
    switches: Switches | None = None
    torus: Torus | None = None
    devices_per_tray: int | None = None

    def __post_init__(self) -> None:
        """Refuse a fabric whose parts do not fit.

        Raises
        ------
        InputError
            A rack without the number of its nodes, or a torus without its shape or of another size than the node.
        """
        if (self.inter_rack is None) != (self.nodes_per_rack is None):
            raise InputError("inter_rack and nodes_per_rack go together", where="fabric", allowed="both, or neither")
        if (self.topology == Topology.TORUS) != (self.torus is not None):
            raise InputError(
                "a torus needs its shape, and nothing else has one", where="fabric", allowed="topology torus with x, y"
            )
        if self.torus is not None and math.prod(self.torus.axes) != self.devices_per_node:
            raise InputError(
                f"a torus of {' x '.join(map(str, self.torus.axes))} does not hold {self.devices_per_node} devices",
                where="fabric",
                allowed="devices_per_node = x y z",
            )

    @property
    def devices_per_host(self) -> int:
        """Return how many devices one host holds: those of a tray where a node is a rack of trays."""
        return self.devices_per_tray or self.devices_per_node

    def span(self, ranks: int) -> Span:
        """Return what a group of `ranks` consecutive ranks spans; full nodes first."""
        nodes = -(-ranks // self.devices_per_node)
        rails = self.nics_per_node * (ranks / nodes / self.devices_per_node)
        if self.nodes_per_rack is not None and self.inter_rack is not None and nodes > self.nodes_per_rack:
            racks = -(-nodes // self.nodes_per_rack)
            rails = self.nics_per_node * self.nodes_per_rack
            rails = rails * (ranks / racks / (self.devices_per_node * self.nodes_per_rack))
            inter = self.inter_rack
            return Span(ranks=ranks, nodes=racks, intra=self.inter_node, inter=inter, rails=rails, racks=racks)
        if self.switches is not None and nodes > self.switches.nodes_per_leaf:
            return self._across_leaves(ranks, nodes, rails, self.switches)
        if self.topology == Topology.TORUS and self.torus is not None:
            box = self.torus.box(ranks // nodes)
            hops = self.torus.diameter(box) if nodes == 1 else 0
            intra = self._intra(ranks // nodes)
            return Span(ranks=ranks, nodes=nodes, intra=intra, inter=self.inter_node, rails=rails, box=box, hops=hops)
        return Span(ranks=ranks, nodes=nodes, intra=self._intra(ranks // nodes), inter=self.inter_node, rails=rails)

    def _across_leaves(self, ranks: int, nodes: int, rails: Quantity, switches: Switches) -> Span:
        """Return the span of a group that one leaf does not hold: every hop beyond the first switch adds latency."""
        hops = switches.hops(nodes)
        inter = self.inter_node
        longer = Link(inter.latency_s + hops * switches.hop_latency_s, inter.bandwidth_bytes_per_s)
        return Span(
            ranks=ranks,
            nodes=nodes,
            intra=self._intra(ranks // nodes),
            inter=longer,
            rails=rails,
            hops=hops,
            oversubscription=switches.oversubscription,
            crossing=(nodes - switches.nodes_per_leaf) / (nodes - 1),
        )

    def _intra(self, ranks: int) -> Link:
        """Return what a device sees inside a node when `ranks` of it communicate: only the links between them count."""
        if self.topology == Topology.MESH and 1 < ranks < self.devices_per_node:
            share = (ranks - 1) / (self.devices_per_node - 1)
        elif self.torus is not None and 1 < ranks < self.devices_per_node:
            share = self.torus.ports(self.torus.box(ranks)) / (2 * len(self.torus.axes))
        else:
            return self.intra_node
        return Link(self.intra_node.latency_s, self.intra_node.bandwidth_bytes_per_s * share)

    def pair(self, one: int, other: int) -> Link:
        """Return the link between two ranks, numbered from 0, node by node, when nobody else communicates.

        Raises
        ------
        InputError
            The same rank twice, or a negative one.
        """
        if one == other or min(one, other) < 0:
            raise InputError(f"ranks {one} and {other} are no pair", where="pair", allowed="two ranks from 0")
        node, far = one // self.devices_per_node, other // self.devices_per_node
        if node == far:
            return self._neighbours(one % self.devices_per_node, other % self.devices_per_node)
        if self.nodes_per_rack is not None and self.inter_rack is not None:
            apart = node // self.nodes_per_rack != far // self.nodes_per_rack
            return self.inter_rack if apart else self.inter_node
        hops = 0 if self.switches is None else self.switches.hops_between(node, far)
        if self.switches is None or hops == 0:
            return self.inter_node
        latency_s = self.inter_node.latency_s + hops * self.switches.hop_latency_s
        return Link(latency_s, self.inter_node.bandwidth_bytes_per_s)

    def _neighbours(self, one: int, other: int) -> Link:
        """Return the link between two devices of a node."""
        link = self.intra_node
        if self.topology == Topology.MESH:
            return Link(link.latency_s, link.bandwidth_bytes_per_s / (self.devices_per_node - 1))
        if self.torus is not None:
            hops = self.torus.distance(one, other)
            return Link(link.latency_s * hops, link.bandwidth_bytes_per_s / (2 * len(self.torus.axes)))
        return link
