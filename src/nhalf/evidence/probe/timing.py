"""The inner loops: what one rank does in one visit to a cell, and the readings of its clock [ns]."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from nhalf.errors import InputError
from nhalf.evidence.probe.messages import Visit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nhalf.evidence.probe.backend import Action, Backend, Messenger
    from nhalf.evidence.probe.cell import Cell
    from nhalf.evidence.probe.messages import Result

_now = time.perf_counter_ns
GRAPH_CALLS: Final = 10
"""Operations in a captured graph, so that the replay's own start is shared."""
WARM: Final = 5
"""Runs before the first that counts, at the first visit; each later visit begins with one more."""
_ACK: Final = 8  # [bytes]


class Task:
    """A cell on this rank: made once, visited many times."""

    def __init__(self, cell: Cell, backend: Backend, rank: int) -> None:
        """Make the buffers."""
        self.cell = cell
        self._backend = backend
        self._leads = rank == cell.ranks[0]
        self._messenger: Messenger | None = None
        self._action: Action | None = None
        self._replay: Callable[[], None] | None = None
        if cell.is_pair:
            peer = next(each for each in cell.ranks if each != rank)
            self._messenger = backend.messenger(cell.channel, peer, cell.size_bytes)
            self._ack = backend.messenger(cell.channel, peer, min(_ACK, cell.size_bytes))
        else:
            self._action = backend.action(cell)
        self._compute = backend.computation() if cell.how == "overlap" else None

    def prepare(self) -> Result:
        """Check the results, warm up, and return about how long one takes [ns] and whether it was right."""
        right = self._check()
        if self.cell.how == "graph" and self._action is not None:
            self._replay = self._backend.graphed(self._action.run, GRAPH_CALLS)
        found = self.visit(Visit(id=0, repetitions=WARM))
        return {"right": right, "about_ns": _typical(found)}

    def _check(self) -> bool:
        messenger, action = self._messenger, self._action
        if messenger is None:
            return action.check() if action is not None else True
        if not self._leads:
            messenger.receive()
            messenger.echo()
            messenger.send()
            return True
        pattern = bytes(range(251)) * (self.cell.size_bytes // 251 + 1)  # 251 is prime: no shift of it fits itself
        pattern = pattern[: self.cell.size_bytes]
        messenger.fill(pattern)
        messenger.send()
        messenger.receive()
        return messenger.received() == pattern

    def visit(self, order: Visit) -> Result:
        """Time the cell as often as an order says, and return the readings."""
        repetitions, burst = order.repetitions, order.burst
        if self._messenger is not None:
            return self._pair(self._messenger, repetitions, burst)
        action = self._action
        if action is None:
            raise InputError("a cell without an action", where="probe")
        if self.cell.how == "split":
            return self._split(action, repetitions)
        if self.cell.how == "overlap":
            return self._overlap(action, repetitions, order.works)
        if order.start_ns is not None:
            return self._windows(self._run(action, 1), order, order.start_ns)
        return self._after_barriers(self._run(action, burst), repetitions)

    def _run(self, action: Action, burst: int) -> Callable[[], None]:
        """Return what is timed as one: `burst` operations one after another, as often as the cell counts."""
        if self._replay is not None:
            return self._replay
        settle, total = self._backend.settle, burst * self.cell.count
        if total == 1:

            def once() -> None:
                action.run()
                settle()

            return once

        def several() -> None:
            for _ in range(total):
                action.run()
            settle()

        return several

    # --- pairs --------------------------------------------------------------------------------------------------------

    def _pair(self, messenger: Messenger, repetitions: int, burst: int) -> Result:
        if self.cell.how == "back_to_back":
            return self._stream(messenger, repetitions, burst)
        send, receive, times = messenger.send, messenger.receive, []
        if not self._leads:
            for _ in range(repetitions + 1):
                receive()
                send()
            return {}
        for _ in range(repetitions + 1):
            start = _now()
            send()
            receive()
            times.append((_now() - start) / 2)
        return {"times": times[1:]}

    def _stream(self, messenger: Messenger, repetitions: int, burst: int) -> Result:
        """Time messages that do not wait for one another, up to the answer to the last; each shares that answer."""
        send, receive, times = messenger.send, messenger.receive, []
        for _ in range(repetitions + 1):
            start = _now()
            for _ in range(burst):
                send() if self._leads else receive()
            self._ack.receive() if self._leads else self._ack.send()
            times.append((_now() - start) / burst)
        return {"times": times[1:]} if self._leads else {}

    # --- groups -------------------------------------------------------------------------------------------------------

    def _barrier(self) -> None:
        self._backend.barrier(self.cell.ranks)

    def _after_barriers(self, run: Callable[[], None], repetitions: int) -> Result:
        barrier, starts, ends = self._barrier, [], []
        for _ in range(repetitions + 1):
            barrier()
            starts.append(_now())
            run()
            ends.append(_now())
        return {"starts": starts[1:], "ends": ends[1:]}

    def _windows(self, run: Callable[[], None], order: Visit, start_ns: int) -> Result:
        """Start each run when the clock says so; the order holds times of this rank's own clock [ns]."""
        starts, ends = [], []
        for index in range(order.repetitions + 1):
            due = start_ns + index * order.window_ns
            while (begin := _now()) < due:
                pass
            starts.append(begin)
            run()
            ends.append(_now())
        return {"starts": starts[1:], "ends": ends[1:]}

    def _split(self, action: Action, repetitions: int) -> Result:
        """Time the call that begins an operation and the wait for its end, each by itself."""
        barrier, enqueue, wait = self._barrier, [], []
        for _ in range(repetitions + 1):
            barrier()
            start = _now()
            action.post()
            posted = _now()
            action.finish()
            self._backend.settle()
            wait.append(_now() - posted)
            enqueue.append(posted - start)
        return {"enqueue": enqueue[1:], "wait": wait[1:]}

    def _overlap(self, action: Action, repetitions: int, works: int) -> Result:
        """Time the operation alone, `works` computations alone, and both at once."""
        compute, settle, barrier = self._compute, self._backend.settle, self._barrier
        alone: list[int] = []
        work: list[int] = []
        both: list[int] = []

        def reading(body: Callable[[], None], into: list[int]) -> None:
            barrier()
            start = _now()
            body()
            settle()
            into.append(_now() - start)

        def communicate() -> None:
            action.post()
            action.finish()

        def calculate() -> None:
            for _ in range(works):
                if compute is not None:
                    compute()

        def together() -> None:
            action.post()
            calculate()
            action.finish()

        for _ in range(repetitions + 1):
            reading(communicate, alone)
            reading(calculate, work)
            reading(together, both)
        return {"alone": alone[1:], "work": work[1:], "both": both[1:], "works": works}


def _typical(found: Mapping[str, Any]) -> float:
    """Return the middle of what a visit read [ns], 0 where this rank held no clock."""
    if "times" in found:
        times = sorted(found["times"])
    elif "starts" in found:
        times = sorted(end - start for start, end in zip(found["starts"], found["ends"], strict=True))
    elif "enqueue" in found:
        times = sorted(first + then for first, then in zip(found["enqueue"], found["wait"], strict=True))
    else:
        times = sorted(found.get("alone", ()))
    return float(times[len(times) // 2]) if times else 0.0
