"""What `nhalf measure` finds on the test bed, beside what is imposed there.

    python tests/bench/measure_bed.py

Needs Linux, root and about three minutes. It prints by how much alpha (beyond a control without delay), beta and n_1/2
are off, each in several runs, and how near the laws with the fitted link come to MPI's all-reduce.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from tests.testbed import hosts, laws
from tests.testbed.test_testbed import LIMITS, SWEEP, Found

from nhalf.evidence.probe.bed import Bed, Port, missing

if TYPE_CHECKING:
    from collections.abc import Callable

LINKS = (
    Port(delay_s=500e-6, bytes_per_s=20e6),
    Port(delay_s=1e-3, bytes_per_s=25e6),
    Port(delay_s=150e-6, bytes_per_s=60e6),
)


def row(bed: Bed, name: str, imposed: Port, measure: Callable[[], dict[str, Any]]) -> None:
    bed.impose(Port(delay_s=0.0, bytes_per_s=imposed.bytes_per_s))
    (base,) = measure()["fits"]
    bed.impose(imposed)
    (fit,) = measure()["fits"]
    what = f"{name:<8} {1e6 * imposed.delay_s:6.0f} us {1e-6 * imposed.bytes_per_s:4.0f} MB/s"
    if not all((*fit["identifiable"].values(), base["identifiable"]["latency"])):
        print(f"{what}   not measured: {fit['verdict']}")
        return
    found = Found(latency_s=fit["latency_s"] - base["latency_s"], bandwidth_bytes_per_s=fit["bandwidth_bytes_per_s"])
    misses = found.misses(imposed)
    within = all(abs(misses[each]) <= LIMITS[each] for each in LIMITS)
    shown = "  ".join(f"{100 * miss:+6.2f} %" for miss in misses.values())
    print(f"{what}   {shown}   {'within' if within else 'OUT'}   load {os.getloadavg()[0]:.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    if why := missing():
        print(f"skipped: {why}")
        return
    folder = Path(tempfile.mkdtemp())
    print("over        delay     rate   alpha, beta and n_1/2 off by (limits 5, 2, 7 %)")
    with Bed(2) as bed:
        for imposed in LINKS:
            for _ in range(given.runs):
                row(bed, "sockets", imposed, lambda: hosts.by_sockets(bed, *SWEEP))
                row(bed, "mpi", imposed, lambda: hosts.by_mpi(bed, 2, folder, "--ops", "send-recv", *SWEEP))
    with Bed(4) as bed:
        bed.impose(Port(delay_s=5e-3, bytes_per_s=8e6))
        for name, miss in laws.off(bed, folder).items():
            print(f"all-reduce of 4 ranks against the law: {name:<24} {100 * miss:+6.1f} %")


if __name__ == "__main__":
    main()
