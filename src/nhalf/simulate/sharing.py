"""Kernels of fair sharing: all messages on a link share it at once, max-min fair (conventions: see `kernels`).

Sharing takes no account of latency. Tools differ here: SimGrid's TCP models weigh a flow by 1 / latency, so of two
flows into one link with latencies of 5 and 27.5 us the short one gets 0.846 of it; here both get half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import MutableSequence, Sequence

    from nhalf.simulate.kernels import Plan, Work

CAUTION = 1e-9
"""The part by which a rate must be below a limit to count as below it."""
SAME_SHARE = 1e-12
"""Links whose shares differ by less than this part are full at the same time."""


def join(  # noqa: PLR0913, PLR0917  tables one by one: see `kernels`
    message: int,
    route: int,
    path_start: Sequence[int],
    path: Sequence[int],
    shift: int,
    head: MutableSequence[int],
    users: MutableSequence[int],
    after: MutableSequence[int],
    before: MutableSequence[int],
    touched: list[int],
) -> None:
    """Put a message on each link of its path; a link's messages are a list from `head` on by `after` and `before`."""
    start = path_start[route]
    for place in range(start, path_start[route + 1]):
        link = path[place]
        entry = (message << shift) + place - start
        old = head[link]
        after[entry] = old
        before[entry] = -1
        if old >= 0:
            before[old] = entry
        head[link] = entry
        users[link] += 1
        touched.append(link)


def leave(  # noqa: PLR0913, PLR0917  tables one by one: see `kernels`
    message: int,
    route: int,
    path_start: Sequence[int],
    path: Sequence[int],
    shift: int,
    head: MutableSequence[int],
    users: MutableSequence[int],
    after: MutableSequence[int],
    before: MutableSequence[int],
    touched: list[int],
) -> None:
    """Take a message off each link of its path."""
    start = path_start[route]
    for place in range(start, path_start[route + 1]):
        link = path[place]
        entry = (message << shift) + place - start
        earlier, later = before[entry], after[entry]
        if earlier >= 0:
            after[earlier] = later
        else:
            head[link] = later
        if later >= 0:
            before[later] = earlier
        users[link] -= 1
        touched.append(link)


def settle(message: int, ends: list[int], places: MutableSequence[int], expected: Sequence[float]) -> None:
    """Put a message in its place among those on their way: a heap by expected end, then by number.

    `places` says where in `ends` each message is, -1 for none, so that one whose end moved has no second entry. (With
    an entry for each change of rate, 62 of 63 were out of date in a two-shot all-reduce of 64 skewed ranks.)
    """
    due, place = expected[message], places[message]
    if place < 0:
        place = len(ends)
        ends.append(message)
    while place > 0:
        above = (place - 1) >> 1
        other = ends[above]
        if expected[other] < due or (expected[other] == due and other < message):
            break
        ends[place] = other
        places[other] = place
        place = above
    while True:
        below = 2 * place + 1
        if below >= len(ends):
            break
        other = ends[below]
        if below + 1 < len(ends):
            second = ends[below + 1]
            if expected[second] < expected[other] or (expected[second] == expected[other] and second < other):
                other = second
                below += 1
        if due < expected[other] or (due == expected[other] and message < other):
            break
        ends[place] = other
        places[other] = place
        place = below
    ends[place] = message
    places[message] = place


def first_end(ends: list[int], places: MutableSequence[int], expected: Sequence[float]) -> int:
    """Take the message that ends first off the ends."""
    message = ends[0]
    places[message] = -1
    last = ends.pop()
    if ends:
        places[last] = 0
        ends[0] = last
        settle(last, ends, places, expected)
    return message


def share(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917  one function: see `kernels`
    plan: Plan,
    work: Work,
    left: MutableSequence[float],
    now: float,
    stamp: int,
    touched: list[int],
    joined: list[int],
    untouched: float,
    ends: list[int],
) -> None:
    """Give new rates to the messages that share a link, through any chain of messages, with a touched link.

    `touched` are the links that messages left, `joined` those that messages came to, `untouched` the lowest rate of
    those that left. A message below it, and below what any newcomer can get at worst (capacity over users of its
    links), keeps its rate: the links that made it so slow are full before the change is felt.

    First the links and messages so connected are found; each link has its whole capacity (`free`) and all its messages
    (`sharers`) to share it. Then water is poured until a link is full; its messages keep their rates, and it is poured
    on.
    A message whose rate changed gives up what is `left` of it at the new one, and gets a new place among the `ends`.

    References
    ----------
    D. Bertsekas and R. Gallager, "Data Networks", 2nd ed. (1992), section 6.5.2.
    """
    routes, path_start, path, capacity = plan.route, plan.path_start, plan.path, plan.capacity
    head, users, after, room, sharers = work.head, work.users, work.after, work.free, work.sharers
    link_mark, message_mark, shift = work.link_mark, work.message_mark, work.shift
    rates, since, expected = work.rate, work.since, work.finish
    links = [0]
    links.pop()
    for link in joined:
        untouched = min(untouched, capacity[link] / users[link])
        touched.append(link)
    untouched *= 1.0 - CAUTION
    for link in touched:
        if link_mark[link] != stamp and users[link] > 0:
            link_mark[link] = stamp
            links.append(link)
    touched.clear()
    joined.clear()
    unfixed = 0
    place = 0
    while place < len(links):
        link = links[place]
        place += 1
        room[link] = capacity[link]
        sharers[link] = users[link]
        entry = head[link]
        while entry >= 0:
            message = entry >> shift
            if 0.0 < rates[message] < untouched:
                room[link] -= rates[message]
                sharers[link] -= 1
            elif message_mark[message] != stamp:
                message_mark[message] = stamp
                unfixed += 1
                route = routes[message]
                for step in range(path_start[route], path_start[route + 1]):
                    if link_mark[path[step]] != stamp:
                        link_mark[path[step]] = stamp
                        links.append(path[step])
            entry = after[entry]
    while unfixed > 0:
        level = 1e300
        kept = 0
        for link in links:
            if sharers[link] > 0:
                links[kept] = link
                kept += 1
                level = min(level, room[link] / sharers[link])
        while len(links) > kept:
            links.pop()
        limit = level * (1.0 + SAME_SHARE)
        for link in links:
            entry = -1
            if sharers[link] > 0 and room[link] / sharers[link] <= limit:
                entry = head[link]
            while entry >= 0:
                message = entry >> shift
                entry = after[entry]
                if message_mark[message] != stamp:
                    continue
                message_mark[message] = -stamp
                unfixed -= 1
                route = routes[message]
                for step in range(path_start[route], path_start[route + 1]):
                    room[path[step]] -= level
                    sharers[path[step]] -= 1
                if level != rates[message]:
                    left[message] -= rates[message] * (now - since[message])
                    since[message] = now
                    rates[message] = level
                    expected[message] = now + max(left[message], 0.0) / level
                    settle(message, ends, work.places, expected)


COMPILED = ("join", "leave", "settle", "first_end", "share")
"""Every kernel of this file, a callee before its callers."""
