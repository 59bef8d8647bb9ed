"""Words that several answers use: a count with its noun, what a link is called, the doubt that incast leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf.fabric import Topology
from nhalf.predict.incast import COLLAPSE, WAIT_S

if TYPE_CHECKING:
    from nhalf.system import System

INCAST: Final = (
    "so many nodes answer one root at once over TCP. Where that overruns a port of the switch (incast), a lost reply "
    f"waits Linux's least retransmission time, {1e3 * WAIT_S:.0f} ms, and up to {100 * (1 - 1 / COLLAPSE):.0f} % of "
    "the throughput is lost (CMU-PDL-09-101). Llama-2-7B on 8 Raspberry Pi 4 took 290 ms of transfer a token for 51 ms "
    "on the wire, on 4 it took 34 (distributed-llama). No wait is in the time; the high end of the band allows for "
    f"{COLLAPSE:.0f} times the communication"
)
"""The doubt that incast leaves, as a sentence without its subject and its point."""


def counted(count: int, noun: str = "row") -> str:
    """Return a number of rows, or of another noun, in words."""
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"


def link_name(system: System, tier: str) -> str:
    """Return what the links of a tier are called on an invoice."""
    if tier != "intra_node":
        return {"inter_node": "NIC", "inter_rack": "rack link"}[tier]
    topology, made = system.fabric.topology, system.device.architecture
    if topology == Topology.HOST:
        return "PCIe"
    known = (name for (shape, prefixes), name in _IN_NODE.items() if shape == topology and made.startswith(prefixes))
    return next(known, "in-node link")


_IN_NODE: Final = {
    (Topology.SWITCH, ("volta", "ampere", "hopper", "blackwell")): "NVLink",
    (Topology.MESH, ("cdna",)): "xGMI",
    (Topology.TORUS, ("tpu",)): "ICI",
}  # fmt: skip
"""What links inside a node are called, by how they hang together and by the architectures of the devices."""
