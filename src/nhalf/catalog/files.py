"""Reads the catalogue's own files, each at most once: texts, tables, sources, aliases, and the version of them all."""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nhalf.catalog.reading import convert, convert_each, parse
from nhalf.catalog.schema import SourceEntry
from nhalf.citation import Source

if TYPE_CHECKING:
    from collections.abc import Mapping

# A path and not importlib.resources: that costs 15 ms of every command, for archives that a wheel is never run from.
_ROOT: Final = Path(__file__).with_name("data")


def text(path: str) -> str:
    """Return the text of a file of the catalogue, named by its path below the data folder; empty when there is none."""
    file = _ROOT / path
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def place(path: str) -> str:
    """Return how a message names a file of the catalogue."""
    return f"catalogue, {path}"


def stems(folder: str, suffix: str) -> list[str]:
    """Return the names of the files in a folder without their suffix, in order."""
    return sorted(file.stem if file.suffix == suffix else file.name for file in (_ROOT / folder).iterdir())


@cache
def tables(path: str) -> dict[str, Any]:
    """Return the tables of a TOML file, each value with its date and what the file's values share."""
    return parse(text(path), where=place(path), dates=dates())


@cache
def sources() -> Mapping[str, Source]:
    """Return every source by its key."""
    where = place("sources.toml")
    entries = convert_each(parse(text("sources.toml"), where=where, dates={}), SourceEntry, where=where)
    return {
        key: Source(key=key, title=entry.title, url=entry.url, date=entry.date, licence=entry.licence)
        for key, entry in entries.items()
    }


@cache
def dates() -> Mapping[str, str]:
    """Return the date of every source: that of a value which has none of its own."""
    return {key: source.date for key, source in sources().items()}


@cache
def aliases() -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """Return the other names of things: by kind, by id."""
    where = place("aliases.toml")
    return convert(
        parse(text("aliases.toml"), where=where, dates={}), dict[str, dict[str, tuple[str, ...]]], where=where
    )


@cache
def catalog_version() -> str:
    """Return the newest date of a source and a checksum of every file: it changes whenever a value does."""
    checksum = 0
    for file in sorted(path for path in _ROOT.rglob("*") if path.is_file()):
        checksum = zlib.crc32(file.relative_to(_ROOT).as_posix().encode(), checksum)
        # A checkout may have translated the ends of lines; the content is the same.
        checksum = zlib.crc32(file.read_bytes().replace(b"\r\n", b"\n"), checksum)
    return f"{max(dates().values())}+{checksum:08x}"
