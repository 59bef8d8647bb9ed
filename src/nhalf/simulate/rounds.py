"""Contention-free programs as max-plus arrays: every rank, and every draw of their start times, at once.

With a rendezvous a message starts when its sender and its receiver are both ready, so where no two messages of a round
meet on a link the whole round is `end = max(ready[source], ready[target]) + latency + size / bandwidth`. A round in
which every rank sends to many is still an array: its ports serve in order of arrival, which is a sort.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nhalf.simulate.all_ranks import last_ends
from nhalf.simulate.both_ways import BothWays, can_go_both_ways
from nhalf.simulate.flood import Flood, can_flood
from nhalf.simulate.round import AllPairs, Round
from nhalf.simulate.routes import narrowest

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.breakdown import Array
    from nhalf.simulate.network import Network
    from nhalf.simulate.program import Program

_DENSE_CELLS = 4_000_000
"""Messages, those of all draws together, that are played at once."""
_WORTH_NO_LIST = 250_000
"""Messages of all pairs of one draw from which they are played without a list."""


def _alike(values: Array) -> bool:
    """Tell whether all ranks (the first axis) have the same values."""
    return bool(np.all(values == values[:1]))


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
        """Play all rounds of a program, in order."""
        for played in program.rounds() if program.rounds is not None else ():
            if played.shift and not played.both_ways:
                self._turns(played)
            elif isinstance(played, Round) and can_go_both_ways(program, self.network):
                self._both_ways(played)
            elif played.is_paired():
                self._exchanges(played)
            elif isinstance(played, AllPairs) and self._is_for_everyone(played):
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
        if self.rows is None and isinstance(duration, float) and _alike(ready) and (adding is None or _alike(adding)):
            self._turns_of_one(played, duration, 0.0 if adding is None else float(adding.flat[0]))
            return
        end = np.empty_like(ready)
        near, far = ready[:-shift], ready[shift:]
        last, first = ready[-shift:], ready[:shift]
        end_near, end_last = end[:-shift], end[-shift:]
        end_far, end_first = end[shift:], end[:shift]
        received = None if adding is None else np.roll(adding, shift, axis=0)
        for _ in range(played.times):
            self._keep()
            np.maximum(near, far, out=end_near)
            np.maximum(last, first, out=end_last)
            end += duration
            np.maximum(end_far, end_near, out=far)
            np.maximum(end_first, end_last, out=first)
            if received is not None:
                ready += received
            self._tick(played.messages * draws)

    def _turns_of_one(self, played: Round | AllPairs, duration: float, adding: float) -> None:
        """Play the same where all ranks are alike and stay so: what one does, all do, to the last digit."""
        one = self.ready[0].copy()
        for _ in range(played.times):
            one = one + duration + adding if adding else one + duration
        self.ready[:] = one
        self._tick(played.messages * played.times * (self.ready.size // len(self.ready)))

    def _both_ways(self, played: Round) -> None:
        """Play rounds in which every rank sends to both of its neighbours."""
        alone = self._message_times(played)
        way = BothWays.of(played, self.network, self.adding_s_per_byte, alone, columns=self.ready.ndim > 1)
        way.play_all(self.ready, played.times, self._tick)

    def _exchanges(self, played: Round | AllPairs) -> None:
        """Play rounds in which a rank sends at most one message and receives at most one."""
        duration, adding = self._duration(played), self._adding(played)
        source, target = played.source, played.target
        for _ in range(played.times):
            self._keep()
            end = np.maximum(self.ready[source], self.ready[target]) + duration
            self.ready[source] = end
            self.ready[target] = np.maximum(self.ready[target], end)
            if adding is not None:
                self.ready[target] += adding
            self._tick(played.messages * (self.ready.size // len(self.ready)))

    def _is_for_everyone(self, played: AllPairs) -> bool:
        """Tell whether the round of all pairs is played without a list of its messages."""
        if self.network.kind == "nodes":
            return False
        return played.messages > (_DENSE_CELLS if self.ready.ndim > 1 else _WORTH_NO_LIST)

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
        flood = Flood.of(played, self.network, self.adding_s_per_byte)
        draws = self.ready if self.ready.ndim > 1 else self.ready[:, None]
        step = max(1, _DENSE_CELLS // played.messages)
        parts = [draws[:, draw : draw + step] for draw in range(0, draws.shape[1], step)]
        for _ in range(played.times):
            self._keep()
            for part in parts:
                flood.play(part)
                self._tick(played.messages * part.shape[1])


def can_play(program: Program, network: Network, ports: str, protocol: str) -> bool:
    """Tell whether a program's messages never meet, or meet only at ports that serve in order of arrival."""
    if protocol != "rendezvous" or program.rounds is None:
        return False
    if network.private and program.is_paired():
        return True
    if can_go_both_ways(program, network):
        return ports == "fifo" or network.kind != "switch" or program.is_paired()
    if network.kind == "mesh":
        return not any(played.both_ways for played in program.rounds())
    return ports == "fifo" and can_flood(program, network)
