"""A transport: what a network stack adds to a collective that leaves a node, as the constants of one class of fabrics.

A class is what a library speaks to the NIC (InfiniBand verbs, RoCE, EFA, Slingshot, sockets): machines of one class
differ by less than classes do. A machine that was measured has constants of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity

Known: TypeAlias = Literal["machine", "class", "wide"]
"""How far the constants are a fabric's own: measured there, of its class, or of a class that nobody measured."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transport:
    """The constants of a class of fabrics, by which `laws.across_nodes` prices what a library's plan chose.

    `hop_s` [s] is one way of a message of a few bytes from GPU to GPU of two nodes, `payload_s` [s] what it takes more
    once it fills a buffer, `bulk_s` [s] what the protocol of large messages adds. `ll_bandwidth_bytes_per_s` is what a
    ring of flags and data (LL) carries, and `ll_tree_factor` what a tree carries of that. The shares are the part of a
    node's NICs that trees, rings, trees through NVSwitch and sends to all peers reach; the protocol of 128 bytes keeps
    `ll128_share` of them. `depth_factor` is what a level of a tree costs beyond the first, in hops. `peer_s` [s] is a
    message to a remote peer of an all-to-all, `inject_s` [s] what it takes more where it is so small that the NIC sends
    it with the command. `doubt` and `switch` are 1: their intervals are what the law misses a measured time by, and by
    how much a library's switch of algorithm is misplaced. `ll128` tells whether the NIC keeps the order of 128 bytes,
    which that protocol counts on.
    """

    name: str
    known: Known
    ll128: bool
    hop_s: Quantity
    payload_s: Quantity
    bulk_s: Quantity
    ll128_share: Quantity
    ll_bandwidth_bytes_per_s: Quantity
    ll_tree_factor: Quantity
    tree_share: Quantity
    ring_share: Quantity
    nvls_share: Quantity
    exchange_share: Quantity
    depth_factor: Quantity
    peer_s: Quantity
    inject_s: Quantity
    doubt: Quantity = 1.0
    switch: Quantity = 1.0
