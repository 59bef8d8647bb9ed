"""Shapes of a tool's output that the logs of this folder do not have, one small text each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from nhalf.evidence.readers import read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nhalf.evidence.table import Table

    Tables = Callable[[str], list[Table]]

NCCL_HEADER = """\
# nThread 1 nGpus 8 minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    def from_text(text: str) -> list[Table]:
        path = tmp_path / "log"
        path.write_text(text, encoding="utf-8")
        return read(path)

    return from_text


def us(table: Table) -> list[tuple[int, float]]:
    return [(int(point.size_bytes), round(point.seconds * 1e6, 4)) for point in table.points]


def codes(table: Table) -> set[str]:
    return {note.code for note in table.notes}


def test_nccl_sweeps_over_types_and_reductions_are_tables_of_their_own(tables: Tables) -> None:
    rows = "".join(
        f"  {size} {size // width} {kind} {redop} -1 {time:.2f} 0.00 0.00 0 {time:.2f} 0.00 0.00 0\n"
        for kind, width in (("float", 4), ("half", 2))
        for redop in ("sum", "max")
        for time, size in ((10.0, 8), (11.0, 16), (12.0, 32))
    )
    found = tables(NCCL_HEADER + rows)
    assert [(table.dtype, table.label) for table in found] == [
        *(("float", ""), ("float", "redop max")),
        *(("half", ""), ("half", "redop max")),
    ]
    assert all(us(table) == [(8, 10.0), (16, 11.0), (32, 12.0)] for table in found)


def test_rccl_in_place_only(tables: Tables) -> None:
    (table,) = tables(
        "rccl-tests: Version develop:5f3a9c1\n"
        "#                                                              in-place\n"
        "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
        "     1048576        262144     float     sum      -1    50.00   20.97   36.70      0\n"
        "     2097152        524288     float     sum      -1    60.00   34.95   61.17      0\n"
    )
    assert (table.tool, table.name, table.ranks) == ("rccl-tests", "all-reduce", 8)
    assert us(table) == [(1048576, 50.0), (2097152, 60.0)]
    assert "in-place-only" in codes(table)


def side(**values: object) -> dict[str, object]:
    return {"time": 25.8, "alg_bw": 0.04, "bus_bw": 0.03, "nwrong": 0.0, **values}


def test_nccl_json_in_all_its_states(tables: Tables) -> None:
    row = {"type": "float", "redop": "none", "root": "    -1"}
    (table,) = tables(
        json.dumps(
            {
                "args": ["./build/all_gather_perf", "-b", "1K"],
                "env": ["PASSWORD=hunter2", "NCCL_DEBUG=WARN"],
                "config": {
                    "graph": 5,
                    "aggregated_iterations": 1,
                    "blocking_collectives": "false",
                    "devices": [{"rank": r, "hostname": f"h{r // 2}", "device_info": "B200"} for r in range(4)],
                },
                "results": [
                    {**row, "size": 1024, "count": 64, "out_of_place": side(time="nan"), "in_place": side()},
                    {**row, "size": 2048, "count": 128, "out_of_place": side(time=26.1), "in_place": None,
                     "out_of_place_per_iter": {"min_us": 20.0, "max_us": 30.0}},
                    {**row, "size": 4096, "count": 256, "out_of_place": None, "in_place": None},
                ],
            }
        )
    )  # fmt: skip
    assert (table.name, table.ranks, table.nodes, table.quantity) == ("all-gather", 4, 2, "graph")
    assert us(table) == [(1024, 25.8), (2048, 26.1)]
    assert table.points[1].max_s == pytest.approx(30e-6)
    assert len(table.skipped) == 1
    assert "hunter2" not in repr(table)


@pytest.mark.parametrize(
    ("title", "name", "size_is"),
    [
        ("All-to-All Personalized Exchange Latency Test", "all-to-all", "per_peer"),
        ("Allgather Latency Test", "all-gather", "per_rank"),
        ("Allgatherv Latency Test", "all-gather", "per_rank"),
        ("Broadcast Latency Test", "broadcast", "message"),
        ("Reduce Latency Test", "reduce", "message"),
        ("Reduce_scatter Latency Test", "reduce-scatter", "total"),
        ("Gather Latency Test", "gather", "per_rank"),
    ],
)
def test_osu_collectives(tables: Tables, title: str, name: str, size_is: str) -> None:
    (table,) = tables(f"# OSU MPI {title} v5.6\n# Size       Avg Latency(us)\n1      86.56\n2      87.98\n")
    assert (table.name, table.size_is, table.ranks) == (name, size_is, None)
    assert us(table) == [(1, 86.56), (2, 87.98)]


def test_osu_barrier_has_a_time_and_no_size(tables: Tables) -> None:
    (table,) = tables("# OSU MPI Barrier Latency Test v7.0\n# Avg Latency(us)\n             86.56\n")
    (figure,) = table.figures
    assert (table.name, table.size_is, figure.of) == ("barrier", "none", "time")
    assert figure.value == pytest.approx(86.56e-6)


def test_osu_bandwidth_counts_pairs_and_directions(tables: Tables) -> None:
    (both,) = tables("# OSU MPI Bi-Directional Bandwidth Test v5.9\n# Size      Bandwidth (MB/s)\n1000   2000.00\n")
    assert us(both) == [(1000, 1.0)]
    (many,) = tables(
        "# OSU MPI Multiple Bandwidth / Message Rate Test v6.1\n# [ pairs: 4 ] [ window size: 64 ]\n"
        "# Size                  MB/s        Messages/s\n1000               4000.00        4000000.00\n"
    )
    assert us(many) == [(1000, 1.0)]
    assert (many.ranks, many.streamed) == (8, True)


def test_osu_non_blocking_uses_the_pure_time(tables: Tables) -> None:
    (table,) = tables(
        "# OSU MPI Non-blocking Allreduce Latency Test v5.6\n"
        "# Size           Overall(us)       Compute(us)     Pure Comm.(us)        Overlap(%)\n"
        "4                     10.00              5.00               4.50             22.00\n"
    )
    assert us(table) == [(4, 4.5)]


def test_osu_columns_it_does_not_use(tables: Tables) -> None:
    (table,) = tables(
        "# OSU MPI Allgather Latency Test v7.4\n# Datatype: MPI_CHAR.\n"
        "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations   P50 Tail Lat(us)  Validation\n"
        "1                      10.00              9.00             11.00        1000             10.00        Pass\n"
        "2                      10.10              9.00             11.00        1000             10.00        Fail\n"
    )
    assert us(table) == [(1, 10.0), (2, 10.1)]
    assert [point.wrong for point in table.points] == [False, True]


IMB = """\
#    Intel(R) MPI Benchmarks 2021.3, MPI-1 part
# Benchmarking Sendrecv
# #processes = 4
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]   Mbytes/sec
            0         1000         0.90         1.00         0.95         0.00
            1         1000         0.90         1.00         0.95         2.00
# Benchmarking Bcast
# #processes = 4
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
            1         1000         0.90         3.00         1.95
            2 out-of-mem.; needed X=   1.2 GB; use flag "-mem" or MAX_MEM_USAGE>=1.2 (IMB_mem_info.h)
# Benchmarking Uniband
# #processes = 2
       #bytes #repetitions   Mbytes/sec      Msg/sec
            1         1000         4.00      4000000
# Benchmarking Iallreduce
# #processes = 4
       #bytes #repetitions t_ovrl[usec] t_pure[usec]  t_CPU[usec]   overlap[%]
            4         1000         9.00         5.00         4.00         0.00
"""


def test_imb_header_kinds(tables: Tables) -> None:
    exchange, bcast, uniband, iallreduce = tables(IMB)
    assert (exchange.name, us(exchange)) == ("send-recv", [(1, 0.95)])
    # The root leaves a broadcast early: the last rank's time counts.
    assert (bcast.name, us(bcast)) == ("broadcast", [(1, 3.0)])
    assert [(skip.line, "memory" in skip.why) for skip in bcast.skipped] == [(11, True)]
    assert (uniband.streamed, us(uniband)) == (True, [(1, 0.25)])
    assert (iallreduce.name, us(iallreduce)) == ("all-reduce", [(4, 5.0)])


def test_perftest_kinds(tables: Tables) -> None:
    (both,) = tables(
        "                    Send Bidirectional BW Test\n"
        " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
        " 65536      1000             22000.00            21990.00\t\t   0.351840\n"
    )
    assert us(both) == [(65536, 5.6844)]
    (read_lat,) = tables(
        "                    RDMA_Read Latency Test\n"
        " #bytes        #iterations       t_avg[usec]    tps average\n"
        " 2       1000          3.90          256410.00\n"
    )
    assert us(read_lat) == [(2, 3.9)]
    assert "round-trip" in codes(read_lat)
    (cycles,) = tables(
        "                    RDMA_Write Latency Test\n"
        " #bytes #iterations    t_min[cycles]    t_max[cycles]  t_typical[cycles]\n"
        " 2       1000          2030.0           3970.0         2090.0\n"
    )
    assert cycles.points == ()
    assert "cycles" in cycles.skipped[0].why


def test_perftest_json_with_a_bare_name(tables: Tables) -> None:
    (table,) = tables(
        '{\n"test_info": {\n"test": "RDMA_Write_BW_Test",\n"Device": "mlx5_0",\nsl: 0\n},\n'
        '"results": {\n"MsgSize": 65536,\n"BW_peak": 0.0,\n"BW_average": 391.2,\n"MsgRate": 0.7461\n}\n}\n'
    )
    assert (table.streamed, us(table)) == (True, [(65536, 1.3403)])


def test_nvbandwidth_host_and_latency(tables: Tables) -> None:
    host, latency = tables(
        "nvbandwidth Version: v0.7\n"
        "Running host_to_device_memcpy_ce.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n"
        "           0         1\n 0     55.63     55.64\nSUM host_to_device_memcpy_ce 111.27\n"
        "Running device_to_device_latency_sm.\nmemory latency SM GPU(row) <- GPU(column) (ns)\n"
        "           0         1\n 0       N/A    772.58\n 1    772.00       N/A\n"
    )
    assert (host.test, host.op, len(host.figures)) == ("host-to-device", None, 2)
    assert [figure.value for figure in latency.figures] == pytest.approx([772.58e-9, 772e-9])
    assert "host-latency" in codes(latency)


def test_nvbandwidth_json(tables: Tables) -> None:
    case = {
        "name": "device_to_device_memcpy_read_ce",
        "bandwidth_description": "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
        "bandwidth_matrix": [["N/A", "270.5"], ["271.0", "N/A"]],
    }
    document = {"nvbandwidth": {"Version": "v0.8", "testcases": [case, {"name": "other", "status": "Waived"}]}}
    table, rest = tables(json.dumps(document))
    assert [figure.value for figure in table.figures] == [270.5e9, 271e9]
    assert rest.skipped[0].why == "other: Waived"


UCX_BOX = """\
+--------------+--------------+------------------------------+---------------------+-----------------------+
|              |              |       overhead (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
|    Stage     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
"""


def test_ucx_streams_and_unfinished_runs(tables: Tables) -> None:
    run = "$ ucx_perftest node-a -t tag_bw -s {} -n 100000\n" + UCX_BOX
    row = "[thread 0]  5000  0.200  0.210  0.210   18601.19   18601.19     4761905     4761905\n"
    (table,) = tables(run.format(4096) + row.replace("[thread 0]", "Final:") + run.format(8192) + row)
    assert (table.streamed, us(table)) == (True, [(4096, 0.21)])
    assert "no Final row" in table.skipped[0].why


def test_nccom_command(tables: Tables) -> None:
    (table,) = tables(
        "$ nccom-test -r 16 allg -b 8 -e 1M -f 2\n"
        "    size(B)    count(elems)    type    time(us)    algbw(GB/s)    busbw(GB/s)\n"
        "    1048576          262144    fp32      100.00          10.49           9.83\n"
    )
    assert (table.name, table.ranks, table.size_is) == ("all-gather", 16, "total")


def test_nccom_whose_ratio_allows_several_operations(tables: Tables) -> None:
    (table,) = tables(
        "    size(B)    count(elems)    type    time(us)    algbw(GB/s)    busbw(GB/s)\n"
        "    1048576          262144    fp32      100.00          10.49           9.83\n"
    )
    assert (table.op, table.ranks) == (None, None)
    assert "op-unknown" in codes(table)


def test_nvshmem_reduction_in_a_graph(tables: Tables) -> None:
    (table,) = tables(
        "threadgroup_scope: all_scopes, use_graph: 1\n#reduction_device\n"
        "size(B)  count   type   redop  scope  latency(us)  min_lat(us)  max_lat(us)  algbw(GB/s)  busbw(GB/s)\n"
        "1048576  262144  float  sum    block  50.000000    49.0         51.0         20.972       36.700\n"
    )
    assert (table.name, table.ranks, table.quantity) == ("all-reduce", 8, "graph")
    assert table.points[0].min_s == pytest.approx(49e-6)


def test_deepspeed_gathers_count_all_ranks(tables: Tables) -> None:
    (table,) = tables(
        "---- Performance of all_gather on 8 devices ---------\n"
        "Size (Bytes)         Description      Duration      Throughput (Gbps)    BusBW (Gbps)\n"
        "8.0 KB               512x2            23.653 us     0.693                0.606\n"
        "16.0 KB              1024x2           1.2 ms        0.693                0.606\n"
    )
    assert (table.size_is, us(table)) == ("total", [(8192, 23.653), (16384, 1200.0)])


def test_gloo_in_nanoseconds_without_sizes(tables: Tables) -> None:
    (table,) = tables(
        "                      BROADCAST_ONE_TO_ALL\nOptions:     processes=8, inputs=1, threads=1\n"
        "elements   min (ns)   p50 (ns)   p99 (ns)   max (ns)    samples\n"
        "100     1000       2000       3000     4000     12345\n"
    )
    assert (table.name, table.ranks, us(table)) == ("broadcast", 8, [(400, 2.0)])
    assert "size-assumed" in codes(table)


def test_kernel_tables_with_units_and_a_heading(tables: Tables) -> None:
    nccl, custom = tables(
        "### AllReduce, world_size=8\n\n| Tensor Size | NCCL (us) | Custom AR (us) | Speedup |\n|---|---:|---:|---:|\n"
        "| 16 KB | 24.1 | 8.2 | 2.9x |\n| 64 KB | 25.1 | 9.2 | 2.7x |\n"
    )
    assert (nccl.name, nccl.ranks, nccl.label, us(nccl)) == ("all-reduce", 8, "NCCL", [(16384, 24.1), (65536, 25.1)])
    assert us(custom) == [(16384, 8.2), (65536, 9.2)]
    (other,) = tables("Latency (ms), tp=4\n| size (bytes) | ours |\n|---|---|\n| 1024 | 0.012 |\n| 2048 | 0.013 |\n")
    assert (other.op, other.ranks, us(other)) == (None, 4, [(1024, 12.0), (2048, 13.0)])


def test_kernel_tables_under_several_sizes(tables: Tables) -> None:
    text = "".join(
        f"#### Input Size: {mib:.2f} MiB\n\n| Operation | Time (ms) |\n|---|---|\n"
        f"| Allreduce Rms Norm | {0.1 + mib / 100:.3f} |\n| Fused | {0.05 + mib / 100:.3f} |\n\n"
        for mib in (1, 2, 4)
    )
    one, fused = tables(text)
    assert us(one) == [(1 << 20, 110.0), (2 << 20, 120.0), (4 << 20, 140.0)]
    assert (fused.label, fused.test) == ("Fused", "all-reduce-rms-norm")


def test_sockperf_half_and_full(tables: Tables) -> None:
    (half,) = tables("sockperf: == version #3.7 ==\nsockperf: Summary: Latency is 5.123 usec\n")
    (full,) = tables("sockperf: == version #3.7 ==\nsockperf: Summary: Round trip is 10.246 usec\n")
    assert half.figures[0].value == pytest.approx(5.123e-6)
    assert full.figures[0].value == pytest.approx(5.123e-6)


def test_iperf_leaves_out_what_it_omits(tables: Tables) -> None:
    intervals = [
        {"sum": {"start": 0, "end": 1, "bits_per_second": 8e9, "omitted": True}},
        {"sum": {"start": 1, "end": 2, "bits_per_second": 9e9, "omitted": False}},
    ]
    (table,) = tables(json.dumps({"start": {"version": "iperf 3.9"}, "intervals": intervals, "error": "reset"}))
    assert [figure.value for figure in table.figures] == [1.125e9]
    assert [skip.why.split(":")[0] for skip in table.skipped] == ["0 to 1 s", "the run failed"]


def test_deepep_best_of_a_tuning(tables: Tables) -> None:
    (table,) = tables(
        "[tuning] SMs 24, NVL chunk 4, RDMA chunk 8: 20.16 GB/s (RDMA), 65.79 GB/s (NVL)\n"
        "[tuning] Best dispatch (FP8): SMs 24, NVL chunk 24, RDMA chunk 16: 45.0 GB/s (RDMA), 146.0 GB/s (NVL)\n"
    )
    assert [(figure.of, figure.label) for figure in table.figures] == [
        ("bandwidth", "best, RDMA"),
        ("bandwidth", "best, NVL"),
    ]
    assert [skip.line for skip in table.skipped] == [1]


def test_inspector_pairs_and_a_cut_record(tables: Tables) -> None:
    record = {
        "header": {"n_ranks": 2, "nnodes": 2},
        "p2p_perf": {"p2p": "Send", "p2p_msg_size_bytes": 1024, "p2p_exec_time_us": 10},
    }
    (table,) = tables(f'{json.dumps(record)}\n{{"header": {{"id')
    assert (table.name, table.nodes, us(table)) == ("send-recv", 2, [(1024, 10.0)])
    assert [skip.line for skip in table.skipped] == [2]


def test_nccl_predictions_of_named_operations(tables: Tables) -> None:
    line = "node-a:4100:4100 [0] NCCL INFO {}: {} Bytes -> Algo {} proto {} time {}\n"
    gather, reduce, by_switch = tables(
        "node-a:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 8 cudaDev 0\n"
        + line.format("AllGather", 1024, "RING", "LL", "9.100000")
        + line.format("AllReduce", 1024, "TREE", "LL", "12.100000")
        + line.format("AllReduce", 2048, "NVLS", "SIMPLE", "13.100000")
    )
    assert (gather.name, gather.ranks, us(gather)) == ("all-gather", 8, [(1024, 9.1)])
    assert [us(each) for each in (reduce, by_switch)] == [[(1024, 12.1)], [(2048, 13.1)]]
    assert [each.label for each in (reduce, by_switch)] == ["TREE LL", "NVLS SIMPLE"]
    assert "NVLS SIMPLE from 2 KiB" in next(note.text for note in reduce.notes if note.code == "library-choice")
