"""Sources: files, folders, gzip and standard input as streams of numbered lines, whatever their encoding."""

from __future__ import annotations

import codecs
import gzip
import io
import shutil
import sys
import tempfile
import weakref
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from nhalf.errors import InputError
from nhalf.evidence.readers.protocol import Line

if TYPE_CHECKING:
    from collections.abc import Iterator

STDIN: Final = "-"
_GZIP: Final = b"\x1f\x8b"
_PARQUET: Final = b"PAR1"
_ZSTANDARD: Final = b"\x28\xb5\x2f\xfd"
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_IN_MEMORY: Final = 1 << 26  # bytes of standard input that are kept in memory
_LOOK = 4096  # bytes to tell the encoding from
_LONGEST_LINE = 1 << 26  # characters; a JSON file is often one line


@dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True)
class Source:
    """One file, or what came through standard input (`content`); it can be read more than once."""

    name: str
    path: Path | None = None
    content: bytes = b""

    def lines(self) -> Iterator[Line]:
        """Yield the lines, numbered as an editor counts them; a carriage return inside one splits it.

        Raises InputError when the file cannot be read or is cut inside its compression.
        """
        try:
            with self._open() as stream:
                head = stream.peek(_LOOK)[:_LOOK]
                text = io.TextIOWrapper(stream, encoding=_encoding(head), errors="replace", newline=_newline(head))
                number = 0
                while line := text.readline(_LONGEST_LINE):
                    number += 1
                    if "\r" not in line:
                        yield Line(number, line)
                    else:
                        for part in line.split("\r"):
                            yield Line(number, part)
        except OSError as error:
            raise _unreadable(self.name, error.strerror or str(error)) from error
        except (EOFError, zlib.error) as error:
            raise _unreadable(self.name, "its compressed data are cut or damaged") from error
        except UnicodeError as error:
            raise _unreadable(self.name, f"it is not text: {error}") from error

    def is_parquet(self) -> bool:
        """Return whether the file is a Parquet file.

        Raises InputError when it cannot be read.
        """
        return self._begins() == _PARQUET

    def binary(self) -> bytes:
        """Return the whole content.

        Raises InputError when the file cannot be read.
        """
        try:
            return self.path.read_bytes() if self.path else self.content
        except OSError as error:
            raise _unreadable(self.name, error.strerror or str(error)) from error

    def _open(self) -> io.BufferedReader | gzip.GzipFile:
        first = self._begins()
        if first == _ZSTANDARD:
            raise InputError(
                "the file is compressed with zstandard", where=self.name, allowed="plain text or gzip", do="unzstd it"
            )
        if first[:2] == _GZIP:
            return gzip.open(self.path or io.BytesIO(self.content))
        return self.path.open("rb") if self.path else io.BufferedReader(io.BytesIO(self.content))

    def _begins(self) -> bytes:
        if self.path is None:
            return self.content[: len(_PARQUET)]
        try:
            with self.path.open("rb") as stream:
                return stream.read(len(_PARQUET))
        except OSError as error:
            raise _unreadable(self.name, error.strerror or str(error)) from error


def sources(given: str | Path) -> list[tuple[Source, bool]]:
    """Return the files that are meant, each with whether it was found by looking into a folder.

    `given` is a path, a folder (looked through to its depth, hidden files left out), or `-` for standard input.

    Raises InputError when the path does not exist, or the folder holds no file.
    """
    if str(given) == STDIN:
        return [(_streamed("standard input", sys.stdin.buffer), False)]
    path = Path(given)
    if path.is_dir():
        inside = [p for p in sorted(path.rglob("*")) if p.is_file() and not _is_hidden(p.relative_to(path))]
        if not inside:
            raise InputError("the folder holds no file", where=str(path), do="name a folder with logs")
        return [(Source(name=str(p), path=p), True) for p in inside]
    if not path.exists():
        raise InputError("there is no such file", where=str(path), do="check the path")
    if path.is_fifo() or path.is_char_device():  # a pipe, such as `<(zcat log.gz)`, can be read only once
        try:
            with path.open("rb") as stream:
                return [(_streamed(str(path), stream), False)]
        except OSError as error:
            raise _unreadable(str(path), error.strerror or str(error)) from error
    return [(Source(name=str(path), path=path), False)]


def _streamed(name: str, stream: BinaryIO) -> Source:
    """Return what comes through a stream: it is read twice, so more than fits comfortably waits in a file meanwhile."""
    content = stream.read(_IN_MEMORY)
    if len(content) < _IN_MEMORY:
        return Source(name=name, content=content)
    folder = Path(tempfile.mkdtemp(prefix="nhalf-"))
    source = Source(name=name, path=folder / "log")
    weakref.finalize(source, shutil.rmtree, folder, ignore_errors=True)
    try:
        with (folder / "log").open("wb") as file:
            file.write(content)
            shutil.copyfileobj(stream, file)
    except OSError as error:
        raise InputError(
            f"it cannot be kept while it is read: {error.strerror or error}", where=name,
            do=f"make room in {folder.parent}, or name a file instead of -",
        ) from error  # fmt: skip
    return source


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _encoding(head: bytes) -> str:
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    # UTF-16 without a mark: every second byte of Latin text is zero.
    enough = 0.8
    for start, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        half = head[start::2]
        if half and half.count(0) > enough * len(half):
            return encoding
    return "utf-8"


def _newline(head: bytes) -> str | None:
    """Return how lines end: in a line feed, so that numbers are an editor's; any way, when there is none."""
    return "\n" if b"\n" in head or b"\r" not in head else None


def _unreadable(name: str, why: str) -> InputError:
    return InputError(f"the file cannot be read: {why}", where=name, do="check the file")
