"""A wire: typed messages over a socket, each with its length before it, and a deadline on every wait.

Messages are JSON of a few known shapes and nothing else, because the other end may be another machine, or a stranger.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import sys
import threading
import time
from typing import Final

import msgspec

from nhalf.errors import InputError
from nhalf.evidence.probe.messages import GREETINGS, Message, Speech

_LENGTH: Final = struct.Struct("!I")
_CHUNK: Final = 1 << 16  # [bytes]
_SEND_S: Final = 20.0


class WireClosedError(Exception):
    """The other end is gone."""


class NoMessageError(WireClosedError):
    """What came is no message of nhalf: the wire is of no use any more."""

    def __init__(self) -> None:
        """Say so."""
        super().__init__("what came is no message of nhalf")


class Wire:
    """One end of a connection. Any thread may send; only one may receive. `speech` is what the other end may say."""

    def __init__(self, connection: socket.socket) -> None:
        """Take over a connected socket; until it is proved who is there, only greetings are read."""
        self._socket = connection
        self._socket.settimeout(_SEND_S)
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sending = threading.Lock()
        self._buffer = bytearray()
        self.speech: Speech = GREETINGS

    def fileno(self) -> int:
        """Return the number by which `select` knows the socket."""
        return self._socket.fileno()

    def local_host(self) -> str:
        """Return the address of this end, which the other end can reach."""
        return str(self._socket.getsockname()[0])

    def remote_host(self) -> str:
        """Return the address of the other end, empty where it has none."""
        name = self._socket.getpeername()
        return str(name[0]) if isinstance(name, tuple) else ""

    def send(self, message: Message) -> None:
        """Send a message. Raises WireClosedError when nobody takes it."""
        text = msgspec.json.encode(message)
        try:
            with self._sending:
                self._socket.sendall(_LENGTH.pack(len(text)) + text)
        except OSError as error:
            raise WireClosedError(str(error)) from error

    def pump(self) -> list[Message]:
        """Return the messages that one read completes: call it when the socket can be read.

        Raises WireClosedError when the other end is gone, NoMessageError when it says what it may not.
        """
        self._read()
        return self._complete()

    def _read(self) -> None:
        try:
            read = self._socket.recv(_CHUNK)
        except OSError as error:
            raise WireClosedError(str(error)) from error
        if not read:
            raise WireClosedError("the connection was closed")
        self._buffer += read

    def receive(self, deadline_s: float) -> Message:
        """Return the next message. Raises TimeoutError after `deadline_s` [s], WireClosedError when there is no more.

        Only for conversations of one message at a time.
        """
        until = time.monotonic() + deadline_s
        while not (found := self._complete(1)):
            left = until - time.monotonic()
            if left <= 0 or not select.select([self], [], [], left)[0]:
                raise TimeoutError
            self._read()
        return found[0]

    def release(self) -> socket.socket:
        """Return the socket, for bytes that are no messages; the wire is not used any more."""
        return self._socket

    def close(self) -> None:
        """Close this end; a thread that waits on it wakes up."""
        with contextlib.suppress(OSError):  # the other end may have been quicker
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _complete(self, most: int = sys.maxsize) -> list[Message]:
        """Return the messages that have come whole, at most so many: what follows may be of another speech."""
        found: list[Message] = []
        while len(self._buffer) >= _LENGTH.size and len(found) < most:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > self.speech.limit_bytes:
                raise NoMessageError
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                break
            try:
                found.append(self.speech.decoder.decode(bytes(self._buffer[_LENGTH.size : end])))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise NoMessageError from error
            del self._buffer[:end]
        return found


def connected(host: str, port: int, *, wait_s: float, where: str) -> Wire:
    """Return a wire to a port that may open a little later.

    Raises InputError when nobody listens there within `wait_s` [s].
    """
    until = time.monotonic() + wait_s
    while True:
        try:
            return Wire(socket.create_connection((host, port), timeout=max(until - time.monotonic(), 0.1)))
        except (OSError, UnicodeError) as error:
            if time.monotonic() >= until or isinstance(error, (socket.gaierror, UnicodeError)):
                reason = getattr(error, "strerror", None) or error
                raise InputError(
                    f"nobody answers at {host}:{port}: {reason}", where=where,
                    allowed="a host whose port is open to this one",
                    do="start the other end first, and check the name, the port and the firewall",
                ) from error  # fmt: skip
        time.sleep(0.1)


def listening(host: str, port: int, *, where: str) -> socket.socket:
    """Return a socket that listens at an address of this machine. Raises InputError when it cannot be opened."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"port {port} of {host} cannot be opened: {reason}", where=where,
                         allowed="a free port of an address of this machine",
                         do="choose another: --port 29650") from error  # fmt: skip
