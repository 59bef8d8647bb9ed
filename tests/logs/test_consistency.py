"""What the numbers of a log say about one another: ranks, sizes, times and units that cannot all be true."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.logs.intake import SHAPES, bare_csv, columned, nccl_json, times

from nhalf.collective import Op
from nhalf.errors import InputError
from nhalf.evidence.fit import fit
from nhalf.evidence.readers.inference import ratio, settled
from nhalf.evidence.readers.reading import _read_one
from nhalf.evidence.readers.source import Source

if TYPE_CHECKING:
    from nhalf.evidence.table import Table


def read(text: str) -> list[Table]:
    return _read_one(Source(name="log", content=text.encode()), None, in_folder=False)


def only(text: str) -> Table:
    (table,) = [table for table in read(text) if table.rows]
    return table


def codes(table: Table) -> set[str]:
    return {note.code for note in table.notes}


# --- ranks ---


def test_a_json_that_lists_one_device_a_process_counts_its_gpus() -> None:
    document = json.loads(nccl_json())
    document["config"] |= {"ngpus": 8, "devices": document["config"]["devices"][:1]}
    assert only(json.dumps(document)).ranks == 8
    document["config"] |= {
        "ngpus": 4,
        "devices": [{"rank": rank, "pid": rank, "hostname": f"n{rank}"} for rank in (0, 1)],
    }
    table = only(json.dumps(document))
    assert (table.ranks, table.nodes) == (8, 2)


def test_a_list_of_ranks_that_is_cut_gives_way_to_the_bandwidths() -> None:
    lines = [line for line in SHAPES["nccl-tests"].text.split("\n") if not any(f"Rank  {k}" in line for k in (5, 6, 7))]
    table = only("\n".join(lines))
    assert (table.ranks, table.nodes) == (8, None)
    assert "ranks-disagree" in codes(table)
    assert "ranks-disagree" not in codes(only(SHAPES["nccl-tests"].text))


def test_the_command_says_the_ranks_where_no_bandwidth_does() -> None:
    rows = ["     1024  256  float  sum  -1  22.01  0.05  0.00  0  22.01  0.05  0.00  0"]
    text = "\n".join(["$ mpirun -np 4 ./all_reduce_perf -b 1K -g 2", "# nThread 1 nGpus 2 minBytes 8", *rows])
    assert only(text).ranks == 8


@pytest.mark.parametrize(("pairs", "stated", "ranks", "note"), [
    ([("100.00", "175.00")], (8,), 8, ""),
    ([("100.00", "175.00")], (4,), 8, "ranks-disagree"),
    ([("100.00", "175.00")], (4, 8), 8, "ranks-disagree"),
    ([("100.00", "175.00")], (), 8, "ranks-inferred"),
    ([("0.05", "0.08")], (4,), 4, ""),
    ([("1000.00", "1990.00")], (8,), 200, "ranks-disagree"),
    ([("1.00", "1.99")], (8,), None, "ranks-disagree"),
])  # fmt: skip
def test_the_ratio_settles_what_is_stated(
    pairs: list[tuple[str, str]], stated: tuple[int, ...], ranks: int | None, note: str
) -> None:
    found, notes = settled(Op.ALL_REDUCE, ratio(pairs), *stated)
    assert (found, [each.code for each in notes]) == (ranks, [note] if note else [])


def test_one_damaged_row_has_no_say_in_the_ratio() -> None:
    good = [("100.00", "175.00")] * 9
    assert ratio([*good, ("100.00", "195.00")]) == ratio(good)
    assert ratio([*good, *[("100.00", "195.00")] * 3]) is None


# --- times ---


def timed(size: int, time: float) -> str:
    return f"all_reduce,8,{size},{time}"


def test_times_that_no_link_allows_are_the_hosts() -> None:
    text = "\n".join(["op,ranks,size_bytes,time_us", *(timed(1 << power, 3.0) for power in range(10, 29))])
    table = only(text)
    assert "host-timed" in codes(table)
    (curve,) = fit([table]).curves
    assert curve.latency is None
    assert "timed on the host" in curve.latency_refusal


def test_one_row_that_is_too_fast_is_left_out_and_the_others_count() -> None:
    rows = [timed(size, time) for size, time in times()]
    rows[-1] = timed(1 << 28, 9.1678)
    (table,) = read("\n".join(["op,ranks,size_bytes,time_us", *rows]))
    assert len(table.points) == len(rows) - 1
    assert "faster than any link" in table.skipped[0].why
    rows[-1] = timed(1 << 28, 80.0)  # 3.4 TB/s: below twice the fastest link
    (table,) = read("\n".join(["op,ranks,size_bytes,time_us", *rows]))
    assert len(table.points) == len(rows)


@pytest.mark.parametrize(("least_us", "doubted"), [(0.09, True), (0.11, False), (4900.0, False), (5100.0, True)])
def test_times_of_another_unit_are_doubted(least_us: float, doubted: bool) -> None:  # noqa: FBT001
    rows = [timed(1 << power, least_us * (1 + power / 100)) for power in range(10)]
    table = only("\n".join(["op,ranks,size_bytes,time_us", *rows]))
    assert ("unit-doubtful" in codes(table)) is doubted


def test_a_bandwidth_tells_the_unit_of_a_time_or_nothing_does() -> None:
    table = only(bare_csv(1e-3))
    assert "unit-inferred" in codes(table)
    assert table.points[0].seconds == pytest.approx(22.0e-6)
    with pytest.raises(InputError, match="does not say its unit"):
        read(columned("op,ranks,size,time,algbw", lambda s, t: f"all_reduce,8,{s},{t},{s / t / 5e3}"))


def test_a_row_whose_bandwidth_contradicts_it_is_left_out() -> None:
    text = SHAPES["nvshmem"].text.replace("916.780000", "716.780000")
    (table,) = read(text)
    assert [skip.why for skip in table.skipped] == [
        "its size, time and bandwidth contradict each other: the row is damaged"
    ]


def test_rows_before_their_header_are_not_lost_in_silence() -> None:
    lines = SHAPES["nvshmem"].text.split("\n")
    lines.insert(8, lines.pop(2))  # the header
    found = [skip for table in read("\n".join(lines)) for skip in table.skipped]
    assert len(found) == 6


# --- NCCL Inspector ---


def record(size: int, time: float, *, coll: str = "AllGather", source: str = "kernel_gpu", rate: float = 0.0) -> str:
    perf = {"coll": coll, "coll_msg_size_bytes": size, "coll_exec_time_us": time, "coll_timing_source": source}
    header = {"id": "0x1", "rank": 0, "n_ranks": 8, "nnodes": 1}
    return json.dumps({"header": header, "coll_perf": perf | ({"coll_algobw_gbs": rate} if rate else {})})


@pytest.mark.parametrize(("coll", "rate", "size"), [
    ("AllGather", 8192 / 60e3, 8192), ("AllGather", 1024 / 60e3, 1024), ("AllGather", 0.0, 8192),
    ("ReduceScatter", 0.0, 8192), ("AllReduce", 0.0, 1024),
])  # fmt: skip
def test_the_size_of_a_gather_is_what_its_bandwidth_says(coll: str, rate: float, size: int) -> None:
    assert only(record(1024, 60, coll=coll, rate=rate)).points[0].size_bytes == size


def test_the_time_of_the_host_stands_apart_and_a_counter_below_zero_is_counted() -> None:
    lines = [
        record(4096, 60),
        record(4096, 3, source="collective_cpu"),
        record(2**64 - 4096, 60),
        record(2**63 - 2048, 60),
    ]
    found = read("\n".join(lines))
    assert [table.refusal != "" for table in found if table.points] == [False, True]
    assert sorted(skip.why[:16] for table in found for skip in table.skipped) == [
        "its size is over",
        "no message is of",
    ]


# --- rccl-tests ---


def test_a_row_with_a_value_too_many_needs_numbers_that_agree() -> None:
    text = SHAPES["rccl-tests-csv-misaligned"].text
    assert len(only(text).points) == len(times())
    damaged = text.replace(",float,sum,0,22.0,", ",float,sum,0,92.0,")
    assert any("values for 13 columns" in skip.why for table in read(damaged) for skip in table.skipped)
