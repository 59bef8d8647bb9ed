"""The event engine's loop: one plain function on sequences, which numba compiles as it is when it is installed.

Times are seconds, sizes bytes. `plan` does not change; `state` and `work` do. In plain Python the sequences are lists,
compiled they are arrays; both run the same operations in the same order, so both give the same numbers.

It is one function on purpose. Compiled, a call that passes a tuple of arrays costs more than the work on a message
(measured: 395 ns a message with a function for each part, 136 ns in one).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nhalf.simulate.agenda import NEVER, empty, next_time, put, take
from nhalf.simulate.sharing import first_end, join, leave, share

if TYPE_CHECKING:
    from collections.abc import MutableSequence, Sequence


SAME_TIME = 1e-12
"""Events that differ by less than this share of the time share one re-solve of the rates."""
NO_LIMIT = 1e300
FIFO, FAIR, BLOCKING = 0, 1, 2
"""How a link serves: one message at a time in order of arrival, all at once, or one, which holds it for latency too."""
OPEN = -1


class Plan(NamedTuple):
    """What waits for what and which way it goes; the names are those of Graph and Paths, ragged lists by offsets.

    Where one value holds for all, a table has that one entry and its mask is 0 (else -1): the entry of i is at
    `i & mask`. `stride` is set where each step is followed by the one `stride` places on, and by no other.
    """

    stride: int
    next_start: Sequence[int]
    next_step: Sequence[int]
    send_start: Sequence[int]
    receive_start: Sequence[int]
    receive: Sequence[int]
    source_step: Sequence[int]
    target_step: Sequence[int]
    size: Sequence[float]
    size_mask: int
    route: Sequence[int]
    path_start: Sequence[int]
    path: Sequence[int]
    latency: Sequence[float]
    latency_mask: int
    rate: Sequence[float]
    rate_mask: int
    capacity: Sequence[float]
    adding: Sequence[float]
    adding_mask: int
    rendezvous: int


class State(NamedTuple):
    """Where every step and message stands, and when it got there.

    `awaits` counts the steps before a step that have not closed, and is OPEN once it is open. `stage` of a message is
    minus the number of its sides that have not posted it, then 0, then what its ports make of it. `ended` is not a
    number until a message is on its way, and may hold anything while it is.
    """

    awaits: MutableSequence[int]
    outstanding: MutableSequence[int]
    opened: MutableSequence[float]
    closed: MutableSequence[float]
    stage: MutableSequence[int]
    ended: MutableSequence[float]


class Work(NamedTuple):
    """Scratch of one engine: per link, per message, and per message and hop of its path.

    `chain` is the next message of a list: of those that a step posted at one time, or of a port's queue. The entries of
    a message in `after` and `before` begin at `message << shift`.
    """

    free: MutableSequence[float]
    head: MutableSequence[int]
    users: MutableSequence[int]
    link_mark: MutableSequence[int]
    sharers: MutableSequence[int]
    chain: MutableSequence[int]
    rate: MutableSequence[float]
    since: MutableSequence[float]
    finish: MutableSequence[float]
    message_mark: MutableSequence[int]
    places: MutableSequence[int]
    after: MutableSequence[int]
    before: MutableSequence[int]
    shift: int


def play(plan: Plan, state: State, work: Work, ports: int) -> None:  # noqa: C901, PLR0912, PLR0915  see the module
    """Run a program to its end, or until nothing can go on.

    A step opens when all steps before it have closed, and its messages are posted once both of their sides are open
    (only the sender's when it need not wait). Of messages that it posts for one time only the first is on the agenda;
    each puts the next there. What serves a message then depends on `ports`.

    FIFO: a message enters each link of its path in turn, and goes on to the next as it enters one; it ends when its
    last byte is out of the last. Stage 1 is a place in the first link's queue, of which only the head is on the agenda
    (`head` and `users`, the last one; `ended` holds when a message's turn comes), stage n > 1 the arrival at the n-th
    link (`ended` holds when its last byte is out of the links before). Where all latencies are one, messages reach
    their second link in the order in which they entered the first, so that one event serves both.

    BLOCKING: a message holds every link of its path for its latency and its bytes. A rank's messages start in the order
    in which they were posted: one that waits for a busy receiver holds up those behind it. `head` is the first of each
    first link's queue, `users` its last one.

    FAIR: a message's latency passes, then its bytes share every link of its path; `ended` holds what is left of them.
    `ends` are the messages so on their way, by the ends that their rates promise; they are not on the agenda.
    """
    next_start, next_step, adding, stride = plan.next_start, plan.next_step, plan.adding, plan.stride
    send_start, receive_start, receive = plan.send_start, plan.receive_start, plan.receive
    source_step, target_step, rendezvous = plan.source_step, plan.target_step, plan.rendezvous
    size, routes, latency, rate, capacity = plan.size, plan.route, plan.latency, plan.rate, plan.capacity
    size_mask, latency_mask, rate_mask, adding_mask = (
        plan.size_mask,
        plan.latency_mask,
        plan.rate_mask,
        plan.adding_mask,
    )
    path_start, path = plan.path_start, plan.path
    awaits, outstanding, stage = state.awaits, state.outstanding, state.stage
    opened, closed, ended = state.opened, state.closed, state.ended
    free, head, last, chain, after = work.free, work.head, work.users, work.chain, work.after
    expected, rates = work.finish, work.rate
    times, names = empty()
    touched = [0]
    touched.pop()
    joined = [0]
    joined.pop()
    untouched = NO_LIMIT
    ready = [-1]
    ready.pop()
    ends = [0]
    ends.pop()
    steps, stamp, horizon = len(awaits), 0, 0.0
    ready.extend([step for step in range(steps) if awaits[step] == 0])
    while True:
        while ready:
            step = ready.pop()
            if awaits[step] == 0:
                awaits[step] = OPEN
                sends = send_start[step + 1] - send_start[step]
                receives = receive_start[step + 1] - receive_start[step] if rendezvous else 0
                newest, due = -1, 0.0
                for place in range(sends + receives):
                    message = send_start[step] + place
                    if place >= sends:
                        message = receive[receive_start[step] + place - sends]
                    if place == sends:
                        newest = -1
                    stage[message] += 1
                    if stage[message] == 0:
                        posted = opened[source_step[message]]
                        if rendezvous:
                            posted = max(posted, opened[target_step[message]])
                        if ports == FAIR:
                            posted += latency[routes[message] & latency_mask]
                        if newest >= 0 and posted == due:
                            chain[newest] = message
                        else:
                            put(times, names, posted, message)
                        newest, due = message, posted
            if outstanding[step] == 0:
                closed[step] = max(closed[step], opened[step]) + adding[step & adding_mask]
                begin, end = 0, 0
                if stride == 0:
                    begin, end = next_start[step], next_start[step + 1]
                elif step + stride < steps:
                    end = 1
                for place in range(begin, end):
                    later = step + stride
                    if stride == 0:
                        later = next_step[place]
                    awaits[later] -= 1
                    opened[later] = max(opened[later], closed[step])
                    if awaits[later] == 0:
                        ready.append(later)
        due = next_time(times, names)
        next_end = NEVER
        if ends:
            next_end = expected[ends[0]]
        if (touched or joined) and min(due, next_end) > horizon:
            stamp += 1
            share(plan, work, ended, horizon, stamp, touched, joined, untouched, ends)
            untouched = NO_LIMIT
            continue
        if due == NEVER and next_end == NEVER:
            break
        is_new = False
        if next_end < due:
            now, message = next_end, first_end(ends, work.places, expected)
        else:
            now, message = take(times, names)
            is_new = stage[message] == 0
        if is_new and chain[message] >= 0:
            put(times, names, now, chain[message])
            chain[message] = -1
        if ports == FAIR:
            if now > horizon * (1.0 + SAME_TIME):
                horizon = now
            if is_new:
                stage[message] = 1
                if size[message & size_mask] > 0.0:
                    ended[message] = size[message & size_mask]
                    work.since[message] = now
                    join(message, routes[message], path_start, path, work.shift, head, last, after, work.before, joined)
                    continue
            else:
                untouched = min(untouched, rates[message])
                leave(message, routes[message], path_start, path, work.shift, head, last, after, work.before, touched)
        elif ports == FIFO:
            route = routes[message]
            start, end = path_start[route], path_start[route + 1]
            first = path[start]
            carried = size[message & size_mask]
            place = start + stage[message]
            if is_new:
                begun = max(now, free[first])
                free[first] = begun + carried / capacity[first]
                if begun > now:
                    stage[message] = 1
                    ended[message] = begun
                    if head[first] < 0:
                        head[first] = message
                        put(times, names, begun, message)
                    else:
                        chain[last[first]] = message
                    last[first] = message
                    continue
            elif stage[message] == 1:
                head[first] = chain[message]
                if head[first] >= 0:
                    put(times, names, ended[head[first]], head[first])
            if stage[message] <= 1:
                now += latency[route & latency_mask]
                ended[message] = now + carried / capacity[first]
                place = start + 1
                stage[message] = 2
                if place < end and latency_mask:
                    put(times, names, now, message)
                    continue
            else:
                place -= 1
            if place < end:
                now = max(now, free[path[place]])
                free[path[place]] = now + carried / capacity[path[place]]
                ended[message] = max(ended[message], free[path[place]])
                place += 1
                stage[message] += 1
            if place < end:
                put(times, names, now, message)
                continue
            now = ended[message]
        else:
            route = routes[message]
            first = path[path_start[route]]
            if is_new:
                stage[message] = 1
                if head[first] >= 0:
                    chain[last[first]] = message
                    last[first] = message
                    continue
                head[first] = message
                last[first] = message
            begun = now
            for place in range(path_start[route], path_start[route + 1]):
                begun = max(begun, free[path[place]])
            if begun > now:
                put(times, names, begun, message)
                continue
            now += latency[route & latency_mask] + size[message & size_mask] / rate[route & rate_mask]
            for place in range(path_start[route], path_start[route + 1]):
                free[path[place]] = now
            head[first] = chain[message]
            if head[first] >= 0:
                put(times, names, now, head[first])
        ended[message] = now
        step = target_step[message]
        closed[step] = max(closed[step], now)
        outstanding[step] -= 1
        if outstanding[step] == 0 and awaits[step] == OPEN:
            ready.append(step)
        if rendezvous:
            step = source_step[message]
            closed[step] = max(closed[step], now)
            outstanding[step] -= 1
            if outstanding[step] == 0:
                ready.append(step)


COMPILED = ("play",)
"""Every kernel of this file, a callee before its callers."""
