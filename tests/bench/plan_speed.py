"""Speed of planning: cold `nhalf plan` for 64 devices with every axis, a process of its own each time.

python tests/bench/plan_speed.py
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time

REPEATS = 5
JOBS = (
    ("dense, 64 devices", ("llama-3.1-70b", "--on", "h100-sxm", "--isl", "4096", "--osl", "512", "--tpot", "20ms")),
    ("experts, 64 devices", ("deepseek-v3", "--on", "h200-sxm", "--isl", "4096", "--osl", "512", "--tpot", "30ms",
                             "--ttft", "2s")),
    ("experts, long prompts: context parallelism too",
     ("deepseek-v3", "--on", "h200-sxm", "--isl", "65536", "--osl", "512")),
)  # fmt: skip


def seconds(arguments: tuple[str, ...]) -> tuple[float, float]:
    """Return the median wall and CPU time [s] of a command in a process of its own."""
    wall, cpu = [], []
    for _ in range(REPEATS):
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        command = [sys.executable, "-m", "nhalf", "plan", *arguments, "--gpus", "64"]
        subprocess.run(command, capture_output=True, check=True)
        wall.append(time.perf_counter() - begun)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(wall), statistics.median(cpu)


def main() -> None:
    """Print the table."""
    for name, arguments in JOBS:
        wall, cpu = seconds(arguments)
        print(f"{name:48} {wall:6.2f} s wall, {cpu:6.2f} s CPU   (budget 2 s)")


if __name__ == "__main__":
    main()
