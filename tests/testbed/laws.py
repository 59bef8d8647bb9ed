"""Prediction meets measurement: MPI's all-reduce against the laws, with the link that MPI's messages fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.testbed import hosts

from nhalf.laws.collective.all_reduce import recursive_doubling_all_reduce, ring_all_reduce
from nhalf.link import Link

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from nhalf.evidence.probe.bed import Bed


FORCED: Final = {
    "MPIR_CVAR_DEVICE_COLLECTIVES": "none",
    # MPICH's ring gathers by its all-gather, which left to itself takes another algorithm, or sends 32 KiB at a time
    # and waits for each: 8 latencies a step here where the textbook's ring has one.
    "MPIR_CVAR_ALLGATHERV_INTRA_ALGORITHM": "ring",
    "MPIR_CVAR_ALLGATHERV_PIPELINE_MSG_SIZE": "4194304",
}
# Of two numbers the four ranks of a ring hold one, one, none and none, and MPICH sends no message for none: its ring
# takes 5 latencies at 8 B and 6, as the law says, from 16 B on.
SMALL: Final = {"ring": "16B", "recursive_doubling": "8B"}


def all_reduce(bed: Bed, folder: Path, algorithm: str, *flags: str) -> dict[str, Any]:
    answer = hosts.by_mpi(bed, 4, folder, "--ops", "all-reduce", "--sync", "barrier", *flags, **FORCED,
                          MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=algorithm)  # fmt: skip
    (curve,) = answer["measured"]
    (point,) = curve["points"]
    found: dict[str, Any] = point
    return found


def off(bed: Bed, folder: Path, known: Collection[str] = ()) -> dict[str, float]:
    """Return by how much MPI's all-reduce is off the laws with the link that its messages fit, but what is known."""
    sweep = ("--sizes", "8B,64B,512B,4KiB,32KiB,96KiB,176KiB,208KiB,256KiB", "--budget", "5s")
    (fit,) = hosts.by_mpi(bed, 2, folder, "--ops", "send-recv", *sweep)["fits"]
    if not all(fit["identifiable"].values()):
        return {fit["verdict"]: float("inf")}
    link = Link(fit["latency_s"], fit["bandwidth_bytes_per_s"])
    laws = {"ring": ring_all_reduce, "recursive_doubling": recursive_doubling_all_reduce}
    found = {}
    for algorithm, law in laws.items():
        # A barrier lets ranks go up to a latency apart: small ones are timed in a row.
        few = ("--sizes", SMALL[algorithm], "--timing", "back-to-back", "--budget", "2s")
        for flags in (few, ("--sizes", "1MiB", "--timing", "isolated", "--budget", "6s")):
            if (name := f"{algorithm} {flags[1]}") in known:
                continue
            point = all_reduce(bed, folder, algorithm, *flags)
            predicted = law(point["size_bytes"], 4, link).value
            found[name] = point["median_s"] / float(predicted) - 1.0
    return found
