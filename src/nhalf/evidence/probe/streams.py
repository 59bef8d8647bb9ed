"""Messages over a connected socket, TCP or Unix: exact lengths, and a deadline that costs no system call."""

from __future__ import annotations

import socket
import struct
import sys
from typing import Final

_WAIT_ALL: Final = getattr(socket, "MSG_WAITALL", 0)


class PeerGoneError(Exception):
    """The other rank of a pair is gone, or did not come within the deadline."""


class Stream:
    """A connected socket with buffers for the largest message of each direction."""

    def __init__(self, connection: socket.socket, largest_bytes: int, deadline_s: float) -> None:
        """Take over a connected socket."""
        self.connection = connection
        self.outgoing = bytearray(largest_bytes)
        self.incoming = bytearray(largest_bytes)
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _limit(connection, deadline_s)

    def messenger(self, size_bytes: int) -> StreamMessenger:
        """Return messages of one size [bytes]."""
        return StreamMessenger(self, size_bytes)

    def close(self) -> None:
        """Close this end."""
        self.connection.close()


def _limit(connection: socket.socket, deadline_s: float) -> None:
    """Bound every call on a socket: in the kernel, since Python's own timeout polls before each call."""
    if sys.platform == "win32":
        connection.settimeout(deadline_s)
        return
    connection.settimeout(None)
    limit = struct.pack("ll", int(deadline_s), int(deadline_s % 1 * 1e6))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


class StreamMessenger:
    """Messages of one size over a stream."""

    def __init__(self, stream: Stream, size_bytes: int) -> None:
        """Cut the buffers to the size."""
        self._connection = stream.connection
        self._size = size_bytes
        self._outgoing = memoryview(stream.outgoing)[:size_bytes]
        self._incoming = memoryview(stream.incoming)[:size_bytes]

    def send(self) -> None:
        """Send one message; it may return before the message has arrived."""
        try:
            self._connection.sendall(self._outgoing)
        except OSError as error:
            raise failure(error) from error

    def receive(self) -> None:
        """Return when one message has come."""
        got = 0
        try:
            while got < self._size:
                new = self._connection.recv_into(self._incoming[got:], self._size - got, _WAIT_ALL)
                if not new:
                    raise PeerGoneError("the connection was closed")
                got += new
        except OSError as error:
            raise failure(error) from error

    def fill(self, pattern: bytes) -> None:
        """Write a pattern into what goes out."""
        self._outgoing[:] = pattern

    def echo(self) -> None:
        """Let what came in go out next."""
        self._outgoing[:] = self._incoming

    def received(self) -> bytes:
        """Return what came in."""
        return bytes(self._incoming)


def failure(error: OSError) -> PeerGoneError:
    """Return what an error of a socket means for the rank at the other end."""
    late = isinstance(error, (BlockingIOError, TimeoutError))
    return PeerGoneError("nothing moved before the deadline" if late else str(error))
