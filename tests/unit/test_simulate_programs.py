"""Programs: every contribution arrives once, and a program that loses or doubles one is caught."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from nhalf.errors import InputError
from nhalf.simulate import payload
from nhalf.simulate.programs import GROUPED, PROGRAMS, algorithm, build, operation
from nhalf.simulate.programs.shape import Shape
from nhalf.simulate.programs.trees import binary_parents, double_parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nhalf.simulate.program import Program
    from nhalf.simulate.round import AllPairs, Round

EVERY = [(op, name) for op, names in PROGRAMS.items() for name in names]
COUNTS = (*range(2, 19), 31, 33, 64, 128)


def takes(op: str, name: str, ranks: int) -> bool:
    return (op, name) != ("all-gather", "recursive-doubling") or ranks & (ranks - 1) == 0


def groups(name: str, ranks: int) -> list[int]:
    return [width for width in range(1, ranks + 1) if ranks % width == 0] if name in GROUPED else [0]


@pytest.mark.parametrize(("op", "name"), EVERY)
def test_every_contribution_arrives_exactly_once(op: str, name: str) -> None:
    for ranks in COUNTS:
        if takes(op, name, ranks):
            for width in groups(name, ranks)[:6]:
                program = build(op, name, Shape(ranks=ranks, size_bytes=1000.0, group=width, segments=3))
                assert payload.check(program) == "bitmask", (ranks, width)


@pytest.mark.parametrize("name", ["ring", "rabenseifner", "double-tree", "hierarchical"])
def test_beyond_128_ranks_a_fingerprint_checks(name: str) -> None:
    program = build("all-reduce", name, Shape(ranks=144, size_bytes=1e6, group=12, segments=2))
    assert payload.check(program) == "fingerprint"


@pytest.mark.parametrize("ranks", [8, 200])
def test_a_lost_round_is_found(ranks: int) -> None:
    whole = build("all-reduce", "recursive-doubling", Shape(ranks=ranks, size_bytes=100.0))

    def without_last() -> Iterator[Round | AllPairs]:
        assert whole.rounds is not None
        yield from list(whole.rounds())[:-1]

    with pytest.raises(InputError, match="rank 0 ends without the whole of block 0"):
        payload.check(replace(whole, rounds=without_last))


def test_a_doubled_contribution_is_found_by_bitmask() -> None:
    whole = build("reduce", "direct", Shape(ranks=5, size_bytes=100.0))

    def twice() -> Iterator[Round | AllPairs]:
        assert whole.rounds is not None
        for played in whole.rounds():
            yield replace(played, times=2)

    with pytest.raises(InputError, match="adds a contribution twice"):
        payload.check(replace(whole, rounds=twice))


def test_a_doubled_contribution_is_found_by_fingerprint() -> None:
    whole = build("reduce", "direct", Shape(ranks=130, size_bytes=100.0))

    def twice() -> Iterator[Round | AllPairs]:
        assert whole.rounds is not None
        for played in whole.rounds():
            yield replace(played, times=2)

    with pytest.raises(InputError, match="rank 0 ends without the whole of block 0"):
        payload.check(replace(whole, rounds=twice))


@pytest.mark.parametrize(
    ("op", "name", "ranks", "messages"),
    [
        ("all-reduce", "ring", 8, 2 * 7 * 8),
        ("all-reduce", "two-shot", 8, 2 * 7 * 8),
        ("all-reduce", "recursive-doubling", 8, 3 * 8),
        ("all-reduce", "recursive-doubling", 9, 3 * 8 + 2),
        ("broadcast", "binomial", 13, 12),
        ("barrier", "dissemination", 9, 4 * 9),
        ("send-recv", "direct", 4, 3),
        ("all-reduce", "ring", 16_384, 2 * 16_383 * 16_384),
    ],
)
def test_a_program_has_its_messages(op: str, name: str, ranks: int, messages: int) -> None:
    assert build(op, name, Shape(ranks=ranks, size_bytes=1e6)).messages == messages


def total_bytes(program: Program) -> float:
    graph = program.graph()
    return float(np.bincount(graph.source, weights=graph.size_bytes).max())


@pytest.mark.parametrize("ranks", [8, 12, 16])
def test_a_ring_sends_twice_the_vector_less_one_part(ranks: int) -> None:
    program = build("all-reduce", "ring", Shape(ranks=ranks, size_bytes=48e3))
    assert total_bytes(program) == pytest.approx(2 * (ranks - 1) / ranks * 48e3)


def test_chunks_are_whole_bytes() -> None:
    graph = build("all-reduce", "ring", Shape(ranks=7, size_bytes=100.0)).graph()
    assert set(graph.size_bytes.tolist()) == {15.0}
    exchange = build("all-to-all", "bruck", Shape(ranks=5, size_bytes=16384.0)).graph()
    assert sorted(set(exchange.size_bytes.tolist())) == [3276.0, 6553.0]


def test_a_skewed_dispatch_loads_the_first_rank_and_combine_gives_it_back() -> None:
    shape = Shape(ranks=8, size_bytes=1e6, skew=1.0)
    dispatch, combine = build("moe-dispatch", "direct", shape).graph(), build("moe-combine", "direct", shape).graph()
    arriving = np.bincount(dispatch.target, weights=dispatch.size_bytes)
    leaving = np.bincount(combine.source, weights=combine.size_bytes)
    assert arriving[0] > 2 * arriving[7]
    assert arriving == pytest.approx(leaving)


@pytest.mark.parametrize("ranks", range(2, 40))
def test_no_rank_is_an_inner_one_of_both_trees(ranks: int) -> None:
    first, second = double_parents(ranks)
    for parents in (first, second):
        assert (parents < 0).sum() == 1
    inner = [set(parents[parents >= 0].tolist()) - {int(np.argmin(parents))} for parents in (first, second)]
    assert not inner[0] & inner[1]


@pytest.mark.parametrize("ranks", [2, 5, 8, 31, 64, 100])
def test_a_binary_tree_is_as_deep_as_the_logarithm(ranks: int) -> None:
    parents = binary_parents(ranks)
    depth = 0
    for rank in range(ranks):
        steps, at = 0, rank
        while parents[at] >= 0:
            at, steps = int(parents[at]), steps + 1
        depth = max(depth, steps)
    assert depth == (ranks - 1).bit_length()


@pytest.mark.parametrize(
    ("op", "name", "shape", "words"),
    [
        ("all-reduce", "ring", Shape(ranks=1, size_bytes=8.0), "1 rank has nobody to talk to"),
        ("all-reduce", "ring", Shape(ranks=8, size_bytes=0.0), "moves nothing"),
        ("all-reduce", "hierarchical", Shape(ranks=8, size_bytes=8.0), "how many ranks share a node"),
        ("all-reduce", "torus-2d", Shape(ranks=8, size_bytes=8.0, group=3), "do not divide into groups of 3"),
        ("all-gather", "recursive-doubling", Shape(ranks=6, size_bytes=8.0), "power of two of ranks only, not 6"),
        ("all-reduce", "ring", Shape(ranks=8, size_bytes=8.0, skew=1.0), "no routing to skew"),
    ],
)
def test_what_cannot_be_made_is_refused(op: str, name: str, shape: Shape, words: str) -> None:
    with pytest.raises(InputError, match=words):
        build(op, name, shape)


def test_names_are_read_whatever_their_case_and_suggested_when_unknown() -> None:
    assert operation("AllReduce") == "all-reduce"
    assert algorithm("all-reduce", "Two_Shot") == "two-shot"
    with pytest.raises(InputError, match="Did you mean 'all-reduce'"):
        operation("allreduc")
    with pytest.raises(InputError, match="Did you mean 'rabenseifner'"):
        algorithm("all-reduce", "rabenseifer")
