"""Files that nhalf reads as one text, JSON or TOML: bounded in size, depth and digits, in any Unicode encoding."""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
import tomllib
from collections import deque
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nhalf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STDIN: Final = "-"
"""The name of standard input, wherever a file is named."""
LARGEST_BYTES: Final = 64 * 2**20
"""A configuration or scenario larger than this is something else [bytes]."""
_LARGEST_TOML: Final = 8 * 2**20
_MOST_VALUES: Final = 2_000_000
_DEEPEST: Final = 64
"""How many tables or lists may lie in one another."""
_MOST_DIGITS: Final = 40
_LONGEST_NAME: Final = 200
_MOST_FILES: Final = 20_000
_INFLATED_BYTES: Final = 64 * 2**20
_RATIO: Final = 200
"""Logs and traces become 5 to 60 times smaller when they are packed; a thousand times is one byte over and over."""
_KINDS: Final = {
    b"\x1f\x8b": "it is packed by gzip: unpack it",
    b"\x28\xb5\x2f\xfd": "it is packed by zstandard: unpack it",
    b"PK": "it is a ZIP file or a workbook: unpack it, or save it as CSV",
}
"""What the first bytes of a file that is no text say of it, and what to do."""
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LOOK: Final = 4096  # bytes to tell the encoding from
_PART: Final = 2**20  # bytes that are unpacked at once
_LONG_KEY: Final = re.compile(rf"""(?:\.[ \t]*[\w"'-]{{1,64}}[ \t]*){{{_DEEPEST}}}""")
_BIG: Final = 10**_MOST_DIGITS
_OPENED: ContextVar[frozenset[str] | None] = ContextVar("opened", default=None)
"""The files that may be read; None for all."""


class Inflation:
    """How much comes out of a compressed file; None for its size: it is not compressed.

    `add` raises InputError when it is more than any log or trace holds: a small file that fills the memory.
    """

    def __init__(self, packed_bytes: int | None, *, where: str) -> None:
        """Begin with nothing."""
        most = max(_INFLATED_BYTES, _RATIO * (packed_bytes or 0))
        self._left = float("inf") if packed_bytes is None else most
        self._where = where

    def add(self, count: int) -> None:
        """Count so many more bytes."""
        self._left -= count
        if self._left < 0:
            raise InputError(
                "it unpacks to far more than a log or a trace would", where=self._where,
                allowed=f"{_RATIO} times its own size, or {_INFLATED_BYTES:,} bytes", do="unpack it first",
            )  # fmt: skip


def files_in(folder: Path) -> list[Path]:
    """Return the files of a folder, looked through to its depth; hidden ones, and what is no file, are left out.

    Raises
    ------
    InputError
        It holds none, or so many that it is no folder of logs or traces.
    """
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(place, name) for name in names if not name.startswith(".")]
        if len(found) > _MOST_FILES:
            raise InputError(
                "the folder holds too many files", where=str(folder), allowed=f"{_MOST_FILES:,} files",
                do="name the folder that holds the logs or traces alone",
            )  # fmt: skip
    files = [path for path in sorted(found) if path.is_file()]
    if not files:
        raise InputError("the folder holds no file", where=str(folder), do="name a folder with logs or traces")
    return files


def encoding(head: bytes) -> str:
    """Return the encoding that the first bytes of a text show: by its mark, or by the zeros of UTF-16; else UTF-8."""
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    # UTF-16 without a mark: every second byte of Latin text is zero.
    enough = 0.8
    for start, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        half = head[start:_LOOK:2]
        if half and half.count(0) > enough * len(half):
            return name
    return "utf-8"


@contextmanager
def only(files: Iterable[str]) -> Iterator[None]:
    """Read no text but that of some files while it lasts, whatever a stranger's words would name."""
    token = _OPENED.set(frozenset(str(Path(file).expanduser()) for file in files))
    try:
        yield
    finally:
        _OPENED.reset(token)


def read_text(path: Path) -> str:
    """Return the text of a file, in UTF-8, UTF-16 or UTF-32, without its byte order mark; `-` is standard input.

    Raises
    ------
    InputError
        It cannot be read, is no regular file, is too large for what it should be, is no such text, or is not among
        those that may be read.
    """
    where = str(path) if len(str(path)) <= _LONGEST_NAME else f"{str(path)[:_LONGEST_NAME]}..."
    opened = _OPENED.get()
    if opened is not None and str(path) not in opened:
        raise InputError("this may name a file that was not opened", where=where, allowed="what names none")
    try:
        if where == STDIN and sys.stdin is not None:
            content = sys.stdin.buffer.read(LARGEST_BYTES + 1)
        else:
            path.stat()
            if not path.is_file():
                raise InputError("this is no regular file", where=where, do="name a file")
            with path.open("rb") as file:
                content = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"the file cannot be read: {error.strerror or error}", where=where, do="check the path"
        ) from error
    except ValueError as error:  # a path with a null character
        raise InputError(f"this is no path: {error}", where=repr(where)) from error
    if len(content) > LARGEST_BYTES:
        raise InputError("the file is too large", where=where, allowed=f"at most {LARGEST_BYTES:,} bytes")
    try:
        text = content.decode(encoding(content[:_LOOK]))
    except UnicodeError as error:
        line = content.count(b"\n", 0, getattr(error, "start", 0)) + 1
        do = next((do for mark, do in _KINDS.items() if content.startswith(mark)), "save it as UTF-8")
        raise InputError("the file is not UTF-8 text", where=f"{where}:{line}", allowed="UTF-8", do=do) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_tail(path: Path, most: int) -> str:
    """Return the last whole lines of a file that another program may be writing, `most` bytes of them at most.

    What gzip packed is unpacked, as far as it is written.

    Raises
    ------
    InputError
        It cannot be read, is no regular file, or unpacks to too much.
    """
    try:
        if not path.is_file():
            raise InputError("this is no regular file", where=str(path), do="name a file")
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            begin = max(file.seek(0, os.SEEK_END) - most, 0)
            file.seek(begin)
            content = file.read(most)
        if packed:
            begin, content = _unpacked_tail(path, most)
    except OSError as error:
        raise InputError(f"the file cannot be read: {error.strerror or error}", where=str(path)) from error
    return content.decode("utf-8", "replace").partition("\n")[2] if begin else content.decode("utf-8", "replace")


def _unpacked_tail(path: Path, most: int) -> tuple[int, bytes]:
    """Return where the last bytes of a packed file begin, `most` of them at most, and the bytes."""
    import gzip
    import zlib

    limit, parts, held, size = Inflation(path.stat().st_size, where=str(path)), deque[bytes](), 0, 0
    with gzip.open(path) as file, suppress(EOFError, zlib.error):  # its end is not written yet
        while part := file.read1(_PART):
            limit.add(len(part))
            parts.append(part)
            held, size = held + len(part), size + len(part)
            while held - len(parts[0]) >= most:
                held -= len(parts.popleft())
    tail = b"".join(parts)[-most:]
    return size - len(tail), tail


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises
    ------
    InputError
        The file cannot be read, is no JSON, holds no object, or more than `bounded` takes.
    """
    content = parse_json(read_text(path), where=str(path))
    if not isinstance(content, dict):
        raise InputError("this JSON holds no object", where=str(path), allowed='{"architectures": [...], ...}')
    return content


def parse_json(text: str, *, where: str) -> Any:  # noqa: ANN401  JSON is anything
    """Return what a JSON text holds.

    Raises
    ------
    InputError
        It is no JSON, or holds more than `bounded` takes.
    """
    if text.count(",") > _MOST_VALUES:
        raise InputError("this JSON holds too many values", where=where, allowed=f"{_MOST_VALUES:,}")
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"this is not JSON: {error.msg}", where=f"{where}:{error.lineno}", allowed="a JSON object"
        ) from error
    except (RecursionError, ValueError) as error:  # nested beyond reason, or a number of thousands of digits
        raise InputError("this JSON is nested or numbered beyond reason", where=where) from error
    bounded(content, where=where)
    return content


def read_toml(path: Path, *, holds: str) -> dict[str, Any]:
    """Return the table in a TOML file; `holds` says what the file should be.

    Raises
    ------
    InputError
        The file cannot be read, is no TOML, or holds more than `bounded` takes.
    """
    return parse_toml(read_text(path), where=str(path), holds=holds)


def parse_toml(text: str, *, where: str, holds: str = "") -> dict[str, Any]:
    """Return the table that a TOML text is.

    Raises
    ------
    InputError
        It is no TOML, or holds more than `bounded` takes.
    """
    if len(text) > _LARGEST_TOML or text.count(",") > _MOST_VALUES or _LONG_KEY.search(text):
        raise InputError("this TOML is larger, or its names are longer, than any that nhalf reads", where=where)
    try:
        tables = tomllib.loads(text)
    except (RecursionError, ValueError) as error:
        why = "it is nested beyond reason" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"this is not TOML: {why}", where=where, allowed=holds, do="correct that line") from error
    bounded(tables, where=where)
    return tables


def bounded(content: object, *, where: str) -> None:
    """Refuse what JSON or TOML holds when it is nested beyond reason or one of its numbers has too many digits.

    Raises
    ------
    InputError
        It does.
    """
    level = [content]
    for _ in range(_DEEPEST):
        inner: list[object] = []
        for each in level:
            values = each.values() if isinstance(each, dict) else each if isinstance(each, list) else (each,)
            for value in values:
                if isinstance(value, (dict, list)):
                    inner.append(value)
                elif type(value) is int and not -_BIG < value < _BIG:
                    raise InputError(f"a number has more than {_MOST_DIGITS} digits", where=where)
        if not inner:
            return
        level = inner
    raise InputError("it is nested beyond reason", where=where, allowed=f"{_DEEPEST} levels")
