"""Floods: rounds in which ranks send to many at once, for all draws of their start times together.

A message passes the port that it leaves by, then, a latency later, the one that it arrives at. Each serves one message
at a time, in the order in which they ask, so a round is two sorts. That holds on a switch, and across nodes, where a
rank has a port into its node and a NIC, which it may share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nhalf.simulate.queueing import one_by_one

if TYPE_CHECKING:
    from typing import Self

    from nhalf.breakdown import Array
    from nhalf.simulate.network import Network
    from nhalf.simulate.program import Program
    from nhalf.simulate.round import AllPairs, Ints, Round


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Flood:
    """A round in which ranks send to many: the ports of each message, how long it takes them, and what is added [s].

    `first_s` is the time at the port that a message leaves by, `last_s` at that where it arrives; `leaving` and
    `arriving` are the messages of these ports, one array of shape (ports, messages) for all ports that have as many,
    and None where pairs have links of their own. `sent` and `got` are those of each rank.
    """

    source: Ints
    target: Ints
    latency_s: Array
    first_s: Array
    last_s: Array
    leaving: tuple[Ints, ...] | None
    arriving: tuple[Ints, ...] | None
    sent: _Lists
    got: _Lists
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
        sent = _Lists.by(source)
        leaving = arriving = None
        if network.kind != "mesh":
            # Messages count in the order of a graph, by their sources: it decides who is first among those that tie.
            leaving, arriving = (_Lists.by(links[sent.order, side]).within(sent.order) for side in (0, -1))
        return cls(
            source=source,
            target=target,
            latency_s=latency,
            first_s=taking[:, 0],
            last_s=taking[:, -1],
            leaving=leaving,
            arriving=arriving,
            sent=sent,
            got=_Lists.by(target),
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
            sent = _begun(posted, first, self.leaving)
            arrival = sent + latency
            # Where all latencies are one, messages arrive in the order in which they left, which a sum may round away.
            turn = sent if np.all(self.latency_s == self.latency_s[0]) else arrival
            end = np.maximum(arrival + first, _begun(arrival, last, self.arriving, turn) + last)
        for lists in (self.sent, self.got):
            ready[lists.names] = np.maximum(ready[lists.names], lists.latest(end))
        if self.added_s is not None:
            ready += self.added_s[:, None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Lists:
    """Messages by what they have in common: their places list by list, where each list begins, and its name."""

    order: Ints
    begins: Ints
    names: Ints

    @classmethod
    def by(cls, values: Ints) -> Self:
        order = np.argsort(values, kind="stable")
        names, begins = np.unique(values[order], return_index=True)
        return cls(order=order, begins=begins, names=names)

    def latest(self, times: Array) -> Array:
        """Return the latest time of each list, shape (lists, draws)."""
        return np.asarray(np.maximum.reduceat(times[self.order], self.begins, axis=0))

    def within(self, places: Ints) -> tuple[Ints, ...]:
        """Return the lists of `places`, those that are equally long as one array of shape (lists, messages)."""
        lengths = np.diff(np.append(self.begins, len(self.order)))
        return tuple(
            places[self.order[self.begins[lengths == length][:, None] + np.arange(length)]]
            for length in np.unique(lengths)
        )


def can_flood(program: Program, network: Network) -> bool:
    """Tell whether a program's messages meet only at ports that serve in order of arrival, round by round.

    Where ranks share a NIC, one of them may be a round ahead of the other there: only a single round holds.
    """
    if program.rounds is None:
        return False
    if network.kind == "nodes":
        return network.private or sum(played.times for played in program.rounds()) == 1
    return network.kind == "switch"


def _begun(asked: Array, needed: Array, ports: tuple[Ints, ...], turn: Array | None = None) -> Array:
    """Return when its port begins to serve each message [s] (`turn` as in `one_by_one`)."""
    begun = np.empty_like(asked)
    for lists in ports:
        begun[lists] = one_by_one(asked[lists], needed[lists], None if turn is None else turn[lists])
    return begun
