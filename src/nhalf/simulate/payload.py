"""Payload: replays the data of a program and tells whether every contribution arrives exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nhalf.errors import InputError
from nhalf.simulate.program import ALL, ANY, LATEST_BITMASK, NONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nhalf.simulate.graph import Graph, Indices
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
    for moved, reduces in _playings(program):
        _deliver(state, moved, reduces=reduces, exact=exact, merges=goal.merges)
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


class _Moved(NamedTuple):
    """Messages that move at once, and their numbers."""

    source: Ints
    target: Ints
    blocks: Ints
    numbers: Ints


def _playings(program: Program) -> Iterator[tuple[_Moved, bool]]:
    """Yield the messages of every playing of every round, or of every level of a graph, and whether they reduce."""
    first = 0
    if program.rounds is not None:
        for played in program.rounds():
            for step in range(played.times):
                numbers = np.arange(first, first + played.messages)
                yield _Moved(played.source, played.target, played.blocks(step), numbers), played.reduces
                first += played.messages
    elif program.steps is not None and program.steps.blocks is not None:
        graph = program.steps
        source, target, blocks = graph.source.astype(np.int64), graph.target.astype(np.int64), program.steps.blocks
        for numbers, reduces in by_level(graph):
            yield _Moved(source[numbers], target[numbers], blocks[numbers], numbers), reduces


def _deliver(state: State, moved: _Moved, *, reduces: bool, exact: bool, merges: bool) -> None:
    """Apply one round: what each sender held before it reaches each receiver."""
    source, target, blocks, _ = moved
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
    ranks = np.unique(target)
    held = state[ranks]
    bits = int(np.bitwise_count(held).sum()) + int(np.bitwise_count(carried).sum())
    np.bitwise_or.at(state, places, carried)
    if not merges and int(np.bitwise_count(state[ranks]).sum()) != bits:
        state[ranks] = held
        raise _doubled(state, moved, carried)


def _doubled(state: State, moved: _Moved, carried: State) -> InputError:
    """Return the error of the first message that adds a part which its receiver holds already."""
    place = 0
    while not (twice := state[moved.target[place], moved.blocks[place]] & carried[place]).any():
        state[moved.target[place], moved.blocks[place]] |= carried[place]
        place += 1
    column = int(np.argmax(twice.any(axis=1)))
    part = int(np.flatnonzero(np.unpackbits(twice[column].view(np.uint8), bitorder="little"))[0])
    return InputError(
        f"rank {moved.target[place]} adds a contribution twice: what rank {part} had of block "
        f"{moved.blocks[place, column]} at the start",
        where=f"message {moved.numbers[place]} (rank {moved.source[place]} to rank {moved.target[place]})",
        do="send each partial sum once, or do not let it reduce",
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
    """Refuse a result that differs from the goal."""
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


def message_levels(graph: Graph) -> Ints:
    """Return how many messages must come before each message, counted along the longest chain.

    A message waits for what its sender's step waits for, and is waited for by what follows the receiver's step. Steps
    are taken in waves: those that wait for no other, then those that wait for these alone, and so on. The graph has no
    circle.
    """
    depth = np.zeros(graph.steps, dtype=np.int64)
    closed = np.zeros(graph.steps, dtype=np.int64)
    awaits, (starts, next_steps) = graph.awaits(), _followers(graph)
    sends, target = graph.sends(), graph.target_step
    open_sides = 1 + np.bincount(target, minlength=graph.steps)
    wave = np.flatnonzero(awaits == 0)
    while len(wave):
        sent, sender = _entries(sends, wave)
        to = target[sent]
        np.maximum.at(closed, to, depth[wave[sender]] + 1)
        closed[wave] = np.maximum(closed[wave], depth[wave])
        np.subtract.at(open_sides, to, 1)
        open_sides[wave] -= 1
        touched = np.unique(np.concatenate([wave, to]))
        done = touched[open_sides[touched] == 0]
        after, before = _entries(starts, done)
        later = next_steps[after]
        np.maximum.at(depth, later, closed[done[before]])
        np.subtract.at(awaits, later, 1)
        wave = np.unique(later[awaits[later] == 0])
    return depth[graph.source_step]


def _followers(graph: Graph) -> tuple[Ints | Indices, Ints | Indices]:
    """Return the steps that follow each step as a ragged list, also where a stride says it."""
    if graph.edges is not None:
        return graph.followers()
    later = np.arange(graph.stride, graph.steps)
    return np.minimum(np.arange(graph.steps + 1), len(later)), later


def _entries(starts: Ints | Indices, values: Ints) -> tuple[Ints, Ints]:
    """Return the places of the entries of some values in a ragged list, and which of the values each belongs to."""
    lengths = starts[values + 1] - starts[values]
    of = np.repeat(np.arange(len(values)), lengths)
    first = np.cumsum(lengths) - lengths
    return starts[values][of] + np.arange(len(of)) - first[of], of


def by_level(graph: Graph) -> Iterator[tuple[Ints, bool]]:
    """Yield the messages of each level, those that reduce before those that do not, and whether they do."""
    level, copies = message_levels(graph), ~graph.reduces
    order = np.lexsort((copies, level))
    changes = (np.diff(level[order]) != 0) | (np.diff(copies[order]) != 0)
    for messages in np.split(order, np.flatnonzero(changes) + 1) if len(order) else ():
        yield messages, bool(graph.reduces[messages[0]])
