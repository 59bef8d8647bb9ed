"""Scrapes: the text of an endpoint or of a file, within a time and a size, from the named host alone.

Redirects are not followed, no proxy is asked, and nothing compressed is taken. A server that trickles is cut off when
its time is over: a timer closes the connection, whatever it waits for.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from nhalf.errors import InputError
from nhalf.files.reading import read_tail
from nhalf.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

LARGEST_BYTES: Final = 8 * 2**20
"""The largest page that is taken [bytes]: those of engines have 10 to 500 kB."""
TIMEOUT_S: Final = 5.0
"""How long a scrape may take in all [s]."""
_OK: Final = 200
_CHUNK: Final = 65_536
_TAIL_BYTES: Final = 2 * 2**20
"""What is read of a file, from its end [bytes]: some thousand records of an inspector, which many ranks write."""
_MOST_TARGETS: Final = 256


class GapError(Exception):
    """A scrape brought nothing; its text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An endpoint that is scraped, or a file that is read: `name` as it was typed."""

    name: str
    host: str = ""
    port: int = 0
    path: str = "/metrics"
    secure: bool = False
    file: Path | None = None

    def at(self, path: str) -> Target:
        """Return another page of the same server."""
        return Target(name=self.name, host=self.host, port=self.port, path=path, secure=self.secure)


def targets(texts: Sequence[str]) -> list[Target]:
    """Return the targets that some words name.

    Raises
    ------
    InputError
        None is named, one is no target, one is there twice, or there are too many.
    """
    if not texts:
        raise InputError("no server is named", where="URL", do="write http://HOST:PORT/metrics beside the traces")
    if len(set(texts)) < len(texts) or len(texts) > _MOST_TARGETS:
        what = "an address is there twice, or there are too many"
        raise InputError(what, where="URL", allowed=f"{_MOST_TARGETS} different ones")
    return [target(text) for text in texts]


def target(text: str) -> Target:
    """Return the target that a word of the command line names: a URL, HOST:PORT, or a file.

    Raises
    ------
    InputError
        It is neither.
    """
    if "://" not in text and Path(text).is_file():
        return Target(name=text, file=Path(text))
    do = "write http://HOST:PORT/metrics, or the path of a file"
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError as error:
        raise InputError(f"this is no address: {error}", where="URL", do=do) from error
    if parts.scheme not in ("http", "https") or not parts.hostname or ("://" not in text and port is None):
        raise InputError(f"{text!r} is no address of metrics and no file", where="URL", do=do)
    if parts.username or parts.password:
        raise InputError("names and passwords in addresses are not used", where="URL", do="leave them out")
    secure = parts.scheme == "https"
    path = (parts.path or "/metrics") + (f"?{parts.query}" if parts.query else "")
    return Target(name=text, host=parts.hostname, port=port or (443 if secure else 80), path=path, secure=secure)


def fetch(wanted: Target, timeout_s: float = TIMEOUT_S, largest: int = LARGEST_BYTES) -> str:
    """Return the text of a target.

    Raises
    ------
    GapError
        It does not answer in time, answers with something else than a page, or with more than `largest` bytes.
    """
    if wanted.file is not None:
        try:
            return read_tail(wanted.file, min(largest, _TAIL_BYTES))
        except InputError as error:
            raise GapError(error.what) from error
    make = http.client.HTTPSConnection if wanted.secure else http.client.HTTPConnection
    connection = make(wanted.host, wanted.port, timeout=timeout_s)
    over = threading.Event()
    timer = threading.Timer(timeout_s, lambda: None)
    try:
        connection.connect()
        timer = threading.Timer(timeout_s, _cut, (connection.sock, over))
        timer.daemon = True
        timer.start()
        text = _page(connection, wanted.path, largest)
    except TimeoutError as error:
        raise GapError(f"no answer within {timeout_s:g} s") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = f"no whole answer within {timeout_s:g} s" if over.is_set() else _why(error)
        raise GapError(why) from error
    finally:
        timer.cancel()
        connection.close()
    if over.is_set():
        raise GapError(f"no whole answer within {timeout_s:g} s")
    return text


def _page(connection: http.client.HTTPConnection, path: str, largest: int) -> str:
    """Return the page at a path of a connection, which has another `largest` bytes at most."""
    headers = {"User-Agent": f"nhalf/{VERSION}", "Accept": "text/plain, application/json;q=0.5",
               "Accept-Encoding": "identity"}  # fmt: skip
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    if answer.status != _OK:
        moved = " and redirects are not followed" if 300 <= answer.status < 400 else ""  # noqa: PLR2004  moved
        raise GapError(f"it answers {answer.status}{moved}")
    if answer.getheader("Content-Encoding", "identity") != "identity":
        raise GapError("it answers with a compressed page that was not asked for")
    parts, size = [], 0
    while part := answer.read1(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > largest:
            raise GapError(f"its page is larger than {largest:,} bytes")
    if answer.length:
        raise GapError("its answer ends in the middle")
    return b"".join(parts).decode("utf-8", "replace")


def _cut(connected: socket.socket, over: threading.Event) -> None:
    """End a connection whose time is over; its own time limit counts anew with every byte."""
    over.set()
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


def _why(error: Exception) -> str:
    """Return in words why nothing came."""
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, socket.gaierror):
        return "its name is not known"
    return f"it does not answer as a web server does ({type(error).__name__})"
