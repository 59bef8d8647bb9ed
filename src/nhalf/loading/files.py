"""Files: read as text, JSON or TOML, with one clear error for each way that can fail."""

from __future__ import annotations

import json
import shutil
import tomllib
from typing import TYPE_CHECKING, Any

from nhalf.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


LARGEST_BYTES = 64 * 2**20
"""A configuration or scenario larger than this is something else [bytes]."""
_LONGEST_NAME = 200
_MARKS = {
    b"\x1f\x8b": "it is packed by gzip: unpack it",
    b"PK": "it is a ZIP file or a workbook: unpack it, or save it as CSV",
    b"\xff\xfe": "it is UTF-16: save it as UTF-8",
    b"\xfe\xff": "it is UTF-16: save it as UTF-8",
}
"""What the first bytes of a file that is no UTF-8 say of it, and what to do."""


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
        do = next((do for mark, do in _MARKS.items() if path.read_bytes().startswith(mark)), "")
        raise InputError("the file is not UTF-8 text", where=where, allowed="UTF-8", do=do) from error
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
    """Write a file: whole, or not at all, so that what it replaces is not lost when a disk is full.

    Raises
    ------
    InputError
        It cannot be written.
    """
    try:
        open_elsewhere = path.parts[:2] == ("/", "dev")  # /dev/stdout, which may be a file that something else writes
        if open_elsewhere or (path.exists() and not path.is_file()):  # a pipe, or a folder, which refuses
            path.write_text(text, encoding="utf-8")
        else:
            _replace(path.resolve(), text)
    except OSError as error:
        raise InputError(
            f"the file cannot be written: {error.strerror or error}", where=str(path), do="check the folder"
        ) from error


def _replace(path: Path, text: str) -> None:
    """Write a file beside another and give it its name, and its permissions.

    Raises
    ------
    OSError
        It cannot be written.
    """
    beside = path.with_name(f"{path.name[:_LONGEST_NAME]}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        if path.exists():
            shutil.copymode(path, beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
