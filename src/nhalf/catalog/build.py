"""Builds the nouns of a scenario from entries, and keeps the origin of every number under its scenario path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nhalf.catalog.schema import data
from nhalf.device import Device
from nhalf.fabric import Fabric
from nhalf.library import Library, Tuner, TunerPath
from nhalf.link import Link
from nhalf.stack import Stack
from nhalf.system import System

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.catalog.schema import (
        Constants,
        LibraryEntry,
        LimitsEntry,
        LinkEntry,
        PathEntry,
        PathsEntry,
        Ratio,
        SystemEntry,
    )
    from nhalf.citation import Datum
    from nhalf.collective import Mode

Origins = dict[str, "Datum"]
"""The origin of each number, by its scenario path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TunerParts:
    """A tuner on one architecture, still in entries: its paths, what limits them there, and the doubt about it all."""

    paths: PathsEntry
    limits: LimitsEntry
    factor: Ratio


def link(entry: LinkEntry, *, where: str) -> tuple[Link, Origins]:
    """Return a link; its origins are `latency_s` and `bandwidth_bytes_per_s`.

    Raises InputError when a value cannot be read; so do the functions below.
    """
    origins = dict(data(entry, where=where))
    return Link(**_numbers(origins, "")), origins


def system(name: str, entry: SystemEntry, *, where: str) -> tuple[System, Origins]:
    """Return a system without its curves; its origins start with `system.`."""
    origins = {f"system.{path}": datum for path, datum in data(entry, where=where)}
    counts = _numbers(origins, "system.fabric.")
    fabric = Fabric(
        intra_node=Link(**_numbers(origins, "system.fabric.intra_node.")),
        inter_node=Link(**_numbers(origins, "system.fabric.inter_node.")),
        devices_per_node=int(counts["devices_per_node"]),
        nics_per_node=counts["nics_per_node"],
    )
    device = Device(
        name=entry.device.name,
        architecture=entry.device.architecture,
        **_numbers(origins, "system.device."),
    )
    factor = origins["system.curve_factor"].value
    return System(name=name, device=device, fabric=fabric, measured_fabric=fabric, curve_factor=factor), origins


def library(name: str, entry: LibraryEntry, tuner: TunerParts, *, where: str) -> tuple[Library, Origins]:
    """Return a library with its tuner; its origins start with `stack.library.`."""
    origins = {f"stack.library.tuner.{path}": datum for path, datum in data(tuner.paths, where=where)}
    for path, datum in data(tuner.limits, where=where):
        algorithm = path.removesuffix(tuner.limits.tree_ll.suffix)
        origins[f"stack.library.tuner.{algorithm}.bandwidth_limit_bytes_per_s"] = datum
    origins["stack.library.tuner_factor"] = tuner.factor.datum(f"{where}, factor")
    paths = {path: _tuner_path(path, getattr(tuner.paths, path), origins) for path in tuner.paths.__struct_fields__}
    built = Library(
        name=name,
        in_node=entry.in_node,
        across_nodes=entry.across_nodes,
        tuner=Tuner(**paths),
        tuner_factor=origins["stack.library.tuner_factor"].value,
    )
    return built, origins


def stack(engine: str, library: Library, mode: Mode, constants: Constants, *, where: str) -> tuple[Stack, Origins]:
    """Return a stack; its origins start with `stack.` and leave out those of the library."""
    origins = {f"stack.{path}": datum for path, datum in data(constants, where=where)}
    return Stack(engine=engine, library=library, mode=mode, **_numbers(origins, "stack.")), origins


def _tuner_path(path: str, entry: PathEntry, origins: Origins) -> TunerPath:
    numbers = _numbers(origins, f"stack.library.tuner.{path}.")
    return TunerPath(algorithm=entry.algorithm, protocol=entry.protocol, **numbers)


def _numbers(origins: Mapping[str, Datum], prefix: str) -> dict[str, float]:
    """Return the numbers directly below a path, by the name of their field."""
    below = {path.removeprefix(prefix): datum.value for path, datum in origins.items() if path.startswith(prefix)}
    return {name: value for name, value in below.items() if "." not in name}
