"""One table of what people paste: a log of every format, every wrapping of it, and every place where it may be cut."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.logs import rendering
from tests.logs.test_noise import BYTES, LINES, each, prefixed

if TYPE_CHECKING:
    from collections.abc import Callable

RANKS = 8
LATENCY_US, BYTES_PER_US = 22.0, 300e3
SIZES = [1 << power for power in range(10, 29)]
BUS = {"all_reduce": 1.75, "all_gather": 0.875, "sendrecv": 1.0}


def times() -> list[tuple[int, float]]:
    """Return sizes and times [us] of the one machine that all logs are of, two decimals each."""
    return [(size, round(LATENCY_US + size / BYTES_PER_US, 2)) for size in SIZES]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A format: its log, and what is to be read from it; `ranks` is None where the log does not say them.

    `breaks` are wrappings that cannot be undone: whole rows of this log are as long as the pieces of broken ones.
    """

    text: str
    op: str = "all-reduce"
    ranks: int | None = RANKS
    json: bool = False
    lines: bool = False
    tolerance: float = 0.01
    breaks: frozenset[str] = field(default=frozenset())


def nccl_json(indent: int | None = None) -> str:
    devices = [
        {
            "rank": rank,
            "group": 0,
            "pid": 3000 + rank,
            "hostname": "gpu-a",
            "device": rank,
            "device_info": "NVIDIA B200",
        }
        for rank in range(RANKS)
    ]
    results = [
        {
            "size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1",
            **{side: {"time": time, "alg_bw": size / time / 1e3, "bus_bw": size / time / 1e3 * 1.75, "nwrong": 0.0}
               for side in ("out_of_place", "in_place")},
            "actual_iterations": 20, "experiment_name": "all_reduce_perf",
        }
        for size, time in times()
    ]  # fmt: skip
    config = {"nthreads": 1, "ngpus": 1, "iterations": 20, "graph": 0, "blocking_collectives": "false"}
    whole = {"version": 2, "args": ["./all_reduce_perf", "-g", "1"], "nccl_version": 23007}
    return json.dumps({**whole, "config": {**config, "devices": devices}, "results": results}, indent=indent)


def rccl_records() -> list[dict[str, object]]:
    return [
        {"numCycle": 0, "name": "AllReduce", "nodes": 1, "ranks": RANKS, "ranksPerNode": RANKS, "gpusPerRank": 1,
         "size": size, "type": "float", "redop": "sum", "inPlace": place, "time": time,
         "algBw": round(size / time / 1e3, 4), "busBw": round(size / time / 1e3 * 1.75, 4), "wrong": "0"}
        for size, time in times() for place in (0, 1)
    ]  # fmt: skip


def rccl_csv(*, misaligned: bool = False) -> str:
    records = rccl_records()
    names = [name for name in records[0] if not (misaligned and name == "nodes")]
    return "\n".join([",".join(names), *(",".join(map(str, one.values())) for one in records), ""])


def inspector() -> str:
    return "".join(
        json.dumps({
            "header": {"id": "0xab", "rank": 0, "n_ranks": RANKS, "nnodes": 1},
            "metadata": {"inspector_output_format_version": "v4.2", "hostname": "gpu-a", "pid": 10},
            "coll_perf": {
                "coll": "AllGather", "coll_sn": number, "coll_msg_size_bytes": size // RANKS,
                "coll_exec_time_us": time, "coll_timing_source": "kernel_gpu", "coll_algobw_gbs": size / time / 1e3,
                "coll_busbw_gbs": size / time / 1e3 * 0.875,
            },
        }) + "\n"
        for number, (size, time) in enumerate(times())
    )  # fmt: skip


def columned(header: str, row: Callable[[int, float], str], *head: str) -> str:
    return "\n".join([*head, header, *(row(size, time) for size, time in times()), ""])


def unit_csv(name: str, scale: float, digits: int) -> str:
    return columned(f"op,ranks,size_bytes,{name}", lambda s, t: f"all_reduce,{RANKS},{s},{t * scale:.{digits}f}")


def bare_csv(scale: float) -> str:
    return columned(
        "op,ranks,size,time,algbw", lambda s, t: f"all_reduce,{RANKS},{s},{t * scale:.8g},{s / t / 1e3:.6f}"
    )


SHAPES: dict[str, Shape] = {
    "nccl-tests": Shape(text=rendering.NcclTests(named=True, ranks=RANKS).render(times())),
    "nccl-tests-2021": Shape(text=rendering.NcclTests(generation="2021", ranks=RANKS).render(times())),
    "nccl-tests-2026": Shape(text=rendering.NcclTests(generation="2026", named=True, ranks=RANKS).render(times())),
    "nccl-tests-all-gather": Shape(
        text=rendering.NcclTests(test="all_gather", named=True, ranks=RANKS).render(times()), op="all-gather"
    ),
    "nccl-tests-json": Shape(text=nccl_json(), json=True),
    "nccl-tests-json-indented": Shape(text=nccl_json(1), json=True),
    "rccl-tests-json": Shape(text=json.dumps(rccl_records()), json=True),
    "rccl-tests-json-lines": Shape(text="".join(f"{json.dumps(one)}\n" for one in rccl_records()), json=True),
    "rccl-tests-csv": Shape(text=rccl_csv(), lines=True),
    "rccl-tests-csv-misaligned": Shape(text=rccl_csv(misaligned=True), lines=True),
    "nccl-inspector": Shape(text=inspector(), json=True, op="all-gather", tolerance=0.05),
    "osu": Shape(text=rendering.osu("Allreduce Latency Test", times(), full=True), ranks=None),
    "imb": Shape(text=rendering.imb("Allreduce", RANKS, times())),
    "oneccl": Shape(
        text=columned(
            "        #bytes  #repetitions   t_min[usec]   t_max[usec]   t_avg[usec]  stddev[%]",
            lambda s, t: f"{s:14d}{20:14d}{t * 0.98:14.2f}{t * 1.03:14.2f}{t:14.2f}{1.2:12.2f}",
            "#------------------------------------------------------------",
            "# Benchmarking: allreduce ",
            f"# #processes: {RANKS} ",
            "#------------------------------------------------------------",
            "",
        )
    ),
    "hccl-test": Shape(
        text=columned(
            "data_size(Bytes): |   avg_time(us): | alg_bandwidth(GB/s): | check_result:",
            lambda s, t: f"{s:<17d} |  {t:9.2f}    |  {s / t * 1e6 / 2**30:12.5f}        | success",
            f"$ mpirun -n {RANKS} ./bin/all_reduce_test -b 1K -e 256M -f 2 -d fp32 -o sum -p 8",
            "the minbytes is 1024, maxbytes is 268435456, iters is 20, warmup_iters is 5",
        )
    ),
    "nccom-test": Shape(
        text=columned(
            "      size(B)    count(elems)    type    time:avg(us)    algbw(GB/s)    busbw(GB/s)",
            lambda s, t: f"{s:13d}{s // 4:16d}    fp32{t:16.2f}{s / t / 1e3:15.2f}{s / t / 1e3 * 1.75:15.2f}",
            f"$ nccom-test -r {RANKS} allr",
        )
    ),
    "param": Shape(
        text=columned(
            "\tCOMMS-RES  total-size (B) nElementsPerRank Time(us):p50  p75  p95  Min  Max AlgBW(GB/s) BusBW(GB/s)",
            lambda s, t: (
                f"\tCOMMS-RES-all_reduce-float32 {s} {s // 4} {t:.2f} {t:.2f} {t:.2f} {t:.2f} {t:.2f} "
                f"{s / t / 1e3:.3f} {s / t / 1e3 * 1.75:.3f}"
            ),
            f"world-size: {RANKS}",
        ),
        breaks=frozenset({"wrapped at 80"}),
    ),
    "nvshmem": Shape(
        text=columned(
            "size(B)     count     type      scope     latency(us)       algbw(GB/s)   busbw(GB/s) ",
            lambda s, t: (
                f"{s:<12d}{s // 4:<10d}32-bit    block     {t:<18.6f}{s / t / 1e3:<14.3f}{s / t / 1e3 * 1.75:<12.3f}"
            ),
            f"mype: 0 npes: {RANKS}",
            "#reduction_device",
        ),
        breaks=frozenset({"folded at 80"}),
    ),
    "csv-us": Shape(text=unit_csv("time_us", 1.0, 4), lines=True),
    "csv-ms": Shape(text=unit_csv("time_ms", 1e-3, 7), lines=True),
    "csv-ns": Shape(text=unit_csv("time_ns", 1e3, 1), lines=True),
    "csv-seconds": Shape(text=unit_csv("seconds", 1e-6, 10), lines=True),
    "csv-no-unit-us": Shape(text=bare_csv(1.0), lines=True),
    "csv-no-unit-ms": Shape(text=bare_csv(1e-3), lines=True),
    "csv-no-unit-ns": Shape(text=bare_csv(1e3), lines=True),
}


def _numbered(key: str, **more: str) -> Callable[[str], str]:
    return lambda text: "".join(f"{json.dumps({**more, key: line})}\n" for line in text.split("\n"))


def _docker(text: str) -> str:
    return "".join(
        json.dumps({"log": part, "stream": "stdout", "time": "2026-07-22T10:14:00.1Z"}) + "\n"
        for line in text.split("\n")
        for part in _broken(f"{line}\n", 16384)
    )


def _broken(text: str, width: int) -> list[str]:
    return [text[at : at + width] for at in range(0, len(text), width)] or [""]


def _two_hosts(i: int, line: str) -> str:
    return f"{'node-a' if i % 3 else 'node-b'}: {line}"


def _folded(text: str) -> str:
    """Break lines before the word that no longer fits into 80 characters, as a mail does."""
    found = []
    for line in text.split("\n"):
        rest = line.rstrip()
        while len(rest) > 80 and " " in rest[1:81].strip():
            at = rest.rfind(" ", 1, 81)
            found.append(rest[:at])
            rest = rest[at + 1 :]
        found.append(rest)
    return "\n".join(found)


MORE: dict[str, Callable[[str], str]] = {
    "docker": _docker,
    "cri": each(lambda i, line: f"2026-07-22T10:14:{i % 60:02d}.123456789Z stdout F {line}"),
    "kubectl prefix": prefixed("[pod/nccl-launcher-x7z/launcher] "),
    "kubectl time": each(lambda i, line: f"[pod/a-b/c] 2026-07-22T10:14:{i % 60:02d}.1Z {line}"),
    "json message": _numbered("message", level="info", ts="2026-07-22T10:14:00Z"),
    "json text payload": _numbered("textPayload", severity="INFO"),
    "json journal": _numbered("MESSAGE", _HOSTNAME="gpu-a"),
    "json nested": lambda text: "".join(
        f"{json.dumps({'jsonPayload': {'message': line}})}\n" for line in text.split("\n")
    ),
    "json list of lines": lambda text: json.dumps(text.split("\n"), indent=1),
    "json one string": lambda text: json.dumps({"rc": 0, "stdout": text}),
    "ray": prefixed("(RayWorkerWrapper pid=1234, ip=10.0.0.1) "),
    "vllm worker": prefixed("(Worker_TP0 pid=77) "),
    "vllm logger": each(lambda i, line: f"INFO 07-22 10:14:{i % 60:02d} [bench.py:12] {line}"),
    "logging": prefixed("INFO:root:"),
    "two hosts": each(_two_hosts),
    "logging with a time": each(lambda i, line: f"2026-07-22 10:14:{i % 60:02d},{i % 1000:03d} INFO {line}"),
    "logging with a name": each(lambda i, line: f"2026-07-22 10:14:{i % 60:02d},1 - bench - INFO - {line}"),
    "vllm logger without a place": each(lambda i, line: f"INFO 07-22 10:14:{i % 60:02d} {line}"),
    "syslog with a zone": prefixed("2026-07-22T10:14:00+00:00 gpu-a docker[1234]: "),
    "stern": prefixed("nccl-7d9f-abcde launcher "),
    "worker": prefixed("worker-3: "),
    "prterun": prefixed("[prterun-gpu-a-77@1,0]<stdout>: "),
    "wrapped at 80": lambda text: "\n".join(part for line in text.split("\n") for part in _broken(line, 80)),
    "folded at 80": _folded,
    "html": lambda text: f"<pre>\n{html.escape(text)}\n</pre>\n",
    "bare entities": html.escape,
    "blank lines": lambda text: text.replace("\n", "\n\n"),
    "before and after": lambda text: f"$ make run\nLoading {{site}} config... done\n{text}\nAll done.\n",
    "tabs": each(lambda _, line: "\t" + line),
}
"""Wrappings beside those of test_noise."""
_IN_JSON = {"html", "before and after", "wrapped at 80", "folded at 80", "json list of lines", "blank lines"}
_UNREADABLE = {
    "json": {"line numbers", "line numbers of an excerpt", "line numbers and colour", "eaten hash", "wide", "bold",
             "decimal comma", "debug lines", "html", "bare entities", "folded at 80"},
    "lines": {"decimal comma", "debug lines", "folded at 80"},
}  # fmt: skip
"""What no reader can undo: JSON is one text, whose commas and quotes are its own; the cells of a CSV have no mark."""


def wrapped(shape: Shape) -> dict[str, bytes]:
    """Return a log in every wrapping that its format survives."""
    no = _UNREADABLE["json"] if shape.json else _UNREADABLE["lines"] if shape.lines else set()
    texts = {name: change(shape.text) for name, change in (LINES | MORE).items() if name not in no | shape.breaks}
    return {name: text.encode() for name, text in texts.items()} | {
        name: how(shape.text) for name, how in BYTES.items()
    }


def cut(shape: Shape, part: float) -> Shape:
    """Return the beginning of a log, cut wherever that is."""
    return replace(shape, text=shape.text[: int(len(shape.text) * part)])


CUTS = (0.3, 0.55, 0.8, 0.97)
"""Where a log is cut: this part of it is left."""
