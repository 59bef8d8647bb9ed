"""Peer access (P2P): a node whose devices reach each other through the host's memory, whatever links they have.

NCCL does so with NCCL_P2P_DISABLE=1, and where the driver or the topology denies peer access; kernels that read their
peers' memory do not run then, so engines fall back to NCCL (vLLM and SGLang: custom all-reduce off).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from nhalf.catalog import store
from nhalf.device import generation
from nhalf.errors import InputError
from nhalf.fabric import Topology

if TYPE_CHECKING:
    from nhalf.citation import Datum
    from nhalf.system import System

LIBRARY: Final = "nccl"
"""The library that copies through the host."""
_TIER: Final = "system.fabric.intra_node"
_HOST_LINKS: Final = {"ampere": "pcie4-host", "ada": "pcie4-host", "hopper": "pcie5-host", "blackwell": "pcie5-host"}
"""The way through the host by architecture: its slots are of PCIe 4 or 5 (NVIDIA's datasheets of A100, L40S, H100 and
B200)."""


def check(library: str | None) -> None:
    """Refuse a library that has no way through the host.

    Raises
    ------
    InputError
        It is another one than NCCL.
    """
    if library is not None and store.find("library", library, where="--library") != LIBRARY:
        raise InputError(
            f"nothing is known of {library} without peer access", where="--p2p off", allowed=f"--library {LIBRARY}",
            do="leave --library out",
        )  # fmt: skip


def without(system: System) -> tuple[System, dict[str, Datum]]:
    """Return a system whose devices reach each other through the host, and the origins of that link.

    What was measured on its own links says nothing of this one: the curves are left out, and nothing is a what-if.

    Raises
    ------
    InputError
        Nodes of one device have nobody to reach, or nothing is known of the host's way on that architecture.
    """
    device = system.device
    if system.fabric.devices_per_node == 1:
        raise InputError(f"a node of {system.name} has one device", where="--p2p off", do="leave it out")
    name = _HOST_LINKS.get(generation(device.architecture))
    if name is None:
        raise InputError(
            f"no way through the host is known for {device.architecture}", where="--p2p off",
            allowed=", ".join(_HOST_LINKS), do=f"leave it out, and set {_TIER}.latency_s and .bandwidth_bytes_per_s",
        )  # fmt: skip
    link, origins = store.link(name)
    fabric = replace(system.fabric, intra_node=link, topology=Topology.HOST, torus=None)
    without_curves = replace(system, fabric=fabric, measured_fabric=fabric, curves=(), routed=())
    return without_curves, {f"{_TIER}.{part}": datum for part, datum in origins.items()}
