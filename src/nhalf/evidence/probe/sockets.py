"""The backend that needs nothing: TCP sockets, Unix sockets and shared memory between pairs of ranks."""

from __future__ import annotations

import contextlib
import select
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nhalf.errors import InputError
from nhalf.evidence.probe.memory import Segment
from nhalf.evidence.probe.streams import PeerGoneError, Stream
from nhalf.evidence.probe.wire import Wire, WireClosedError, connected

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nhalf.evidence.probe.backend import Action, Messenger
    from nhalf.evidence.probe.cell import Cell

TCP, UNIX, MEMORY = "tcp", "unix", "shm"
LOCAL: Final = (UNIX, MEMORY)
"""Channels between processes of one machine only."""


def channels() -> tuple[str, ...]:
    """Return the channels that this system has."""
    return (TCP, *((UNIX,) if hasattr(socket, "AF_UNIX") else ()), MEMORY)


class Listener:
    """Where other ranks connect to this one: a TCP port, and a Unix socket where there are such."""

    def __init__(self, host: str, tcp: socket.socket | None = None) -> None:
        """Open both; `tcp` is a listening socket to use instead of a new one."""
        self._tcp = tcp or socket.create_server((host, 0), backlog=64)
        self.port: int = self._tcp.getsockname()[1]
        self.host = host
        self._folder = tempfile.TemporaryDirectory(prefix="nhalf-")
        self.path = ""
        self._sockets = [self._tcp]
        if hasattr(socket, "AF_UNIX"):
            self.path = str(Path(self._folder.name) / "ranks")
            unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            unix.bind(self.path)
            unix.listen(64)
            self._sockets.append(unix)

    def address(self) -> dict[str, Any]:
        """Return how others reach it."""
        return {"host": self.host, "port": self.port, "path": self.path}

    def accept(self, wait_s: float) -> Wire:
        """Return the next connection. Raises PeerGoneError when none comes within `wait_s` [s]."""
        ready = select.select(self._sockets, [], [], max(wait_s, 0.0))[0]
        if not ready:
            raise PeerGoneError("another rank did not connect before the deadline")
        connection, _ = ready[0].accept()
        return Wire(connection)

    def close(self) -> None:
        """Close it."""
        for each in self._sockets:
            each.close()
        self._folder.cleanup()


class Sockets:
    """Pairs of ranks over the channels that were opened; it has no collectives."""

    def __init__(self, rank: int, listener: Listener | None, allowed: tuple[str, ...] = (TCP, *LOCAL)) -> None:
        """Begin without connections; `open` makes them, over `allowed` channels only."""
        self._allowed = allowed
        self._rank = rank
        self._listener = listener
        self._open: dict[tuple[str, int], Stream | Segment] = {}

    def address(self, host: str) -> dict[str, Any]:
        """Listen on a host of this machine, where nothing does yet, and return how others reach this rank."""
        if self._listener is None:
            self._listener = Listener(host)
        return self._listener.address()

    def open(self, message: Mapping[str, Any]) -> None:
        """Connect to the ranks above this one and take the connections of those below, as a message lists them.

        Raises PeerGoneError when one does not come, InputError when one cannot be reached.
        """
        until = time.monotonic() + message["deadline_s"]
        mine = [(pair, channel) for pair in message["pairs"] for channel in message["channels"] if self._rank in pair]
        for (low, high), channel in mine:
            if low == self._rank:
                self._connect(channel, high, message)
        for _ in [None for (_, high), _ in mine if high == self._rank]:
            self._accept(message, until)

    def _connect(self, channel: str, peer: int, message: Mapping[str, Any]) -> None:
        address, deadline_s = message["addresses"][str(peer)], message["deadline_s"]
        if channel == TCP:
            wire = connected(address["host"], address["port"], wait_s=deadline_s, where=f"rank {peer}")
        else:
            unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) if address["path"] else None
            if unix is None:
                wire = connected(address["host"], address["port"], wait_s=deadline_s, where=f"rank {peer}")
            else:
                unix.settimeout(deadline_s)
                unix.connect(address["path"])
                wire = Wire(unix)
        hello = {"rank": self._rank, "channel": channel, "token": message["token"]}
        if channel != MEMORY:
            wire.send(hello)
            self._open[channel, peer] = Stream(wire.release(), message["largest_bytes"], deadline_s)
            return
        path = Segment.create(message["largest_bytes"])
        try:
            wire.send({**hello, "path": str(path)})
            wire.receive(deadline_s)  # the other has mapped it
            self._open[channel, peer] = Segment(
                path, message["largest_bytes"], wire.release(), first=True, deadline_s=deadline_s
            )
        except (TimeoutError, WireClosedError) as error:
            raise PeerGoneError(f"rank {peer} did not take the shared memory") from error
        finally:
            with contextlib.suppress(OSError):  # Windows keeps a mapped file
                path.unlink()

    def _accept(self, message: Mapping[str, Any], until: float) -> None:
        deadline_s, listener = message["deadline_s"], self._listener
        if listener is None:
            raise PeerGoneError("this rank does not listen")
        while True:
            wire = listener.accept(until - time.monotonic())
            try:
                hello = wire.receive(max(until - time.monotonic(), 0.0))
            except (TimeoutError, WireClosedError):
                wire.close()
                continue
            if hello.get("token") == message["token"] and hello.get("channel") in self._allowed:
                break
            wire.close()
        channel, peer = hello["channel"], hello["rank"]
        if channel == MEMORY:
            segment = Segment(
                Path(hello["path"]), message["largest_bytes"], wire.release(), first=False, deadline_s=deadline_s
            )
            self._open[channel, peer] = segment
            wire.send({"mapped": True})
        else:
            self._open[channel, peer] = Stream(wire.release(), message["largest_bytes"], deadline_s)

    def messenger(self, channel: str, peer: int, size_bytes: int) -> Messenger:
        """Return messages of a size [bytes] to another rank."""
        found: Messenger = self._open[channel, peer].messenger(size_bytes)
        return found

    def action(self, cell: Cell) -> Action:
        """Refuse: sockets have no collectives."""
        raise InputError(f"sockets have no {cell.op}", where="--backend", allowed="send-recv over tcp, unix and shm",
                         do="--backend mpi -n 4 for collectives on this machine")  # fmt: skip

    def graphed(self, action: Action, count: int) -> Callable[[], None]:
        """Refuse: there are no graphs here."""
        del action, count
        raise InputError("sockets have no graphs", where="--backend", allowed="nccl")

    def barrier(self) -> None:
        """Return at once: a pair needs no barrier, its first message is one."""

    def computation(self) -> Callable[[], None]:
        """Return a small computation on the processor."""
        return processor_work()

    def settle(self) -> None:
        """Return at once."""

    def facts(self) -> Mapping[str, str]:
        """Return the version of the language whose sockets these are."""
        return {"backend": "sockets", "python": sys.version.partition(" ")[0]}

    def close(self) -> None:
        """Close every connection."""
        for each in self._open.values():
            each.close()
        if self._listener is not None:
            self._listener.close()


def processor_work() -> Callable[[], None]:
    """Return a small product of matrices: a few microseconds of one core, without the interpreter's lock."""
    import numpy as np

    left = np.full((48, 48), 1.0 / 48)
    right, result = left.copy(), left.copy()

    def work() -> None:
        np.matmul(left, right, out=result)

    return work
