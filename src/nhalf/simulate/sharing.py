"""Kernels of fair sharing: all messages on a link share it at once, max-min fair (conventions: see `kernels`).

Sharing takes no account of latency. Tools differ here: SimGrid's TCP models weigh a flow by 1 / latency, so of two
flows into one link with latencies of 5 and 27.5 us the short one gets 0.846 of it; here both get half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.simulate.flows import ENDED, NO_LIMIT, OVER, SPARE, STAMP, TOUCHED, Flows, settle, touch, withdraw

if TYPE_CHECKING:
    from nhalf.simulate.plan import Plan

CAUTION = 1e-9
"""The part by which a rate must be below a limit to count as below it."""
SAME = 1e-12
"""Links whose shares differ by less than this part are full, and flows whose ends do so end, at the same time."""


def share(flows: Flows, plan: Plan, now: float) -> None:
    """Give new rates to the flows that share a link, through any chain of flows, with a touched link.

    First the links and flows so connected are found; each link has its whole capacity (`room`) and all its flows
    (`sharers`) to share it. Then water is poured until a link is full; it is the bottleneck of those of its flows that
    have none yet, and water is poured on.

    References
    ----------
    D. Bertsekas and R. Gallager, "Data Networks", 2nd ed. (1992), section 6.5.2.
    """
    unfixed = reach(flows, plan, now)
    links, level, room, sharers = flows.touched, flows.level, flows.room, flows.sharers
    reached = flows.counts[TOUCHED]
    for place in range(reached):
        level[links[place]] = 0.0
    open_links = reached
    while unfixed > 0:
        water, kept = NO_LIMIT, 0
        for place in range(open_links):
            link = links[place]
            if sharers[link] > 0:
                links[place] = links[kept]
                links[kept] = link
                kept += 1
                if room[link] < water * sharers[link]:
                    water = room[link] / sharers[link]
        open_links = kept
        for place in range(open_links):
            link = links[place]
            if sharers[link] > 0 and room[link] / sharers[link] <= water * (1.0 + SAME):
                unfixed -= fill(flows, plan, link, water, now)
                settle(flows, link)  # at once: a heap bears one change at a time
    for place in range(reached):
        link = links[place]
        if level[link] == 0.0 and flows.place[link] >= 0:
            withdraw(flows, link)
    flows.counts[TOUCHED] = 0
    flows.counts[STAMP] += 1
    flows.slowest[0] = NO_LIMIT


def reach(flows: Flows, plan: Plan, now: float) -> int:
    """Add to the touched links all that they can change, and return how many flows need a new rate."""
    links, users, room, counts = flows.touched, flows.users, flows.room, flows.counts
    level, since, served, capacity = flows.level, flows.since, flows.served, plan.capacity
    sharers, stale = flows.sharers, flows.stale
    limit = unchanged(flows, plan)
    unfixed, place = 0, 0
    while place < counts[TOUCHED]:
        link = links[place]
        place += 1
        served[link] = level[link] * (now - since[link])
        since[link] = now
        room[link] = capacity[link]
        if users[link] == 0:
            flows.head[link] = -1
            stale[link] = 0
        elif sharers[link] < users[link] or stale[link]:
            # Otherwise other links have led to all its flows.
            unfixed += look(flows, plan, link, limit)
    for place in range(len(flows.spare) - counts[OVER], len(flows.spare)):
        flows.spare[counts[SPARE]] = flows.spare[place]
        counts[SPARE] += 1
    counts[OVER] = 0
    return unfixed


def unchanged(flows: Flows, plan: Plan) -> float:
    """Return the rate [bytes/s] below which flows keep theirs: no flow that left, or can have come, was slower.

    A newcomer gets capacity over users of its links at worst. The links that make a flow slower than that are full
    before the change is felt.
    """
    limit, touched, came, capacity, users = flows.slowest[0], flows.touched, flows.came, plan.capacity, flows.users
    for place in range(flows.counts[TOUCHED]):
        link = touched[place]
        if came[link]:
            came[link] = 0
            if capacity[link] < limit * users[link]:
                limit = capacity[link] / users[link]
    return limit * (1.0 - CAUTION)


def look(flows: Flows, plan: Plan, link: int, limit: float) -> int:
    """Look at the flows of a link: take off those that have ended, and return how many more need a new rate.

    Each of these touches all its links; one below the limit keeps its rate, and takes its part of the link's room.
    """
    level, bottleneck, mark, after = flows.level, flows.bottleneck, flows.mark, flows.after
    link_mark, sharers, path = flows.link_mark, flows.sharers, plan.path
    stamp, found, last = flows.counts[STAMP], 0, -1
    flows.stale[link] = 0
    entry = flows.head[link]
    while entry >= 0:
        flow, following = entry >> plan.shift, after[entry]
        if mark[flow] == ENDED:
            if last >= 0:
                after[last] = following
            else:
                flows.head[link] = following
        else:
            last = entry
            if mark[flow] != stamp:
                if bottleneck[flow] >= 0 and level[bottleneck[flow]] < limit:
                    flows.room[link] -= level[bottleneck[flow]]
                else:
                    mark[flow] = stamp
                    found += 1
                    route = plan.route[flows.message[flow]]
                    for step in range(plan.path_start[route], plan.path_start[route + 1]):
                        if link_mark[path[step]] != stamp:
                            touch(flows, path[step])
                        sharers[path[step]] += 1
        entry = following
    return found


def fill(flows: Flows, plan: Plan, link: int, water: float, now: float) -> int:
    """Make a link the bottleneck of those of its flows that have none yet, and return how many they are."""
    path_start, path, shift = plan.path_start, plan.path, plan.shift
    room, sharers, left, served = flows.room, flows.sharers, flows.left, flows.served
    after, mark, bottleneck, stamp = flows.after, flows.mark, flows.bottleneck, flows.counts[STAMP]
    fixed, least, first = 0, NO_LIMIT, -1
    same = SAME * now * water
    entry = flows.head[link]
    while entry >= 0:
        flow = entry >> shift
        entry = after[entry]
        if mark[flow] != stamp:
            continue
        mark[flow] = -stamp
        fixed += 1
        route = plan.route[flows.message[flow]]
        for step in range(path_start[route], path_start[route + 1]):
            room[path[step]] -= water
            sharers[path[step]] -= 1
        if bottleneck[flow] >= 0:
            left[flow] -= served[bottleneck[flow]]
        bottleneck[flow] = link
        if left[flow] < least - same:
            first = -1
        if left[flow] <= least + same:
            flows.along[flow] = first
            first = flow
            least = min(least, left[flow])
    flows.level[link] = water
    flows.first[link] = first
    flows.due[link] = now + max(least, 0.0) / water
    return fixed


COMPILED = ("unchanged", "look", "reach", "fill", "share")
"""Every kernel of this file, a callee before its callers."""
