"""Prints what large inputs and outputs cost, each beside the least that can be done with the same bytes in that run.

python tests/bench/bulk_speed.py; with --ranks it reads 64 traces of 50 MB too, with --workers it writes 5 x 10^6 rows
by one and by two processes (on an idle machine: it prints the load).
"""

from __future__ import annotations

import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.trace_made import write

from nhalf.evidence.readers.reading import read as read_log
from nhalf.trace import kineto
from nhalf.trace.recognition import standard

if TYPE_CHECKING:
    from collections.abc import Callable

REPEATS = 5
SWEEP = ("sweep", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8", "--axis", "batch=1:1000", "--axis")
LATENCIES = "system.fabric.intra_node.latency_s=1us:5us"


def cpu_s(work: Callable[[], object]) -> float:
    """Return the median processor time of some work [s]."""
    times = []
    for _ in range(REPEATS):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return statistics.median(times)


def command(*arguments: str) -> tuple[float, float, float]:
    """Return what a command of nhalf takes: processor time of its processes [s], time by the clock [s], peak [MB]."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    code = "import sys; from nhalf.cli import main; sys.argv[0] = 'nhalf'\ntry: main()\nfinally: print('peak', "
    code += "open('/proc/self/status').read().partition('VmHWM:')[2].split()[0], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, time.perf_counter() - began, int(done.stderr.split()[-1]) / 1000


def log(path: Path, rows: int) -> None:
    """Write a log of nccl-tests in which one sweep of 28 sizes is run over and over."""
    draw = random.Random(1)  # noqa: S311  no secret
    side = "     time   algbw   busbw #wrong"
    lines = [
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20 graph: 0",
        f"#       size         count      type   redop    root{side}{side}",
    ]
    for row in range(rows):
        size = 8 << row % 28
        sides = []
        for _ in range(2):
            time_us = (15 + size / 370e3) * draw.lognormvariate(0, 0.03)
            sides.append(f"{time_us:8.2f} {size / time_us / 1e3:7.2f} {1.75 * size / time_us / 1e3:7.2f}      0")
        lines.append(f"{size:12d}  {size // 4:12d}     float     sum      -1 {' '.join(sides)}")
    path.write_text("\n".join(lines), "utf-8")


def traces(folder: Path) -> None:
    """Print what a trace of 54 MB takes beyond the start, plain and packed."""
    for name in ("rank0.json", "rank0.json.gz"):
        write(folder / name, 214_000)
    text = (folder / "rank0.json").read_bytes()
    least = cpu_s(lambda: text.count(b'"cat": "kernel"'))
    for name in ("rank0.json", "rank0.json.gz"):
        ours = cpu_s(lambda name=name: kineto.read(folder / name, standard()))  # type: ignore[misc]
        print(
            f"{name:14s} {len(text) / 1e6:.0f} MB   {ours:6.3f} s (goal 0.25)   {ours / least:5.0f} x a substring scan"
        )
    try:
        import orjson
    except ImportError:
        return
    parsed = cpu_s(lambda: orjson.loads(text))
    print(f"orjson.loads alone     {parsed:6.3f} s")


def ranks(folder: Path) -> None:
    """Print what 64 traces of 50 MB take together."""
    write(folder / "rank0.json", 199_000)
    text = (folder / "rank0.json").read_bytes()
    for rank in range(64):
        (folder / f"rank{rank}.json").write_bytes(text.replace(b'"rank": 0', b'"rank": %d' % rank, 1))
    used, clock, peak = command("trace", *map(str, sorted(folder.glob("rank*.json"))))
    print(f"64 ranks of {len(text) / 1e6:.0f} MB      {used:6.1f} s, by the clock {clock:.1f} (goal 6), {peak:.0f} MB")


def rows(folder: Path) -> None:
    """Print what a log and the rows of a sweep take."""
    log(folder / "log.txt", 100_000)
    text = (folder / "log.txt").read_text("utf-8")
    ours, least = cpu_s(lambda: read_log(folder / "log.txt")), cpu_s(text.split)
    print(f"log of 10^5 rows       {ours:6.2f} s (goal 0.5)    {ours / least:5.0f} x its words split")
    for ending in ("json", "csv", "parquet"):
        used, _, peak = command(*SWEEP, f"{LATENCIES}:1000", "-o", str(folder / f"x.{ending}"), "--workers", "1")
        print(f"10^6 rows as {ending:8s}  {used:6.2f} s, {peak:4.0f} MB" + " (goal 3 s, 150 MB)" * (ending == "json"))


def workers(folder: Path) -> None:
    """Print what 5 x 10^6 rows take by one and by two processes."""
    for ending in ("parquet", "csv"):
        one, two = (
            command(*SWEEP, f"{LATENCIES}:5000", "-o", str(folder / f"x.{ending}"), "--workers", count)
            for count in ("1", "2")
        )
        print(f"5 x 10^6 as {ending:8s}   one {one[0]:.1f} s, two {two[0]:.1f} s; by the clock two are "
              f"{one[1] / two[1]:.2f} x one (goal 1.7, load {os.getloadavg()[0]:.1f})")  # fmt: skip


def main(asked: list[str]) -> None:
    """Print the table."""
    for part, flag in ((traces, ""), (rows, ""), (ranks, "--ranks"), (workers, "--workers")):
        if not flag or flag in asked:
            with tempfile.TemporaryDirectory() as folder:
                part(Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
