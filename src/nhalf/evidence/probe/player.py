"""A player: one rank that does what the conductor asks, and ends when the conductor is gone."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from nhalf.errors import NhalfError
from nhalf.evidence.probe import clocks, environment
from nhalf.evidence.probe.cell import Cell
from nhalf.evidence.probe.sockets import Sockets
from nhalf.evidence.probe.streams import PeerGoneError
from nhalf.evidence.probe.timing import Task
from nhalf.evidence.probe.traffic import counters
from nhalf.evidence.probe.wire import WireClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nhalf.evidence.probe.backend import Backend
    from nhalf.evidence.probe.wire import Wire

_GONE: Final = "who conducts the measurement, rank 0 or nhalf measure itself, is gone"
_GRACE_S: Final = 2.0
_LOST: Final = 4
"""The exit code of a rank whose conductor is gone."""


class Player:
    """One rank of a measurement, at its end of the wire."""

    def __init__(self, wire: Wire, rank: int, backend: Backend) -> None:
        """Take over a wire and a backend."""
        self._wire = wire
        self._rank = rank
        self._backend = backend
        self._tasks: dict[int, Task] = {}
        self._inbox: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._stopped = threading.Event()

    def play(self, token: str, *, address: Mapping[str, Any] | None = None) -> None:
        """Introduce this rank, then do what is asked until told to stop.

        Raises PeerGoneError when the conductor is gone; a rank that is stuck in a library then ends its process.
        """
        self._wire.send({"rank": self._rank, "token": token, "address": address,
                         **environment.of_rank(self._backend.facts())})  # fmt: skip
        threading.Thread(target=self._read, daemon=True).start()
        try:
            while (message := self._inbox.get()) is not None:
                if message["do"] == "stop":
                    self._stopped.set()
                    self._wire.send({"done": True})
                    return
                self._wire.send(self._answer(message))
        except WireClosedError as error:
            raise PeerGoneError(_GONE) from error
        finally:
            self._stopped.set()
            self._backend.close()
        raise PeerGoneError(_GONE)

    def _read(self) -> None:
        """Read what comes, beside the measurement: it sleeps there, and wakes when the conductor asks or is gone."""
        try:
            while not self._stopped.is_set():
                if not select.select([self._wire], [], [], None)[0]:
                    continue
                for message in self._wire.pump():
                    if message["do"] == "ping":
                        self._wire.send({"pong": True})
                    else:
                        self._inbox.put(message)
                        if message["do"] == "stop":
                            return
        except (WireClosedError, ValueError, OSError):
            if self._stopped.is_set():
                return
            self._inbox.put(None)
            if not self._stopped.wait(_GRACE_S):
                # The rank hangs in a library that waits for another rank: nothing else ends it.
                with contextlib.suppress(OSError):
                    sys.stderr.write(f"nhalf: rank {self._rank}: {_GONE}\n")
                    sys.stderr.flush()
                os._exit(_LOST)

    def _answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return {"done": _COMMANDS[message["do"]](self, message)}
        except (NhalfError, PeerGoneError, OSError, ValueError, RuntimeError, MemoryError, LookupError) as error:
            return {"failed": f"{error}" or type(error).__name__, "gone": isinstance(error, PeerGoneError)}

    def _open(self, message: Mapping[str, Any]) -> None:
        if isinstance(self._backend, Sockets):
            self._backend.open(message)

    def _prepare(self, message: Mapping[str, Any]) -> dict[str, Any]:
        task = self._tasks[message["id"]] = Task(Cell.of(message["cell"]), self._backend, self._rank)
        return task.prepare()

    def _visit(self, message: Mapping[str, Any]) -> dict[str, Any]:
        return self._tasks[message["id"]].visit(message)

    def _clock(self, message: Mapping[str, Any]) -> dict[str, Any]:
        messenger = self._backend.messenger(message["channel"], message["peer"], clocks.SIZE)
        return clocks.compare(messenger, leads=message["leads"])

    def _traffic(self, message: Mapping[str, Any]) -> dict[str, int]:
        del message
        return counters()


_COMMANDS: Final[dict[str, Callable[[Player, Mapping[str, Any]], Any]]] = {
    "open": Player._open,  # noqa: SLF001
    "prepare": Player._prepare,  # noqa: SLF001
    "visit": Player._visit,  # noqa: SLF001
    "clock": Player._clock,  # noqa: SLF001
    "traffic": Player._traffic,  # noqa: SLF001
}
