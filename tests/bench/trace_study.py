"""Prints the speed and memory of `nhalf trace`, beside the installed `HolisticTraceAnalysis` where there is one.

Run: python tests/bench/trace_study.py [EVENTS...]; each number of events is one file of one rank (default 200,000).
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.trace_made import write

_OURS = "import sys; from nhalf.trace.study import Options, study; study(sys.argv[1:], Options())"
_THEIRS = (
    "import sys; from hta.trace_analysis import TraceAnalysis; "
    "files = dict(enumerate(sys.argv[1:])); "
    "TraceAnalysis(trace_files=files, trace_dir='').get_comm_comp_overlap(visualize=False)"
)
_PEAK = "; import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"


def measured(code: str, files: list[str]) -> tuple[float, int]:
    """Return the seconds and the peak MB of a fresh process that runs code on files."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code + _PEAK, *files], check=True, capture_output=True, text=True)
    return time.perf_counter() - began, int(done.stdout.split()[-1])


def main(counts: list[int]) -> None:
    """Print a line for each size and tool."""
    there = importlib.util.find_spec("hta") is not None
    with tempfile.TemporaryDirectory() as place:
        for count in counts:
            for ending in (".json", ".json.gz"):
                path = Path(place, f"rank0{ending}")
                write(path, count)
                size = path.stat().st_size / 1e6
                seconds, peak = measured(_OURS, [str(path)])
                print(f"{count:>10,} events  {size:8.1f} MB {ending:8s}  nhalf {seconds:6.2f} s {peak:6d} MB", end="")
                if there:
                    seconds, peak = measured(_THEIRS, [str(path)])
                    print(f"   HolisticTraceAnalysis {seconds:6.2f} s {peak:6d} MB", end="")
                print()
                path.unlink()
    if not there:
        print("HolisticTraceAnalysis is not installed: no comparison")


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or [200_000])
