"""Reads a user's own catalogue, a file or a folder that the variable NHALF_CATALOG names, and lays it over nhalf's.

A cluster file (`like = "h100-sxm"` at its top) is a system by the name of the file. Any other file holds tables by kind
and name, `[links.my-link]` or `[systems.my-box.fabric.inter_node]`; a folder holds such files, and may hold
`systems/NAME.toml`, `devices/NAME.toml`, `curves/NAME.csv` and `models/NAME.json` in the form of nhalf's own. What is
new is added; what nhalf knows is overridden, value by value. A value may be a text alone (`latency = "5 us"`); where it
says nothing else it is `given`, its source is NHALF_CATALOG and its place the file.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from nhalf.catalog import overlay_checks as checks
from nhalf.catalog.reading import parse
from nhalf.catalog.schema import value_fields
from nhalf.errors import InputError, did_you_mean
from nhalf.files.reading import read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

Given = ParamSpec("Given")
Result = TypeVar("Result")

VARIABLE: Final = "NHALF_CATALOG"
"""The environment variable that names the user's catalogue, and the source of its values."""

LIKE: Final = "like"
"""The key that names the thing whose values are taken over."""
NOTHING_MEASURED: Final[Mapping[str, Any]] = {"measured": []}
"""What makes a system a cluster: a list of what was measured there, though it be empty."""

_FILES: Final = {
    "links": "links.toml",
    "rungs": "hierarchy.toml",
    "libraries": "libraries.toml",
    "tuners": "libraries.toml",
    "engines": "stacks.toml",
    "constants": "stacks.toml",
}
_FOLDERS: Final = {"systems": ".toml", "devices": ".toml", "curves": ".csv", "models": ".json"}
_HEADLESS: Final = {"sources": "sources.toml", "aliases": "aliases.toml"}
_ONE_FILE_EACH: Final = ("systems", "devices")
_HEADS: Final = (*_ONE_FILE_EACH, *_FILES, *_HEADLESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """A user's catalogue: its tables by the path of the file of nhalf's that they belong to, and its whole files.

    `name` is how the user wrote it; `checksum` changes whenever its content does.
    """

    name: str
    tables: Mapping[str, dict[str, Any]]
    files: Mapping[str, Path]
    checksum: int

    def stems(self, folder: str, suffix: str) -> list[str]:
        """Return the names of what the user has in a folder."""
        paths = [Path(path) for path in (*self.tables, *self.files)]
        return [path.stem for path in paths if path.parent.as_posix() == folder and path.suffix == suffix]


_generation = 0


def renewed() -> None:
    """Forget what was kept of the catalogue: a cluster file was read that is another one than before."""
    global _generation  # noqa: PLW0603  the one thing that every kept result hangs on
    _generation += 1


def remembered(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Return a function that keeps each result for as long as NHALF_CATALOG names the same catalogue."""
    kept: dict[tuple[object, ...], Result] = {}

    @wraps(function)
    def call(*given: Given.args, **named: Given.kwargs) -> Result:
        key = (os.environ.get(VARIABLE, ""), _generation, given, *sorted(named.items()))
        if key not in kept:
            kept[key] = function(*given, **named)
        return kept[key]

    return call


def current() -> Overlay | None:
    """Return the user's catalogue, or None when NHALF_CATALOG names none.

    Raises InputError when it is not there or cannot be read.
    """
    name = os.environ.get(VARIABLE, "").strip()
    return read(name) if name else None


@cache
def read(name: str) -> Overlay:
    """Return the catalogue in a file or folder.

    Raises InputError when it is not there, or a file of it cannot be read or belongs nowhere.
    """
    root = Path(name).expanduser()
    if not root.exists():
        raise InputError(
            f"there is no file or folder {name!r}", where=VARIABLE, allowed="a .toml file or a folder", do="unset it"
        )
    tables: dict[str, dict[str, Any]] = {}
    by_file: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    files: dict[str, Path] = {}
    checksum = 0
    for file in [root] if root.is_file() else _below(root):
        text = _text(file)
        checksum = zlib.crc32(text.encode(), checksum)
        parent = "" if root.is_file() or file.parent == root else file.relative_to(root).parent.as_posix()
        if parent in ("curves", "models"):
            files[f"{parent}/{file.name}"] = file
            continue
        where = f"{VARIABLE}, {file.name}"
        content = parse(text, where=where, dates={}, defaults=_defaults(file), shorthand=value_fields())
        if parent:
            placed: Iterable[tuple[str, dict[str, Any]]] = [(f"{parent}/{file.name}", content)]
        elif LIKE in content:
            placed = [(f"systems/{file.stem}.toml", {**NOTHING_MEASURED, **content})]
        else:
            placed = _placed(content, where)
        for path, table in placed:
            _refuse_twice(by_file.setdefault(path, []), file.name, table)
            tables[path] = merged(tables.get(path, {}), table)
    if not tables and not files:
        raise InputError(
            f"there is nothing in {name!r}", where=VARIABLE,
            allowed=", ".join(("[links.NAME] or the like in a .toml file", *(f"{each}/" for each in _FOLDERS))),
            do="unset it",
        )  # fmt: skip
    return Overlay(name=name, tables=tables, files=files, checksum=checksum)


def _refuse_twice(before: list[tuple[str, dict[str, Any]]], file: str, table: dict[str, Any]) -> None:
    """Refuse a value that another file of the same catalogue states too: which of them holds is nobody's guess."""
    for other, stated in before:
        twice = checks.stated_twice(stated, table)
        if twice:
            raise InputError(
                f"{twice} is stated in {other} too", where=f"{VARIABLE}, {file}", allowed="each value once",
                do="delete one of the two",
            )  # fmt: skip
    before.append((file, table))


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return one table laid over another: tables are merged, a value is replaced as a whole, lists are joined.

    A table over the name of a link or device is like that one, but for what the table says.
    """
    result = dict(base)
    for key, new in over.items():
        old = result.get(key)
        if isinstance(old, str) and isinstance(new, dict) and "value" not in new:
            result[key] = {LIKE: old, **new}
        elif isinstance(old, dict) and isinstance(new, dict) and "value" not in new:
            result[key] = merged(old, new)
        elif isinstance(old, list) and isinstance(new, list):
            result[key] = [*old, *(item for item in new if item not in old)]
        else:
            result[key] = new
    return result


def _defaults(file: Path) -> dict[str, str]:
    """Return what a value of the user's is taken to be when it does not say."""
    return {"source": VARIABLE, "locator": file.name, "kind": "given", "date": ""}


def _placed(content: Mapping[str, Any], where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each table of a file with the path of the file of nhalf's that it belongs to."""
    for head, inner in content.items():
        if head not in _HEADS or not isinstance(inner, dict):
            raise InputError(
                f"there is no kind {head!r} to add to",
                where=where,
                allowed=", ".join(f"[{each}.NAME]" for each in _HEADS),
                do=did_you_mean(head, _HEADS),
            )
        if head in _ONE_FILE_EACH:
            for name, table in inner.items():
                yield f"{head}/{name}.toml", checks.named_table(head, name, table, where)
        elif head in _HEADLESS:
            if head == "aliases":
                checks.aliases(inner, where)
            yield _HEADLESS[head], inner
        else:
            for name, table in inner.items() if head != "constants" else ():
                checks.named_table(head, name, table, where)
            yield _FILES[head], {head: inner}


def _below(root: Path) -> list[Path]:
    """Return the files of a folder, in order; hidden ones and notes are passed over."""
    found = []
    for file in sorted(path for path in root.rglob("*") if path.is_file()):
        place = file.relative_to(root)
        if any(part.startswith(".") for part in place.parts) or file.suffix in (".md", ".txt"):
            continue
        wanted = ".toml" if len(place.parts) == 1 else _FOLDERS.get(place.parent.as_posix())
        if file.suffix != wanted:
            raise InputError(
                f"{place.as_posix()} belongs nowhere",
                where=f"{VARIABLE}, {root.name}",
                allowed=f"*.toml, {', '.join(f'{folder}/*{suffix}' for folder, suffix in _FOLDERS.items())}",
                do="move it out of the folder",
            )
        found.append(file)
    return found


def _text(file: Path) -> str:
    try:
        return read_text(file)
    except InputError as error:
        where = f"{VARIABLE}, {file.name}"
        raise InputError(error.what, where=where, allowed=error.allowed, do=error.do) from error
