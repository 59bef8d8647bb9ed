"""Tables: a program, the routes of its messages and the conditions of a run, as the kernels take them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nhalf.errors import InputError, NoAnswerError
from nhalf.simulate import kernels
from nhalf.simulate.compiled import compiled_play

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.breakdown import Array
    from nhalf.simulate.network import Network, Paths
    from nhalf.simulate.program import Graph, Program

_PORTS = {"fifo": kernels.FIFO, "fair": kernels.FAIR, "blocking": kernels.BLOCKING}
PORTS = tuple(_PORTS)
PROTOCOLS = ("rendezvous", "eager")


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
        """Refuse words that mean nothing here."""
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

    def play(self, starts: Array, *, compiled: bool) -> Record:
        """Return the record of one run."""
        play = compiled_play() if compiled else kernels.play
        keep: Callable[[Any], Any] = (lambda values: values) if compiled else (lambda values: values.tolist())
        if self._plan is None:
            self._plan = self._make_plan(keep)
        state = self._state(starts, keep)
        work = self._work(keep)
        play(self._plan, state, work, _PORTS[self.conditions.ports])
        opened, closed, posted, ended = (
            np.asarray(values) for values in (state.opened, state.closed, state.posted, state.ended)
        )
        if np.isnan(ended).any() or not np.all(state.is_open):
            raise _stuck(self.graph, np.asarray(state.is_open), ended)
        return Record(
            graph=self.graph, paths=self.paths, opened_s=opened, closed_s=closed, posted_s=posted, ended_s=ended
        )

    def _make_plan(self, keep: Callable[[Any], Any]) -> kernels.Plan:
        graph, ways = self.graph, self.paths
        steps = len(graph.rank)
        order = np.argsort(graph.before[:, 0], kind="stable")
        receive = np.argsort(graph.target_step, kind="stable").astype(np.int32)
        per_byte = adding(self.program, self.conditions)[graph.rank]
        return kernels.Plan(
            next_start=keep(_offsets(graph.before[:, 0], steps)),
            next_step=keep(np.ascontiguousarray(graph.before[order, 1])),
            send_start=keep(_offsets(graph.source_step, steps)),
            receive_start=keep(_offsets(graph.target_step, steps)),
            receive=keep(receive),
            source_step=keep(graph.source_step),
            target_step=keep(graph.target_step),
            size=keep(graph.size_bytes),
            route=keep(ways.of),
            path_start=keep(ways.start),
            path=keep(ways.links),
            latency=keep(ways.latency_s),
            rate=keep(ways.rate_bytes_per_s),
            capacity=keep(self.network.capacity_bytes_per_s),
            adding=keep(per_byte * graph.reduced_bytes()),
            rendezvous=int(self.conditions.protocol == "rendezvous"),
            uniform=int(len(np.unique(ways.latency_s)) <= 1),
        )

    def _state(self, starts: Array, keep: Callable[[Any], Any]) -> kernels.State:
        graph = self.graph
        steps, messages = len(graph.rank), graph.messages
        opened = starts[graph.rank]
        if graph.earliest_s is not None:
            opened = np.maximum(opened, graph.earliest_s)
        outstanding = np.bincount(graph.target_step, minlength=steps)
        both = self.conditions.protocol == "rendezvous"
        if both:
            outstanding = outstanding + np.bincount(graph.source_step, minlength=steps)
        return kernels.State(
            awaits=keep(np.bincount(graph.before[:, 1], minlength=steps).astype(np.int32)),
            outstanding=keep(outstanding.astype(np.int32)),
            is_open=keep(np.zeros(steps, dtype=np.int8)),
            pending=keep(np.full(messages, 1 + both, dtype=np.int8)),
            opened=keep(opened),
            closed=keep(np.zeros(steps)),
            posted=keep(np.zeros(messages)),
            begun=keep(np.full(messages, -1.0)),
            ended=keep(np.full(messages, np.nan)),
        )

    def _work(self, keep: Callable[[Any], Any]) -> kernels.Work:
        links, messages = len(self.network.capacity_bytes_per_s), self.graph.messages
        hops = int(np.diff(self.paths.start).max(initial=1))
        fair = self.conditions.ports == "fair"
        entries = messages * hops if fair else messages if self.conditions.ports == "blocking" else 1
        per_flow = messages if fair else 1
        return kernels.Work(
            free=keep(np.zeros(links)),
            head=keep(np.full(links, -1, dtype=np.int64)),
            users=keep(np.zeros(links, dtype=np.int64)),
            link_mark=keep(np.zeros(links, dtype=np.int64)),
            at=keep(np.zeros(links if fair else messages, dtype=np.int32)),
            value=keep(np.zeros(messages)),
            rate=keep(np.zeros(per_flow)),
            since=keep(np.zeros(per_flow)),
            finish=keep(np.full(per_flow, -1.0)),
            message_mark=keep(np.zeros(per_flow, dtype=np.int64)),
            after=keep(np.full(entries, -1, dtype=np.int64)),
            before=keep(np.full(entries if fair else 1, -1, dtype=np.int64)),
            hops=hops,
        )


def _offsets(values: Any, length: int) -> Any:  # noqa: ANN401  an index array in and out
    """Return where each value's entries start in a sorted list of them."""
    return np.concatenate([[0], np.cumsum(np.bincount(values, minlength=length))]).astype(np.int32)


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
