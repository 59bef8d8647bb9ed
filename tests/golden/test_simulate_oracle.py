"""The simulator against another: SimGrid's answers for the same collectives, networks and flows.

The rows in `simulator/` come from SimGrid 3.32 (S4U, rendezvous, model CM02 with every correction factor switched off,
maxmin/precision 1e-9), run on Debian 12 with alpha = 5 us and beta = 50 GB/s. They are an excerpt: seven rank counts of
the switch, all rows of the tree, of two rings on one uplink and of the flows but one file of 4,000. SimGrid prints
six decimals of a microsecond, which bounds what the skewed rows can agree to.

The draws of the skewed ring are the first 21 of a run of 200. In SimGrid a message is eager only once its receiver has
declared its mailbox (`set_receiver`). The run of 200 declared it when a rank first began, so what was sent to a rank
that was late in the first draw waited for it: 86.70 us, not 87.85 (2460.75 at 64 MiB, not 2476.34). The first eager
row is of a run that declares all mailboxes at time 0 (`tests/bench/simulate_simgrid_eager.cpp` makes both numbers).
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from nhalf.link import Link
from nhalf.simulate import network
from nhalf.simulate.building import Builder, together
from nhalf.simulate.engine import Conditions, run
from nhalf.simulate.program import Program
from nhalf.simulate.programs import build
from nhalf.simulate.programs.shape import Shape

FOLDER = Path(__file__).with_name("simulator")
LINK = Link(5e-6, 50e9)
PRINTED_US = 5.1e-7
"""Half of the last printed digit, and the rounding of the printed start times."""


def rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def families() -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in rows("collectives.csv"):
        skewed = "-skewed" if row["starts"] else ""
        found[f"{row['network']}{skewed}-{row['op']}-{row['algorithm']}"].append(row)
    return found


def simulated_us(row: dict[str, str], ports: str) -> float:
    ranks = int(row["ranks"])
    program = build(row["op"], row["algorithm"], Shape(ranks=ranks, size_bytes=float(row["size_bytes"])))
    net = network.switch(ranks, LINK)
    if row["network"] == "tree":
        net = network.tree(ranks, LINK, leaf=8, oversubscription=float(row["oversubscription"]))
        if row["algorithm"] == "rabenseifner":
            # In SimGrid far partners swapped the large pieces: the same with the ranks' bits in the opposite order.
            bits = ranks.bit_length() - 1
            program = together([program], [[int(f"{rank:0{bits}b}"[::-1], 2) for rank in range(ranks)]], ranks)
    starts = np.loadtxt(FOLDER / f"{row['starts']}.txt") * 1e-6 if row["starts"] else None
    return float(run(program, net, Conditions(ports=ports, starts_s=starts)).time_s) * 1e6


@pytest.mark.parametrize("family", families())
def test_fair_ports_give_the_time_of_the_other_simulator(family: str) -> None:
    tolerance = 1e-8 if "skewed" in family else 1e-9
    for row in families()[family]:
        assert simulated_us(row, "fair") == pytest.approx(float(row["time_us"]), rel=tolerance), row


@pytest.mark.parametrize("family", [name for name in families() if name.startswith("switch")])
def test_on_a_switch_fifo_ports_give_the_same_when_all_start_together(family: str) -> None:
    for row in families()[family]:
        assert simulated_us(row, "fifo") == pytest.approx(float(row["time_us"]), rel=1e-9), row


@pytest.mark.parametrize("row", rows("two_rings.csv"), ids=lambda row: f"{row['size_bytes']}-{row['other_size_bytes']}")
def test_two_rings_share_an_uplink(row: dict[str, str]) -> None:
    ranks, half = int(row["ranks"]), int(row["ranks"]) // 2
    net = network.tree(2 * ranks, LINK, leaf=ranks, oversubscription=float(row["oversubscription"]))
    places = [[*range(half), *range(ranks, ranks + half)], [*range(half, ranks), *range(ranks + half, 2 * ranks)]]
    sizes = [float(row["size_bytes"]), float(row["other_size_bytes"])]
    programs = [build("all-reduce", "ring", Shape(ranks=ranks, size_bytes=size)) for size in sizes if size]
    starts = np.zeros(2 * ranks)
    starts[places[1]] = float(row["other_start_us"]) * 1e-6
    both = together(programs, places[: len(programs)], 2 * ranks)
    finished = run(both, net, Conditions(ports="fair", starts_s=starts)).finished_s * 1e6
    assert finished[places[0]].max() == pytest.approx(float(row["time_us"]), rel=1e-9)
    if sizes[1]:
        assert finished[places[1]].max() == pytest.approx(float(row["other_time_us"]), rel=1e-9)


@pytest.mark.parametrize("case", sorted({row["case"] for row in rows("flows.csv")}))
def test_every_flow_ends_when_it_should(case: str) -> None:
    flows = [row for row in rows("flows.csv") if row["case"] == case]
    leaf, leaves = int(flows[0]["leaf"]), int(flows[0]["leaves"])
    builder = Builder(leaf * leaves)
    for flow in flows:
        start = float(flow["start_us"]) * 1e-6
        ends = [builder.step(int(flow[side]), earliest_s=start) for side in ("source", "target")]
        builder.message(ends[0], ends[1], float(flow["size_bytes"]))
    program = Program(op="flows", algorithm="flows", ranks=leaf * leaves, size_bytes=1.0, steps=builder.graph())
    net = network.tree(leaf * leaves, LINK, leaf=leaf, oversubscription=float(flows[0]["oversubscription"]))
    record = run(program, net, Conditions(ports="fair")).record
    assert record is not None
    expected = np.array([float(flow["end_us"]) for flow in flows])
    # A flow is two steps in the order of the file, so messages keep their places.
    assert np.abs(record.ended_s * 1e6 - expected).max() < 1e-6


@pytest.mark.parametrize("protocol", ["rendezvous", "eager"])
@pytest.mark.parametrize("size", ["16384", "67108864"])
def test_draws_of_a_skewed_ring_end_when_they_should(protocol: str, size: str) -> None:
    draws = [row for row in rows("ring_draws.csv") if (row["protocol"], row["size_bytes"]) == (protocol, size)]
    starts = np.array([[float(row[f"start{rank}_us"]) for row in draws] for rank in range(8)]) * 1e-6
    program = build("all-reduce", "ring", Shape(ranks=8, size_bytes=float(size)))
    played = run(program, network.switch(8, LINK), Conditions(ports="fair", protocol=protocol, starts_s=starts))
    expected = np.array([float(row["time_us"]) for row in draws])
    assert len(draws) == 21
    assert np.abs(np.asarray(played.time_s) * 1e6 - expected).max() < 2 * PRINTED_US
