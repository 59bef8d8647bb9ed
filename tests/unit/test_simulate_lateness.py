"""Lateness: what of a late rank reaches the end, against runs worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from nhalf.decide.agreement import shape_for
from nhalf.decide.skewed import Lateness, lateness
from nhalf.link import Link
from nhalf.simulate.engine import Conditions, run
from nhalf.simulate.machine import Wiring, from_links
from nhalf.simulate.programs import build
from nhalf.simulate.straggler import Skew, parse_skew

LINK = Link(5e-6, 50e9)
ONE = 1e6 / 50e9
"""The time of a megabyte [s]."""
LATE = Skew(kind="samples", samples_s=np.zeros(1))


def found(op: str, name: str, ranks: int, starts: object, *, skew: Skew = LATE, **conditions: object) -> Lateness:
    machine = from_links(ranks, LINK, Wiring())
    program = build(op, name, shape_for(name, ranks, 1e6, machine))
    given = Conditions(starts_s=np.asarray(starts, dtype=np.float64), **conditions)  # type: ignore[arg-type]
    answer = lateness(run(program, machine.network, given), skew)
    assert answer is not None
    return answer


def test_a_ring_passes_on_all_of_it_and_drags_everyone() -> None:
    # One late rank a draw; in the last two draws nobody is late, or all are alike.
    answer = found("all-reduce", "ring", 4, [[0, 1e-3, 0, 1e-3], [0, 0, 0, 1e-3], [2e-5, 0, 0, 1e-3], [0, 0, 0, 1e-3]])
    assert answer.draws == 2
    assert answer.passed_on == pytest.approx(1.0)
    assert answer.hidden.share == answer.added.share == 0
    assert answer.dragged == 3


def test_a_reduce_to_one_rank_hides_what_the_root_takes_in_meanwhile_and_drags_the_root_alone() -> None:
    # Together the root takes in two messages, one after the other; while it waits for rank 2 it takes in rank 1's.
    late = 10 * ONE
    answer = found("reduce", "direct", 3, [[0], [0], [late]])
    assert answer.passed_on == pytest.approx((late - ONE) / late)
    assert (answer.hidden.share, answer.added.share) == (1, 0)
    assert (answer.hidden.mean_s, answer.hidden.most_s) == pytest.approx((ONE, ONE))
    assert answer.dragged == 1


@pytest.mark.parametrize(("ports", "added"), [("fifo", ONE), ("fair", 0.0)])
def test_a_one_shot_convoy_adds_what_meets_at_the_port_of_the_late_rank(ports: str, added: float) -> None:
    # Ranks 0 and 1 serve each other first; then both messages for rank 2 are one message late, and meet at its port.
    late = ONE / 100
    answer = found("all-reduce", "one-shot", 3, [[0], [0], [late]], ports=ports)
    assert answer.added.most_s == pytest.approx(added - late if added else 0.0, abs=1e-12)
    assert answer.hidden.share == 0
    assert answer.passed_on == pytest.approx((late + answer.added.most_s) / late)


def test_a_normal_skew_counts_lateness_from_on_time() -> None:
    skew = parse_skew("normal:10us")
    answer = found("all-reduce", "ring", 8, skew.draw(8, 200, seed=1), skew=skew)
    assert answer.passed_on == pytest.approx(1.0)
    assert 6.8 < answer.dragged <= 7


def test_without_late_ranks_there_is_nothing_to_say() -> None:
    machine = from_links(4, LINK, Wiring())
    program = build("all-reduce", "ring", shape_for("ring", 4, 1e6, machine))
    for starts in (None, np.zeros((4, 3))):
        assert lateness(run(program, machine.network, Conditions(starts_s=starts)), LATE) is None
