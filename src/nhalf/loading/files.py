"""Files: read as text, JSON or TOML, with one clear error for each way that can fail."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

from nhalf.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


LARGEST_BYTES = 64 * 2**20
"""A configuration or scenario larger than this is something else [bytes]."""
_LONGEST_NAME = 200


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
    except (RecursionError, ValueError) as error:  # nested beyond reason, or a number of thousands of digits
        raise InputError("this JSON is nested or numbered beyond reason", where=str(path)) from error
    if not isinstance(content, dict):
        raise InputError("this JSON holds no object", where=str(path), allowed='{"architectures": [...], ...}')
    return content


def read_text(path: Path) -> str:
    """Return the text of a file; a byte order mark at its start is dropped.

    Raises
    ------
    InputError
        It cannot be read, is no regular file, is too large for what it should be, or is not UTF-8.
    """
    where = str(path) if len(str(path)) <= _LONGEST_NAME else f"{str(path)[:_LONGEST_NAME]}..."
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise InputError("this is no regular file", where=where, do="name a file")
        if size > LARGEST_BYTES:
            raise InputError(f"the file has {size:,} bytes", where=where, allowed=f"at most {LARGEST_BYTES:,} bytes")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(
            f"the file cannot be read: {error.strerror or error}", where=where, do="check the path"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError("the file is not UTF-8 text", where=where, allowed="UTF-8") from error
    except ValueError as error:  # a path with a null character
        raise InputError(f"this is no path: {error}", where=repr(where)) from error


def read_toml(path: Path, *, holds: str) -> dict[str, Any]:
    """Return the table in a TOML file; `holds` says what the file should be.

    Raises
    ------
    InputError
        The file cannot be read or is no TOML.
    """
    try:
        return tomllib.loads(read_text(path))
    except (RecursionError, ValueError) as error:
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
