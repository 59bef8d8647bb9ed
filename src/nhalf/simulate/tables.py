"""Tables: a program, the routes of its messages and the conditions of a run, as the kernels take them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nhalf.errors import InputError, NoAnswerError
from nhalf.simulate import binary_heap, event_queue, kernels
from nhalf.simulate.compiled import compiled_play
from nhalf.simulate.flows import Flows, none_yet
from nhalf.simulate.network import must_hold
from nhalf.simulate.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.breakdown import Array
    from nhalf.simulate.graph import Graph, Indices
    from nhalf.simulate.network import Network
    from nhalf.simulate.program import Program
    from nhalf.simulate.routes import Paths

_PORTS = {"fifo": kernels.FIFO, "fair": kernels.FAIR, "blocking": kernels.BLOCKING}
PORTS = tuple(_PORTS)
PROTOCOLS = ("rendezvous", "eager")
_LEAST_ROOM, _MORE_ROOM = 2**12, 8
"""Messages that are due at once, and as many on their way, for which there is room at least, and how many times the
room of a run the next one has if it does not do."""
_MOST_HOPS = 8
"""Links per message that are kept, at most, for as many messages as can be held at once."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Conditions:
    """How ranks and ports behave.

    `ports`: a port serves one message at a time (`fifo`), all at once (`fair`), or is held for the latency too
    (`blocking`). `protocol`: a message waits for its receiver (`rendezvous`) or only for its sender (`eager`).
    `reduction_s_per_byte` [s/byte] is the cost of adding. `starts_s` [s] of shape (ranks,) or (ranks, draws) is when
    each rank begins, `slowness` how many times longer each rank's additions take, `port_slowness` its transfers.
    """

    ports: str = "fifo"
    protocol: str = "rendezvous"
    reduction_s_per_byte: float = 0.0
    starts_s: Array | None = None
    slowness: Array | None = None
    port_slowness: Array | None = None

    def __post_init__(self) -> None:
        """Refuse unknown names of ports and protocols."""
        for where, word, allowed in (("--ports", self.ports, PORTS), ("--protocol", self.protocol, PROTOCOLS)):
            if word not in allowed:
                raise InputError(f"{word!r} is not known", where=where, allowed=", ".join(allowed))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Record:
    """When each step and message of a run began and ended [s], and the routes that the messages took."""

    graph: Graph
    paths: Paths
    opened_s: Array
    closed_s: Array
    posted_s: Array
    ended_s: Array


def adding(program: Program, conditions: Conditions) -> Array:
    """Return what each rank pays to add up a byte [s/byte]."""
    slowness = np.ones(program.ranks) if conditions.slowness is None else conditions.slowness
    return conditions.reduction_s_per_byte * slowness


@dataclass(slots=True, kw_only=True)
class Tables:
    """A program, ready for the kernels."""

    program: Program
    graph: Graph
    paths: Paths
    network: Network
    conditions: Conditions
    _plan: Any = field(default=None)
    _room: int = field(default=0)
    _send_start: Indices = field(init=False)
    _receive_start: Indices = field(init=False)
    _receive: Indices = field(init=False)

    def __post_init__(self) -> None:
        """Find what each step sends and receives."""
        self._send_start = self.graph.sends()
        self._receive_start, self._receive = self.graph.receives()

    def play(self, starts: Array, *, compiled: bool) -> kernels.State:
        """Return the state at the end of one run.

        Raises
        ------
        NoAnswerError
            The schedule deadlocks.
        """
        play = compiled_play() if compiled else kernels.play
        keep: Callable[[Any], Any] = (lambda values: values) if compiled else (lambda values: values.tolist())
        if self._plan is None:
            self._plan = self._make_plan(keep)
        self._room = self._room or room_at_first(self.graph)
        while True:
            state = self._state(starts, keep)
            try:
                play(self._plan, state, self._work(keep, compiled=compiled), _PORTS[self.conditions.ports])
            except OverflowError:
                self._room *= _MORE_ROOM
            else:
                break
        ended = np.asarray(state.ended)
        is_open = np.asarray(state.awaits) == kernels.OPEN
        if np.isnan(ended).any() or not is_open.all():
            raise _stuck(self.graph, is_open, ended)
        return state

    def record(self, state: kernels.State) -> Record:
        """Return the record of a run that ended in a state."""
        opened, graph = np.asarray(state.opened), self.graph
        posted = opened[graph.source_step]
        if self.conditions.protocol == "rendezvous":
            posted = np.maximum(posted, opened[graph.target_step])
        return Record(
            graph=graph,
            paths=self.paths,
            opened_s=opened,
            closed_s=np.asarray(state.closed),
            posted_s=posted,
            ended_s=np.asarray(state.ended),
        )

    def _make_plan(self, keep: Callable[[Any], Any]) -> Plan:
        graph, ways = self.graph, self.paths
        next_start, next_step = graph.followers()
        size, size_mask = _once(graph.size_bytes)
        latency, latency_mask = _once(ways.latency_s)
        rate, rate_mask = _once(ways.rate_bytes_per_s)
        adding, adding_mask = _once(self._adding())
        return Plan(
            stride=graph.stride,
            next_start=keep(next_start),
            next_step=keep(next_step),
            send_start=keep(self._send_start),
            receive_start=keep(self._receive_start),
            receive=keep(self._receive),
            source_step=keep(graph.source_step),
            target_step=keep(graph.target_step),
            size=keep(size),
            size_mask=size_mask,
            route=keep(ways.of),
            path_start=keep(ways.start),
            path=keep(ways.links),
            shift=self._shift(),
            latency=keep(latency),
            latency_mask=latency_mask,
            rate=keep(rate),
            rate_mask=rate_mask,
            capacity=keep(np.ascontiguousarray(self.network.capacity_bytes_per_s)),
            adding=keep(adding),
            adding_mask=adding_mask,
            rendezvous=int(self.conditions.protocol == "rendezvous"),
        )

    def _adding(self) -> Array:
        """Return how long each step takes to add up what it received [s]."""
        graph, per_byte = self.graph, adding(self.program, self.conditions)
        if not graph.reduces.any() or not per_byte.any():
            return np.broadcast_to(0.0, graph.steps)
        per_byte = np.pad(per_byte, (0, graph.ranks - len(per_byte)))  # a switch adds up as bytes come
        return np.asarray(per_byte[graph.step_ranks()] * graph.reduced_bytes(), dtype=np.float64)

    def _state(self, starts: Array, keep: Callable[[Any], Any]) -> kernels.State:
        graph = self.graph
        steps, messages = graph.steps, graph.messages
        opened = starts[graph.step_ranks()]
        if graph.earliest_s is not None:
            opened = np.maximum(opened, graph.earliest_s)
        outstanding = np.diff(self._receive_start)
        both = self.conditions.protocol == "rendezvous"
        if both:
            outstanding += np.diff(self._send_start)
        return kernels.State(
            awaits=keep(graph.awaits()),
            outstanding=keep(outstanding),
            opened=keep(opened),
            closed=keep(np.zeros(steps)),
            stage=keep(np.full(messages, -1 - both, dtype=np.int32)),
            ended=keep(np.full(messages, np.nan)),
        )

    def _work(self, keep: Callable[[Any], Any], *, compiled: bool) -> kernels.Work:
        """Return the scratch of a run."""
        network, messages = self.network, self.graph.messages
        links, room, shift = len(network.capacity_bytes_per_s), min(self._room, messages), self._shift()
        is_fair = self.conditions.ports == "fair"
        must_hold(f"a {network.kind} with fair ports", network.ranks, is_fair * (room << shift) // _MOST_HOPS)
        return kernels.Work(
            free=keep(np.zeros(links)),
            head=keep(np.full(links, -1, dtype=np.int32)),
            last=keep(np.zeros(links, dtype=np.int32)),
            chain=keep(np.full(messages, -1, dtype=np.int32)),
            ready=keep(np.zeros(self._most_ready(), dtype=np.int32)),
            agenda=(binary_heap if compiled else event_queue).empty(room),
            flows=Flows(*map(keep, none_yet(room, links, shift) if is_fair else none_yet(1, 1, 0))),
        )

    def _most_ready(self) -> int:
        """Return how many steps can be ready to open or close at once: where each is followed by one, few are."""
        # An event closes two steps at most, and a step opens the one that follows it, if one does.
        graph = self.graph
        return min(graph.steps, graph.stride + 2) if graph.stride else graph.steps

    def _shift(self) -> int:
        """Return the number s of which no path is longer than 2^s links."""
        return (int(np.diff(self.paths.start).max(initial=1)) - 1).bit_length()


def room_at_first(graph: Graph) -> int:
    """Return how many messages there is room for before it is known how many are due at once."""
    # A rank of rounds has a few messages under way; one of a double tree four streams, up and down in both.
    return max(_LEAST_ROOM, (2 if graph.stride else 4) * graph.ranks)


def _once(values: Array) -> tuple[Array, int]:
    """Return a table as the kernels take it, with its mask: one entry and 0 where one value holds for all."""
    if len(values) and (values.strides == (0,) or np.all(values == values[0])):
        return np.array(values[:1]), 0
    return np.ascontiguousarray(values), -1


def _stuck(graph: Graph, is_open: Any, ended: Array) -> NoAnswerError:  # noqa: ANN401  an array of flags
    """Return the error of a schedule in which nobody can go on: who waits for which message of whom."""
    waiting = np.flatnonzero(np.isnan(ended))
    open_side = [m for m in waiting.tolist() if is_open[graph.source_step[m]] or is_open[graph.target_step[m]]]
    message = (open_side or waiting.tolist() or [0])[0]
    source, target = int(graph.source[message]), int(graph.target[message])
    if is_open[graph.source_step[message]]:
        who, what = f"rank {source}", f"rank {target} to receive message {message}"
    elif is_open[graph.target_step[message]]:
        who, what = f"rank {target}", f"rank {source} to send message {message}"
    else:
        who, what = f"rank {source}", f"what must come before message {message} to rank {target}, which comes after it"
    return NoAnswerError(
        f"the schedule deadlocks: {who} waits for {what}, and {len(waiting)} messages never end",
        where=f"message {message}",
        do="let the message wait for less (`after`), or use --protocol eager, which does not wait for receivers",
    )
