"""Scenario files: the flags of `nhalf decode` as TOML, read and written."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nhalf.catalog.cluster import is_file
from nhalf.errors import InputError, did_you_mean
from nhalf.files.reading import read_toml
from nhalf.loading.choices import Request
from nhalf.loading.inputs import BY_NAME, NAME_OF, of_part
from nhalf.loading.readers import count, counts, names, texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nhalf.citation import Datum
    from nhalf.loading.inputs import Input
    from nhalf.scenario import Scenario


def _kinds(row: Input) -> tuple[type, ...]:
    """Return the types that the value of a key may have."""
    if row.read in (counts, texts):
        return (list,)
    if row.part == "request":
        return (int,) if row.read is count else (str,)
    return (str, int, float, bool)


SCHEMA: Final = "nhalf.scenario/1"
"""The form of the file; another one is refused."""

_FILES: Final = tuple(row.name for row in of_part("request") if row.catalogue == "file")
"""Keys that name files; beside the scenario file, as the model may lie too, or from where the command runs."""
_PLAIN: Final = ("model", "system", "set")
"""Inputs whose keys are of a form of their own."""
_KEYS: Final = tuple(name for name in BY_NAME if name not in _PLAIN)
"""The keys that are inputs by their names."""
_FILE_KEYS: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("schema", "model"), (str,)),
    "systems": (list,),
    **{name: _kinds(BY_NAME[name]) for name in _KEYS},
    **dict.fromkeys(("set", "defaults", "origins"), (dict,)),
}
_WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}


def is_request(path: Path) -> bool:
    """Tell whether a TOML file is a scenario file; a file without systems describes a model.

    Raises
    ------
    InputError
        The file cannot be read or is no TOML.
    """
    content = read_toml(path, holds="a scenario file, or the description of a model")
    return "layers" not in content


def read_request(path: Path) -> Request:
    """Return the request that a scenario file holds: the flags of `nhalf decode` as TOML keys.

    Raises
    ------
    InputError
        The file cannot be read or is of another schema, or a key is unknown or of the wrong type.
    """
    content = read_toml(path, holds="a scenario file")
    _check_keys(content, path)
    given: dict[str, Any] = {name: content[name] for name in _KEYS if name in content}
    given |= {name: _found(given[name], path) for name in _FILES if name in given}
    systems = [_found(each, path) if is_file(each) else each for each in names(content["systems"], f"{path}: systems")]
    request = Request(model=_found(content["model"], path), systems=tuple(systems))
    request = request.updated(given, lambda row: f"{path}: {row.name}")
    return replace(
        request,
        changes=dict(_changes(content.get("set", {}), path)),
        assumed=_defaults(content, path),
        recorded=_recorded(content, path),
    )


def _found(name: str, path: Path) -> str:
    """Return what a scenario file names: a file beside it where there is one, else the name as it stands."""
    beside = path.parent / name
    return str(beside) if _exists(beside) else name


def _exists(path: Path) -> bool:
    """Tell whether a file or folder is there; a name that no file system takes is not."""
    try:
        return path.exists()
    except OSError:
        return False


def _named(name: str, folder: Path) -> str:
    """Return how a scenario file in a folder names a file or model: a relative path from there."""
    return name if Path(name).is_absolute() or not _exists(Path(name)) else os.path.relpath(name, folder)


def _check_keys(content: Mapping[str, Any], path: Path) -> None:
    """Refuse another schema, keys that are missing or unknown, and values of the wrong type."""
    schema = content.get("schema", SCHEMA)
    if schema != SCHEMA:
        do = "write it again with nhalf decode ... --save"
        raise InputError(f"schema {schema!r} is not read here", where=str(path), allowed=SCHEMA, do=do)
    for key, value in content.items():
        if key not in _FILE_KEYS:
            raise InputError(
                f"unknown key {key!r}", where=str(path), allowed=", ".join(_FILE_KEYS), do=did_you_mean(key, _FILE_KEYS)
            )
        kinds = _FILE_KEYS[key]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            allowed = " or ".join(_WORDS[kind] for kind in kinds)
            raise InputError(f"key {key!r}: {value!r} is not possible", where=str(path), allowed=allowed)
        if isinstance(value, str) and not value.strip():
            raise InputError(f"key {key!r} is empty", where=str(path), do="name one, or leave the key out")
    for key in ("model", "systems"):
        if key not in content:
            raise InputError(f"key {key!r} is missing", where=str(path), do=f"write {key} = ...")


def _changes(values: Mapping[str, Any], path: Path, above: str = "") -> Iterator[tuple[str, str]]:
    """Yield the inputs that a file sets; a path may stand without quotes, which TOML reads as tables in tables."""
    for key, value in values.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            yield from _changes(value, path, f"{name}.")
        elif isinstance(value, bool) or not isinstance(value, str | int | float):
            allowed = 'a text such as "1ms", or a number'
            raise InputError(f"set: {name!r}: {value!r} is not possible", where=str(path), allowed=allowed)
        else:
            yield name, str(value)


def _defaults(content: Mapping[str, Any], path: Path) -> dict[str, str]:
    """Return the choices that were defaults when the file was written, by field, with their reasons."""
    found = {}
    for key, reason in content.get("defaults", {}).items():
        if key not in content:
            what = f"defaults: {key!r} is no key of the file"
            raise InputError(what, where=str(path), allowed=", ".join(key for key in content if key != "defaults"))
        found[BY_NAME[key].held_as if key in BY_NAME else key] = str(reason)
    return found


def _recorded(content: Mapping[str, Any], path: Path) -> dict[str, dict[str, float]]:
    """Return the values that numbers had when the file was written, by system and path."""
    found: dict[str, dict[str, float]] = {}
    for system, numbers in content.get("origins", {}).items():
        if not isinstance(numbers, dict):
            allowed = f'a table [origins."{system}"]'
            raise InputError(f"origins: {system!r} holds no numbers", where=str(path), allowed=allowed)
        for name, origin in numbers.items():
            value = origin.get("value") if isinstance(origin, dict) else None
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise InputError(f"origins of {system}: {name!r} has no value", where=str(path), allowed="value = 1.0")
            found.setdefault(system, {})[name] = float(value)
    return found


def write_request(request: Request, scenarios: Sequence[Scenario] = (), *, folder: Path = Path()) -> str:
    """Return a request as the text of a scenario file in a folder, which `read_request` reads back.

    What was taken by default is named as such, and each number of the scenarios is written with its origin: a reader
    can see what it rests on, and is told when the catalogue has moved since.
    """
    lines = [f"schema = {json.dumps(SCHEMA)}", f"model = {json.dumps(_named(request.model, folder))}"]
    systems = [_named(each, folder) if is_file(each) else each for each in request.systems]
    lines.append(f"systems = {json.dumps(systems)}")
    for name in _KEYS:
        value = _value(request, BY_NAME[name])
        if value is not None:
            lines.append(f"{name} = {json.dumps(_named(value, folder) if name in _FILES else value)}")
    assumed = {NAME_OF.get(field, field): json.dumps(reason) for field, reason in request.assumed.items()}
    lines += _table("defaults", assumed)
    lines += _table("set", {path: json.dumps(text) for path, text in request.changes.items()})
    origins: dict[str, dict[str, Datum]] = {}
    for scenario in scenarios:
        origins.setdefault(scenario.system.name, {}).update(scenario.origins)
    for system, data in origins.items():
        lines += _table(f"origins.{json.dumps(system)}", {path: _inline(datum) for path, datum in data.items()})
    return "\n".join(lines) + "\n"


def _value(request: Request, row: Input) -> Any:  # noqa: ANN401  what TOML and JSON write alike
    """Return an input of a request as a scenario file writes it, None where it says nothing."""
    if row.part == "degrees":
        degrees = getattr(request.degrees, row.name)
        return list(degrees) if degrees != (1,) else None
    if row.part == "options":
        return request.options.given.get(row.name)
    value = getattr(request, row.held_as)
    return list(value) or None if isinstance(value, tuple) else value


def _table(name: str, rows: Mapping[str, str]) -> list[str]:
    """Return the lines of a table; none for an empty one."""
    return ["", f"[{name}]", *(f"{json.dumps(key)} = {value}" for key, value in rows.items())] if rows else []


def _inline(datum: Datum) -> str:
    """Return a number with its origin as an inline table."""
    names = ("value", "unit", "kind", "source", "locator", "date", "low", "high", "note")
    given = {name: getattr(datum, name) for name in names if getattr(datum, name) not in (None, "")}
    texts = (f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in given.items())
    return f"{{ {', '.join(texts)} }}"
