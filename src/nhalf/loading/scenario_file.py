"""Scenario files: the flags of `nhalf decode` as TOML, read and written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nhalf import units
from nhalf.errors import InputError, did_you_mean
from nhalf.loading.degrees import FLAGS, Degrees
from nhalf.loading.files import read_toml
from nhalf.loading.request import Request

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_FILE_KEYS = {
    "model": str,
    "systems": list,
    **dict.fromkeys((*FLAGS, "batch"), list),
    **dict.fromkeys(("context", "isl", "osl"), int),
    **dict.fromkeys(("weights", "kv", "engine", "library", "mode", "links"), str),
    "set": dict,
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
        The file cannot be read, or a key is unknown or of the wrong type.
    """
    content = read_toml(path, holds="a scenario file")
    for key, value in content.items():
        if key not in _FILE_KEYS:
            raise InputError(
                f"unknown key {key!r}", where=str(path), allowed=", ".join(_FILE_KEYS), do=did_you_mean(key, _FILE_KEYS)
            )
        if not isinstance(value, _FILE_KEYS[key]) or isinstance(value, bool):
            raise InputError(
                f"key {key!r}: {value!r} is not possible", where=str(path), allowed=f"a {_FILE_KEYS[key].__name__}"
            )
    for key in ("model", "systems"):
        if key not in content:
            raise InputError(f"key {key!r} is missing", where=str(path), do=f"write {key} = ...")
    names: dict[str, Any] = {key: content.get(key) for key in ("weights", "kv", "engine", "library", "mode", "links")}
    return Request(
        model=content["model"],
        systems=tuple(_texts(content["systems"], path, "systems")),
        degrees=Degrees(**{key: _counts(content[key], path, key) for key in FLAGS if key in content}),
        batches=_counts(content["batch"], path, "batch") if "batch" in content else None,
        context=content.get("context"),
        prompt=content.get("isl"),
        output=content.get("osl"),
        **names,
        changes={key: str(value) for key, value in content.get("set", {}).items()},
    )


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


def write_request(request: Request) -> str:
    """Return a request as the text of a scenario file, which `read_request` reads back."""
    lines = [f"model = {json.dumps(request.model)}", f"systems = {json.dumps(list(request.systems))}"]
    for key in FLAGS:
        degrees = getattr(request.degrees, key)
        lines += [f"{key} = {json.dumps(list(degrees))}"] if degrees != (1,) else []
    if request.batches is not None:
        lines.append(f"batch = {json.dumps(list(request.batches))}")
    for key, number in (("context", request.context), ("isl", request.prompt), ("osl", request.output)):
        lines += [f"{key} = {number}"] if number is not None else []
    for key in ("weights", "kv", "engine", "library", "mode", "links"):
        text = getattr(request, key)
        lines += [f"{key} = {json.dumps(text)}"] if text is not None else []
    if request.changes:
        lines += ["", "[set]", *(f"{json.dumps(path)} = {json.dumps(text)}" for path, text in request.changes.items())]
    return "\n".join(lines) + "\n"
