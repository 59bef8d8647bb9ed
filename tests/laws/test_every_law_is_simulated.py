"""Every law of the register: a program whose simulated time pins its latency and its transfer, or a word why none does.

One latency more or less in a law fails here, and so does a twentieth of its bytes.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pytest

from nhalf.collective import Op
from nhalf.decide.agreement import outcome, shape_for
from nhalf.laws.collective.table import LAWS, Law
from nhalf.link import Link
from nhalf.simulate.engine import Conditions, run
from nhalf.simulate.machine import Machine, Wiring, from_links
from nhalf.simulate.programs import GROUPED, PROGRAMS, SEGMENTED, build

LINK, FAST, SLOW = Link(5e-6, 50e9), Link(2e-6, 400e9), Link(8e-6, 50e9)
LATENCY, TRANSFER = 24, 3 * 2**24
"""Bytes of a rank's share at which a message is all latency, and all transfer."""
ROUNDING: Final = 1e-5
PIPELINE: Final = 0.04
"""What segments wait for each other at the ports of inner ranks, which no law charges; fewer ranks wait longer."""
TURN: Final = 0.012
"""A ring across nodes: its law charges all bytes at the slower tier, which those of a step in a node do not pay."""


class Case(NamedTuple):
    """How a law is simulated: its conditions, NICs of a node (0: one for each rank), and how near it must come."""

    conditions: dict[str, Any] = {}  # noqa: RUF012  not changed
    nics: int = 0
    near: float = ROUNDING


ACROSS = {
    # One ring passes through one NIC of a node, and its latency pipelines with senders that do not wait.
    **{(op, "ring"): Case({"protocol": "eager"}, nics=1, near=TURN) for op in ("all-reduce", "all-gather",
       "reduce-scatter")},
    # All NICs are busy at all times only where messages share them.
    ("all-to-all", "direct"): Case({"ports": "fair"}),
}  # fmt: skip
TABLE = [(op, str(name), law) for op, laws in LAWS.items() for name, law in laws.items()]
CHECKED = [pytest.param(*row, id=f"{row[0]} {row[1]}") for row in TABLE if not row[2].unchecked]


def test_a_law_has_a_program_or_a_reason_and_never_both() -> None:
    for op, name, law in TABLE:
        if law.unchecked:
            assert name not in PROGRAMS.get(op, {}), f"{op} {name} has a program: let it check the law"
            assert law.exact == "unchecked"
        else:
            assert name in PROGRAMS[op], f"{op} {name}: no program, and no word why"
            assert law.exact != "unchecked"


def test_every_program_of_an_operation_has_a_law() -> None:
    assert [(op, name) for op in Op for name in PROGRAMS[op] if name not in LAWS[op]] == []


def agree(op: Op, name: str, machine: Machine, case: Case) -> None:
    """Hold the law to the simulation where latency is all that counts, and where bytes are."""
    ranks = machine.span.ranks
    for share in (LATENCY, TRANSFER):
        program = build(op, name, shape_for(name, ranks, float(share * ranks), machine))
        played = run(program, machine.network, Conditions(**case.conditions), record=False)
        found = outcome(played, machine, replay=False)
        near = case.near if share == TRANSFER else min(case.near, 5e-3)
        assert found.law_s is not None, (ranks, share)
        assert float(played.time_s) == pytest.approx(found.law_s, rel=near), (ranks, share, found.reason)


@pytest.mark.parametrize(("op", "name", "law"), CHECKED)
def test_a_law_is_what_its_program_takes_in_a_node(op: Op, name: str, law: Law) -> None:
    if law.in_node is None:
        assert law.across_nodes is not None
        return
    counts = (2,) if op == Op.SEND_RECV else (8, 16) if law.exact != "every" or name in SEGMENTED else (6, 8, 16)
    for ranks in counts:
        group = (3 if ranks == 6 else 4) if name in GROUPED else 0
        case = Case(near=PIPELINE if name in SEGMENTED else ROUNDING)
        agree(op, name, from_links(ranks, LINK, Wiring(group=group)), case)


@pytest.mark.parametrize(("op", "name", "law"), CHECKED)
def test_a_law_is_what_its_program_takes_across_nodes(op: Op, name: str, law: Law) -> None:
    if law.across_nodes is None or law.unchecked_across:
        assert law.in_node is not None
        return
    case = ACROSS.get((op, name), Case())
    for per_node, nodes in ((1, 2),) if op == Op.SEND_RECV else ((4, 2), (4, 4), (8, 2)):
        wiring = Wiring(topology="nodes", group=per_node, nics=case.nics, inter=SLOW)
        agree(op, name, from_links(per_node * nodes, FAST, wiring), case)
