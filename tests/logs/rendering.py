"""Write logs in the shapes of the tools, from sizes and times that are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2.0 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "alltoall": lambda n: (n - 1) / n,
    "gather": lambda n: (n - 1) / n,
    "scatter": lambda n: (n - 1) / n,
    "broadcast": lambda _: 1.0,
    "reduce": lambda _: 1.0,
    "sendrecv": lambda _: 1.0,
}
TOTALS = {"all_gather", "reduce_scatter", "alltoall", "gather", "scatter"}
REDUCES = {"all_reduce", "reduce_scatter", "reduce", "sendrecv"}
ROOTED = {"broadcast", "reduce", "gather", "scatter"}
UNCHECKED = {"alltoall", "sendrecv"}


@dataclass(frozen=True, kw_only=True)
class NcclTests:
    """One run: `generation` is the year and month of a header's first appearance."""

    test: str = "all_reduce"
    ranks: int = 8
    hosts: int = 1
    generation: str = "2022"
    graph: int = 0
    aggregated: int = 1
    named: bool = False
    banner: bool = True
    header: bool = True
    checked: bool = True
    stamped: bool = False

    def render(self, rows: list[tuple[int, float]]) -> str:
        """Return the log of rows (size in bytes, time in us); in place takes the same time."""
        lines = [*self._banner(len(rows)), *(self._header() if self.header else ())]
        lines += [self._row(size, time) for size, time in rows]
        return "\n".join([*lines, "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 12.3 ", "#", ""])

    def _banner(self, rows: int) -> list[str]:
        if not self.banner:
            return []
        old = self.generation == "2021"
        extra = "" if old else f" agg iters: {self.aggregated}"
        end = "" if old else f" graph: {self.graph}"
        lines = [f"# Collective test starting: {self.test}_perf"] if self.named else []
        lines.append(
            f"# nThread 1 nGpus 1 minBytes 8 maxBytes {rows} step: 2(factor) warmup iters: 5 iters: 20{extra} "
            f"validation: {int(self.checked)}{end}"
        )
        lines += ["#", "# Using devices"]
        for rank in range(self.ranks):
            group = "" if old else "Group  0 "
            host = f"node-{rank * self.hosts // self.ranks}"
            lines.append(
                f"#  Rank {rank:2d} {group}Pid {4100 + rank:6d} on {host:>10s} device {rank:2d} [0x1b] NVIDIA X"
            )
        return [*lines, "#"]

    @property
    def _left(self) -> list[str]:
        if self.generation != "2021":
            return ["redop", "root"]
        return [*(["redop"] if self.test in REDUCES else []), *(["root"] if self.test in ROOTED else [])]

    def _header(self) -> list[str]:
        wrong = "error" if self.generation == "2021" else "#wrong"
        side = f"time   algbw   busbw {wrong}"
        if self.generation == "2026":
            side += "    i_min    i_max    i_p99    i_cv%"
        names = "  ".join(["#       size         count      type", *self._left, side, side])
        stamp = "           timestamp" if self.stamped else ""
        return [
            "#                                        out-of-place                       in-place",
            names + stamp,
            "#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)",
        ]

    def _row(self, size: int, time: float) -> str:
        parts = self.ranks if self.test in TOTALS else 1
        left = {"redop": "sum" if self.test in REDUCES else "none", "root": "0" if self.test in ROOTED else "-1"}
        words = [f"{size:12d}", f"{size // parts // 4:12d}", "float", *(left[name] for name in self._left)]
        rate = size / time / 1e3
        bus = rate * FACTORS[self.test](self.ranks)
        for in_place in (False, True):
            number = "0e+00" if self.generation == "2021" else "0"
            wrong = number if self.checked and not (in_place and self.test in UNCHECKED) else "N/A"
            words.append(f"{seven(time)}  {rate:6.2f}  {bus:6.2f}  {wrong:>5s}")
            if self.generation == "2026":
                words.append(f"{time * 0.9:7.2f} {time * 1.1:7.2f} {time:7.2f} {1.0:7.2f}")
        return "  ".join([*words, *(["2026-05-04 10:05:32"] if self.stamped else [])])


def seven(time: float) -> str:
    """Return a time as nccl-tests prints it: two decimals, fewer from 100 us, none from 10,000 us."""
    return f"{time:7.{2 if time < 100.0 else 1 if time < 10_000.0 else 0}f}"


def printed(time: float) -> float:
    """Return the number that `seven` prints."""
    return float(seven(time))


def osu(title: str, rows: list[tuple[int, float]], *, full: bool = False) -> str:
    """Return an OSU log of sizes and times [us]."""
    lines = [f"# OSU MPI {title} v7.3"]
    if full:
        lines.append("# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations")
        lines += [f"{s:<18d}{t:10.2f}{t * 0.9:18.2f}{t * 1.1:18.2f}{1000:12d}" for s, t in rows]
    else:
        lines.append("# Size          Latency (us)")
        lines += [f"{s:<20d}{t:12.2f}" for s, t in rows]
    return "\n".join([*lines, ""])


def imb(name: str, ranks: int, rows: list[tuple[int, float]]) -> str:
    """Return an IMB table with t_min, t_max and t_avg [us]."""
    lines = [
        "#    Intel (R) MPI Benchmarks 2021.3, MPI-1 part",
        f"# Benchmarking {name} ",
        f"# #processes = {ranks} ",
        "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]",
    ]
    lines += [f"{s:13d} {1000:12d} {t * 0.5:12.2f} {t * 1.5:12.2f} {t:12.2f}" for s, t in rows]
    return "\n".join([*lines, ""])


def ib_lat(rows: list[tuple[int, float]]) -> str:
    """Return a log of ib_write_lat."""
    lines = [
        "                    RDMA_Write Latency Test",
        " #bytes #iterations t_min[usec] t_max[usec]  t_typical[usec]  t_avg[usec]  t_stdev[usec] 99% percentile[usec]",
    ]
    lines += [
        f" {s:<7d} 1000     {t * 0.9:.2f}      {t * 2:.2f}      {t:.2f}   \t  {t:.2f}      \t0.04   \t\t{t * 1.1:.2f}  "
        for s, t in rows
    ]
    return "\n".join([*lines, ""])


def ib_bw(rows: list[tuple[int, float]], unit: str) -> str:
    """Return a log of ib_write_bw in MB, MiB or Gb per second; `unit` is as the header prints it."""
    scale = 1e9 / 8.0 if unit == "Gb" else 2.0**20
    lines = [
        "                    RDMA_Write BW Test",
        f" #bytes     #iterations    BW peak[{unit}/sec]    BW average[{unit}/sec]   MsgRate[Mpps]",
    ]
    lines += [
        f" {s:<10d} 5000             0.00               {s / t * 1e6 / scale:.2f}   \t\t     {1.0 / t:.6f}"
        for s, t in rows
    ]
    return "\n".join([*lines, ""])


def nccl_debug(rows: list[tuple[int, float]]) -> str:
    """Return lines of NCCL's tuner."""
    return "\n".join(
        f"node-a:4100:4100 [0] NCCL INFO {s} Bytes -> Algo 1 proto 2 time {t:.6f}" for s, t in rows for _ in range(2)
    )


def plain(rows: list[tuple[int, float]], separator: str = ",") -> str:
    """Return plain columns."""
    lines = [["op", "ranks", "size_bytes", "time_us"], *(["all_reduce", "8", str(s), f"{t:.4f}"] for s, t in rows)]
    return "\n".join(separator.join(line) for line in lines) + "\n"
