"""Contention-free programs as max-plus arrays: every rank, and every draw of their start times, at once.

With a rendezvous a message starts when its sender and its receiver are both ready, so where no two messages of a round
meet on a link the whole round is `end = max(ready[source], ready[target]) + latency + size / bandwidth`. A round in
which every rank sends to many is still an array: its ports serve in order of arrival, which is a sort.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nhalf.simulate.everyone import last_ends
from nhalf.simulate.network import narrowest
from nhalf.simulate.queueing import one_by_one
from nhalf.simulate.round import AllPairs

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from nhalf.breakdown import Array
    from nhalf.simulate.network import Network
    from nhalf.simulate.program import Program
    from nhalf.simulate.round import Ints, Round

_DENSE_CELLS = 4_000_000


@dataclass(slots=True, kw_only=True)
class Player:
    """Plays rounds on a network for ranks that are ready at given times.

    `ready` [s] has shape (ranks,) or (ranks, draws) and is changed in place; `adding_s_per_byte` [s/byte] of each
    rank is the cost of adding up what it received. `rows`, when kept, holds `ready` before each playing and at the end.
    """

    network: Network
    ready: Array
    adding_s_per_byte: Array
    rows: list[Array] | None = None
    progress: Callable[[int], None] | None = None

    def play(self, program: Program) -> None:
        """Play a whole program."""
        for played in program.rounds() if program.rounds is not None else ():
            if played.shift:
                self._turns(played)
            elif played.is_paired():
                self._exchanges(played)
            elif isinstance(played, AllPairs) and (self.ready.ndim == 1 or played.messages > _DENSE_CELLS):
                self._everyone(played)
            else:
                self._floods(played)
        self._keep()

    def _keep(self) -> None:
        if self.rows is not None:
            self.rows.append(self.ready.copy())

    def _tick(self, messages: int) -> None:
        if self.progress is not None:
            self.progress(messages)

    def _duration(self, played: Round | AllPairs) -> float | Array:
        """Return the latency plus the time of the bytes of each message [s]; one number where all are alike."""
        found = self._message_times(played)
        if np.all(found == found[0]):
            return float(found[0])
        return self._column(found)

    def _message_times(self, played: Round | AllPairs) -> Array:
        links, latency = self.network.route(played.source, played.target)
        rate = narrowest(self.network.capacity_bytes_per_s, links)
        return np.asarray(latency + played.sizes / rate, dtype=np.float64)

    def _column(self, values: Array) -> Array:
        """Return one value per message as a column beside the draws."""
        return values[:, None] if self.ready.ndim > 1 else values

    def _adding(self, played: Round | AllPairs) -> Array | None:
        """Return what each receiver of a round adds to its time [s], in message order; None when nothing."""
        if not played.reduces or not np.any(self.adding_s_per_byte):
            return None
        return self._column(self.adding_s_per_byte[played.target] * played.sizes)

    def _turns(self, played: Round | AllPairs) -> None:
        """Play rounds in which every rank sends to the rank `shift` places on."""
        duration, adding = self._duration(played), self._adding(played)
        ready, shift = self.ready, played.shift
        draws = ready.size // len(ready)
        end = np.empty_like(ready)
        near, far = ready[:-shift], ready[shift:]
        last, first = ready[-shift:], ready[:shift]
        end_near, end_last = end[:-shift], end[-shift:]
        end_far, end_first = end[shift:], end[:shift]
        arrived = end if adding is None else np.empty_like(end)
        arrived_near, arrived_last = arrived[:-shift], arrived[-shift:]
        for _ in range(played.times):
            self._keep()
            np.maximum(near, far, out=end_near)
            np.maximum(last, first, out=end_last)
            end += duration
            if adding is not None:
                np.add(end, adding, out=arrived)
            np.maximum(end_far, arrived_near, out=far)
            np.maximum(end_first, arrived_last, out=first)
            self._tick(played.messages * draws)

    def _exchanges(self, played: Round | AllPairs) -> None:
        """Play rounds in which a rank sends at most one message and receives at most one."""
        duration, adding = self._duration(played), self._adding(played)
        source, target = played.source, played.target
        for _ in range(played.times):
            self._keep()
            end = np.maximum(self.ready[source], self.ready[target]) + duration
            self.ready[source] = end
            self.ready[target] = np.maximum(self.ready[target], end if adding is None else end + adding)
            self._tick(played.messages * (self.ready.size // len(self.ready)))

    def _everyone(self, played: AllPairs) -> None:
        """Play the round in which every rank sends to every other."""
        self._keep()
        draws = self.ready[:, None] if self.ready.ndim == 1 else self.ready
        for draw in range(draws.shape[1]):
            ready = draws[:, draw]
            np.maximum(ready, last_ends(self.network, ready, played, self._tick), out=ready)
            if played.reduces and np.any(self.adding_s_per_byte):
                ready += self.adding_s_per_byte * played.received_bytes()

    def _floods(self, played: Round | AllPairs) -> None:
        """Play rounds in which every rank sends to many: each port serves one message at a time, in order."""
        flood = _Flood.of(played, self.network, self.adding_s_per_byte)
        draws = self.ready if self.ready.ndim > 1 else self.ready[:, None]
        step = max(1, _DENSE_CELLS // played.messages)
        parts = [draws[:, draw : draw + step] for draw in range(0, draws.shape[1], step)]
        for _ in range(played.times):
            self._keep()
            for part in parts:
                flood.play(part)
                self._tick(played.messages * part.shape[1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Flood:
    """A round in which ranks send to many: the ports of each message, how long it takes them, and what is added [s].

    `first_s` is the time at the sender's port, `last_s` at the receiver's; `leaving` and `arriving` are the messages
    of each of these ports, shape (ports, messages), and None where pairs have links of their own.
    """

    source: Ints
    target: Ints
    latency_s: Array
    first_s: Array
    last_s: Array
    leaving: Ints | None
    arriving: Ints | None
    added_s: Array | None

    @classmethod
    def of(cls, played: Round | AllPairs, network: Network, adding_s_per_byte: Array) -> Self:
        """Return a round as it is on a network."""
        source, target, sizes = played.source, played.target, played.sizes
        links, latency = network.route(source, target)
        taking = sizes[:, None] / network.capacity_bytes_per_s[links]
        added = None
        if played.reduces and np.any(adding_s_per_byte):
            added = np.bincount(target, weights=sizes, minlength=network.ranks) * adding_s_per_byte
        leaving = arriving = None
        if network.kind != "mesh":
            # Messages count in the order of a graph, by their sources: it decides who is first among those that tie.
            order = np.argsort(source, kind="stable")
            leaving = order.reshape(len(np.unique(source)), -1)
            arriving = order[np.argsort(target[order], kind="stable")].reshape(len(np.unique(target)), -1)
        return cls(
            source=source,
            target=target,
            latency_s=latency,
            first_s=taking[:, 0],
            last_s=taking[:, -1],
            leaving=leaving,
            arriving=arriving,
            added_s=added,
        )

    def play(self, ready: Array) -> None:
        """Play the round, and put off in place when each rank is ready [s], shape (ranks, draws)."""
        first, last, latency = (values[:, None] for values in (self.first_s, self.last_s, self.latency_s))
        posted = np.maximum(ready[self.source], ready[self.target])
        # The same sums in the same order as in the event engine, so that ties fall the same way.
        if self.leaving is None or self.arriving is None:
            end = posted + latency + first
        else:
            arrival = _begun(posted, first, self.leaving) + latency
            end = np.maximum(arrival + first, _begun(arrival, last, self.arriving) + last)
        arrived = np.full_like(ready, -np.inf)
        np.maximum.at(arrived, self.source, end)
        np.maximum.at(arrived, self.target, end)
        np.maximum(ready, arrived, out=ready)
        if self.added_s is not None:
            ready += self.added_s[:, None]


def can_play(program: Program, network: Network, ports: str, protocol: str) -> bool:
    """Tell whether a program's messages never meet, or meet only at ports that serve in order of arrival."""
    if protocol != "rendezvous" or program.rounds is None:
        return False
    if network.private and program.is_paired():
        return True
    if network.kind == "mesh":
        return True
    return ports == "fifo" and network.kind == "switch" and all(played.is_regular() for played in program.rounds())


def _begun(asked: Array, needed: Array, lists: Ints) -> Array:
    """Return when its port begins to serve each message [s]."""
    begun = np.empty_like(asked)
    begun[lists] = one_by_one(asked[lists], needed[lists])
    return begun
