"""A wire: JSON messages over a socket, each with its length before it, and a deadline on every wait.

Messages are JSON and nothing else, because the other end may be another machine.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from nhalf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

_LENGTH: Final = struct.Struct("!I")
_LARGEST: Final = 1 << 27  # [bytes] no message comes near; what does is not ours
_CHUNK: Final = 1 << 16  # [bytes]
_SEND_S: Final = 20.0


class WireClosedError(Exception):
    """The other end is gone."""


class Wire:
    """One end of a connection. Any thread may send; only one may receive."""

    def __init__(self, connection: socket.socket) -> None:
        """Take over a connected socket."""
        self._socket = connection
        self._socket.settimeout(_SEND_S)
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sending = threading.Lock()
        self._buffer = bytearray()

    def fileno(self) -> int:
        """Return the number by which `select` knows the socket."""
        return self._socket.fileno()

    def local_host(self) -> str:
        """Return the address of this end, which the other end can reach."""
        return str(self._socket.getsockname()[0])

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message. Raises WireClosedError when nobody takes it."""
        text = json.dumps(message, separators=(",", ":")).encode()
        try:
            with self._sending:
                self._socket.sendall(_LENGTH.pack(len(text)) + text)
        except OSError as error:
            raise WireClosedError(str(error)) from error

    def pump(self) -> list[dict[str, Any]]:
        """Return the messages that one read completes: call it when the socket can be read.

        Raises WireClosedError when the other end is gone.
        """
        try:
            read = self._socket.recv(_CHUNK)
        except OSError as error:
            raise WireClosedError(str(error)) from error
        if not read:
            raise WireClosedError("the connection was closed")
        self._buffer += read
        return self._complete()

    def receive(self, deadline_s: float) -> dict[str, Any]:
        """Return the next message. Raises TimeoutError after `deadline_s` [s], WireClosedError when there is no more.

        Only for conversations of one message at a time.
        """
        until = time.monotonic() + deadline_s
        found = self._complete()
        while not found:
            if not select.select([self], [], [], max(until - time.monotonic(), 0.0))[0]:
                raise TimeoutError
            found = self.pump()
        return found[0]

    def release(self) -> socket.socket:
        """Return the socket, for bytes that are no messages; the wire is not used any more."""
        return self._socket

    def close(self) -> None:
        """Close this end; a thread that waits on it wakes up."""
        with contextlib.suppress(OSError):  # the other end may have been quicker
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _complete(self) -> list[dict[str, Any]]:
        found = []
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > _LARGEST:
                raise WireClosedError("what came is no message of nhalf")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                break
            found.append(_decoded(bytes(self._buffer[_LENGTH.size : end])))
            del self._buffer[:end]
        return found


def _decoded(text: bytes) -> dict[str, Any]:
    try:
        message = json.loads(text)
    except ValueError as error:
        raise WireClosedError("what came is no message of nhalf") from error
    if not isinstance(message, dict):
        raise WireClosedError("what came is no message of nhalf")
    return message


def connected(host: str, port: int, *, wait_s: float, where: str) -> Wire:
    """Return a wire to a port that may open a little later.

    Raises InputError when nobody listens there within `wait_s` [s].
    """
    until = time.monotonic() + wait_s
    while True:
        try:
            return Wire(socket.create_connection((host, port), timeout=max(until - time.monotonic(), 0.1)))
        except OSError as error:
            if time.monotonic() >= until or isinstance(error, socket.gaierror):
                raise InputError(
                    f"nobody answers at {host}:{port}: {error.strerror or error}", where=where,
                    allowed="a host whose port is open to this one",
                    do="start the other end first, and check the name, the port and the firewall",
                ) from error  # fmt: skip
        time.sleep(0.1)
