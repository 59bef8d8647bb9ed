"""The bench without hosts: the decoder computes here, and its messages are played one by one on a simulated network."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from nhalf.evidence.probe.decoder import alone
from nhalf.lab.bench import Tokens, size_of
from nhalf.link import Link
from nhalf.simulate import programs
from nhalf.simulate.engine import run
from nhalf.simulate.machine import Wiring, from_links
from nhalf.simulate.programs.shape import Shape
from nhalf.simulate.tables import Conditions

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.evidence.probe.messages import Decode
    from nhalf.lab.bench import Wire

_DOUBLING = "recursive-doubling"


class Simulated:
    """A simulated network between ranks; a message takes its latency and its bytes, and no software."""

    name = "simulated message by message: the decoder is real, the network is not"

    def __init__(self) -> None:
        """Begin with a link that takes no time worth mentioning."""
        self._link = Link(1e-9, 1e15)
        self._work: dict[tuple[int, int], float] = {}

    def __enter__(self) -> Self:
        """Make nothing."""
        return self

    def __exit__(self, *_: object) -> None:
        """Take nothing away."""

    def impose(self, wire: Wire) -> None:
        """Set what lies between the ranks from now on."""
        self._link = Link(max(wire.latency_s, 1e-9), wire.bandwidth_bytes_per_s)

    def message_s(self, size_bytes: int) -> float:
        """Return the time [s] of a message: a broadcast to one."""
        return float(np.max(self._played("broadcast", "binomial", np.zeros(2), size_bytes)))

    def all_reduce_s(self, ranks: int, size_bytes: int, algorithm: str = "") -> float:
        """Return the time [s] of an all-reduce."""
        return float(np.max(self._played("all-reduce", algorithm or _DOUBLING, np.zeros(ranks), size_bytes)))

    def _played(self, op: str, algorithm: str, ready_s: Array, size_bytes: int) -> Array:
        """Return when each rank is done [s], where it begins when it is ready."""
        machine = from_links(len(ready_s), self._link, Wiring())
        program = programs.build(op, algorithm, Shape(ranks=len(ready_s), size_bytes=size_bytes, group=machine.group))
        first = float(np.min(ready_s))
        played = run(program, machine.network, Conditions(starts_s=ready_s - first, protocol="eager"), record=False)
        done: Array = first + np.asarray(played.finished_s)
        return done

    def _computed(self, order: Decode) -> tuple[dict[str, Any], float]:
        """Return the tokens of the whole model, and what a rank computes for one [s]: the least time of this thread."""
        whole = alone(order, clock=time.thread_time)
        own = alone(order, shards=1, clock=time.thread_time) if order.tp > 1 else whole
        key = (order.batch, order.tp)
        least = min(own["times"][1:])
        self._work[key] = min(self._work.get(key, least), least)
        return whole, self._work[key]

    def tokens(self, order: Decode, late_s: float = 0.0) -> Tokens:
        """Decode here, and add to each token what its messages take; the second rank begins each layer late."""
        whole, work = self._computed(order)
        ready, size = np.zeros(order.tp), size_of(order.batch)
        for _ in range(order.layers if order.tp > 1 else 0):
            ready[1] += late_s
            for _ in range(2):
                ready = self._played("all-reduce", _DOUBLING, ready + work / (2 * order.layers), size)
        sent = sum(self.message_s(each) for each in [size] * (order.pp - 1) + [8 * order.batch] * (order.pp > 1))
        token = float(np.max(ready)) if order.tp > 1 else work + sent
        return Tokens(times_s=(token,), ids=tuple(whole["ids"]))
