"""Speed budgets of the decode path: rates and ratios on this machine, and the CPU time of a cold command.

python tests/bench/speed.py
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np

import nhalf
from nhalf.decide import workers
from nhalf.loading import Request
from nhalf.loading.axes import grid

if TYPE_CHECKING:
    from collections.abc import Callable

REPEATS = 5
LAYOUTS = ("tp=1,2,4,8,16", "pp=1,2,4", "ep=1,2,4,8", "attention_dp=1,2,4,8", "mode=graph,eager", "engine=vllm,sglang",
           "batch=1,4,16,64")  # fmt: skip


IMPORTS = ("-c", "import numpy, click, rich")
"""What a command is held against: a program that loads what most of them stand on, and does nothing."""


def once(*arguments: str) -> float:
    """Return the CPU time [s] of Python with arguments, in a process of its own that may keep its bytecode."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], capture_output=True, check=True, env=kept)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cpu_of(work: Callable[[], object]) -> float:
    """Return the median processor time of some work [s]."""
    times = []
    for _ in range(REPEATS):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return statistics.median(times)


def cpu_seconds(*arguments: str) -> float:
    """Return the median CPU time [s] of a command in a process of its own."""
    return statistics.median(once("-m", "nhalf", *arguments) for _ in range(REPEATS))


def against_imports(*arguments: str) -> float:
    """Return the median ratio of a command's CPU time to that of its imports, run in pairs after a first run."""
    once("-m", "nhalf", *arguments)
    return statistics.median(once("-m", "nhalf", *arguments) / once(*IMPORTS) for _ in range(REPEATS))


def main() -> None:
    """Print the table."""
    scenario = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8, weights="fp8")
    scalar = []
    for batch in range(200):
        start = time.process_time()
        nhalf.decode(scenario.moved({"workload.batch": batch + 0.5}))
        scalar.append(time.process_time() - start)
    one = statistics.median(scalar)
    step = nhalf.emit(scenario, "workload.batch", "workload.context_tokens")
    alone = cpu_of(lambda: [step(batch + 0.5, 2048.0) for batch in range(5000)]) / 5000
    batches = np.arange(1.0, 8193.0) / 64
    together = cpu_of(lambda: step(batches, 2048.0)) / len(batches)
    layouts = grid(Request(model="deepseek-v3", systems=("h100-sxm",), weights="fp8"), LAYOUTS).grid
    cells = cpu_of(lambda: sum(task.points for task, _ in workers.here(layouts, layouts.tasks()))) / layouts.points
    inside = "system.fabric.intra_node"
    texts = ("tp=1,2,4,8,16", "batch=1:100", f"{inside}.latency_s=0.5us:5us:40",
             f"{inside}.bandwidth_bytes_per_s=100GB/s:900GB/s:50")  # fmt: skip
    many = grid(Request(model="llama-3.1-70b", systems=("h100-sxm",), weights="fp8"), texts).grid
    rates = []
    for _ in range(REPEATS):
        start = time.process_time()
        points = sum(task.points for task, _ in workers.here(many, many.tasks()))
        rates.append(points / (time.process_time() - start))
    rate = statistics.median(rates)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    job = ("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "1,2,4,8,16", "--batch", "1", "--weights", "fp8")
    print(f"scalar decode                 {1e3 * one:8.3f} ms            (budget 2 ms)")
    print(f"emitted, one point            {1e6 * alone:8.2f} us            (goal 5 us; {one / alone:.0f} x the tree)")
    print(f"emitted, arrays of 8192       {1e-6 / together:8.2f} million/s     (goal 5 without numba)")
    print(f"sweep over {len(layouts.cells):4d} layouts      {1 / cells:8.0f} points/s      (goal 20,000)")
    print(f"sweep of 10^6, all columns    {rate / 1e6:8.2f} million/s     (goal 5 million/s)")
    print(f"sweep against scalar          {rate * one:8.0f} x")
    print(f"peak memory                   {memory:8.0f} MiB           (budget 1000 MiB)")
    print(f"CPU of nhalf --help           {cpu_seconds('--help'):8.3f} s             (budget 0.15 s)")
    print(f"CPU of a cold nhalf decode    {cpu_seconds(*job):8.3f} s             (budget 0.6 s)")
    link, decode = against_imports("link", "5us", "400GB/s"), against_imports(*job[:4], "--tp", "8")
    print(f"nhalf link against imports    {link:8.2f} x             (goal 0.7: numpy, click, rich)")
    print(f"nhalf decode against imports  {decode:8.2f} x             (goal 1.5)")


if __name__ == "__main__":
    main()
