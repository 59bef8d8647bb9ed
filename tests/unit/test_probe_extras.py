"""What follows from a run beside the fit: slow pairs and hosts, tiers, overlap, fusing, fixed times."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from nhalf.collective import Op
from nhalf.evidence.probe.cell import FUSE, Cell
from nhalf.evidence.probe.doubts import after, before, left_out, of_backend, oversubscribed
from nhalf.evidence.probe.extras import of_run
from nhalf.evidence.probe.plan import Request
from nhalf.evidence.probe.record import Entry, Record

HOSTS = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}


def pairs(slow: dict[str, float], *, hosts: dict[int, str] | None = None) -> dict[str, Any]:
    """Return the document of every pair, where a host takes a few times as long as the others."""
    hosts = hosts or HOSTS
    record = Record(backend="sockets", command="nhalf measure --pairs all", seed=1)
    record.ranks = {rank: {"host": host, "environment": {}} for rank, host in hosts.items()}
    for pair in combinations(hosts, 2):
        across = hosts[pair[0]] != hosts[pair[1]]
        factor = max(slow.get(hosts[rank], 1.0) for rank in pair) if across else 1.0
        for size in (8, 1_048_576, 4_194_304):
            time_ns = factor * ((50e3 if across else 1e3) + size / (1.0 if across else 10.0))
            cell = Cell(channel="tcp", op=Op.SEND_RECV, size_bytes=size, ranks=pair, label=f"tcp, {pair[0]}-{pair[1]}")
            record.entries.append(Entry(cell=cell, rounds=[[time_ns * (1 + 0.001 * sum(pair))] * 3] * 6))
    return record.document()


def test_two_tiers_come_out_and_no_pair_is_slow() -> None:
    found = of_run(pairs({}), pairs=True)
    assert "inside a node 1.01 us" in found.verdicts[0]
    assert "between nodes 50.3 us" in found.verdicts[0]
    assert "no pair is slow" in found.verdicts[0]


def test_a_slow_host_is_named() -> None:
    found = of_run(pairs({"b": 3.0}), pairs=True)
    assert "all pairs of host b" in found.verdicts[0]
    slow = {tuple(row["ranks"]) for row in found.values["pairs"] if row["slow"]}
    assert slow == {pair for pair in combinations(HOSTS, 2) if (HOSTS[pair[0]] == "b") != (HOSTS[pair[1]] == "b")}


def test_a_slow_rank_on_one_host_is_named() -> None:
    run = pairs({}, hosts=dict.fromkeys(range(5), "a"))
    for curve in run["curves"]:
        if 2 in curve["of_ranks"]:
            for point in curve["points"]:
                point["median_s"] *= 2
    assert "all pairs of rank 2 (on a)" in of_run(run, pairs=True).verdicts[0]


def test_one_slow_pair_is_listed() -> None:
    run = pairs({}, hosts=dict.fromkeys(range(5), "a"))
    run["curves"][3]["points"][0]["median_s"] *= 4
    assert "1 is slow: 0-4 (latency)" in of_run(run, pairs=True).verdicts[0]


def group(how: str = "isolated", **more: Any) -> Cell:  # noqa: ANN401
    given = {"channel": "mpi", "op": Op.ALL_REDUCE, "size_bytes": 1024, "ranks": (0, 1), "how": how, **more}
    return Cell(**given)


def document(*entries: Entry) -> dict[str, Any]:
    record = Record(backend="mpi", command="nhalf measure", seed=1, entries=list(entries))
    record.ranks = {0: {"host": "a", "environment": {}}, 1: {"host": "a", "environment": {}}}
    return record.document()


def test_a_fixed_time_is_split() -> None:
    split = Entry(cell=group("split"), parts={"enqueue": [2e3, 3e3, 2e3], "wait": [5e3, 5e3, 6e3]})
    whole = Entry(cell=group(), rounds=[[10e3]] * 6)
    (row,) = of_run(document(whole, split), pairs=False).values["fixed"]
    assert (row["enqueue_s"], row["wait_s"], row["rest_s"]) == pytest.approx((2e-6, 5e-6, 3e-6))


@pytest.mark.parametrize(("both", "hidden"), [(20e3, 0.0), (10e3, 1.0), (15e3, 0.5), (9e3, 1.0), (30e3, 0.0)])
def test_what_hides_is_a_share(both: float, hidden: float) -> None:
    entry = Entry(cell=group("overlap"), parts={"alone": [10e3], "work": [10e3], "both": [both]})
    found = of_run(document(entry), pairs=False)
    assert found.values["overlap"][0]["hidden"] == pytest.approx(hidden)
    assert f"{100 * hidden:.0f} %" in found.verdicts[0]


def test_what_fusing_saves() -> None:
    times = {(1024, 1): 10e3, (1024, 4): 40e3, (4096, 1): 13e3}
    entries = [
        Entry(cell=group(size_bytes=size, count=count, label=FUSE), rounds=[[time]] * 6)
        for (size, count), time in times.items()
    ]
    found = of_run(document(*entries), pairs=False)
    assert [(row["count"], row["saved_s"]) for row in found.values["fuse"]] == [
        (1, 0.0),
        (4, pytest.approx(27e-6)),
    ]
    assert found.verdicts == ["Fusing 4 all-reduces of 1 KiB into one takes 13 us instead of 40 us."]


# ------------------------------------------------------------------------------------------------- doubts


def test_too_many_ranks_for_a_host_are_flagged() -> None:
    ranks = {rank: {"host": "a", "cpus": [0, 1]} for rank in range(3)}
    assert oversubscribed(ranks)
    assert "3 ranks share 2 processors of a" in before(ranks)[0].text
    assert not oversubscribed({0: {"host": "a", "cpus": [0]}, 1: {"host": "a", "cpus": [1]}})
    assert not oversubscribed({0: {"host": "a", "cpus": [0]}, 1: {"host": "b", "cpus": [0]}})


def test_what_is_noisy_wrong_skewed_or_different_is_said() -> None:
    record = Record(backend="mpi", command="nhalf measure --backend mpi", seed=1)
    record.ranks = {0: {"host": "a", "environment": {"UCX_TLS": "tcp"}}, 1: {"host": "a", "environment": {}}}
    rounds = [[1e3 * factor] for factor in (1, 2, 3, 4, 5, 6, 7)]
    record.entries = [Entry(cell=group(), rounds=rounds, skews_ns=[3e3] * 7, right=False)]
    found = {doubt.code: doubt for doubt in after(record, Request(command=record.command), rounds=7)}
    assert set(found) == {"noise", "wrong-results", "skew", "ranks-differ"}
    assert found["noise"].do == "nhalf measure --backend mpi --budget 24s"
    assert "all-reduce 75 %" in found["skew"].text
    assert "UCX_TLS" in found["ranks-differ"].text


def test_sizes_that_were_left_out_come_with_the_command_that_measures_them() -> None:
    assert left_out([], Request()) == []
    (doubt,) = left_out([group(size_bytes=4096), group(size_bytes=1024)], Request(budget_s=10.0))
    assert "all-reduce from 1 KiB on" in doubt.text
    assert doubt.do == "nhalf measure --budget 40s"


def test_a_run_over_nccl_is_labelled_untested() -> None:
    assert of_backend("gloo") == []
    assert "untested on hardware" in of_backend("nccl")[0].text
