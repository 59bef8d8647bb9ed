"""The event engine's loop: one plain function on sequences, which numba compiles as it is when it is installed.

Times are seconds, sizes bytes. `plan` does not change; `state` and `work` do. In plain Python the sequences are lists,
compiled they are arrays; both run the same operations in the same order, so both give the same numbers.

Kernels make no array and no list of their own, so that numba need not count who holds which: where it did, that took
two thirds of the time (measured: 148 ns a message of a ring of 512, 48 without).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nhalf.simulate.event_queue import NEVER, Agenda, next_time, put, take
from nhalf.simulate.flows import ENDS, TOUCHED, Flows, join, leave
from nhalf.simulate.sharing import share

if TYPE_CHECKING:
    from collections.abc import MutableSequence

    from nhalf.simulate.plan import Plan

SAME_TIME = 1e-12
"""Events that differ by less than this share of the time share one re-solve of the rates."""
FIFO, FAIR, BLOCKING = 0, 1, 2
"""How a link serves: one message at a time in order of arrival, all at once, or one, which holds it for latency too."""
OPEN = -1


class State(NamedTuple):
    """Where every step and message stands, and when it got there.

    `awaits` counts the steps before a step that have not closed, and is OPEN once it is open. `stage` of a message is
    minus the number of its sides that have not posted it, then 0, then what its ports make of it. `ended` is not a
    number until a message is posted, and may hold anything before it ends.
    """

    awaits: MutableSequence[int]
    outstanding: MutableSequence[int]
    opened: MutableSequence[float]
    closed: MutableSequence[float]
    stage: MutableSequence[int]
    ended: MutableSequence[float]


class Work(NamedTuple):
    """Scratch of one engine: when a link is `free`, what is due, what is on its way, and the steps to open or close.

    `chain` is the next message of a list: of those that were posted for one time, or of a port's queue, which `head`
    and `last` are the ends of.
    """

    free: MutableSequence[float]
    head: MutableSequence[int]
    last: MutableSequence[int]
    chain: MutableSequence[int]
    ready: MutableSequence[int]
    agenda: Agenda
    flows: Flows


def play(plan: Plan, state: State, work: Work, ports: int) -> None:  # noqa: C901, PLR0912, PLR0915  see the module
    """Run a program to its end, or until nothing can go on.

    A step opens when all steps before it have closed, and its messages are posted once both of their sides are open
    (only the sender's when it need not wait). Of messages that are posted for one time in the order of their numbers,
    those of senders and those of receivers, only the first is on the agenda; each puts the next there. What serves a
    message then depends on `ports`.

    FIFO: a message enters each link of its path in turn, and goes on to the next as it enters one; it ends when its
    last byte is out of the last. Stage 1 is a place in the first link's queue, of which only the head is on the agenda
    (`head`, and `last` its end; `ended` holds when a message's turn comes), stage n > 1 the arrival at the n-th
    link (`ended` holds when its last byte is out of the links before). Where all latencies are one, messages reach
    their second link in the order in which they entered the first, so that one event serves both.

    BLOCKING: a message holds every link of its path for its latency and its bytes. A rank's messages start in the order
    in which they were posted: one that waits for a busy receiver holds up those behind it. `head` is the first of each
    first link's queue, `last` its last one.

    FAIR: a message's latency passes, then it is a flow: its bytes share every link of its path. Ends of flows are not
    on the agenda.

    Raises
    ------
    OverflowError
        More messages are due, or on their way, than there is room for.
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
    free, head, last, chain, ready = work.free, work.head, work.last, work.chain, work.ready
    agenda, flows = work.agenda, work.flows
    steps, horizon, waiting = len(awaits), 0.0, 0
    sent, received = -1, -1
    for step in range(steps - 1, -1, -1):
        if awaits[step] == 0:
            ready[waiting] = step
            waiting += 1
    while True:
        while waiting:
            waiting -= 1
            step = ready[waiting]
            if awaits[step] == 0:
                awaits[step] = OPEN
                sends = send_start[step + 1] - send_start[step]
                receives = receive_start[step + 1] - receive_start[step] if rendezvous else 0
                for place in range(sends + receives):
                    message = send_start[step] + place
                    if place >= sends:
                        message = receive[receive_start[step] + place - sends]
                    stage[message] += 1
                    if stage[message] == 0:
                        posted = opened[source_step[message]]
                        if rendezvous:
                            posted = max(posted, opened[target_step[message]])
                        if ports == FAIR:
                            posted += latency[routes[message] & latency_mask]
                        ended[message] = posted
                        newest = sent if place < sends else received
                        if 0 <= newest < message and stage[newest] == 0 and ended[newest] == posted:
                            chain[newest] = message
                        else:
                            put(agenda, posted, message)
                        if place < sends:
                            sent = message
                        else:
                            received = message
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
                        ready[waiting] = later
                        waiting += 1
        due = next_time(agenda)
        next_end = NEVER
        if ports == FAIR:
            if flows.counts[ENDS]:
                next_end = flows.due[flows.ends[0]]
            if flows.counts[TOUCHED] and min(due, next_end) > horizon:
                share(flows, plan, horizon)
                continue
        if due == NEVER and next_end == NEVER:
            break
        if next_end < due:
            now, message, is_new = next_end, leave(flows, plan), False
        else:
            now, message = take(agenda)
            is_new = stage[message] == 0
        if is_new and chain[message] >= 0:
            put(agenda, now, chain[message])
            chain[message] = -1
        if ports == FAIR:
            if now > horizon * (1.0 + SAME_TIME):
                horizon = now
            if is_new:
                stage[message] = 1
                if size[message & size_mask] > 0.0:
                    join(flows, plan, message, size[message & size_mask])
                    continue
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
                        put(agenda, begun, message)
                    else:
                        chain[last[first]] = message
                    last[first] = message
                    continue
            elif stage[message] == 1:
                head[first] = chain[message]
                if head[first] >= 0:
                    put(agenda, ended[head[first]], head[first])
            if stage[message] <= 1:
                now += latency[route & latency_mask]
                ended[message] = now + carried / capacity[first]
                place = start + 1
                stage[message] = 2
                if place < end and latency_mask:
                    put(agenda, now, message)
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
                put(agenda, now, message)
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
                put(agenda, begun, message)
                continue
            now += latency[route & latency_mask] + size[message & size_mask] / rate[route & rate_mask]
            for place in range(path_start[route], path_start[route + 1]):
                free[path[place]] = now
            head[first] = chain[message]
            if head[first] >= 0:
                put(agenda, now, head[first])
        ended[message] = now
        step = target_step[message]
        closed[step] = max(closed[step], now)
        outstanding[step] -= 1
        if outstanding[step] == 0 and awaits[step] == OPEN:
            ready[waiting] = step
            waiting += 1
        if rendezvous:
            step = source_step[message]
            closed[step] = max(closed[step], now)
            outstanding[step] -= 1
            if outstanding[step] == 0:
                ready[waiting] = step
                waiting += 1


COMPILED = ("play",)
"""Every kernel of this file, a callee before its callers."""
