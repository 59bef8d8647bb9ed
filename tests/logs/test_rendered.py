"""What is written in a tool's shape is read back: sizes and times, whatever the generation and the operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.logs import rendering
from tests.logs.rendering import TOTALS, NcclTests, printed

from nhalf.evidence.readers import read

if TYPE_CHECKING:
    from pathlib import Path

    from nhalf.evidence.table import Table

Rows = list[tuple[int, float]]

TIMES = st.floats(min_value=1.0, max_value=90_000.0)
SIZES = st.lists(st.integers(min_value=7, max_value=33), min_size=5, max_size=12, unique=True)


@st.composite
def rows(draw: st.DrawFn) -> Rows:
    """Draw a sweep whose bandwidth stays below 900 GB/s, so that columns keep their width."""
    powers = sorted(draw(SIZES))
    return [(1 << p, max(draw(TIMES), (1 << p) / 9e5)) for p in powers]


def only(text: str, folder: Path) -> Table:
    path = folder / "log.txt"
    path.write_text(text, encoding="utf-8")
    (table,) = read(path)
    return table


def pairs(table: Table) -> Rows:
    return [(int(point.size_bytes), round(point.seconds * 1e6, 6)) for point in table.points]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rendered")


@given(
    rows=rows(), test=st.sampled_from(sorted(rendering.FACTORS)), generation=st.sampled_from(["2021", "2022", "2026"])
)
def test_nccl_tests(folder: Path, rows: Rows, test: str, generation: str) -> None:
    table = only(NcclTests(test=test, generation=generation, named=True).render(rows), folder)
    assert pairs(table) == [(s, printed(t)) for s, t in rows]
    assert table.size_is == ("total" if test in TOTALS else "message")
    assert table.ranks == 8
    assert table.skipped == ()


@pytest.mark.parametrize(
    "test", ["all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "sendrecv"]
)
@pytest.mark.parametrize("ranks", [2, 3, 8, 12, 16, 96])
@pytest.mark.parametrize("generation", ["2021", "2022"])
@pytest.mark.parametrize("banner", [True, False])
def test_operation_is_implied_by_the_columns(
    folder: Path, test: str, ranks: int, generation: str, *, banner: bool
) -> None:
    sweep = [(ranks * (1 << p), 20.0 + ranks * (1 << p) / 3e5) for p in range(10, 26)]
    table = only(NcclTests(test=test, ranks=ranks, generation=generation, banner=banner).render(sweep), folder)
    assert table.name == {"sendrecv": "send-recv", "alltoall": "all-to-all"}.get(test, test.replace("_", "-"))
    implied = test == "all_reduce" or test in TOTALS
    assert table.ranks == (ranks if banner or implied else None)


def test_an_operation_that_cannot_be_told_stays_unknown(folder: Path) -> None:
    sweep = [(8 << p, 20.0 + (8 << p) / 3e5) for p in range(10, 26)]
    gathered = only(NcclTests(test="all_gather", checked=False).render(sweep), folder)
    assert gathered.op is None
    assert gathered.size_is == "total"
    assert "op-unknown" in {note.code for note in gathered.notes}
    paired = only(NcclTests(test="all_reduce", ranks=2, checked=False).render(sweep), folder)
    assert paired.op is None
    assert paired.ranks == 2


def test_a_named_operation_wins_only_where_the_columns_allow_it(folder: Path) -> None:
    sweep = [(8 << p, 20.0 + (8 << p) / 3e5) for p in range(10, 26)]
    log = "$ mpirun -np 8 ./build/all_gather_perf -b 8K\n" + NcclTests(test="broadcast").render(sweep)
    assert only(log, folder).name == "broadcast"
    log = "$ mpirun -np 8 ./build/gather_perf -b 8K\n" + NcclTests(test="gather").render(sweep)
    assert only(log, folder).name == "gather"


@pytest.mark.parametrize("generation", ["2021", "2022"])
def test_rows_without_any_header(folder: Path, generation: str) -> None:
    sweep = [(64 << p, 20.0 + (64 << p) / 3e5) for p in range(20)]
    table = only(NcclTests(banner=False, header=False, generation=generation).render(sweep), folder)
    assert pairs(table) == [(s, printed(t)) for s, t in sweep]
    assert (table.name, table.ranks, table.nodes) == ("all-reduce", 8, None)
    assert "header-cut" in {note.code for note in table.notes}


def test_nodes_graph_and_aggregation(folder: Path) -> None:
    sweep = [(8 << p, 20.0) for p in range(8)]
    table = only(NcclTests(ranks=16, hosts=4, graph=10, aggregated=50).render(sweep), folder)
    assert (table.nodes, table.quantity, table.mode) == (4, "graph", "graph")
    assert {"graph-replay", "aggregated"} <= {note.code for note in table.notes}


def test_stamped_rows(folder: Path) -> None:
    sweep = [(8 << p, 20.0) for p in range(8)]
    assert pairs(only(NcclTests(stamped=True, generation="2026").render(sweep), folder)) == sweep


def test_per_iteration_extremes(folder: Path) -> None:
    table = only(NcclTests(generation="2026").render([(1024, 20.0), (2048, 21.0)]), folder)
    assert [point.min_s for point in table.points] == pytest.approx([18e-6, 18.9e-6])
    assert [point.max_s for point in table.points] == pytest.approx([22e-6, 23.1e-6])


def test_rccl_tests(folder: Path) -> None:
    text = NcclTests().render([(8 << p, 20.0) for p in range(8)])
    table = only(text.replace("# Using devices", "rccl-tests: Version develop:5f3a9c1\n# Using devices"), folder)
    assert table.tool == "rccl-tests"


@given(rows=rows(), full=st.booleans())
def test_osu(folder: Path, rows: Rows, *, full: bool) -> None:
    table = only(rendering.osu("Allreduce Latency Test", rows, full=full), folder)
    assert pairs(table) == [(s, round(t, 2)) for s, t in rows]


@given(rows=rows())
def test_imb(folder: Path, rows: Rows) -> None:
    table = only(rendering.imb("Allreduce", 12, rows), folder)
    assert pairs(table) == [(s, round(t, 2)) for s, t in rows]
    assert table.ranks == 12


@given(rows=rows())
def test_perftest_latency(folder: Path, rows: Rows) -> None:
    assert pairs(only(rendering.ib_lat(rows), folder)) == [(s, round(t, 2)) for s, t in rows]


@pytest.mark.parametrize("unit", ["MB", "MiB", "Gb"])
def test_perftest_bandwidth_of_every_unit(folder: Path, unit: str) -> None:
    sweep = [(2 << p, 0.25 + (2 << p) / 4.8e4) for p in range(30)]
    table = only(rendering.ib_bw(sweep, unit), folder)
    assert table.streamed
    for point, (_, time) in zip(table.points, sweep, strict=True):
        low, high = point.low_s or point.seconds, point.high_s or point.seconds
        assert low * (1.0 - 1e-6) <= time * 1e-6 <= high * (1.0 + 1e-6)
        assert high <= 1.002 * low


@given(rows=rows())
def test_nccl_debug(folder: Path, rows: Rows) -> None:
    table = only(rendering.nccl_debug(rows), folder)
    assert pairs(table) == [(s, round(t, 6)) for s, t in rows]
    assert table.quantity == "predicted"


@given(rows=rows(), separator=st.sampled_from([",", ";", "\t"]))
def test_plain_columns(folder: Path, rows: Rows, separator: str) -> None:
    assert pairs(only(rendering.plain(rows, separator), folder)) == [(s, round(t, 4)) for s, t in rows]
