"""Both ways: rounds in which every rank sends to the next one and to the one before, as two rings at once.

Where the two ways have links of their own they are two rings that wait for each other at every rank. On a switch both
messages of a rank pass one port out, and both that it gets one port in; each serves the one that asks first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from numpy.typing import NDArray

    from nhalf.breakdown import Array
    from nhalf.simulate.network import Network
    from nhalf.simulate.program import Program
    from nhalf.simulate.round import Round

_FEW = 3
"""Ranks that stand for all where these do the same: one with its two neighbours."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BothWays:
    """A round of two rings: the latency [s], how long messages take [s], and what each rank adds up [s].

    `out_s` and `in_s` are those of a rank's ports on a switch; on links of their own `out_s` is the time to the next
    rank, and `in_s` that to the one before, with the latency in both. All are of shape (ranks,) or (ranks, 1).
    """

    latency_s: float
    out_s: Array
    in_s: Array
    added_s: Array | None
    on_switch: bool

    @classmethod
    def of(cls, played: Round, network: Network, adding_s_per_byte: Array, times_s: Array, *, columns: bool) -> Self:
        """Return a round as it is on a network; with `columns` for ranks that are ready at many draws.

        `times_s` is how long each message takes where it meets no other [s].
        """
        ranks, size = network.ranks, float(played.sizes[0])
        _, latency = network.route(played.source[:1], played.target[:1])
        if network.kind == "switch":
            out, back = (size / side for side in np.split(network.capacity_bytes_per_s, 2))
        else:
            out, back = np.split(times_s, 2)
        added = None
        if played.reduces and np.any(adding_s_per_byte):
            added = 2 * size * np.broadcast_to(adding_s_per_byte, ranks)

        def shaped(values: Array) -> Array:
            return values[:, None] if columns else values

        return cls(
            latency_s=float(latency[0]),
            out_s=shaped(out),
            in_s=shaped(back),
            added_s=None if added is None else shaped(added),
            on_switch=network.kind == "switch",
        )

    def play_all(self, ready: Array, times: int, tick: Callable[[int], None]) -> None:
        """Play the round some times; where all ranks do the same, for a few of them. `tick` is told of each playing."""
        alike = all(
            bool(np.all(part == part[0])) for part in (ready, self.out_s, self.in_s, self.added_s) if part is not None
        )
        few = self._of_few() if alike else self
        played = ready[:_FEW].copy() if alike else ready
        for _ in range(times):
            few.play(played)
            tick(2 * ready.size)
        if alike:
            ready[:] = played[0]

    def _of_few(self) -> Self:
        """Return the round of the first few ranks."""
        added = None if self.added_s is None else self.added_s[:_FEW]
        return replace(self, out_s=self.out_s[:_FEW], in_s=self.in_s[:_FEW], added_s=added)

    def play(self, ready: Array) -> None:
        """Play the round once, and put off in place when each rank is ready [s], shape (ranks,) or (ranks, draws)."""
        onward = np.maximum(ready, _next(ready))  # when each rank's message to the next one is posted
        backward = _previous(onward)  # and that to the one before
        if self.on_switch:
            onward, backward = self._through_ports(onward, backward)
        else:
            onward, backward = _previous(onward + self.out_s), _next(backward + self.in_s)
        np.maximum(onward, backward, out=ready)
        np.maximum(ready, _next(onward), out=ready)
        np.maximum(ready, _previous(backward), out=ready)
        if self.added_s is not None:
            ready += self.added_s

    def _through_ports(self, onward: Array, backward: Array) -> tuple[Array, Array]:
        """Return when the message that each rank gets from the one before ends, and that from the next one [s].

        The sums are those of the event engine in its order, so that ties fall the same way: of messages that ask at
        once that of the lower rank is first, and a rank's own to the next one.
        """
        onward, backward = _served(onward, backward, self.out_s, onward <= backward)
        onward, backward = _previous(onward), _next(backward)
        # Messages arrive in the order in which they left, which the sum with the latency may round away.
        first = onward <= backward
        if len(onward) > 2:  # noqa: PLR2004  a pair's two messages come from one rank
            first[0], first[-1] = onward[0] < backward[0], onward[-1] < backward[-1]
        onward += self.latency_s
        backward += self.latency_s
        begun_on, begun_back = _served(onward, backward, self.in_s, first)
        begun_on += self.in_s
        begun_back += self.in_s
        # Where a sender's port is the slower one, its last byte leaves it later than the receiver's port could take it.
        onward += _previous(self.out_s)
        backward += _next(self.out_s)
        return np.maximum(onward, begun_on), np.maximum(backward, begun_back)


def _next(values: Array) -> Array:
    """Return the value of the next rank, for each rank."""
    return np.concatenate([values[1:], values[:1]])


def _previous(values: Array) -> Array:
    """Return the value of the rank before, for each rank."""
    return np.concatenate([values[-1:], values[:-1]])


def _served(one: Array, other: Array, needed: Array, first: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return when ports begin to serve two messages that ask at given times [s]; `first` tells where `one` is first."""
    second = np.maximum(other, one + needed)
    return np.where(first, one, np.maximum(one, other + needed)), np.where(first, second, other)


def can_go_both_ways(program: Program, network: Network) -> bool:
    """Tell whether a program is rings of one way or both, of which at most the messages of one port meet on a network.

    Both messages of a pair of ranks take one link.
    """
    if program.rounds is None or not 2 < program.ranks == network.ranks:  # noqa: PLR2004  a pair
        return False
    return network.kind in ("switch", "mesh", "ring") and all(played.shift == 1 for played in program.rounds())
