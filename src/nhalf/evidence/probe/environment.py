"""The environment of a measurement: what a rank runs on, as far as it changes times; nothing else is recorded."""

from __future__ import annotations

import os
import platform
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nhalf.evidence.probe.messages import Facts
from nhalf.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.evidence.probe.messages import Address

_PREFIXES: Final = (
    "NCCL_", "RCCL_", "UCX_", "FI_", "MPIR_CVAR_", "MPICH_", "OMPI_MCA_", "I_MPI_", "GLOO_", "HYDRA_",
    "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "OMP_NUM_THREADS", "TORCH_NCCL_",
)  # fmt: skip


def of_rank(facts: Mapping[str, str], address: Address | None = None) -> Facts:
    """Return what a rank says about itself when it comes: its host, process, clock, network and environment."""
    return Facts(
        host=socket.gethostname(),
        pid=os.getpid(),
        boot=_read("/proc/sys/kernel/random/boot_id"),
        network=_link("/proc/self/ns/net"),
        cpus=_cpus(),
        address=address,
        environment={
            "nhalf": VERSION,
            "python": platform.python_version(),
            "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
            "processor": _processor(),
            "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            **facts,
            **variables(os.environ),
        },
    )


def variables(given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that steer communication libraries."""
    return {name: value for name, value in sorted(given.items()) if name.startswith(_PREFIXES)}


def common(ranks: Sequence[Mapping[str, str]]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return what all ranks say alike, with both values where they differ, and the names that differ."""
    names = sorted({name for each in ranks for name in each})
    found: dict[str, str] = {}
    differ = []
    for name in names:
        values = sorted({each.get(name, "") for each in ranks})
        if len(values) > 1:
            differ.append(name)
        text = " | ".join(value or "(unset)" for value in values) if len(values) > 1 else values[0]
        if text:
            found[name] = text
    return found, tuple(differ)


def _cpus() -> list[int]:
    if sys.platform == "linux":
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _processor() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""
