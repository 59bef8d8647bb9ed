"""The machines whose collectives across nodes were measured, and the points that ship: tests/golden/across_nodes.csv.

    python tools/fabric_machines.py ../shared/data

writes the points from across_nodes.csv.gz: the median of clean rows, a time being the geometric mean of the
out-of-place and the in-place column (the smaller where they differ by half). The columns `nics` and `links` below are
what a node has in all [GB/s], a NIC one way, and what a device has to the others of its node, `step` what a step of a
ring takes there [us].
"""

from __future__ import annotations

import csv
import gzip
import math
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median

WHOLE, LEAST = 8, 8
"""The devices of a node with NVSwitch, and the smallest message [bytes]."""
POINTS = Path(__file__).parents[1] / "tests/golden/across_nodes.csv"
OPS = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "all_to_all": "all-to-all",
}


@dataclass(frozen=True)
class Machine:
    """A machine of the data: its class, its node, and the system of the catalogue whose node is like its own."""

    family: str
    group: str
    kind: str
    k: int
    nics: float
    links: float
    step: float
    like: str
    ll128: bool = True
    nvls: bool = False
    architecture: str = "hopper"
    library: str = "nccl"


def _a(family: str, group: str, kind: str, k: int, nics: float, *, ll128: bool = True) -> Machine:
    return Machine(family, group, kind, k, nics, 300.0, 0.949, "a100-sxm", ll128, architecture="ampere")


def _h(family: str, group: str, kind: str, k: int, nics: float, *, ll128: bool = True) -> Machine:
    return Machine(family, group, kind, k, nics, 450.0, 0.779, "h100-sxm", ll128, nvls=k == WHOLE)


MACHINES: dict[tuple[str, str], Machine] = {
    ("a100-40g-oci", "oci-oke-volcano"): _a("a100-40g-oci", "verbs", "roce", 8, 200),
    ("a100-40g-polaris", "alcf-3"): _a("a100-40g-polaris", "libfabric", "slingshot", 4, 50),
    ("a100-40g-polaris", "alcf-4"): _a("a100-40g-polaris", "libfabric", "slingshot", 4, 50),
    ("a100-40g-polaris", "alcf-5"): _a("a100-40g-polaris", "libfabric", "slingshot-software-matching", 4, 50),
    ("a100-40g-polaris", "alcf-1"): _a("a100-40g-polaris-tcp", "tcp", "tcp", 4, 50),
    ("a100-40g-polaris", "alcf-2"): _a("a100-40g-polaris-tcp", "tcp", "tcp", 4, 50),
    ("a100-40g-polaris-ss10", "alcf-2023-unrecorded-named"): _a("a100-40g-polaris-ss10", "verbs", "roce", 4, 25),
    ("a100-40g-sophia", "alcf-1"): _a("a100-40g-sophia", "verbs", "ib", 8, 200),
    ("a100-40g-sophia", "alcf-2"): _a("a100-40g-sophia", "verbs", "ib", 8, 200),
    ("a100-40g-sophia", "alcf-6"): _a("a100-40g-sophia", "verbs", "ib", 8, 200),
    ("a100-80g-crusoe", "crusoe-dstack"): _a("a100-80g-crusoe", "verbs", "ib", 8, 200),
    ("a100-80g-efa-p4de", "awsome-p4de"): _a("a100-80g-efa-p4de", "libfabric", "efa-v1", 8, 50, ll128=False),
    ("gh200-slingshot-cscs-container", "cscs-cxi-container"): _h("gh200-alps", "libfabric", "slingshot", 4, 100),
    ("h100-ib-10", "default"): _h("h100-ib-10", "verbs", "ib", 8, 400),
    ("h100-ib-17", "default"): _h("h100-ib-17", "verbs", "ib", 4, 200),
    ("h100-ib-nccltests290", "nccltests290-default"): _h("h100-ib-nccltests290", "verbs", "ib", 8, 100),
    ("h100-ib-snellius", "snellius-default"): _h("h100-ib-snellius", "verbs", "ib", 4, 100),
    ("h100-sxm-efa", "p5-a"): _h("h100-sxm-efa", "libfabric", "efa-v2", 8, 400),
    ("h100-sxm-gjaion", "nccltests309-gjaion"): _h("h100-sxm-gjaion", "verbs", "ib", 8, 400),
    ("h100-sxm-ib-xe9680", "nccltests309-bm"): _h("h100-sxm-ib-xe9680", "verbs", "ib", 8, 400),
    ("h100-sxm-ib-xe9680", "nccltests309-vm"): _h("h100-sxm-ib-xe9680", "verbs", "ib", 8, 400),
    ("h200-bf3-dell", "dell-h200-openshift"): _h("h200-bf3-dell", "verbs", "roce", 8, 400),
    ("h200-dranet-1nic", "dranet-1gpu-1nic"): _h("h200-dranet-1nic", "verbs", "roce", 1, 50),
    ("h200-sxm-mscclpp", "mscclpp794"): _h("h200-sxm-mscclpp", "verbs", "ib", 8, 400),
    ("mi300x-cx7-aac10", "aac10"): Machine(
        "mi300x-cx7-aac10", "verbs", "roce", 8, 400, 336, 1.0, "", ll128=False, architecture="cdna3", library="rccl"),
    ("mi35x-ainic-vultr", "vultr-alinux3"): Machine(
        "mi35x-ainic-vultr", "verbs", "roce", 8, 400, 538, 1.0, "", ll128=False, architecture="cdna3", library="rccl"),
    ("gb10-spark-pair", "dualspark22"): Machine(
        "gb10-spark-pair", "verbs", "roce", 1, 25, 25, 1.0, "", ll128=False, architecture="blackwell"),
    ("gb10-spark-pair", "spark-playbook103"): Machine(
        "gb10-spark-pair", "verbs", "roce", 1, 25, 25, 1.0, "", ll128=False, architecture="blackwell"),
}  # fmt: skip
for _way in ("aroff", "aron-ddpoff", "aron-ddpon"):
    MACHINES["rtx6000d-cx8-spectrumx", f"6kd-phb-{_way}"] = Machine(
        "rtx6000d-cx8-spectrumx",
        "verbs",
        "roce",
        8,
        400,
        64,
        1.3,
        "rtx-pro-6000",
        ll128=False,
        architecture="blackwell",
    )
_ALPS = {"base": "slingshot-default", "bigcq": "slingshot", "crossnic1": "slingshot-cross-nic",
         "nogdrcopy": "slingshot-without-gdrcopy", "ignoreaff": "slingshot-default"}  # fmt: skip
for _name, _kind in _ALPS.items():
    for _ofi in ("ofi113", "ofi19"):
        MACHINES["gh200-slingshot", f"alps-{_name}-{_ofi}"] = _h("gh200-alps", "libfabric", _kind, 4, 100)
VERSIONS = {"a100-40g-polaris": "2.18"}
"""Of a machine that was measured with several versions of NCCL, the one without the regression of later ones."""


@dataclass(frozen=True)
class Curve:
    """Measured times [s] by size [bytes] of one operation under settings of one class."""

    family: str
    label: str
    machine: Machine
    op: str
    k: int
    nodes: int
    points: tuple[tuple[float, float], ...]


def curves(path: Path = POINTS) -> list[Curve]:
    """Return the curves that ship."""
    cells: dict[tuple[str, str, str, str, int, int], list[tuple[float, float]]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            key = (
                row["system"],
                row["settings"],
                row["label"],
                row["op"],
                int(row["ranks_per_node"]),
                int(row["nodes"]),
            )
            cells[key].append((float(row["bytes"]), float(row["time_us"]) * 1e-6))
    found = []
    for (system, settings, label, op, k, nodes), points in cells.items():
        machine = MACHINES[system, settings]
        found.append(Curve(machine.family, label, machine, op, k, nodes, tuple(points)))
    return found


def gathered(folder: Path) -> list[list[object]]:
    """Return the rows of the points from the table of measurements, runs under settings of one class together."""
    cells: dict[tuple[str, str, str, int, int], dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    first: dict[tuple[str, str], tuple[str, str]] = {}
    with gzip.open(folder / "across_nodes.csv.gz", "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            machine = MACHINES.get((row["system"], row["settings"]))
            if (
                machine is None
                or row["op"] not in OPS
                or not _clean(row)
                or int(row["nodes"]) == 1
                or float(row["bytes"]) < LEAST
            ):
                continue
            label = machine.kind + ("-container" if "container" in row["system"] else "")
            first.setdefault((machine.family, label), (row["system"], row["settings"]))
            cell = (machine.family, label, OPS[row["op"]], int(row["ranks_per_node"]), int(row["nodes"]))
            cells[cell][float(row["bytes"])].append(_microseconds(row))
    return [
        [*first[family, label], label, op, k, nodes, f"{size:.0f}", f"{median(times):.4g}"]
        for (family, label, op, k, nodes), points in sorted(cells.items())
        for size, times in sorted(points.items())
    ]


def _clean(row: dict[str, str]) -> bool:
    """Tell whether a row counts: no flag but what says how nodes, ranks or a range were read, and the sound version."""
    noted = ("note=nodes", "approx", "ranks_assumed", "unit_assumed", "note=excerpt")
    fine = not row["flag"] or all(part.startswith(noted) for part in row["flag"].split(";"))
    return fine and row["version"] == VERSIONS.get(row["system"], row["version"])


def _microseconds(row: dict[str, str]) -> float:
    times = [float(row[name]) for name in ("time_us", "time_in_place_us") if row[name]]
    return math.sqrt(times[0] * times[-1]) if max(times) < 1.5 * min(times) else min(times)


if __name__ == "__main__":
    with POINTS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["system", "settings", "label", "op", "ranks_per_node", "nodes", "bytes", "time_us"])
        writer.writerows(gathered(Path(sys.argv[1])))
