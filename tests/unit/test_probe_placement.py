"""Where ranks run: which processors they are given, how far apart they were seen, and what the answer says of it."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from nhalf.evidence.probe import placement
from nhalf.evidence.probe.placement import Placement, Seen, described, processors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux places processes")


@pytest.fixture
def two_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sockets of two caches of two cores of two threads: threads of a core are 8 apart, as Linux counts them."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    monkeypatch.setattr(placement, "_where", where)


def where(cpu: int) -> tuple[int, int, int]:
    core = cpu % 8
    return core, core - core % 2, core - core % 4


@linux
@pytest.mark.usefixtures("two_sockets")
@pytest.mark.parametrize(
    ("how", "count", "found"),
    [
        ("near", 2, [0, 8]),
        ("near", 4, [0, 8, 1, 9]),
        ("near", 6, [0, 8, 1, 9, 2, 10]),
        ("spread", 2, [0, 2]),
        ("spread", 4, [0, 2, 4, 6]),
        ("spread", 8, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("spread", 10, [0, 1, 2, 3, 4, 5, 6, 7, 8, 10]),
        ("spread", 17, []),
        ("free", 2, []),
        ("launcher", 2, []),
    ],
)
def test_ranks_get_processors_of_their_own(how: Placement, count: int, found: Sequence[int]) -> None:
    assert processors(count, how) == list(found)


def ran(*cpus: int) -> dict[str, Any]:
    seen = sorted(set(cpus))
    cores, caches, sockets = ([*each] for each in zip(*map(where, seen), strict=True))
    return {"visits": [*cpus], "seen": seen, "cores": cores, "caches": caches, "sockets": sockets}


@pytest.mark.parametrize(
    ("first", "second", "apart"),
    [
        ((0, 0), (0, 0), "same processor"),
        ((0, 0), (8, 8), "same core"),
        ((0, 0), (9, 9), "same cache"),
        ((0, 0), (2, 2), "across caches"),
        ((0, 0), (4, 4), "across sockets"),
        ((0, 1, 1, 0), (0, 1, 1, 8), "same processor (75 % of visits)"),
    ],
)
def test_how_far_apart_two_ranks_were_is_said(first: tuple[int, ...], second: tuple[int, ...], apart: str) -> None:
    found = described("free", {0: ran(*first), 1: ran(*second)}, {0: 0, 1: 0})
    assert found["ranks_apart"] == apart


def test_ranks_of_two_hosts_and_ranks_that_were_not_seen() -> None:
    found = described("spread", {0: ran(3, 3), 1: ran(0, 1, 2, 5)}, {0: 0, 1: 1})
    assert found == {
        "placement": "spread",
        "ranks_apart": "across hosts",
        "ranks_on": "rank 0 on processor 3, rank 1 on processors 0-2, 5",
    }
    nothing: dict[str, Any] = {"visits": [], "seen": [], "cores": [], "caches": [], "sockets": []}
    assert described("free", {0: nothing, 1: nothing}, {0: 0, 1: 0}) == {"placement": "free"}


def test_many_ranks_are_summed_up() -> None:
    found = described("spread", {rank: ran(rank) for rank in range(12)}, dict.fromkeys(range(12), 0))
    assert found["ranks_apart"] == "same core, same cache, across caches, across sockets"
    assert "ranks_on" not in found


@linux
def test_a_process_that_is_kept_on_a_processor_was_seen_there() -> None:
    before = os.sched_getaffinity(0)
    seen = Seen()
    try:
        placement.place(min(before))
        seen.note()
        seen.note()
    finally:
        os.sched_setaffinity(0, before)
    seen.note()
    result: Any = seen.result()
    assert result["visits"][:2] == [min(before)] * 2
    assert set(result["visits"]) <= before
    assert len(result["cores"]) == len(result["seen"])
    json.dumps(result)


def test_what_the_system_does_not_tell_is_each_processors_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(placement, "_CPU", f"{tmp_path}/cpu{{}}/")
    assert placement._where(5) == (5, 5, 5)
    for name, text in (
        ("topology/thread_siblings_list", "2,10\n"),
        ("topology/package_cpus_list", "0-15\n"),
        ("cache/index0/shared_cpu_list", "2,10\n"),
        ("cache/index3/shared_cpu_list", "0-3,8-11\n"),
    ):
        path = tmp_path / "cpu10" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    assert placement._where(10) == (2, 0, 0)
