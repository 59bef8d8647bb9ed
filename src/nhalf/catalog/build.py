"""Builds the nouns of a scenario from entries, and keeps the origin of every number under its scenario path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.catalog.schema import data
from nhalf.device import EIGHT_BITS, FOUR_BITS, Device
from nhalf.errors import InputError
from nhalf.fabric import Fabric, Switches, Torus
from nhalf.link import Link
from nhalf.stack import Stack
from nhalf.system import System
from nhalf.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.catalog.schema import (
        Constants,
        DeviceEntry,
        FabricEntry,
        LinkEntry,
        SystemEntry,
        TransportEntry,
    )
    from nhalf.citation import Datum
    from nhalf.collective import Mode
    from nhalf.library import Library

Origins = dict[str, "Datum"]
"""The origin of each number, by its scenario path."""


def link(entry: LinkEntry, *, where: str) -> tuple[Link, Origins]:
    """Return a link; its origins are `latency_s` and `bandwidth_bytes_per_s`.

    Raises InputError when a value cannot be read; so do the functions below.
    """
    origins = dict(data(entry, where=where))
    return Link(**numbers_at(origins, "")), origins


def device(entry: DeviceEntry, *, where: str) -> tuple[Device, Origins]:
    """Return a device; its origins are named like its fields (`memory_bytes`)."""
    origins = dict(data(entry, where=where))
    return _device(entry, numbers_at(origins, "")), origins


def _device(entry: DeviceEntry, numbers: Mapping[str, float]) -> Device:
    """Return a device; it computes in the dtypes whose peak is above that of bf16."""
    plain = numbers["bf16_flop_per_s"]
    eight = EIGHT_BITS if numbers["fp8_flop_per_s"] > plain else frozenset()
    four = FOUR_BITS if numbers["fp4_flop_per_s"] > plain else frozenset()
    return Device(name=entry.name, architecture=entry.architecture, computes_in=eight | four, **numbers)


def transport(name: str, entry: TransportEntry, *, where: str) -> tuple[Transport, Origins]:
    """Return a transport; its origins are named like its fields (`hop_s`)."""
    origins = dict(data(entry, where=where))
    return Transport(name=name, known=entry.known, ll128=entry.ll128, **numbers_at(origins, "")), origins


def system(name: str, entry: SystemEntry, *, where: str) -> tuple[System, Origins]:
    """Return a system without its curves; its origins start with `system.`."""
    origins = {f"system.{path}": datum for path, datum in data(entry, where=where)}
    built = _fabric(entry.fabric, origins, where=where)
    accelerator = _device(entry.device, numbers_at(origins, "system.device."))
    factor = origins["system.curve_factor"].value
    return System(name=name, device=accelerator, fabric=built, measured_fabric=built, curve_factor=factor), origins


def _fabric(entry: FabricEntry, origins: Origins, *, where: str) -> Fabric:
    """Return a fabric with the parts that its entry has."""
    at = "system.fabric."
    counts = numbers_at(origins, at)
    rack = None if entry.inter_rack is None else Link(**numbers_at(origins, f"{at}inter_rack."))
    switches = numbers_at(origins, f"{at}switches.")
    torus = numbers_at(origins, f"{at}torus.")
    try:
        return Fabric(
            intra_node=Link(**numbers_at(origins, f"{at}intra_node.")),
            inter_node=Link(**numbers_at(origins, f"{at}inter_node.")),
            devices_per_node=int(counts["devices_per_node"]),
            nics_per_node=counts["nics_per_node"],
            topology=entry.topology,
            inter_rack=rack,
            nodes_per_rack=int(counts["nodes_per_rack"]) if "nodes_per_rack" in counts else None,
            devices_per_tray=int(counts["devices_per_tray"]) if "devices_per_tray" in counts else None,
            switches=_switches(switches) if switches else None,
            torus=Torus(**{axis: int(length) for axis, length in torus.items()}) if torus else None,
        )
    except InputError as error:  # it knows what does not fit, and not which file says so
        raise InputError(error.what, where=f"{where}, {error.where}", allowed=error.allowed, do=error.do) from error


def _switches(numbers: Mapping[str, float]) -> Switches:
    """Return a tree of switches; its counts are whole numbers."""
    counts = {name: int(numbers[name]) for name in ("nodes_per_leaf", "leaves_per_pod") if name in numbers}
    return Switches(**{**numbers, **counts})  # type: ignore[arg-type]


def stack(engine: str, library: Library, mode: Mode, constants: Constants, *, where: str) -> tuple[Stack, Origins]:
    """Return a stack; its origins start with `stack.` and leave out those of the library."""
    origins = {f"stack.{path}": datum for path, datum in data(constants, where=where)}
    return Stack(engine=engine, library=library, mode=mode, **numbers_at(origins, "stack.")), origins  # type: ignore[arg-type]


def numbers_at(origins: Mapping[str, Datum], prefix: str) -> dict[str, float]:
    """Return the numbers directly below a path, by the name of their field."""
    below = {path.removeprefix(prefix): datum.value for path, datum in origins.items() if path.startswith(prefix)}
    return {name: value for name, value in below.items() if "." not in name}
