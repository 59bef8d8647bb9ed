"""The backend that needs nothing: TCP sockets, Unix sockets and shared memory between pairs of ranks."""

from __future__ import annotations

import contextlib
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nhalf.errors import InputError
from nhalf.evidence.probe.door import Door
from nhalf.evidence.probe.handshake import enter
from nhalf.evidence.probe.memory import PREFIX, Segment
from nhalf.evidence.probe.messages import Address, Mapped, Shared
from nhalf.evidence.probe.processor import OnProcessor
from nhalf.evidence.probe.socket_group import SocketAction, SocketGroup
from nhalf.evidence.probe.streams import PeerGoneError, Stream
from nhalf.evidence.probe.wire import Wire, WireClosedError, connected, listening

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.evidence.probe.backend import Action, Messenger
    from nhalf.evidence.probe.cell import Cell
    from nhalf.evidence.probe.door import Guest
    from nhalf.evidence.probe.messages import Channel, Open

TCP: Final = "tcp"
UNIX: Final = "unix"
MEMORY: Final = "shm"
LOCAL: Final = (UNIX, MEMORY)
"""Channels between processes of one machine only."""


def channels() -> tuple[Channel, ...]:
    """Return the channels that this system has."""
    return (TCP, *((UNIX,) if hasattr(socket, "AF_UNIX") else ()), MEMORY)


class Listener:
    """Where other ranks connect to this one: a TCP port, and a Unix socket where there are such."""

    def __init__(self, host: str, key: bytes) -> None:
        """Open both, for ranks that prove to know the key."""
        tcp = listening(host, 0, where="ranks")
        self.port: int = tcp.getsockname()[1]
        self.host = host
        self._folder = tempfile.TemporaryDirectory(prefix=PREFIX)
        self.folder = ""
        servers = [tcp]
        if hasattr(socket, "AF_UNIX"):
            self.folder = Path(self._folder.name).name
            unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            unix.bind(_path_in(self.folder))
            unix.listen(64)
            servers.append(unix)
        self.door = Door(servers, key, channels=(TCP, *LOCAL))

    def address(self) -> Address:
        """Return how others reach it."""
        return Address(host=self.host, port=self.port, folder=self.folder)

    def close(self) -> None:
        """Close it."""
        self.door.close()
        self._folder.cleanup()


def _path_in(folder: str) -> str:
    """Return the Unix socket of a rank of this machine; ranks have one folder for what is temporary."""
    return str(Path(tempfile.gettempdir()) / folder / "ranks")


class Sockets(OnProcessor):
    """Pairs of ranks over the channels that were opened, and groups that do collectives over their streams.

    `key` is what ranks prove to one another. A rank that has a `door` from the start listens for a guest of another
    machine: it connects to nobody, and takes TCP only.
    """

    def __init__(self, rank: int, key: bytes, door: Door | None = None) -> None:
        """Begin without connections; `open` makes them."""
        self._rank = rank
        self._key = key
        self._hosts = door is not None
        self._door = door
        self._listener: Listener | None = None
        self._open: dict[tuple[str, int], Stream | Segment] = {}
        self._groups: dict[tuple[int, ...], SocketGroup] = {}
        self._deadline_s = 0.0

    def address(self, host: str) -> Address:
        """Listen on a host of this machine, and return how others reach this rank."""
        if self._listener is None:
            self._listener = Listener(host, self._key)
            self._door = self._listener.door
        return self._listener.address()

    def open(self, order: Open) -> None:
        """Connect to the ranks whose address is told, and take the connections of the others.

        Raises PeerGoneError when one does not come, InputError when one cannot be reached, or may not be.
        """
        until, self._deadline_s = time.monotonic() + order.deadline_s, order.deadline_s
        if self._hosts and (order.channels != (TCP,) or any(peer.address for peer in order.peers)):
            raise InputError("a host that listens takes TCP connections of its guest, and connects to nobody",
                             where="--listen")  # fmt: skip
        for peer in order.peers:
            for channel in order.channels:
                if peer.address is not None:
                    self._connect(channel, peer.rank, peer.address, order)
        expected = {(channel, peer.rank) for peer in order.peers if not peer.address for channel in order.channels}
        while expected:
            guest = self._door.next(until - time.monotonic()) if self._door else None
            if guest is not None:
                expected.discard(self._take(guest, order))
            elif time.monotonic() >= until:
                raise PeerGoneError("another rank did not connect before the deadline")

    def _connect(self, channel: Channel, peer: int, address: Address, order: Open) -> None:
        deadline_s, where = order.deadline_s, f"rank {peer}"
        if channel == TCP or not address.folder:
            wire = connected(address.host, address.port, wait_s=deadline_s, where=where)
        else:
            unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            unix.settimeout(deadline_s)
            unix.connect(_path_in(address.folder))
            wire = Wire(unix)
        enter(wire, self._key, rank=self._rank, channel=channel, where=where)
        if channel != MEMORY:
            self._open[channel, peer] = Stream(wire.release(), order.largest_bytes, deadline_s)
            return
        path = Segment.create(order.largest_bytes)
        try:
            wire.send(Shared(name=path.name))
            if not isinstance(wire.receive(deadline_s), Mapped):
                raise PeerGoneError(f"rank {peer} did not take the shared memory")
            self._open[channel, peer] = Segment(
                path, order.largest_bytes, wire.release(), first=True, deadline_s=deadline_s
            )
        except (TimeoutError, WireClosedError) as error:
            raise PeerGoneError(f"rank {peer} did not take the shared memory") from error
        finally:
            with contextlib.suppress(OSError):  # Windows keeps a mapped file
                path.unlink()

    def _take(self, guest: Guest, order: Open) -> tuple[str, int]:
        """Make a channel of the connection of a rank that proved who it is, and return which."""
        channel, peer, wire = guest.hello.channel, guest.hello.rank, guest.wire
        if channel == MEMORY:
            try:
                shared = wire.receive(order.deadline_s)
            except (TimeoutError, WireClosedError) as error:
                raise PeerGoneError(f"rank {peer} shared no memory") from error
            if not isinstance(shared, Shared):
                raise PeerGoneError(f"rank {peer} shared no memory")
            self._open[channel, peer] = Segment(
                Segment.named(shared.name), order.largest_bytes, wire.release(), first=False,
                deadline_s=order.deadline_s,
            )  # fmt: skip
            wire.send(Mapped())
        else:
            self._open[channel, peer] = Stream(wire.release(), order.largest_bytes, order.deadline_s)
        return channel, peer

    def messenger(self, channel: str, peer: int, size_bytes: int) -> Messenger:
        """Return messages of a size [bytes] to another rank."""
        found: Messenger = self._open[channel, peer].messenger(size_bytes)
        return found

    def action(self, cell: Cell) -> Action:
        """Return a collective among the ranks of a cell. Raises InputError where shared memory is to carry it."""
        return SocketAction(self.group(cell.ranks, cell.channel), cell)

    def group(self, ranks: tuple[int, ...], channel: str = TCP) -> SocketGroup:
        """Return ranks that do collectives, this one among them, over connections that are open."""
        joined = {rank: self._open.get((channel, rank)) for rank in ranks if rank != self._rank}
        streams = {rank: stream for rank, stream in joined.items() if isinstance(stream, Stream)}
        if len(streams) < len(joined):
            raise InputError(f"there are no streams over {channel} between these ranks", where="--channels",
                             allowed=f"{TCP}, {UNIX}")  # fmt: skip
        return SocketGroup(streams, ranks, self._rank, self._deadline_s)

    def barrier(self, ranks: tuple[int, ...]) -> None:
        """Return when these ranks have come here; at once for a pair, whose first message is a barrier."""
        if ranks not in self._groups:
            channel = next((name for name, _ in self._open if name != MEMORY), TCP)
            self._groups[ranks] = self.group(ranks, channel)
        self._groups[ranks].barrier()

    def facts(self) -> Mapping[str, str]:
        """Return the version of the language whose sockets these are."""
        return {"backend": "sockets", "python": sys.version.partition(" ")[0]}

    def close(self) -> None:
        """Close every connection."""
        for each in self._open.values():
            each.close()
        if self._listener is not None:
            self._listener.close()
        elif self._door is not None:
            self._door.close()
