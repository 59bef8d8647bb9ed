"""Speed budgets of the decode path: rates and ratios on this machine, and the CPU time of a cold command.

python tests/bench/speed.py
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np

import nhalf
from nhalf.decide.sweep import sweep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.breakdown import Array

REPEATS = 5


def cpu_seconds(*arguments: str) -> float:
    """Return the median CPU time [s] of a command in a process of its own."""
    times = []
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "nhalf", *arguments], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(times)


def main() -> None:
    """Print the table."""
    scenario = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8, weights="fp8")
    scalar = []
    for _ in range(200):
        start = time.process_time()
        nhalf.decode(scenario)
        scalar.append(time.process_time() - start)
    one = statistics.median(scalar)
    axes: dict[str, Sequence[float] | Array] = {
        "workload.batch": np.arange(1.0, 101.0),
        "layout.tensor_parallel": [1.0, 2.0, 4.0, 8.0, 16.0],
        "system.fabric.intra_node.latency_s": np.linspace(0.5e-6, 5e-6, 40),
        "system.fabric.intra_node.bandwidth_bytes_per_s": np.linspace(100e9, 900e9, 50),
    }
    rates = []
    for _ in range(REPEATS):
        start = time.process_time()
        points = sweep(scenario, axes).step_s.size
        rates.append(points / (time.process_time() - start))
    rate = statistics.median(rates)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    job = ("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "1,2,4,8,16", "--batch", "1", "--weights", "fp8")
    print(f"scalar decode                 {1e3 * one:8.3f} ms            (budget 2 ms)")
    print(f"sweep of 10^6, all columns    {rate / 1e6:8.2f} million/s     (budget 2 million/s)")
    print(f"sweep against scalar          {rate * one:8.0f} x")
    print(f"peak memory                   {memory:8.0f} MiB           (budget 1000 MiB)")
    print(f"CPU of nhalf --help           {cpu_seconds('--help'):8.3f} s             (budget 0.15 s)")
    print(f"CPU of a cold nhalf decode    {cpu_seconds(*job):8.3f} s             (budget 0.6 s)")


if __name__ == "__main__":
    main()
