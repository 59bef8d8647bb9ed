"""The critical path of a run: which rank waited for whom, and for what, from the last to finish back to the first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from nhalf.simulate.engine import Run
    from nhalf.simulate.tables import Record

Kind: TypeAlias = Literal["start", "message", "reduction"]
CAUSES = ("latency", "transfer", "queueing", "reduction", "late start")
"""What time on the path can be spent on, in the order of a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """One stretch of the path: a late start, a message from `rank` to `peer`, or what a rank adds up.

    Its parts [s] add up to its length. `waited_for` says who set the moment at which a message was posted.
    """

    kind: Kind
    rank: int
    peer: int
    message: int
    begin_s: float
    end_s: float
    latency_s: float = 0.0
    transfer_s: float = 0.0
    queueing_s: float = 0.0
    waited_for: str = ""

    @property
    def length_s(self) -> float:
        """Return how long the stretch lasts [s]."""
        return self.end_s - self.begin_s


def critical_path(run: Run) -> list[Stretch]:
    """Return the stretches that lead to the last end, first one first; they join without a gap.

    Empty when the run kept no record.
    """
    record = run.record
    if record is None or not record.graph.steps:
        return []
    walk = _Walk(record)
    stretches: list[Stretch] = []
    step = int(np.argmax(record.closed_s))
    while step >= 0:
        step = walk.back(step, stretches)
    return stretches[::-1]


def by_cause(path: list[Stretch]) -> dict[str, float]:
    """Return the time of a path by cause [s]; they add up to its length."""
    sums = dict.fromkeys(CAUSES, 0.0)
    for stretch in path:
        if stretch.kind == "message":
            sums["latency"] += stretch.latency_s
            sums["transfer"] += stretch.transfer_s
            sums["queueing"] += stretch.queueing_s
        else:
            sums["reduction" if stretch.kind == "reduction" else "late start"] += stretch.length_s
    return sums


class _Walk:
    """Steps back through a record, with the tables that it needs."""

    def __init__(self, record: Record) -> None:
        graph = record.graph
        steps = np.arange(graph.steps + 1)
        self.record = record
        self.ranks = graph.step_ranks()
        self.sends = graph.sends()
        self.receives, self.received = graph.receives()
        order = np.argsort(graph.before[:, 1], kind="stable")
        self.earlier = graph.before[order, 0]
        self.befores = np.searchsorted(graph.before[order, 1], steps)

    def back(self, step: int, stretches: list[Stretch]) -> int:
        """Add what a step's end is due to, and return the step to go on from; -1 at the start."""
        record = self.record
        opened, closed = float(record.opened_s[step]), float(record.closed_s[step])
        rank = int(self.ranks[step])
        message, arrived = self._last_message(step, closed)
        settled = max(opened, arrived)
        if closed - settled > 1e-15 * closed:
            stretches.append(Stretch(kind="reduction", rank=rank, peer=rank, message=-1, begin_s=settled, end_s=closed))
        if message < 0 or arrived < opened:
            return self._before(step, opened, stretches)
        posted = float(record.posted_s[message])
        source, target = int(record.graph.source_step[message]), int(record.graph.target_step[message])
        sender = record.opened_s[source] >= record.opened_s[target] or record.opened_s[source] >= posted
        route = int(record.paths.of[message])
        latency = float(record.paths.latency_s[route])
        transfer = float(record.graph.size_bytes[message] / record.paths.rate_bytes_per_s[route])
        spent = arrived - posted
        queueing = spent - latency - transfer
        stretches.append(
            Stretch(
                kind="message",
                rank=int(self.ranks[source]),
                peer=int(self.ranks[target]),
                message=message,
                begin_s=posted,
                end_s=arrived,
                latency_s=latency,
                transfer_s=transfer,
                queueing_s=queueing if queueing > 1e-12 * arrived else 0.0,
                waited_for="sender" if sender else "receiver",
            )
        )
        chosen = source if sender else target
        return self._before(chosen, float(record.opened_s[chosen]), stretches)

    def _last_message(self, step: int, closed: float) -> tuple[int, float]:
        """Return the message of a step that ended last by its close, received ones first; -1 when there is none."""
        record = self.record
        candidates = [
            self.received[self.receives[step] : self.receives[step + 1]],
            np.arange(self.sends[step], self.sends[step + 1], dtype=np.int32),
        ]
        best, latest = -1, -np.inf
        for messages in candidates:
            if len(messages):
                ends = np.where(record.ended_s[messages] <= closed, record.ended_s[messages], -np.inf)
                place = int(np.argmax(ends))
                if ends[place] > latest:
                    best, latest = int(messages[place]), float(ends[place])
        return best, latest

    def _before(self, step: int, opened: float, stretches: list[Stretch]) -> int:
        """Return the step before this one that closed last, or note a late start."""
        earlier = self.earlier[self.befores[step] : self.befores[step + 1]]
        if len(earlier):
            last = int(earlier[int(np.argmax(self.record.closed_s[earlier]))])
            if self.record.closed_s[last] >= opened:
                return last
        if opened > 0:
            rank = int(self.ranks[step])
            stretches.append(Stretch(kind="start", rank=rank, peer=rank, message=-1, begin_s=0.0, end_s=opened))
        return -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """How much of its capacity a link used over the run: `bytes` carried, `share` of what it could have."""

    name: str
    bytes: float
    share: float


def utilisation(run: Run) -> list[Usage]:
    """Return the links that carried anything, busiest first; empty when the run kept no record."""
    record = run.record
    if record is None or not isinstance(run.time_s, float) or run.time_s <= 0:
        return []
    ways = record.paths
    per_route = np.bincount(ways.of, weights=record.graph.size_bytes, minlength=len(ways.latency_s))
    carried = np.bincount(
        ways.links, weights=np.repeat(per_route, np.diff(ways.start)), minlength=len(run.network.capacity_bytes_per_s)
    )
    shares = carried / run.network.capacity_bytes_per_s / run.time_s
    order = np.argsort(-shares, kind="stable")
    return [
        Usage(name=run.network.name(int(link)), bytes=float(carried[link]), share=float(shares[link]))
        for link in order
        if carried[link] > 0
    ]
