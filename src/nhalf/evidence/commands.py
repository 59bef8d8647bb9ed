"""Commands: how to measure a sweep once more, with the tool that made a log or one that measures the same path.

References
----------
The options of nccl-tests (`-b -e -f -g`), the OSU micro-benchmarks (`-m`), the Intel MPI benchmarks (`-msglog`, powers
of two) and perftest (`-a`), as their manuals have them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.collective import Op

if TYPE_CHECKING:
    from nhalf.evidence.series import Series, SeriesKey

SMALLEST: Final = 8.0  # [bytes]
LARGEST: Final = 2.0**30  # [bytes]
_NCCL: Final = {
    Op.ALL_REDUCE: "all_reduce_perf", Op.ALL_GATHER: "all_gather_perf", Op.REDUCE_SCATTER: "reduce_scatter_perf",
    Op.ALL_TO_ALL: "alltoall_perf", Op.BROADCAST: "broadcast_perf", Op.REDUCE: "reduce_perf",
    Op.SEND_RECV: "sendrecv_perf",
}  # fmt: skip
"""The programs of nccl-tests, by operation; those of rccl-tests have the same names."""
_OSU: Final = {
    Op.ALL_REDUCE: "osu_allreduce", Op.ALL_GATHER: "osu_allgather", Op.REDUCE_SCATTER: "osu_reduce_scatter",
    Op.ALL_TO_ALL: "osu_alltoall", Op.BROADCAST: "osu_bcast", Op.REDUCE: "osu_reduce", Op.SEND_RECV: "osu_latency",
}  # fmt: skip
_IMB: Final = {
    Op.ALL_REDUCE: "Allreduce", Op.ALL_GATHER: "Allgather", Op.REDUCE_SCATTER: "Reduce_scatter",
    Op.ALL_TO_ALL: "Alltoall", Op.BROADCAST: "Bcast", Op.REDUCE: "Reduce", Op.SEND_RECV: "PingPong",
}  # fmt: skip
_OF_SOCKETS: Final = ("iperf3", "netpipe", "sockperf")
_OF_OTHER_LIBRARIES: Final = ("kernel benchmark", "mscclpp", "nccom-test", "nvshmem perftest", "ucc perftest",
                              "ucx_perftest")  # fmt: skip
"""Tools, in lower case, whose library is not NCCL, so that no program of nccl-tests stands in for them."""


def of_own_test(key: SeriesKey) -> bool:
    """Tell whether a curve is of an operation that nccl-tests does not measure."""
    return bool(key.test) and key.op not in _NCCL


def command(series: Series, smallest: float = SMALLEST, largest: float = LARGEST, *, ranks: int | None = None) -> str:
    """Return the command that sweeps `smallest` to `largest` [bytes] over the path that a series was measured on.

    What stands behind `  # ` in it, or all of it where it begins with `# `, is a remark.
    """
    key, tool = series.key, series.tool.casefold()
    count, op = ranks or key.ranks or 8, key.op or Op.ALL_REDUCE
    if found := _by_nhalf(tool, op, smallest, largest, count):
        return found
    if found := _by_mpi(tool, op, smallest, largest, key.ranks or (2 if tool == "osu" else count)):
        return found
    if tool.startswith("perftest"):
        return "ib_write_lat -a OTHER_HOST  # after ib_write_lat -a there; the bandwidth: ib_write_bw"
    if of_own_test(key) or tool in _OF_OTHER_LIBRARIES:
        return f"# the same benchmark ({series.tool or key.test}) once more, at these sizes"
    return _nccl(op, smallest, largest, count, nodes=key.nodes or 1)


def _by_nhalf(tool: str, op: Op, smallest: float, largest: float, ranks: int) -> str:
    """Return the command of nhalf that measures sockets or gloo, empty for other paths."""
    sizes = f"--sizes {_exact(smallest)}:{_exact(largest)}"
    if tool in _OF_SOCKETS:
        # The sizes that are taken without the flag reach the ceiling of a socket.
        told = f" {sizes}" if largest < LARGEST else ""
        return f"nhalf measure --connect OTHER_HOST{told}  # after nhalf measure --listen HOST there"
    if tool.startswith("gloo"):
        return f"torchrun --nproc-per-node {ranks} -m nhalf measure --backend gloo --ops {op} {sizes}"
    return f"nhalf measure {sizes}" if tool.startswith("nhalf") else ""


def _by_mpi(tool: str, op: Op, smallest: float, largest: float, ranks: int) -> str:
    """Return the command of a benchmark of MPI, empty for other tools."""
    if tool == "osu" and op in _OSU:
        return f"mpirun -np {ranks} {_OSU[op]} -m {smallest:.0f}:{largest:.0f}"
    if tool == "imb" and op in _IMB:
        ends = f"{math.floor(math.log2(smallest))}:{math.ceil(math.log2(largest))}"
        return f"mpirun -np {ranks} IMB-MPI1 {_IMB[op]} -npmin {ranks} -msglog {ends}"
    return ""


def _nccl(op: Op, smallest: float, largest: float, ranks: int, *, nodes: int) -> str:
    """Return the command of nccl-tests: one process a rank where there are several nodes."""
    sweep = f"{_NCCL.get(op, _NCCL[Op.ALL_REDUCE])} -b {smallest:.0f} -e {_binary(largest)} -f 2"
    return f"mpirun -np {ranks} {sweep} -g 1" if nodes > 1 else f"{sweep} -g {ranks}"


def _binary(size_bytes: float) -> str:
    """Return a size as nccl-tests takes it: `1G` is 2^30 bytes there."""
    exact = _exact(size_bytes)
    return exact.removesuffix("iB") if exact.endswith("iB") else f"{size_bytes:.0f}"


def _exact(size_bytes: float) -> str:
    """Return a size as nhalf takes it, to the byte."""
    text = units.format_size(size_bytes, binary=True).replace(" ", "")
    return text if "." not in text and units.parse(text, "size") == size_bytes else f"{size_bytes:.0f}B"
