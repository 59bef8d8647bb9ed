"""Collectives over sockets: rings, recursive doubling and pairwise exchange among ranks that are joined by streams.

References
----------
R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH", International
Journal of High Performance Computing Applications 19 (2005).
"""

from __future__ import annotations

import select
import socket
import time
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from nhalf.collective import Algorithm, Op
from nhalf.errors import InputError
from nhalf.evidence.probe.streams import PeerGoneError, failure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nhalf.evidence.probe.cell import Cell
    from nhalf.evidence.probe.streams import Stream

    Numbers: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[Any]]

_NOW: Final = getattr(socket, "MSG_DONTWAIT", 0)
_ALL: Final = getattr(socket, "MSG_WAITALL", 0)
_DOUBLING_BYTES: Final = 262_144
"""Below it an all-reduce doubles, above it goes around: on 4 or 8 ranks a ring, which has 4 or 11 latencies more, is
the quicker one from 8 x n_1/2 or 8.8 x on, and n_1/2 of TCP over 10 Gb/s Ethernet (26 us) is 32 KiB."""
ALGORITHMS: Final = (Algorithm.RING, Algorithm.RECURSIVE_DOUBLING)


class SocketGroup:
    """Some ranks of which this is one, each joined to each by a stream."""

    def __init__(self, streams: Mapping[int, Stream], ranks: tuple[int, ...], rank: int, deadline_s: float) -> None:
        """Take the streams to the others."""
        self._sockets = [streams[each].connection if each != rank else None for each in ranks]
        self.size, self.place = len(ranks), ranks.index(rank)
        self._deadline_s = deadline_s
        self._byte = np.zeros(1, dtype=np.uint8)

    def exchange(self, to: int, out: Numbers, source: int, into: Numbers) -> None:
        """Send an array to a place of the group while one comes from another.

        Raises PeerGoneError when either is gone, or nothing moves before the deadline.
        """
        sender, receiver = self._sockets[to], self._sockets[source]
        if sender is None or receiver is None:
            return
        rest, room = memoryview(out.data).cast("B"), memoryview(into.data).cast("B")
        try:
            rest = rest[_sent(sender, rest) :]
            until = time.monotonic() + self._deadline_s
            while rest:  # the other end sends as much: who only sent would wait for ever
                ready = select.select([receiver] if room else [], [sender], [], self._deadline_s)
                if not any(ready) or time.monotonic() > until:
                    raise PeerGoneError("nothing moved before the deadline")
                room = room[_came(receiver, room, _NOW) :] if ready[0] else room
                rest = rest[_sent(sender, rest) :] if ready[1] else rest
            while room:
                room = room[_came(receiver, room, _ALL) :]
        except OSError as error:
            raise failure(error) from error

    def barrier(self) -> None:
        """Return when all have come: dissemination, the rank 1, 2, 4, ... places on hears of this one."""
        reach, into = 1, self._byte.copy()
        while reach < self.size:
            self.exchange((self.place + reach) % self.size, self._byte, (self.place - reach) % self.size, into)
            reach *= 2

    def all_reduce(self, values: Numbers, algorithm: str = "") -> Callable[[], None]:
        """Return what adds up an array of all ranks in place."""
        two = self.size & (self.size - 1) == 0
        small = self.size <= 2 or values.nbytes < _DOUBLING_BYTES  # noqa: PLR2004  two ranks exchange once
        if algorithm == Algorithm.RECURSIVE_DOUBLING and not two:
            raise InputError(f"recursive doubling needs 2, 4, 8, ... ranks, not {self.size}", where="algorithm")
        if algorithm != Algorithm.RING and two and (small or algorithm):
            into = np.empty_like(values)
            return lambda: self._double(values, into)
        parts = np.array_split(values, self.size)
        room = np.empty_like(parts[0])
        return lambda: self._ring(parts, room)

    def _double(self, values: Numbers, into: Numbers) -> None:
        reach = 1
        while reach < self.size:
            self.exchange(self.place ^ reach, values, self.place ^ reach, into)
            values += into
            reach *= 2

    def _ring(self, parts: list[Numbers], room: Numbers) -> None:
        self._around(parts, room)
        self.gather(parts, self.place + 1)

    def _around(self, parts: list[Numbers], room: Numbers) -> None:
        """Add up each part on its way around; the last to add to a part is the place before it."""
        right, left = (self.place + 1) % self.size, (self.place - 1) % self.size
        for step in range(self.size - 1):
            part = parts[(self.place - step - 1) % self.size]
            into = room[: len(part)]
            self.exchange(right, parts[(self.place - step) % self.size], left, into)
            part += into

    def gather(self, parts: list[Numbers], mine: int) -> None:
        """Hand parts on until every place has all; `mine` is the part that this place has."""
        right, left = (self.place + 1) % self.size, (self.place - 1) % self.size
        for step in range(self.size - 1):
            self.exchange(right, parts[(mine - step) % self.size], left, parts[(mine - step - 1) % self.size])

    def scatter(self, parts: list[Numbers]) -> Callable[[], None]:
        """Return what leaves this place the sum of one part, as a ring does."""
        room = np.empty_like(parts[0])
        return lambda: self._around(parts, room)

    def swap(self, out: list[Numbers], into: list[Numbers]) -> None:
        """Send a part to every other place, and take one of each: pairwise."""
        into[self.place][:] = out[self.place]
        for step in range(1, self.size):
            to, source = (self.place + step) % self.size, (self.place - step) % self.size
            self.exchange(to, out[to], source, into[source])


def _sent(connection: socket.socket, rest: memoryview) -> int:
    try:
        return connection.send(rest, _NOW)
    except BlockingIOError:
        return 0


def _came(connection: socket.socket, room: memoryview, flag: int) -> int:
    if not (got := connection.recv_into(room, len(room), flag)):
        raise PeerGoneError("the connection was closed")
    return got


class SocketAction:
    """A collective with its buffers; sizes follow nccl-tests, sums are of float32."""

    def __init__(self, group: SocketGroup, cell: Cell) -> None:
        """Make the buffers. Raises InputError for what sockets have not."""
        self._group, self._op = group, cell.op
        ranks, own = group.size, group.place + 1
        if cell.op in (Op.ALL_REDUCE, Op.REDUCE_SCATTER):
            self._values: Any = np.full(max(cell.size_bytes // 4, ranks), float(own), dtype=np.float32)
        else:
            self._values = np.full(ranks * -(-cell.size_bytes // ranks), own, dtype=np.uint8)
        parts = np.array_split(self._values, ranks)
        self._out = np.array_split(self._values.copy(), ranks)
        calls: dict[Op, Callable[[], Callable[[], None]]] = {
            Op.ALL_REDUCE: lambda: group.all_reduce(self._values, cell.algorithm),
            Op.ALL_GATHER: lambda: lambda: group.gather(parts, group.place),
            Op.REDUCE_SCATTER: lambda: group.scatter(parts),
            Op.ALL_TO_ALL: lambda: lambda: group.swap(self._out, parts),
            Op.BARRIER: lambda: group.barrier,
        }
        if cell.op not in calls:
            raise InputError(f"sockets have no {cell.op}", where="--backend", allowed=", ".join(calls),
                             do="--backend mpi")  # fmt: skip
        self.run: Callable[[], None] = calls[cell.op]()

    def post(self) -> None:
        """Refuse: nothing goes on by itself here."""
        raise InputError("sockets send while this process does nothing else", where="--overlap", allowed="mpi, nccl",
                         do="add --backend mpi")  # fmt: skip

    def finish(self) -> None:
        """Refuse: nothing was begun."""
        self.post()

    def check(self) -> bool:
        """Do it once, and return whether every number is right."""
        self.run()
        ranks, place = self._group.size, self._group.place
        parts = np.array_split(self._values, ranks)
        total = ranks * (ranks + 1) / 2
        right = True
        if self._op is Op.ALL_REDUCE:
            right = bool(np.all(self._values == total))
        elif self._op is Op.REDUCE_SCATTER:
            right = bool(np.all(parts[(place + 1) % ranks] == total))
        elif self._op in (Op.ALL_GATHER, Op.ALL_TO_ALL):
            right = all(bool(np.all(part == rank + 1)) for rank, part in enumerate(parts))
        if self._op in (Op.ALL_REDUCE, Op.REDUCE_SCATTER):
            self._values[:] = 0.0  # zeros stay zeros, however often they are summed
        return right
