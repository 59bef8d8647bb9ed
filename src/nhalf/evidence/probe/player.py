"""A player: one rank that does what the conductor asks, and ends when the conductor is gone."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nhalf.errors import NhalfError
from nhalf.evidence.probe import clocks, decoder, environment
from nhalf.evidence.probe.looping import LoopTask
from nhalf.evidence.probe.messages import (
    ORDERS,
    Clock,
    Decode,
    Done,
    Failed,
    Open,
    Ping,
    Pong,
    Prepare,
    Ran,
    Stop,
    Traffic,
    Visit,
)
from nhalf.evidence.probe.placement import Seen
from nhalf.evidence.probe.sockets import Sockets
from nhalf.evidence.probe.streams import PeerGoneError
from nhalf.evidence.probe.timing import Task
from nhalf.evidence.probe.traffic import counters
from nhalf.evidence.probe.wire import NoMessageError, WireClosedError

if TYPE_CHECKING:
    from nhalf.evidence.probe.backend import Backend
    from nhalf.evidence.probe.cell import Cell
    from nhalf.evidence.probe.messages import Address, Message, Result
    from nhalf.evidence.probe.wire import Wire

_GONE: Final = "who conducts the measurement, rank 0 or nhalf measure itself, is gone"
_GRACE_S: Final = 2.0
_LOOK_S: Final = 0.25
_LONGEST: Final = 2000  # characters of what a library says
_MOST_ORDERS: Final = 16  # a conductor gives the next one after the answer
_LOST: Final = 4
"""The exit code of a rank whose conductor is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a rank puts up with its conductor [s]: without an order, or at one; and from beginning to end."""

    order_s: float
    session_s: float


class _LateError(Exception):
    """The conductor took too long."""


class Player:
    """One rank of a measurement, at its end of the wire, whose other end proved who it is."""

    def __init__(self, wire: Wire, rank: int, backend: Backend, patience: Patience | None = None) -> None:
        """Take over a wire and a backend; without `patience` only the end of the wire ends this rank."""
        self._wire = wire
        self._rank = rank
        self._backend = backend
        self._patience = patience
        self._begun = self._moved = time.monotonic()
        self._tasks: dict[int, Task | LoopTask] = {}
        self._seen = Seen()
        self._inbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._why = _GONE

    def play(self, address: Address | None = None) -> None:
        """Introduce this rank, then do what is asked until told to stop.

        Raises PeerGoneError when the conductor is gone; a rank that is stuck in a library then ends its process.
        """
        self._wire.speech = ORDERS
        try:
            self._wire.send(environment.of_rank(self._backend.facts(), address))
            threading.Thread(target=self._read, daemon=True).start()
            while (order := self._inbox.get()) is not None:
                if isinstance(order, Stop):
                    self._stopped.set()
                    self._wire.send(Done())
                    return
                self._wire.send(self._answer(order))
                self._moved = time.monotonic()
        except WireClosedError as error:
            raise PeerGoneError(self._why) from error
        finally:
            self._stopped.set()
            self._backend.close()
        raise PeerGoneError(self._why)

    def _read(self) -> None:
        """Read what comes, beside the measurement: it sleeps there, and wakes when the conductor asks or is gone."""
        look_s = None if self._patience is None else _LOOK_S
        try:
            while not self._stopped.is_set():
                self._in_time()
                if not select.select([self._wire], [], [], look_s)[0]:
                    continue
                for message in self._wire.pump():
                    if isinstance(message, Ping):
                        self._wire.send(Pong())
                        continue
                    self._moved = time.monotonic()
                    self._inbox.put(message)
                    if isinstance(message, Stop):
                        return
        except (WireClosedError, _LateError, ValueError, OSError) as error:
            if self._stopped.is_set():
                return
            if isinstance(error, (NoMessageError, _LateError)):
                self._why = str(error)
            self._inbox.put(None)
            if not self._stopped.wait(_GRACE_S):
                # The rank hangs in a library that waits for another rank: nothing else ends it.
                with contextlib.suppress(OSError):
                    sys.stderr.write(f"nhalf: rank {self._rank}: {self._why}\n")
                    sys.stderr.flush()
                os._exit(_LOST)

    def _in_time(self) -> None:
        """Raise _LateError when there was no move, or no end, for too long, or too many orders at once."""
        patience, now = self._patience, time.monotonic()
        if patience is None:
            return
        if now - self._begun > patience.session_s:
            raise _LateError(f"the measurement did not end within {patience.session_s:.0f} s (--budget)")
        if self._inbox.qsize() > _MOST_ORDERS:
            raise _LateError("orders came faster than they could be carried out")
        if now - self._moved > patience.order_s:
            raise _LateError(f"nothing moved for {patience.order_s:.0f} s (--deadline)")

    def _answer(self, order: Message) -> Done | Failed:
        try:
            return Done(result=self._done(order))
        except (NhalfError, PeerGoneError, OSError, ValueError, RuntimeError, MemoryError, LookupError) as error:
            return Failed(why=f"{error}"[:_LONGEST] or type(error).__name__, gone=isinstance(error, PeerGoneError))

    def _task(self, cell: Cell) -> Task | LoopTask:
        if cell.program is not None:
            return LoopTask(cell, cell.program, self._backend, self._rank)
        return Task(cell, self._backend, self._rank)

    def _done(self, order: Message) -> Result:
        """Do what an order says."""
        match order:
            case Open():
                if isinstance(self._backend, Sockets):
                    self._backend.open(order)
            case Prepare(id=number, cell=cell):
                if self._rank not in cell.ranks or (cell.is_pair and len(set(cell.ranks)) != len(cell.ranks[:2])):
                    raise ValueError("the cell is not for this rank")
                task = self._tasks[number] = self._task(cell)
                return task.prepare()
            case Visit():
                return self._visited(order)
            case Clock(channel=channel, peer=peer, leads=leads):
                return clocks.compare(self._backend.messenger(channel, peer, clocks.SIZE), leads=leads)
            case Decode() if isinstance(self._backend, Sockets):
                return decoder.play(order, self._backend, self._rank)
            case Traffic() | Ran():
                return {**counters()} if isinstance(order, Traffic) else self._seen.result()
            case _:
                raise ValueError("that is no order")
        return {}

    def _visited(self, order: Visit) -> Result:
        found = self._tasks[order.id].visit(order)
        self._seen.note()
        return found
