"""Collectives inside a switch that adds up what it is sent and copies what it sends, as NVLink SHARP does.

The switch takes part as one rank more, whose ports are no limit: `network.multicast` has the ways to it and from it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nhalf.simulate.graph import Graph, Pairs
from nhalf.simulate.program import ANY, NONE, Goal, Program, check_messages
from nhalf.simulate.programs.shape import copied, reduced_at, reduced_everywhere

if TYPE_CHECKING:
    from nhalf.simulate.programs.shape import Shape
    from nhalf.simulate.round import Ints

_AHEAD = 2
"""Pieces of its share that a rank asks the switch for at once: one on its way up while another comes down."""


def through_switch(shape: Shape, op: str) -> Program:
    """Return an all-reduce, a reduce-scatter or an all-gather inside a switch, each rank in charge of its share.

    A rank reads its share in pieces: for each, all ranks send theirs up, and the sum comes down (not in an all-gather).
    What it has it writes up once, and copies of it come down to all (not in a reduce-scatter).

    References
    ----------
    NVIDIA/nccl at 5067397c (2.30.7), src/sym_kernels.cc: kernels of loads that reduce and of stores that multicast.
    """
    k, count = shape.ranks, shape.ranks * shape.segments
    reads, writes = op != "all-gather", op != "reduce-scatter"
    check_messages("nvls", k, (reads + writes) * count * (k + 2))
    piece, each = np.arange(count), np.arange(k)
    owner, everyone, switch = piece % k, np.tile(each, count), np.full(count, k)
    kinds = [(everyone, switch), (switch, owner)] * reads + [(owner, switch), (switch, everyone)] * writes
    source, target, edges, blocks, of, first = [], [], [], [], [], 0
    for sender, receiver in kinds:
        carried = piece if len(sender) == len(receiver) else np.repeat(piece, k)
        sent, got = (np.arange(len(side)) if len(side) == len(carried) else carried for side in (sender, receiver))
        if first:  # what the switch or the owner sends on has just come to it
            edges.append(np.stack([first - count + piece, first + piece], axis=1))
        source.append(first + sent)
        target.append(first + len(sender) + got)
        of.append(np.where(sender[sent] == k, k + receiver[got], sender[sent]))
        blocks.append(carried)
        first += len(sender) + len(receiver)
    if reads:
        asked = piece[: -_AHEAD * k]
        later = (asked[:, None] + _AHEAD * k) * k + each
        edges.append(np.stack([np.repeat((k + 2) * count + asked, k), later.ravel()], axis=1))
    graph = Graph(
        ranks=k + 1,
        rank=np.concatenate([side for kind in kinds for side in kind]).astype(np.int32),
        edges=np.concatenate(edges).astype(np.int32),
        source_step=np.concatenate(source).astype(np.int32),
        target_step=np.concatenate(target).astype(np.int32),
        size_bytes=np.broadcast_to(np.float64(shape.chunk(count)), sum(map(len, blocks))),
        reduces=np.arange(sum(map(len, blocks))) < reads * count * k,
        blocks=np.concatenate(blocks)[:, None],
        pairs=Pairs(
            of=np.concatenate(of).astype(np.int32),
            source=np.append(each, switch[:k]).astype(np.int32),
            target=np.append(switch[:k], each).astype(np.int32),
        ),
    )
    return Program(
        op=op,
        algorithm="nvls",
        ranks=k,
        size_bytes=shape.size_bytes,
        steps=graph,
        goal=partial(_goal, op, owner, k),
        notes=(f"played with the switch as rank {k}, each share cut into {shape.segments}",),
    )


def _goal(op: str, owner: Ints, ranks: int) -> Goal:
    """Return the goal of the operation, beside a switch that begins with nothing and may end with anything."""
    goals = {"all-gather": partial(copied, ranks, owner), "reduce-scatter": partial(reduced_at, ranks, owner)}
    goal = goals.get(op, partial(reduced_everywhere, ranks, len(owner)))()
    start, finish = (
        np.pad(side, ((0, 1), (0, 0)), constant_values=end) for side, end in ((goal.start, NONE), (goal.finish, ANY))
    )
    return Goal(start=start, finish=finish)
