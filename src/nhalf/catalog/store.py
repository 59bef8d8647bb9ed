"""Finds what the catalogue holds by name: a system, a stack, a library, a link or a transformer, with its origins.

Files are read once, and only when asked for.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from nhalf.catalog import build, cluster, files, libraries, resolve, schema, stated
from nhalf.catalog.curves import find as find_curve
from nhalf.catalog.curves import read_curves
from nhalf.catalog.files import catalog_version, place, sources
from nhalf.catalog.naming import KINDS, find, names
from nhalf.catalog.overlay import remembered
from nhalf.catalog.reading import convert, convert_each
from nhalf.catalog.routed import read_routed
from nhalf.catalog.schema import (
    FixedTimeEntry,
    ModelOrigin,
    NamedLink,
    RuleEntry,
    RulesFile,
    SourceEntry,
    SymmetricEntry,
)
from nhalf.catalog.stated import CALIBRATED
from nhalf.citation import Datum, Source
from nhalf.collective import Mode, Op
from nhalf.curve.moved import filled
from nhalf.errors import InputError
from nhalf.fabric import Topology
from nhalf.transformer import from_config

if TYPE_CHECKING:
    from nhalf.catalog.build import Origins
    from nhalf.curve import MeasuredCurve, RoutedCurve
    from nhalf.device import Device
    from nhalf.library import Library, Rule, SymmetricKernels
    from nhalf.link import Link
    from nhalf.stack import Stack
    from nhalf.system import System
    from nhalf.transformer import Transformer
    from nhalf.transport import Transport

__all__ = [
    "KINDS",
    "catalog_version",
    "device",
    "find",
    "fixed_time",
    "library",
    "library_values",
    "link",
    "names",
    "routed",
    "rule_sources",
    "rules",
    "sources",
    "stack",
    "system",
    "transformer",
    "transport",
]


def system(name: str, *, curves: bool = False, where: str = "system") -> tuple[System, Origins]:
    """Return a system and the origins of its numbers, by path (`system.device.memory_bytes`).

    Its measured curves are read only when `curves` is true; `where` says in messages where the name was written.

    Raises InputError when there is no such system.
    """
    key = find("system", name, where=where)
    built, origins = _system(key)
    return (replace(built, curves=measured(key)) if curves else built), dict(origins)


def device(name: str, *, where: str = "device") -> tuple[Device, Origins]:
    """Return a device, and the origins of its numbers (`memory_bytes`).

    Raises InputError when there is no such device.
    """
    key = find("device", name, where=where)
    return build.device(stated.device(key).device, where=place(f"devices/{key}.toml"))


def stack(
    engine: str,
    *,
    library: str | None = None,
    mode: str | None = None,
    architecture: str,
    calibrated: bool = CALIBRATED,
    where: str = "engine",
) -> tuple[Stack, Origins]:
    """Return a stack and the origins of its numbers (`stack.layer_time_s`, `stack.library.tuner_factor`).

    The library and the mode are the engine's own unless they are named; `architecture` is that of the device. The
    constants are those that ship with a calibration, or where `calibrated` is false those assumed before any.

    Raises InputError when there is no such engine, library, mode or architecture.
    """
    key = find("engine", engine, where=where)
    own = stated.engine(key)
    chosen = find("library", library or own.library, where="library")
    used, of_library = _library(chosen, architecture)
    launched = own.mode if mode is None else Mode.parse(mode, where="mode")
    of_step = stated.constants(calibrated=calibrated, of_engine=key)
    built, of_engine = build.stack(key, used, launched, of_step, where=place("stacks.toml"))
    return replace(built, gathers_at_root=own.gathers_at_root), of_engine | of_library


def library(name: str, *, architecture: str, where: str = "library") -> tuple[Library, Origins]:
    """Return a communication library on an architecture, and the origins of its numbers (`stack.library. ...`).

    Raises InputError when there is no such library, or its tuner knows no such architecture.
    """
    built, origins = _library(find("library", name, where=where), architecture)
    return built, dict(origins)


def link(name: str, *, where: str = "link") -> tuple[Link, Origins]:
    """Return a link, and the origins of its `latency_s` and `bandwidth_bytes_per_s`.

    Raises InputError when there is no such link.
    """
    key = find("link", name, where=where)
    return build.link(stated.links()[key], where=f"{place('links.toml')} [{key}]")


def transport(name: str, *, where: str = "fabric") -> tuple[Transport, Origins]:
    """Return the network stack between nodes of a name, and the origins of its numbers (`hop_s`).

    Raises InputError when there is no such class or machine.
    """
    key = find("fabric", name, where=where)
    return build.transport(key, stated.transports()[key], where=f"{place('fabrics.toml')} [{key}]")


def rung(key: str) -> tuple[Link, Origins]:
    """Return a rung of the hierarchy of memories and links, and the origins of its two numbers."""
    where = f"{place('hierarchy.toml')} [{key}]"
    return build.link(convert(resolve.rungs()[key], NamedLink, where=where), where=where)


def transformer(name: str, *, where: str = "model") -> tuple[Transformer, Datum]:
    """Return a transformer, and its number of parameters with the origin of the config.json it was counted from.

    Raises InputError when there is no such model.
    """
    return _transformer(find("model", name, where=where))


def constant_data(*, calibrated: bool = CALIBRATED, engine: str = "") -> dict[str, Datum]:
    """Return the constants of a decode step with their origins, by the name of their field (`layer_time_s`)."""
    return dict(schema.data(stated.constants(calibrated=calibrated, of_engine=engine), where=place("stacks.toml")))


def symmetric(architecture: str) -> tuple[SymmetricKernels | None, Origins]:
    """Return what NCCL expects of its symmetric kernels on an architecture, and the origins; None where it has none."""
    where = place("libraries.toml, symmetric")
    entries = convert_each(files.tables("libraries.toml")["symmetric"], SymmetricEntry, where=where)
    return libraries.symmetric(entries, stated.tuners()["nccl"].like.get(architecture, architecture), where=where)


@remembered
def _known_architectures() -> frozenset[str]:
    """Return the architecture of every system and device of the catalogue."""
    systems = {stated.system(key).device.architecture for key in names("system")}
    return frozenset(systems | {stated.device(key).device.architecture for key in names("device")})


def fixed_time() -> dict[str, Datum]:
    """Return the parts of a collective's fixed time that no curve shows, by name [s].

    `tcp_step` is a message through the kernel's network stack, on 100 Gb/s Ethernet.
    """
    where = place("libraries.toml")
    entry = convert(files.tables("libraries.toml")["fixed_time"], FixedTimeEntry, where=where)
    parts = {name.removesuffix("_s"): datum for name, datum in schema.data(entry, where=where)}
    return {**parts, "tcp_step": link("tcp-100g")[1]["latency_s"]}


@remembered
def rules() -> tuple[Rule, ...]:
    """Return every library's own rules about which algorithm it runs up to which size."""
    where = place("thresholds.toml")
    file = convert(files.tables("thresholds.toml"), RulesFile, where=where)
    origins = convert_each(file.sources, SourceEntry, where=f"{where} sources")
    entries = convert_each(file.rules, RuleEntry, where=where)
    return tuple(rule for key, entry in entries.items() for rule in libraries.rules(key, entry, origins, where=where))


@remembered
def rule_sources() -> dict[str, Source]:
    """Return the sources of the rules by their key."""
    entries = convert_each(files.tables("thresholds.toml")["sources"], SourceEntry, where=place("thresholds.toml"))
    return {key: Source(key=key, title=each.title, url=each.url, date=each.date) for key, each in entries.items()}


@remembered
def _system(key: str) -> tuple[System, Origins]:
    entry, where = stated.system(key), place(f"systems/{key}.toml")
    built, origins = build.system(key, entry, where=where)
    built = replace(built, like=like(key))
    if not entry.transport:
        return built, origins
    stack, of_stack = transport(entry.transport, where=f"{where}, transport")
    origins |= {f"system.transport.{path}": datum for path, datum in of_stack.items()}
    return replace(built, transport=stack), origins


@remembered
def measured(key: str) -> tuple[MeasuredCurve, ...]:
    """Return the curves measured on a system, the user's before nhalf's; none when it has no table.

    A system whose node is that of another one has the curves of that one, which keep its name; one that has no curves
    and names a sibling borrows those of the sibling, and they say so. Its own come first.
    """
    own, sibling = _own_curves(key), resolve.sibling_named(key)
    lent = _own_curves(resolve.sibling_of(key) or sibling) if sibling else ()
    return (*_of_cluster(key), *own, *(replace(curve, lent_to=key) for curve in lent))


@remembered
def like(key: str) -> str:
    """Return the system of the catalogue that a cluster of the user's is like; empty for any other system."""
    return str(files.tables(f"systems/{key}.toml").get("like", "")) if files.is_cluster(key) else ""


@remembered
def _of_cluster(key: str) -> tuple[MeasuredCurve, ...]:
    """Return what was measured on a cluster of the user's, carried to other sizes and ranks by like systems' curves."""
    entry = stated.system(key)
    own = cluster.curves(entry.measured, key)
    topology = entry.fabric.topology
    slots = topology == Topology.HOST
    return tuple(
        filled(curve, _others(curve.key.library, curve.key.mode, curve.key.op, topology), slots=slots)
        if curve.nodes == 1
        else curve
        for curve in own
    )


@remembered
def _others(library: str, mode: Mode, op: Op, topology: Topology) -> list[MeasuredCurve]:
    """Return the curves of a library and operation on the systems whose devices are joined alike, one of each.

    Where none ran in that mode, those that did in another one.
    """
    known = [
        _own_curves(name)
        for name in files.stems("curves", ".csv")
        if files.own_text(f"systems/{name}.toml") and stated.system(name).fabric.topology == topology
    ]
    for each in dict.fromkeys((mode, Mode.GRAPH, Mode.HOST)):
        found = [curve for curves in known if (curve := find_curve(curves, library, mode=each, op=op)) is not None]
        if found:
            return found
    return []


@remembered
def _own_curves(key: str) -> tuple[MeasuredCurve, ...]:
    """Return the curves measured on a system or on one of the same node."""
    of = resolve.measured_on(key)
    path = f"curves/{of}.csv"
    tables = dict.fromkeys(table for table in (files.text(path), files.own_text(path)) if table)
    return tuple(curve for table in tables for curve in read_curves(table, of))


@remembered
def routed(name: str) -> tuple[RoutedCurve, ...]:
    """Return the ways of tokens to experts and back that were measured on a system; none when it has no table.

    They are of one machine: a system whose node is that of another one has none of its own.
    """
    key = find("system", name, where="system")
    of = like(key) or key
    return read_routed(files.text(f"curves_moe/{of}.csv"), of)


@remembered
def _library(key: str, architecture: str) -> tuple[Library, Origins]:
    built, origins = libraries.library(
        key, stated.library(key), _tuner(key, architecture), where=place("libraries.toml")
    )
    leaves = stated.trays().get(key)
    return (replace(built, tray_ranks=int(leaves.most_ranks.value)) if leaves else built), origins


def library_values(name: str, *, architecture: str) -> Origins:
    """Return the origin of every number of a library on an architecture, those that cannot be set among them.

    Raises InputError when there is no such library, or no tuner knows the architecture.
    """
    parts = _tuner(find("library", name, where="library"), architecture)
    return libraries.values(parts, where=place("libraries.toml"))


def _tuner(key: str, architecture: str) -> libraries.TunerParts:
    """Return the tuner that plans for a library on an architecture."""
    own, tuners = stated.library(key).tuner, stated.tuners()
    try:
        return libraries.tuner_for(own, architecture, tuners, frozenset())
    except InputError:  # only now is it worth reading every system
        return libraries.tuner_for(own, architecture, tuners, _known_architectures())


@remembered
def _transformer(key: str) -> tuple[Transformer, Datum]:
    path = f"models/{key}.json"
    config = json.loads(files.text(path))
    origin = convert(config.get("nhalf"), ModelOrigin, where=f"{place(path)}, nhalf")
    built = from_config(config, name=key, where=place(path))
    datum = Datum(
        value=float(built.parameters),
        unit="1",
        source=origin.source,
        locator=origin.locator,
        kind="derived",
        date=origin.date,
        note="parameters, counted from the dimensions that config.json states",
    )
    return built, datum
