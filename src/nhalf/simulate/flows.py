"""Flows: the messages that share links, which of them end first, and which links they have come to or left.

A flow's rate is the level of its bottleneck, the full link on which no flow is faster. So rates and ends are kept per
link; a flow knows its bottleneck, and what was left of it when the flows of that link were last looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import MutableSequence

    from nhalf.simulate.plan import Plan

NO_LIMIT = 1e300
ENDED = 0
"""The mark of a flow that has ended; it is still among the flows of its links until these are looked at."""
SPARE, OVER, TOUCHED, ENDS, STAMP = 0, 1, 2, 3, 4
"""What `counts` says: how many places are spare, how many are of flows that have ended, how many links are touched, how
many have an end to come, and which number the next re-solve has."""


class Flows(NamedTuple):
    """Flows by the place that each has while it is on its way, and links.

    Of a flow: its `message`, its `bottleneck` (-1 before it has one), what is `left` of it [bytes], the next of the
    flows that end together with it (`along`, -1 for none), and the last re-solve that looked at it (`mark`, negative
    once its rate is set). A link's flows are a list from `head` on by `after`, in which those of a flow begin at
    `flow << plan.shift`. `spare` holds the places without a flow, from its end on those of flows that have ended.

    Of a link: how many `users` it has, its `level` [bytes/s] `since` when [s], and the `first` of the flows that end
    when it is `due` [s]. Its level is 0 where it is no bottleneck. `touched` are the links whose flows have changed
    since the last re-solve, or that one reaches from there (`link_mark`), `came` those that flows came to, `stale`
    those that flows left. `ends` is a heap of bottlenecks by `due`, `place` where each is in it, -1 for none. `served`
    [bytes], `room` [bytes/s] and `sharers` are scratch of a re-solve. `slowest` [bytes/s] is the lowest rate of the
    flows that left.
    """

    message: MutableSequence[int]
    bottleneck: MutableSequence[int]
    left: MutableSequence[float]
    along: MutableSequence[int]
    mark: MutableSequence[int]
    after: MutableSequence[int]
    spare: MutableSequence[int]
    head: MutableSequence[int]
    users: MutableSequence[int]
    level: MutableSequence[float]
    since: MutableSequence[float]
    first: MutableSequence[int]
    due: MutableSequence[float]
    touched: MutableSequence[int]
    link_mark: MutableSequence[int]
    came: MutableSequence[int]
    stale: MutableSequence[int]
    ends: MutableSequence[int]
    place: MutableSequence[int]
    served: MutableSequence[float]
    room: MutableSequence[float]
    sharers: MutableSequence[int]
    slowest: MutableSequence[float]
    counts: MutableSequence[int]


def none_yet(most: int, links: int, shift: int) -> Flows:
    """Return room for `most` flows of up to `1 << shift` links each, as arrays."""
    fields: dict[str, Any] = {"left": np.zeros(most)}
    fields |= {name: np.zeros(most, dtype=np.int32) for name in ("message", "bottleneck", "along", "mark")}
    fields |= {name: np.zeros(links) for name in ("level", "since", "due", "served", "room")}
    fields |= {name: np.full(links, -1, dtype=np.int32) for name in ("head", "first", "place")}
    counted = ("users", "touched", "link_mark", "came", "stale", "ends", "sharers")
    fields |= {name: np.zeros(links, dtype=np.int32) for name in counted}
    fields["after"] = np.zeros(most << shift, dtype=np.int32)
    fields["spare"] = np.arange(most, dtype=np.int32)[::-1].copy()
    fields["slowest"] = np.array([NO_LIMIT])
    fields["counts"] = np.array([most, 0, 0, 0, 2], dtype=np.int32)
    return Flows(**fields)


def touch(flows: Flows, link: int) -> None:
    """Put a link, which is not yet there, among those that the next re-solve looks at."""
    counts = flows.counts
    flows.link_mark[link] = counts[STAMP]
    flows.sharers[link] = 0
    flows.touched[counts[TOUCHED]] = link
    counts[TOUCHED] += 1


def join(flows: Flows, plan: Plan, message: int, size: float) -> None:
    """Put a message of some bytes on each link of its path.

    Raises
    ------
    OverflowError
        There is no place for it.
    """
    counts, head, after, users, came, link_mark = (
        flows.counts,
        flows.head,
        flows.after,
        flows.users,
        flows.came,
        flows.link_mark,
    )
    if counts[SPARE] == 0:
        raise OverflowError
    counts[SPARE] -= 1
    flow = flows.spare[counts[SPARE]]
    flows.message[flow] = message
    flows.left[flow] = size
    flows.bottleneck[flow] = -1
    flows.mark[flow] = -1
    entry, stamp, path = flow << plan.shift, counts[STAMP], plan.path
    route = plan.route[message]
    for step in range(plan.path_start[route], plan.path_start[route + 1]):
        link = path[step]
        after[entry] = head[link]
        head[link] = entry
        entry += 1
        users[link] += 1
        came[link] = 1
        if link_mark[link] != stamp:
            touch(flows, link)


def leave(flows: Flows, plan: Plan) -> int:
    """End the flow that is due first, and return its message."""
    counts, users, stale, link_mark = flows.counts, flows.users, flows.stale, flows.link_mark
    link = flows.ends[0]
    flow = flows.first[link]
    flows.slowest[0] = min(flows.slowest[0], flows.level[link])
    flows.first[link] = flows.along[flow]
    if flows.first[link] < 0:
        withdraw(flows, link)
    flows.mark[flow] = ENDED
    counts[OVER] += 1
    flows.spare[len(flows.spare) - counts[OVER]] = flow
    message, stamp, path = flows.message[flow], counts[STAMP], plan.path
    route = plan.route[message]
    for step in range(plan.path_start[route], plan.path_start[route + 1]):
        link = path[step]
        users[link] -= 1
        stale[link] = 1
        if link_mark[link] != stamp:
            touch(flows, link)
    return message


def settle(flows: Flows, link: int) -> None:
    """Put a bottleneck in its place among the ends: by when it is due, then by number."""
    due, ends, places = flows.due, flows.ends, flows.place
    time, place = due[link], places[link]
    if place < 0:
        place = flows.counts[ENDS]
        flows.counts[ENDS] += 1
    while place > 0:
        above = (place - 1) >> 1
        other = ends[above]
        if due[other] < time or (due[other] == time and other < link):
            break
        ends[place] = other
        places[other] = place
        place = above
    while True:
        below = 2 * place + 1
        if below >= flows.counts[ENDS]:
            break
        other = ends[below]
        if below + 1 < flows.counts[ENDS]:
            second = ends[below + 1]
            if due[second] < due[other] or (due[second] == due[other] and second < other):
                other = second
                below += 1
        if time < due[other] or (time == due[other] and link < other):
            break
        ends[place] = other
        places[other] = place
        place = below
    ends[place] = link
    places[link] = place


def withdraw(flows: Flows, link: int) -> None:
    """Take a link off the ends."""
    place = flows.place[link]
    flows.place[link] = -1
    flows.counts[ENDS] -= 1
    last = flows.ends[flows.counts[ENDS]]
    if last != link:
        flows.place[last] = place
        settle(flows, last)


COMPILED = ("touch", "settle", "withdraw", "join", "leave")
"""Every kernel of this file, a callee before its callers."""
