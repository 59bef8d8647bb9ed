"""What the files of the catalogue state of an id, before a noun is built from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nhalf.catalog import calibration, files, resolve
from nhalf.catalog.files import place
from nhalf.catalog.overlay import remembered
from nhalf.catalog.reading import convert, convert_each
from nhalf.catalog.schema import (
    Constants,
    EngineEntry,
    LibraryEntry,
    LinksFile,
    NamedDevice,
    NamedLink,
    SystemEntry,
    TransportEntry,
    TransportsFile,
    TraysEntry,
    TunerEntry,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

CALIBRATED: Final = True
"""Whether a stack has the calibrated constants unless it is asked for the assumed ones."""


def system(key: str) -> SystemEntry:
    """Return what the file of a system says, with the device and the links that it names."""
    return convert(resolve.system(key), SystemEntry, where=place(f"systems/{key}.toml"))


def device(key: str) -> NamedDevice:
    """Return what the file of a device says."""
    return convert(resolve.named("devices", key), NamedDevice, where=place(f"devices/{key}.toml"))


def engine(key: str) -> EngineEntry:
    """Return what is said of an engine."""
    where = f"{place('stacks.toml')} [engines.{key}]"
    return convert(resolve.engine(key), EngineEntry, where=where)


def constants(*, calibrated: bool = CALIBRATED, of_engine: str = "") -> Constants:
    """Return the constants of a decode step, as calibrated for every engine or as assumed before.

    A constant that the user's own catalogue states stays the user's, and one that is an engine's own stays that.
    """
    found = files.tables("stacks.toml")["constants"]
    if calibrated:
        own = files.own_tables("stacks.toml")["constants"]
        fitted = calibration.tables()
        found = {name: fitted.get(name, table) if table == own.get(name) else table for name, table in found.items()}
    if of_engine:
        found = {**found, **engine(of_engine).constants}
    return convert(found, Constants, where=place("stacks.toml"))


def library(key: str) -> LibraryEntry:
    """Return what is said of a library."""
    where = f"{place('libraries.toml')} [libraries.{key}]"
    return convert(files.tables("libraries.toml")["libraries"][key], LibraryEntry, where=where)


@remembered
def trays() -> dict[str, TraysEntry]:
    """Return what is said of each library whose kernels leave a tray."""
    return convert_each(files.tables("libraries.toml")["trays"], TraysEntry, where=place("libraries.toml, trays"))


@remembered
def tuners() -> dict[str, TunerEntry]:
    """Return what is said of each tuner."""
    return convert_each(files.tables("libraries.toml")["tuners"], TunerEntry, where=place("libraries.toml"))


def architectures(tuner: str) -> list[str]:
    """Return the architectures that a tuner knows."""
    return list(tuners()[tuner].limits)


@remembered
def transports() -> dict[str, TransportEntry]:
    """Return what is said of each network stack between nodes."""
    where = place("fabrics.toml")
    return convert_each(
        convert(files.tables("fabrics.toml"), TransportsFile, where=where).transports, TransportEntry, where=where
    )


@remembered
def links() -> dict[str, NamedLink]:
    """Return what is said of each link."""
    return links_in(files.tables("links.toml"), where=place("links.toml"))


def links_in(tables: Mapping[str, Any], *, where: str) -> dict[str, NamedLink]:
    """Return the links in the tables of a file, the catalogue's or another of its form (see `reading.parse`).

    Raises InputError when a table or a field is missing, unknown or of the wrong kind.
    """
    return convert_each(convert(tables, LinksFile, where=where).links, NamedLink, where=where)
