"""Files of a trace: found by name, folder or pattern, told apart by what they hold, read in blocks."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeAlias

from nhalf.errors import InputError, quoted
from nhalf.files.reading import STDIN, Inflation, files_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BLOCK_BYTES = 1 << 19
"""How much of a file is held at a time."""
_HEAD_BYTES = 1 << 16
_GZIP, _ZSTD, _SQLITE = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"SQLite format 3\x00"
_ENDINGS = (".json", ".json.gz", ".json.zst", ".sqlite", ".gz", ".zst")
_MARKS = (b'"traceEvents"', b'"schemaVersion"', b'"deviceProperties"', b'"distributedInfo"')
_READABLE = "PyTorch profiler (Kineto) JSON, plain, .gz or .zst; a Flight Recorder JSON dump; an Nsight Systems .sqlite"

Format: TypeAlias = Literal["kineto", "flight", "nsight"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file and the format that its first bytes show."""

    path: Path
    format: Format


class CutShortError(Exception):
    """The compressed data ends before its end mark; what came before is good."""


def find(names: Sequence[str]) -> tuple[list[Source], list[str]]:
    """Return the traces that names, folders and patterns mean, and notes on files of a folder that are none.

    Raises
    ------
    InputError
        Nothing is found, a named file cannot be read or is no trace.
    """
    sources: dict[Path, Source] = {}
    notes: list[str] = []
    for name in names:
        path = _piped() if name == STDIN else Path(name)
        if path.is_dir():
            for file in (inside for inside in files_in(path) if inside.name.endswith(_ENDINGS)):
                kind = _format(file)
                if kind is None:
                    notes.append(f"{file.name} is no trace and was skipped")
                else:
                    sources[file] = Source(path=file, format=kind)
            continue
        for file in [path] if name == STDIN else _expanded(path, name):
            kind = _format(file)
            if kind is None:
                raise InputError(
                    "this file is no trace that nhalf reads", where=str(file), allowed=_READABLE, do=_advice(file)
                )
            sources[file] = Source(path=file, format=kind)
    if not sources:
        raise InputError(f"no trace is found in {', '.join(names)}", where="nhalf trace", allowed=_READABLE)
    return list(sources.values()), notes


def is_trace(name: str) -> bool:
    """Tell whether a file of that name is there and is a trace."""
    try:
        return Path(name).is_file() and bool(find([name])[0])
    except (InputError, OSError, ValueError):
        return False


def _piped() -> Path:
    """Return a file of what comes through standard input: a trace is read more than once, and ends with the program."""
    with tempfile.NamedTemporaryFile(prefix="nhalf-", suffix=".json", delete=False) as file:
        atexit.register(Path(file.name).unlink, missing_ok=True)
        shutil.copyfileobj(sys.stdin.buffer, file)
    return Path(file.name)


def _expanded(path: Path, name: str) -> list[Path]:
    """Return the file of a name, or those of a pattern that the shell left alone."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    else:
        if not path.is_file():
            raise InputError("this is no regular file", where=name, do="unpack it into a file, and name that")
        return [path]
    # The shell's own patterns, absolute ones too, which Path.glob does not take.
    files = [Path(found) for found in sorted(glob(name, recursive=True)) if Path(found).is_file()]  # noqa: PTH207
    if not files:
        raise InputError(
            "there is no such file", where=name, do="check the path; quote a pattern or let the shell expand it"
        )
    return files


def _advice(path: Path) -> str:
    if path.name.endswith((".nsys-rep", ".qdrep")):
        return "export it first: nsys export --type=sqlite FILE"
    if path.name.endswith((".pkl", ".pickle")):
        return "a pickle can run code, so it is not opened: dump the Flight Recorder as JSON"
    return "record one with torch.profiler and export_chrome_trace()"


def _format(path: Path) -> Format | None:
    """Return the format that the first bytes show, None for another file."""
    head = b""
    try:
        for block in blocks(path, _HEAD_BYTES):
            head += block
            if len(head) >= _HEAD_BYTES:
                break
    except CutShortError:
        pass
    if head.startswith(_SQLITE):
        return "nsight"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] not in (b"{", b"["):
        return None
    if b'"collective_seq_id"' in text or (b'"pg_status"' in text and b'"entries"' in text):
        return "flight"
    if any(mark in text for mark in _MARKS):
        return "kineto"
    bare = text[:1] == b"[" and (b'"ph"' in text or not text[1:].strip(b" \t\r\n]"))
    return "kineto" if bare else None


def blocks(path: Path, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Yield a file's content, decompressed, in blocks.

    Raises
    ------
    InputError
        The file cannot be read, or is zstd and no reader for it is installed.
    CutShortError
        The compressed data breaks off; every byte before the break has been yielded.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(4)
            file.seek(0)
            if magic.startswith(_GZIP):
                unpacked = _ahead(_gunzipped(file, size))
            elif magic == _ZSTD:
                unpacked = _ahead(_unzstd(file, size, path))
            else:
                unpacked = iter(partial(file.read, size), b"")
            limit = Inflation(path.stat().st_size if magic.startswith((_GZIP, _ZSTD)) else None, where=str(path))
            for block in unpacked:
                limit.add(len(block))
                yield block
    except OSError as error:
        raise _unreadable(path, error) from error


def _ahead(unpacked: Iterator[bytes]) -> Iterator[bytes]:
    """Yield what is unpacked by a thread of its own, which is a block ahead."""
    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(next, unpacked, None)
        while (block := following.result()) is not None:
            following = thread.submit(next, unpacked, None)
            yield block


def _unreadable(path: Path, error: OSError | ValueError) -> InputError:
    why = getattr(error, "strerror", "") or str(error)
    return InputError(f"the file cannot be read: {why}", where=quoted(str(path)), do="check the path and its rights")


def _gunzipped(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the content of a gzip file of one or more members."""
    reader, ended = zlib.decompressobj(zlib.MAX_WBITS | 16), False
    pending = b""
    while data := pending or file.read(size):
        try:
            out = reader.decompress(data, 4 * size)
        except zlib.error as error:
            # What was decoded up to the damage inside this piece is lost with it, a megabyte at most.
            raise CutShortError from error
        if out:
            yield out
        pending = reader.unconsumed_tail
        ended = reader.eof
        if ended:
            pending = reader.unused_data.lstrip(b"\0")
            reader = zlib.decompressobj(zlib.MAX_WBITS | 16)
    rest = b"" if ended else reader.flush()
    if rest:
        yield rest
    if not ended:
        raise CutShortError


def _unzstd(file: BinaryIO, size: int, path: Path) -> Iterator[bytes]:
    """Yield the content of a zstd file; the standard library has a reader from Python 3.14 on."""
    reader, error = _zstd_reader(file, path)
    try:
        while block := reader.read(size):
            yield block
    except (error, EOFError) as damage:
        raise CutShortError from damage


def _zstd_reader(file: BinaryIO, path: Path) -> tuple[Any, type[Exception]]:
    """Return a stream that decompresses, and the error it raises on damage."""
    try:
        import zstandard
    except ImportError:
        pass
    else:
        return zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True), zstandard.ZstdError
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise InputError(
            "this file is compressed with zstd, and no reader for it is installed",
            where=str(path),
            do="in the checkout: pip install '.[trace]', or unpack it first: zstd -d FILE",
        ) from None
    return zstd.ZstdFile(file), zstd.ZstdError
