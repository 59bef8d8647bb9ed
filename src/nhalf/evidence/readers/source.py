"""Sources: files, folders, gzip and standard input as streams of numbered lines, whatever their encoding."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import stat
import sys
import tempfile
import weakref
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from nhalf.errors import InputError, quoted
from nhalf.evidence.readers.protocol import Line
from nhalf.files.reading import STDIN, Inflation, encoding, files_in

if TYPE_CHECKING:
    from collections.abc import Iterator

_GZIP: Final = b"\x1f\x8b"
_PARQUET: Final = b"PAR1"
_ZSTANDARD: Final = b"\x28\xb5\x2f\xfd"
_IN_MEMORY: Final = 1 << 26  # bytes of standard input that are kept in memory
_LOOK = 4096  # bytes to tell the encoding from
_LONGEST_LINE = 1 << 24  # characters; a JSON file is often one line
_MOST_STREAMED: Final = 1 << 32
"""A stream that goes on for longer is no log [bytes]."""


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
                text = io.TextIOWrapper(stream, encoding=encoding(head), errors="replace", newline=_newline(head))
                number, limit = 0, Inflation(self._packed_bytes(), where=self.name)
                while line := text.readline(_LONGEST_LINE):
                    number += 1
                    limit.add(len(line))
                    if len(line) == _LONGEST_LINE:
                        raise InputError(
                            "the line is too long for a log", where=f"{self.name}:{number}",
                            allowed=f"{_LONGEST_LINE:,} characters", do="check what wrote the file",
                        )  # fmt: skip
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

    def _packed_bytes(self) -> int | None:
        """Return the size of the file where it is compressed [bytes]."""
        if self._begins()[:2] != _GZIP:
            return None
        return self.path.stat().st_size if self.path else len(self.content)

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
        except (OSError, ValueError) as error:  # a name may hold a null
            raise _unreadable(quoted(self.name), getattr(error, "strerror", "") or str(error)) from error


def sources(given: str | Path) -> list[tuple[Source, bool]]:
    """Return the files that are meant, each with whether it was found by looking into a folder.

    `given` is a path, a folder (looked through to its depth, hidden files left out), or `-` for standard input.

    Raises InputError when the path does not exist, or the folder holds no file.
    """
    if str(given) == STDIN:
        return [(_standard_input(), False)]
    path = Path(given)
    if not _exists(path):
        raise InputError("there is no such file", where=str(path), do="check the path")
    if path.is_dir():
        return [(Source(name=str(p), path=p), True) for p in files_in(path)]
    if not path.is_file():  # a pipe, such as `<(zcat log.gz)`, can be read only once
        try:
            with path.open("rb") as stream:
                return [(_streamed(str(path), stream), False)]
        except OSError as error:
            raise _unreadable(str(path), error.strerror or str(error)) from error
    return [(Source(name=str(path), path=path), False)]


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:  # a name that is too long, or holds a null
        raise _unreadable(quoted(str(path)), getattr(error, "strerror", "") or str(error)) from error
    return True


def _standard_input() -> Source:
    name = "standard input"
    if sys.stdin is None or sys.stdin.buffer.closed:
        raise InputError("it is closed", where=name, do="name a file, or pipe a log into it")
    return _streamed(name, sys.stdin.buffer)


def _streamed(name: str, stream: BinaryIO) -> Source:
    """Return what comes through a stream: it is read twice, so more than fits comfortably waits in a file meanwhile."""
    try:
        if stat.S_ISCHR(os.fstat(stream.fileno()).st_mode) and not stream.isatty() and name != os.devnull:
            raise InputError("this is a device, which never ends", where=name, do="name a file")
    except (OSError, ValueError):  # no file behind it, as in a test
        pass
    content = stream.read(_IN_MEMORY)
    if len(content) < _IN_MEMORY:
        return Source(name=name, content=content)
    folder = Path(tempfile.mkdtemp(prefix="nhalf-"))
    source = Source(name=name, path=folder / "log")
    weakref.finalize(source, shutil.rmtree, folder, ignore_errors=True)
    try:
        with (folder / "log").open("wb") as file:
            while content:
                file.write(content)
                if file.tell() > _MOST_STREAMED:
                    raise InputError("it does not end", where=name, allowed=f"{_MOST_STREAMED:,} bytes")
                content = stream.read(_IN_MEMORY)
    except OSError as error:
        raise InputError(
            f"it cannot be kept while it is read: {error.strerror or error}", where=name,
            do=f"make room in {folder.parent}, or name a file instead of -",
        ) from error  # fmt: skip
    return source


def _newline(head: bytes) -> str | None:
    """Return how lines end: in a line feed, so that numbers are an editor's; any way, when there is none."""
    return "\n" if b"\n" in head or b"\r" not in head else None


def _unreadable(name: str, why: str) -> InputError:
    return InputError(f"the file cannot be read: {why}", where=name, do="check the file")
