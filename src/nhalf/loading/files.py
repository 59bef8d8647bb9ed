"""Files: read as text, JSON or TOML, with one clear error for each way that can fail."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

from nhalf.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises
    ------
    InputError
        The file cannot be read, is no JSON, or holds no object.
    """
    try:
        content = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(
            f"this is not JSON: {error.msg}", where=f"{path}:{error.lineno}", allowed="a JSON object"
        ) from error
    if not isinstance(content, dict):
        raise InputError("this JSON holds no object", where=str(path), allowed='{"architectures": [...], ...}')
    return content


def read_text(path: Path) -> str:
    """Return the text of a file."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"the file cannot be read: {error.strerror or error}", where=str(path), do="check the path"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError("the file is not UTF-8 text", where=str(path), allowed="UTF-8") from error


def read_toml(path: Path, *, holds: str) -> dict[str, Any]:
    """Return the table in a TOML file; `holds` says what the file should be.

    Raises
    ------
    InputError
        The file cannot be read or is no TOML.
    """
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"this is not TOML: {error}", where=str(path), allowed=holds) from error


def write_text(path: Path, text: str) -> None:
    """Write a file.

    Raises
    ------
    InputError
        It cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"the file cannot be written: {error.strerror or error}", where=str(path), do="check the folder"
        ) from error
