"""Scenario files: the flags of `nhalf decode` as TOML, read and written."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.errors import InputError, did_you_mean
from nhalf.loading.degrees import FLAGS, Degrees
from nhalf.loading.files import read_toml
from nhalf.loading.options import NAMES, Options
from nhalf.loading.request import Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from nhalf.citation import Datum
    from nhalf.scenario import Scenario

SCHEMA: Final = "nhalf.scenario/1"
"""The form of the file; another one is refused."""

_TEXTS = ("weights", "kv", "engine", "library", "mode", "stack", "links")
_FILES = ("stack", "links")
"""Keys that name files; beside the scenario file, as the model may lie too, or from where the command runs."""
_LENGTHS = {"context": "context", "isl": "prompt", "osl": "output"}
"""Keys of counts of tokens, and the fields of a request that they are."""
_FILE_KEYS: Mapping[str, tuple[type, ...]] = {
    "schema": (str,),
    "model": (str,),
    "systems": (list,),
    **dict.fromkeys((*FLAGS, "batch"), (list,)),
    **dict.fromkeys(_LENGTHS, (int,)),
    **dict.fromkeys(_TEXTS, (str,)),
    **dict.fromkeys(NAMES, (str, int, float, bool)),
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
    try:
        options = Options().updated({name: content[name] for name in NAMES if name in content})
    except InputError as error:
        raise InputError(error.what, where=f"{path}: {error.where}", allowed=error.allowed, do=error.do) from error
    files: dict[str, Any] = {key: _found(content[key], path) for key in _FILES if key in content}
    lengths: dict[str, Any] = {
        field: units.parse_count(str(content[key]), where=f"{path}: {key}")
        for key, field in _LENGTHS.items()
        if key in content
    }
    return Request(
        model=_found(content["model"], path),
        systems=tuple(_texts(content["systems"], path, "systems")),
        degrees=Degrees(**{key: _counts(content[key], path, key) for key in FLAGS if key in content}),
        batches=_counts(content["batch"], path, "batch") if "batch" in content else None,
        **lengths,
        **{key: content.get(key) for key in _TEXTS if key not in _FILES},
        **files,
        changes=dict(_changes(content.get("set", {}), path)),
        options=options,
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
        found["batches" if key == "batch" else _LENGTHS.get(key, key)] = str(reason)
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


def _texts(values: Iterable[object], path: Path, key: str) -> list[str]:
    """Return a list of texts of a scenario file."""
    texts = list(values)
    if not texts or not all(isinstance(value, str) for value in texts):
        raise InputError(f"key {key!r}: {texts!r} is not possible", where=str(path), allowed="a list of texts")
    return [str(value) for value in texts]


def _counts(values: Iterable[object], path: Path, key: str) -> tuple[int, ...]:
    """Return a list of positive whole numbers of a scenario file."""
    text = ",".join(str(value) for value in values)
    return units.parse_int_list(text, where=f"{path}: {key}")


def write_request(request: Request, scenarios: Sequence[Scenario] = (), *, folder: Path = Path()) -> str:
    """Return a request as the text of a scenario file in a folder, which `read_request` reads back.

    What was taken by default is named as such, and each number of the scenarios is written with its origin: a reader
    can see what it rests on, and is told when the catalogue has moved since.
    """
    lines = [f"schema = {json.dumps(SCHEMA)}", f"model = {json.dumps(_named(request.model, folder))}"]
    lines.append(f"systems = {json.dumps(list(request.systems))}")
    for key in FLAGS:
        degrees = getattr(request.degrees, key)
        lines += [f"{key} = {json.dumps(list(degrees))}"] if degrees != (1,) else []
    if request.batches is not None:
        lines.append(f"batch = {json.dumps(list(request.batches))}")
    values = {key: getattr(request, field) for key, field in _LENGTHS.items()}
    texts = {key: getattr(request, key) for key in _TEXTS}
    texts |= {key: _named(texts[key], folder) for key in _FILES if texts[key] is not None}
    values |= texts | request.options.given
    lines += [f"{key} = {json.dumps(value)}" for key, value in values.items() if value is not None]
    keys = {"batches": "batch", **{field: key for key, field in _LENGTHS.items()}}
    lines += _table("defaults", {keys.get(name, name): json.dumps(reason) for name, reason in request.assumed.items()})
    lines += _table("set", {path: json.dumps(text) for path, text in request.changes.items()})
    origins: dict[str, dict[str, Datum]] = {}
    for scenario in scenarios:
        origins.setdefault(scenario.system.name, {}).update(scenario.origins)
    for system, data in origins.items():
        lines += _table(f"origins.{json.dumps(system)}", {path: _inline(datum) for path, datum in data.items()})
    return "\n".join(lines) + "\n"


def _table(name: str, rows: Mapping[str, str]) -> list[str]:
    """Return the lines of a table; none for an empty one."""
    return ["", f"[{name}]", *(f"{json.dumps(key)} = {value}" for key, value in rows.items())] if rows else []


def _inline(datum: Datum) -> str:
    """Return a number with its origin as an inline table."""
    names = ("value", "unit", "kind", "source", "locator", "date", "low", "high", "note")
    given = {name: getattr(datum, name) for name in names if getattr(datum, name) not in (None, "")}
    texts = (f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in given.items())
    return f"{{ {', '.join(texts)} }}"
