"""A switch that adds up and copies: ports by hand, bytes by hand, and the laws that nothing else pins."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.cli.command import invoke, refused

from nhalf.errors import InputError
from nhalf.link import Link
from nhalf.loading.simulating import made_programs
from nhalf.simulate import network, payload
from nhalf.simulate.engine import Conditions, run
from nhalf.simulate.machine import Wiring, from_links
from nhalf.simulate.path import utilisation
from nhalf.simulate.programs import IN_SWITCH, PROGRAMS, build
from nhalf.simulate.programs.shape import Shape

if TYPE_CHECKING:
    from nhalf.simulate.program import Program

ALPHA, BETA = 1e-6, 900e9
LINK = Link(ALPHA, BETA)


def nvls(op: str, ranks: int, size: float, segments: int = 1) -> Program:
    return build(op, "nvls", Shape(ranks=ranks, size_bytes=size, segments=segments))


def by_hand(ranks: int, size: float) -> float:
    """Return when an all-reduce of uncut shares ends [s], port by port: all reads, then all writes."""
    piece = math.ceil(size / ranks) / BETA
    added = [(share + 1) * piece + ALPHA / 2 for share in range(ranks)]  # every port sends share after share
    read = [time + piece + ALPHA / 2 for time in added]
    wrote = [max(ranks * piece, time) + piece + ALPHA / 2 for time in read]
    free = 0.0
    for time in wrote:  # all ports receive the same copies
        free = max(free, time) + piece
    return free + ALPHA / 2


@pytest.mark.parametrize("ranks", [2, 3, 8, 17])
@pytest.mark.parametrize("size", [17.0, 65536.0, 1e9 + 1])
def test_an_all_reduce_ends_when_its_ports_by_hand_do(ranks: int, size: float) -> None:
    found = run(nvls("all-reduce", ranks, size), network.multicast(ranks, LINK))
    assert found.time_s == pytest.approx(by_hand(ranks, size), rel=1e-12)


@pytest.mark.parametrize(
    ("op", "out", "back"),
    [("all-reduce", 1 + 1 / 8, 1 + 1 / 8), ("reduce-scatter", 1, 1 / 8), ("all-gather", 1 / 8, 1)],
)
def test_a_port_carries_what_the_switch_saves_nothing_of(op: str, out: float, back: float) -> None:
    found = run(nvls(op, 8, 8192.0, segments=4), network.multicast(8, LINK))
    sent = {use.name: use.bytes for use in utilisation(found)}
    assert sent == {
        f"rank {rank} {way}": 8192 * part for rank in range(8) for way, part in (("out", out), ("in", back))
    }


@pytest.mark.parametrize("ranks", [8, 16])
@pytest.mark.parametrize("ports", ["fifo", "fair"])
@pytest.mark.parametrize(("op", "messages"), [("all-reduce", 2), ("reduce-scatter", 1), ("all-gather", 1)])
def test_latency_and_transfer_are_those_of_the_law(op: str, messages: int, ports: str, ranks: int) -> None:
    net, conditions = network.multicast(ranks, LINK), Conditions(ports=ports)
    small = run(nvls(op, ranks, 8.0 * ranks), net, conditions)
    assert small.time_s == pytest.approx(messages * ALPHA, rel=1e-3)
    size = 2.0**32
    law_s = (1 + (op == "all-reduce") / ranks) * size / BETA
    large = run(nvls(op, ranks, size, segments=64), net, conditions, record=False)
    # Fair ports end all reads together, then all sums: what goes up and what comes down take turns.
    in_turns_s = messages * (1 + 1 / ranks) * size / BETA
    assert law_s <= large.time_s <= 1.04 * (law_s if ports == "fifo" else in_turns_s)
    if (op, ports) == ("all-reduce", "fair"):
        assert large.time_s >= in_turns_s


@pytest.mark.parametrize("op", IN_SWITCH)
@pytest.mark.parametrize(("ranks", "segments"), [(2, 1), (5, 3), (72, 1), (130, 1)])
def test_each_contribution_arrives_once(op: str, ranks: int, segments: int) -> None:
    assert payload.check(nvls(op, ranks, 1e6, segments)) == ("bitmask" if ranks <= 128 else "fingerprint")


def test_a_late_rank_holds_up_the_sums_and_a_slow_port_its_own_bytes() -> None:
    made, net = nvls("all-reduce", 8, 8e6, segments=8), network.multicast(8, LINK)
    alone = run(made, net)
    late = run(made, net, Conditions(starts_s=np.where(np.arange(8) == 3, 1e-3, 0.0)))
    assert late.finished_s.shape == (8,)
    assert late.time_s == pytest.approx(1e-3 + float(alone.time_s), rel=0.01)
    slow = run(made, net, Conditions(port_slowness=np.where(np.arange(8) == 3, 2.0, 1.0)))
    assert float(slow.time_s) - float(alone.time_s) == pytest.approx((1 + 1 / 8) * 8e6 / BETA, rel=1e-9)
    drawn = run(made, net, Conditions(starts_s=np.zeros((8, 2)), reduction_s_per_byte=1e-9))
    assert drawn.finished_s.tolist() == [[time] * 2 for time in alone.finished_s.tolist()]


def test_other_programs_take_it_for_a_switch() -> None:
    for name in ("ring", "two-shot", "rabenseifner"):
        made = build("all-reduce", name, Shape(ranks=8, size_bytes=1e6))
        times = [run(made, net(8, LINK)).finished_s.tolist() for net in (network.switch, network.multicast)]
        assert times[0] == pytest.approx(times[1], rel=1e-12)


def test_only_such_a_switch_runs_it() -> None:
    flags = {"size": "1MiB", "algorithm": "all", "routing": None, "system": None}
    on = {kind: from_links(8, LINK, Wiring(topology=kind)) for kind in ("switch", "multicast")}
    names = {kind: [made.algorithm for made in made_programs("all-reduce", 8, on[kind], flags)] for kind in on}
    assert names["multicast"] == [*names["switch"], "nvls"]
    assert "nvls" not in PROGRAMS["all-reduce"]
    with pytest.raises(InputError, match="nvls needs a switch that adds up and copies"):
        made_programs("all-reduce", 8, on["switch"], {**flags, "algorithm": "nvls"})
    with pytest.raises(InputError, match="instead of --on"):
        made_programs("all-reduce", 8, on["switch"], {**flags, "algorithm": "nvls", "system": "h100-sxm"})


def test_what_runs_on_no_other_switch_takes_it() -> None:
    asked = ("simulate", "all-reduce", "--ranks", "8", "--size", "1MiB", "--link", "1us,400GB/s", "--algorithm", "nvls")
    chosen, said = (invoke(*asked, *more, "--json") for more in ((), ("--topology", "multicast")))
    assert chosen.code == 0
    assert [run["time_s"] for run in chosen.document["runs"]] == [run["time_s"] for run in said.document["runs"]]
    assert "a switch that adds up and copies" in invoke(*asked).out
    on = refused(*asked[:6], "--on", "h100-sxm", *asked[8:])
    assert "take --link 779ns,450GB/s instead of --on h100-sxm" in on
    assert "--link and --latency/--bandwidth are both given" in refused(*asked, "--latency", "1us")
