"""Ranks on the hosts of a bed, one each, which one process conducts: every rank is born with its end of a wire."""

from __future__ import annotations

import socket
import sys
from contextlib import ExitStack
from itertools import combinations
from typing import TYPE_CHECKING, Final, Self

from nhalf.evidence.probe import ahead
from nhalf.evidence.probe.bed import ONE_THREAD, Bed, Port
from nhalf.evidence.probe.conductor import Conductor
from nhalf.evidence.probe.launch import WORKER, Launched, rank_environment
from nhalf.evidence.probe.messages import Open, Peer
from nhalf.evidence.probe.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable

_DEADLINE_S: Final = 60.0
_LARGEST: Final = 1 << 22  # [bytes] of a message between two ranks
_OPEN: Final = Port(delay_s=0.0, bytes_per_s=1e9)
"""What lies between the hosts until something is imposed."""


class BedRanks:
    """A bed with a rank on each host, all joined over TCP; `conductor` asks them, `bed` imposes latency and rate."""

    def __init__(self, hosts: int, interrupted: Callable[[], bool]) -> None:
        """Keep how many hosts there are to be, and who says whether to stop."""
        self.bed = Bed(hosts)
        self.conductor = Conductor(hosts)
        self.conductor.interrupted = interrupted
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Make the hosts, start the ranks before ordinary work, and join them."""
        with ExitStack() as stack:
            launched = Launched()
            stack.callback(self.conductor.close)
            stack.enter_context(self.bed)
            stack.callback(launched.end, patient=False)
            self.conductor.health = launched.health
            for rank, address in enumerate(self.bed.addresses):
                ours, theirs = socket.socketpair()
                worker = ("-m", WORKER, "--backend", "sockets", "--host", address, "--rank", str(rank))
                command = (sys.executable, *worker, "--wire", str(theirs.fileno()))
                environment = rank_environment(self.conductor) | ONE_THREAD
                first = [sys.executable, ahead.__file__, "first", *self.bed.inside(rank, *command)]
                launched.start(rank, first, environment, [theirs.fileno()])
                theirs.close()
                self.conductor.add(Wire(ours), rank, wait_s=_DEADLINE_S)
            self.bed.impose(_OPEN)
            self._join()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End the ranks, and take the hosts away."""
        self._stack.close()

    def _join(self) -> None:
        size = self.conductor.size
        peers: dict[int, list[Peer]] = {rank: [] for rank in range(size)}
        for low, high in combinations(range(size), 2):
            peers[low].append(Peer(rank=high, address=self.conductor.info[high]["address"]))
            peers[high].append(Peer(rank=low))
        orders = {
            rank: Open(channels=("tcp",), peers=tuple(found), largest_bytes=_LARGEST, deadline_s=_DEADLINE_S)
            for rank, found in peers.items()
        }
        self.conductor.ask(orders, _DEADLINE_S + 1.0)
