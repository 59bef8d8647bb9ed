"""The bench of real ranks: processes on hosts made of network namespaces, with a relay that imposes the links."""

from __future__ import annotations

import time
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING, Final, Self

from msgspec import structs

from nhalf.collective import Op
from nhalf.evidence.probe.bed import Port
from nhalf.evidence.probe.bed_ranks import BedRanks
from nhalf.evidence.probe.cell import Cell
from nhalf.evidence.probe.messages import Prepare, Visit
from nhalf.evidence.probe.schedule import after_barriers
from nhalf.evidence.probe.statistics import median
from nhalf.lab.bench import Tokens

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.evidence.probe.messages import Decode
    from nhalf.lab.bench import Wire

HOSTS: Final = 4
_DEADLINE_S: Final = 60.0
_SETTLE_S: Final = 0.25
"""Longer than Linux waits before it sends again what was lost when a link changed (TCP_RTO_MIN, 200 ms)."""
_MANY, _FEW, _VISITS = 8, 2, 3
_LONG: Final = 16_384  # [bytes] of a collective of which a few in a row are enough


class Hosts:
    """Four hosts with a rank each."""

    name = "real ranks on network namespaces of this machine"

    def __init__(self, interrupted: Callable[[], bool]) -> None:
        """Keep who says whether to stop."""
        self._ranks = BedRanks(HOSTS, interrupted)
        self._stack = ExitStack()
        self._numbers = count()

    def __enter__(self) -> Self:
        """Make the hosts and start the ranks, over links that delay nothing."""
        self._stack.enter_context(self._ranks)
        return self

    def __exit__(self, *_: object) -> None:
        """Take everything away."""
        self._stack.close()

    def impose(self, wire: Wire) -> None:
        """Set what lies between the hosts, once what is under way has come."""
        time.sleep(_SETTLE_S)
        self._ranks.bed.impose(Port(delay_s=wire.latency_s, bytes_per_s=wire.bandwidth_bytes_per_s))
        time.sleep(_SETTLE_S)

    def message_s(self, size_bytes: int) -> float:
        """Return the time [s] of a message between the first two hosts."""
        found: list[float] = []
        for answers in self._visits(Cell(channel="tcp", op=Op.SEND_RECV, size_bytes=size_bytes, ranks=(0, 1)), burst=1):
            found += answers[0]["times"]
        return median(found) * 1e-9

    def all_reduce_s(self, ranks: int, size_bytes: int, algorithm: str = "") -> float:
        """Return the time [s] of one of several all-reduces in a row, among the first ranks."""
        cell = Cell(channel="tcp", op=Op.ALL_REDUCE, size_bytes=size_bytes, ranks=tuple(range(ranks)),
                    how="back_to_back", algorithm=algorithm)  # fmt: skip
        burst, found = _FEW if size_bytes > _LONG else _MANY, []
        for answers in self._visits(cell, burst=burst):
            found += [each / burst for each in after_barriers(answers, {})[0]]
        return median(found) * 1e-9

    def _visits(self, cell: Cell, *, burst: int) -> list[dict[int, dict[str, list[float]]]]:
        ask, number = self._ranks.conductor.ask, next(self._numbers)
        ask(dict.fromkeys(cell.ranks, Prepare(id=number, cell=cell)), _DEADLINE_S)
        visit = Visit(id=number, repetitions=3, burst=burst)
        return [ask(dict.fromkeys(cell.ranks, visit), _DEADLINE_S) for _ in range(_VISITS)]

    def tokens(self, order: Decode, late_s: float = 0.0) -> Tokens:
        """Decode with tp x pp ranks, of which the second begins each layer late by so much [s]."""
        orders = dict.fromkeys(range(order.tp * order.pp), order)
        if late_s:
            orders[1] = structs.replace(order, late_s=late_s)
        answers = self._ranks.conductor.ask(orders, _DEADLINE_S)
        return Tokens(times_s=tuple(answers[0]["times"][1:]), ids=tuple(answers[0]["ids"]))
