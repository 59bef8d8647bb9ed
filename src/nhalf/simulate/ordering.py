"""Ordering: messages of which each waits for some others: one after the other, in circles, or not waiting enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_ORDERED = 20_000
"""Messages up to which races are looked for: what each one waits for is one bit for each other, 50 MB in all."""


def in_order(after: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Return the messages, each behind all that it waits for, and a circle of them, which is empty where there is none.

    A circle begins and ends with the same message, and each of it waits for the next.
    """
    done: list[int] = []
    place: dict[int, int] = {}
    """Where a message is on the trail, -1 once it is done."""
    for start in range(len(after)):
        if start in place:
            continue
        place[start], trail = 0, [start]
        rest = [iter(after[start])]
        while trail:
            earlier = next(rest[-1], -1)
            if earlier < 0:
                rest.pop()
                done.append(trail.pop())
                place[done[-1]] = -1
            elif earlier not in place:
                place[earlier] = len(trail)
                trail.append(earlier)
                rest.append(iter(after[earlier]))
            elif place[earlier] >= 0:
                return done, [*trail[place[earlier] :], earlier]
    return done, []


def race(
    ends: Sequence[tuple[int, int]], blocks: Sequence[int], after: Sequence[Sequence[int]]
) -> tuple[int, int] | None:
    """Return a message, and one that brings a part of what it carries and that it does not wait for.

    Message m goes from rank `ends[m][0]` to rank `ends[m][1]` with what its sender holds of block `blocks[m]`. What
    arrives there by a shorter chain of messages counts as held, and is there in time only if it is waited for.
    """
    order, _ = in_order(after)
    level, past = [0] * len(ends), [0] * len(ends)
    for message in order:
        for earlier in after[message]:
            received = ends[earlier][1] == ends[message][0]
            level[message] = max(level[message], level[earlier] + received)
            past[message] |= past[earlier] | received << earlier
    order.sort(key=level.__getitem__)
    held: dict[tuple[int, int], int] = {}
    at = 0
    for message in order:
        while level[order[at]] < level[message]:
            place = (ends[order[at]][1], blocks[order[at]])
            held[place] = held.get(place, 0) | 1 << order[at]
            at += 1
        missed = held.get((ends[message][0], blocks[message]), 0) & ~past[message]
        if missed:
            return message, missed.bit_length() - 1
    return None
