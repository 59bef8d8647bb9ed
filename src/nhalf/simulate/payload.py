"""Payload: replays the data of a program and tells whether every contribution arrives exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nhalf.errors import InputError
from nhalf.simulate.program import ALL, ANY, LATEST_BITMASK, NONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nhalf.simulate.graph import Graph
    from nhalf.simulate.program import Goal, Program
    from nhalf.simulate.round import Ints

_SEED = 20260101
_WORD = 64
_NAMED = 4
"""Ranks that an error names, of those whose parts are missing."""
State = NDArray[np.uint64]
"""Shape (ranks, blocks, words): which contributions a rank's copy of a block holds."""


def check(program: Program) -> str:
    """Replay a program's data and return how it was checked: by bitmask, or by fingerprint above 128 ranks.

    Every round reads what its senders held before it. A bitmask has one bit per contribution and refuses one that
    comes twice; a fingerprint is the sum of a random 64-bit number per contribution, which a missing or doubled one
    changes (except with a chance of 2^-64).

    Raises
    ------
    InputError
        A contribution is missing or doubled: the rank, block and message are named.
    """
    if program.goal is None:
        return "no data promised"
    goal = program.goal()
    exact = program.ranks <= LATEST_BITMASK
    parts = _bits(program.ranks) if exact else _fingerprints(program.ranks)
    state = _state(goal.start, parts, exact=exact)
    for source, target, blocks, reduces, first in _playings(program):
        _deliver(state, (source, target, blocks), reduces=reduces, exact=exact, merges=goal.merges, first=first)
    _compare(state, goal, parts, exact=exact)
    return "bitmask" if exact else "fingerprint"


def _bits(ranks: int) -> State:
    """Return one bit per rank, shape (ranks, words)."""
    parts = np.zeros((ranks, -(-ranks // _WORD)), dtype=np.uint64)
    index = np.arange(ranks)
    parts[index, index // _WORD] = np.uint64(1) << (index % _WORD).astype(np.uint64)
    return parts


def _fingerprints(ranks: int) -> State:
    """Return one random word per rank, shape (ranks, 1)."""
    return np.random.default_rng(_SEED).integers(1, 2**63, size=(ranks, 1), dtype=np.uint64)


def _state(named: Ints, parts: State, *, exact: bool) -> State:
    """Return the contributions that a goal's entries name."""
    everything = np.bitwise_or.reduce(parts) if exact else parts.sum(axis=0, dtype=np.uint64)
    state = np.where((named >= 0)[..., None], parts[np.maximum(named, 0)], np.uint64(0))
    return np.where((named == ALL)[..., None], everything, state)


def _playings(program: Program) -> Iterator[tuple[Ints, Ints, Ints, bool, int]]:
    """Yield (source, target, blocks, reduces, number of the first message) of every playing of every round."""
    first = 0
    if program.rounds is not None:
        for played in program.rounds():
            for step in range(played.times):
                yield played.source, played.target, played.blocks(step), played.reduces, first
                first += played.messages
    elif program.steps is not None:
        yield from _levels(program.steps)


def _levels(graph: Graph) -> Iterator[tuple[Ints, Ints, Ints, bool, int]]:
    """Yield a graph's messages by the length of the longest chain of messages before them."""
    if graph.blocks is None:
        return
    level = message_levels(graph)
    for depth in range(int(level.max(initial=-1)) + 1):
        for reduces in (True, False):
            chosen = np.flatnonzero((level == depth) & (graph.reduces == reduces))
            if len(chosen):
                yield (
                    graph.source[chosen].astype(np.int64),
                    graph.target[chosen].astype(np.int64),
                    graph.blocks[chosen],
                    reduces,
                    int(chosen[0]),
                )


def message_levels(graph: Graph) -> Ints:
    """Return how many messages must come before each message, counted along the longest chain.

    A message waits for what its sender's step waits for, and is waited for by what follows the receiver's step.
    """
    depth = np.zeros(graph.steps, dtype=np.int64)
    while True:
        arrived = np.zeros(graph.steps, dtype=np.int64)
        np.maximum.at(arrived, graph.target_step, depth[graph.source_step] + 1)
        closed = np.maximum(depth, arrived)
        after = depth.copy()
        np.maximum.at(after, graph.before[:, 1], closed[graph.before[:, 0]])
        if np.array_equal(after, depth):
            return depth[graph.source_step]
        depth = after


def _deliver(
    state: State, moved: tuple[Ints, Ints, Ints], *, reduces: bool, exact: bool, merges: bool, first: int
) -> None:
    """Apply one round: what each sender held before it reaches each receiver."""
    source, target, blocks = moved
    carried = state[source[:, None], np.maximum(blocks, 0)]
    carried[blocks < 0] = 0
    places = (target[:, None], np.maximum(blocks, 0))
    if not reduces:
        keep = blocks >= 0
        state[np.broadcast_to(places[0], blocks.shape)[keep], blocks[keep]] = carried[keep]
        return
    if not exact:
        np.add.at(state, places, carried)
        return
    before = _total_bits(state, target) + int(np.bitwise_count(carried).sum())
    np.bitwise_or.at(state, places, carried)
    if not merges and _total_bits(state, target) != before:
        raise _doubled(source, target, blocks, first)


def _total_bits(state: State, ranks: Ints) -> int:
    """Return how many contributions some ranks hold."""
    return int(np.bitwise_count(state[np.unique(ranks)]).sum())


def _doubled(source: Ints, target: Ints, blocks: Ints, first: int) -> InputError:
    last = first + len(source) - 1
    where = f"messages {first} to {last} (rank {source[0]} to rank {target[0]}, block {blocks[0, 0]}, ...)"
    return InputError(
        "the schedule adds a contribution twice", where=where, do="send each partial sum once, or do not let it reduce"
    )


def _missing(wanted: State, held: State, *, exact: bool) -> str:
    """Return whose parts are missing, in words; nothing where fingerprints do not tell."""
    if not exact:
        return ""
    bits = np.unpackbits((wanted & ~held).view(np.uint8), bitorder="little")
    ranks = [str(rank) for rank in np.flatnonzero(bits)]
    if not ranks:
        return ""
    named = ", ".join(ranks[:_NAMED]) + (f" and {len(ranks) - _NAMED} more" if len(ranks) > _NAMED else "")
    return f": what rank{'s' if len(ranks) > 1 else ''} {named} had at the start never reaches it"


def _compare(state: State, goal: Goal, parts: State, *, exact: bool) -> None:
    """Refuse an end that is not the goal's."""
    wanted = _state(goal.finish, parts, exact=exact)
    wrong = (goal.finish != ANY) & (state != wanted).any(axis=2)
    if not wrong.any():
        return
    rank, block = (int(index) for index in np.argwhere(wrong)[0])
    missing = _missing(wanted[rank, block], state[rank, block], exact=exact)
    raise InputError(
        f"rank {rank} ends without the whole of block {block}{missing}"
        if goal.finish[rank, block] != NONE
        else f"rank {rank} ends with block {block}, which it should not have",
        where=f"rank {rank}, block {block}",
        do="add the messages that bring the missing contributions, or make one wait for another (`after`)",
    )
