"""A fabric: the links between devices, tier by tier, and the stretch of it that a group of ranks spans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity
    from nhalf.link import Link


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Span:
    """The part of a fabric that one group of ranks uses: `nodes` nodes with `ranks_per_node` ranks in each.

    `rails` is how many NICs of a node carry the group's traffic side by side.
    """

    ranks: int
    nodes: int
    intra: Link
    inter: Link
    rails: Quantity

    @property
    def ranks_per_node(self) -> int:
        """Return how many of the group's ranks share a node."""
        return self.ranks // self.nodes

    @property
    def tier(self) -> str:
        """Return the name of the slowest tier that the group crosses."""
        return "intra_node" if self.nodes == 1 else "inter_node"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fabric:
    """The tiers of a cluster: `devices_per_node` devices on `intra_node` links, nodes on `inter_node` links.

    A link is that of one device to another, one direction: `inter_node` is one NIC, of which a node has
    `nics_per_node`.
    """

    intra_node: Link
    inter_node: Link
    devices_per_node: int
    nics_per_node: Quantity

    def span(self, ranks: int) -> Span:
        """Return what a group of `ranks` consecutive ranks spans; full nodes first."""
        nodes = -(-ranks // self.devices_per_node)
        rails = self.nics_per_node * (ranks / nodes / self.devices_per_node)
        return Span(ranks=ranks, nodes=nodes, intra=self.intra_node, inter=self.inter_node, rails=rails)
