"""The event engine's loop: one plain function on sequences, which numba compiles as it is when it is installed.

Times are seconds, sizes bytes. `plan` does not change; `state` and `work` do. In plain Python the sequences are lists,
compiled they are arrays; both run the same operations in the same order, so both give the same numbers.

It is one function on purpose. Compiled, a call that passes a tuple of arrays costs more than the work on a message
(measured: 395 ns a message with a function for each part, 136 ns in one).
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from nhalf.simulate.sharing import join, leave, share

if TYPE_CHECKING:
    from collections.abc import MutableSequence, Sequence


SAME_TIME = 1e-12
"""Events that differ by less than this share of the time share one re-solve of the rates."""
NO_LIMIT = 1e300
FIFO, FAIR, BLOCKING = 0, 1, 2
"""How a link serves: one message at a time in order of arrival, all at once, or one, which holds it for latency too."""


class Plan(NamedTuple):
    """What waits for what and which way it goes; the names are those of Graph and Paths, ragged lists by offsets.

    `uniform` says that all routes have one latency.
    """

    next_start: Sequence[int]
    next_step: Sequence[int]
    send_start: Sequence[int]
    receive_start: Sequence[int]
    receive: Sequence[int]
    source_step: Sequence[int]
    target_step: Sequence[int]
    size: Sequence[float]
    route: Sequence[int]
    path_start: Sequence[int]
    path: Sequence[int]
    latency: Sequence[float]
    rate: Sequence[float]
    capacity: Sequence[float]
    adding: Sequence[float]
    rendezvous: int
    uniform: int


class State(NamedTuple):
    """Where every step and message stands, and when it got there."""

    awaits: MutableSequence[int]
    outstanding: MutableSequence[int]
    is_open: MutableSequence[int]
    pending: MutableSequence[int]
    opened: MutableSequence[float]
    closed: MutableSequence[float]
    posted: MutableSequence[float]
    begun: MutableSequence[float]
    ended: MutableSequence[float]


class Work(NamedTuple):
    """Scratch of one engine: per link, per message, and per message and hop of its path."""

    free: MutableSequence[float]
    head: MutableSequence[int]
    users: MutableSequence[int]
    link_mark: MutableSequence[int]
    at: MutableSequence[int]
    value: MutableSequence[float]
    rate: MutableSequence[float]
    since: MutableSequence[float]
    finish: MutableSequence[float]
    message_mark: MutableSequence[int]
    after: MutableSequence[int]
    before: MutableSequence[int]
    hops: int


def play(plan: Plan, state: State, work: Work, ports: int) -> None:  # noqa: C901, PLR0912, PLR0915  see the module
    """Run a program to its end, or until nothing can go on.

    A step opens when all steps before it have closed, and its messages are posted once both of their sides are open
    (only the sender's when it need not wait). What serves a message then depends on `ports`.

    FIFO: a message enters each link of its path in turn, and goes on to the next as it enters one; it ends when its
    last byte is out of the last. `at` is the next link of a message. Where all latencies are one, messages reach their
    second link in the order in which they entered the first, so that one event serves both.

    BLOCKING: a message holds every link of its path for its latency and its bytes. A rank's messages start in the order
    in which they were posted: one that waits for a busy receiver holds up those behind it. `head` is the next message
    of each first link's queue, `users` its last one, `after` the one behind each message.

    FAIR: a message's latency passes, then its bytes share every link of its path. An event with a number beyond those
    of the messages is a message's end, unless it got another rate since.
    """
    next_start, next_step, adding = plan.next_start, plan.next_step, plan.adding
    send_start, receive_start, receive = plan.send_start, plan.receive_start, plan.receive
    source_step, target_step, rendezvous = plan.source_step, plan.target_step, plan.rendezvous
    size, routes, latency, rate, capacity = plan.size, plan.route, plan.latency, plan.rate, plan.capacity
    path_start, path, uniform = plan.path_start, plan.path, plan.uniform
    awaits, outstanding, is_open, pending = state.awaits, state.outstanding, state.is_open, state.pending
    opened, closed, posted, begun, ended = state.opened, state.closed, state.posted, state.begun, state.ended
    free, head, last, at, tail, behind = work.free, work.head, work.users, work.at, work.value, work.after
    expected, rates = work.finish, work.rate
    heap = [(0.0, 0)]
    heap.pop()
    touched = [0]
    touched.pop()
    joined = [0]
    joined.pop()
    untouched = NO_LIMIT
    ready = [-1]
    ready.pop()
    ready.extend([step for step in range(len(awaits)) if awaits[step] == 0])
    messages, stamp, horizon = len(size), 0, 0.0
    while True:
        while ready:
            step = ready.pop()
            if is_open[step] == 0:
                is_open[step] = 1
                sends = send_start[step + 1] - send_start[step]
                receives = receive_start[step + 1] - receive_start[step] if rendezvous else 0
                for place in range(sends + receives):
                    message = send_start[step] + place
                    if place >= sends:
                        message = receive[receive_start[step] + place - sends]
                    pending[message] -= 1
                    posted[message] = max(posted[message], opened[step])
                    if pending[message] == 0:
                        wait = latency[routes[message]] if ports == FAIR else 0.0
                        heappush(heap, (posted[message] + wait, message))
            if outstanding[step] == 0:
                closed[step] = max(closed[step], opened[step]) + adding[step]
                for place in range(next_start[step], next_start[step + 1]):
                    later = next_step[place]
                    awaits[later] -= 1
                    opened[later] = max(opened[later], closed[step])
                    if awaits[later] == 0:
                        ready.append(later)
        if (touched or joined) and (not heap or heap[0][0] > horizon):
            stamp += 1
            share(plan, work, horizon, stamp, touched, joined, untouched, heap)
            untouched = NO_LIMIT
        if not heap:
            break
        now, message = heappop(heap)
        if ports == FAIR:
            if now > horizon * (1.0 + SAME_TIME):
                horizon = now
            is_end = message >= messages
            if is_end:
                message -= messages
            route = routes[message]
            if is_end:
                if expected[message] != now:
                    continue
                expected[message] = -1.0
                untouched = min(untouched, rates[message])
                leave(message, route, path_start, path, work.hops, head, last, behind, work.before, touched)
            else:
                begun[message] = now
                if size[message] > 0.0:
                    tail[message] = size[message]
                    work.since[message] = now
                    join(message, route, path_start, path, work.hops, head, last, behind, work.before, joined)
                    continue
        elif ports == FIFO:
            route = routes[message]
            start, end = path_start[route], path_start[route + 1]
            place = start + at[message]
            if place == start:
                if begun[message] < 0.0:
                    # The place in the first queue is taken now; the message comes back when it is its turn.
                    begun[message] = max(now, free[path[place]])
                    free[path[place]] = begun[message] + size[message] / capacity[path[place]]
                    if begun[message] > now:
                        heappush(heap, (begun[message], message))
                        continue
                now += latency[route]
                tail[message] = now + size[message] / capacity[path[place]]
                place += 1
                at[message] = 1
                if place < end and not uniform:
                    heappush(heap, (now, message))
                    continue
            if place < end:
                now = max(now, free[path[place]])
                free[path[place]] = now + size[message] / capacity[path[place]]
                tail[message] = max(tail[message], free[path[place]])
                place += 1
                at[message] += 1
            if place < end:
                heappush(heap, (now, message))
                continue
            now = tail[message]
        else:
            route = routes[message]
            first = path[path_start[route]]
            if at[message] == 0:
                at[message] = 1
                if head[first] >= 0:
                    behind[last[first]] = message
                    last[first] = message
                    continue
                head[first] = message
                last[first] = message
            start_s = now
            for place in range(path_start[route], path_start[route + 1]):
                start_s = max(start_s, free[path[place]])
            if start_s > now:
                heappush(heap, (start_s, message))
                continue
            begun[message] = now
            now += latency[route] + size[message] / rate[route]
            for place in range(path_start[route], path_start[route + 1]):
                free[path[place]] = now
            head[first] = behind[message]
            if head[first] >= 0:
                heappush(heap, (now, head[first]))
        ended[message] = now
        step = target_step[message]
        closed[step] = max(closed[step], now)
        outstanding[step] -= 1
        if outstanding[step] == 0 and is_open[step]:
            ready.append(step)
        if rendezvous:
            step = source_step[message]
            closed[step] = max(closed[step], now)
            outstanding[step] -= 1
            if outstanding[step] == 0:
                ready.append(step)


COMPILED = ("play",)
"""Every kernel of this file, a callee before its callers."""
