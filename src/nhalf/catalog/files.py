"""Reads the files of the catalogue, nhalf's own with the user's laid over them, each at most once.

Texts, tables, sources, aliases, and the version of them all.
"""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nhalf.catalog import cluster, compiled, overlay, overlay_checks
from nhalf.catalog.overlay import merged
from nhalf.catalog.reading import convert, convert_each, filled
from nhalf.catalog.schema import SourceEntry
from nhalf.citation import Source
from nhalf.files.reading import parse_toml

if TYPE_CHECKING:
    from collections.abc import Mapping

# A path and not importlib.resources: that costs 15 ms of every command, for archives that a wheel is never run from.
_ROOT: Final = Path(__file__).with_name("data")


def text(path: str) -> str:
    """Return the text of a file, named by its path below the data folder; the user's own, or nhalf's, or empty."""
    yours = overlay.current()
    if yours and path in yours.files:
        return yours.files[path].read_text(encoding="utf-8")
    return own_text(path)


def own_text(path: str) -> str:
    """Return the text of a file of nhalf's own; empty when there is none."""
    file = _ROOT / path
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _cluster(path: str) -> str:
    """Return the path of the cluster file that a system's file stands for; empty where it is one of the catalogue."""
    name = path.removeprefix("systems/").removesuffix(".toml")
    return name if path.startswith("systems/") and cluster.is_file(name) else ""


def is_cluster(system: str) -> bool:
    """Tell whether a system is a cluster of the user's: a file named by its path, or in the user's catalogue."""
    return "measured" in tables(f"systems/{system}.toml")


def place(path: str) -> str:
    """Return how a message names a file of the catalogue."""
    own = _cluster(path)
    if own:
        return own
    yours = overlay.current()
    if not yours:
        return f"catalogue, {path}"
    # Another file of the user's may reach into this one: a system names links and a device.
    over = path in yours.tables or path in yours.files
    return f"{overlay.VARIABLE} {yours.name} over {path}" if over else f"{path}, with {overlay.VARIABLE} {yours.name}"


def stems(folder: str, suffix: str) -> list[str]:
    """Return the names of the files in a folder without their suffix, in order."""
    yours = overlay.current()
    return sorted({*own_stems(folder, suffix), *(yours.stems(folder, suffix) if yours else ())})


def own_stems(folder: str, suffix: str) -> list[str]:
    """Return the names of nhalf's own files in a folder."""
    return sorted(file.stem if file.suffix == suffix else file.name for file in (_ROOT / folder).iterdir())


def tables(path: str) -> dict[str, Any]:
    """Return the tables of a TOML file, each value with its date and what the file's values share."""
    own = _cluster(path)
    if own:
        return cluster.tables(own, dates())
    yours = overlay.current()
    if yours is not None:
        _check_sources()
    if yours and path in yours.tables:
        return merged(own_tables(path), yours.tables[path])
    return own_tables(path)


@overlay.remembered
def _check_sources() -> None:
    """Refuse a value of the user's whose source is none that is known."""
    yours = overlay.current()
    if yours:
        # A cluster's values name the logs that they are of.
        tables = {path: table for path, table in yours.tables.items() if "measured" not in table}
        overlay_checks.sources(tables, sources(), f"{overlay.VARIABLE} {yours.name}")


@cache
def own_tables(path: str) -> dict[str, Any]:
    """Return the tables of a TOML file of nhalf's own; none when there is no such file."""
    return filled(_parsed(path), where=f"catalogue, {path}", dates=dates())


def _parsed(path: str) -> dict[str, Any]:
    """Return the tables that a file of nhalf's own states; none when there is no such file."""
    file = _ROOT / path
    if not file.is_file():
        return {}
    return compiled.tables(file, path, lambda: parse_toml(own_text(path), where=f"catalogue, {path}"))


def sources() -> Mapping[str, Source]:
    """Return every source by its key; NHALF_CATALOG is one where the user has a catalogue."""
    yours = overlay.current()
    if not yours:
        return _own_sources()
    where = f"{overlay.VARIABLE} {yours.name}, sources"
    added = _sources(yours.tables.get("sources.toml", {}), where)
    title = f"your own catalogue, {yours.name}"
    return {**_own_sources(), overlay.VARIABLE: Source(key=overlay.VARIABLE, title=title), **added}


@cache
def _own_sources() -> Mapping[str, Source]:
    where = "catalogue, sources.toml"
    return _sources(filled(_parsed("sources.toml"), where=where, dates={}), where)


def _sources(entries: Mapping[str, Any], where: str) -> dict[str, Source]:
    return {
        key: Source(key=key, title=entry.title, url=entry.url, date=entry.date, licence=entry.licence)
        for key, entry in convert_each(entries, SourceEntry, where=where).items()
    }


@cache
def dates() -> Mapping[str, str]:
    """Return the date of every source of nhalf's own: that of a value which has none of its own."""
    return {key: source.date for key, source in _own_sources().items()}


def aliases() -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """Return the other names of things: by kind, by id."""
    where = place("aliases.toml")
    return convert(tables("aliases.toml"), dict[str, dict[str, tuple[str, ...]]], where=where)


def catalog_version() -> str:
    """Return the newest date of a source and a checksum of every file: it changes whenever a value does.

    A user's catalogue adds a checksum of its own.
    """
    yours = overlay.current()
    return f"{_own_version()}+yours.{yours.checksum:08x}" if yours else _own_version()


@cache
def _own_version() -> str:
    checksum = 0
    for file in sorted(path for path in _ROOT.rglob("*") if path.is_file()):
        checksum = zlib.crc32(file.relative_to(_ROOT).as_posix().encode(), checksum)
        # A checkout may have translated the ends of lines; the content is the same.
        checksum = zlib.crc32(file.read_bytes().replace(b"\r\n", b"\n"), checksum)
    return f"{max(dates().values())}+{checksum:08x}"
