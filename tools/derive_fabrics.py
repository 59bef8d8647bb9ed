"""Derives the constants of transports from measured collectives across nodes: catalog/data/fabrics.toml.

A machine is a family with one voice: its constants are drawn from its class, a class from its group of network stacks,
a group from all (partial pooling of logarithms). Each family is left out once to see how far a class is off.

    python tools/derive_fabrics.py [--data ../shared/data] [--print]
"""

from __future__ import annotations

import csv
import gzip
import math
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np
from scipy.optimize import least_squares

from nhalf.catalog import store
from nhalf.collective import Op
from nhalf.fabric import Span
from nhalf.laws.across_nodes import Place, across_nodes
from nhalf.link import Link
from nhalf.transport import Transport

DATA = Path(__file__).parents[2] / "shared/data"
NAMES = (
    "hop_s", "payload_s", "bulk_s", "ll_bandwidth_bytes_per_s", "ll_tree_factor", "tree_share", "ring_share",
    "nvls_share", "exchange_share", "depth_factor", "peer_s", "inject_s", "ll128_share",
)  # fmt: skip
START = np.log([6e-6, 7e-6, 10e-6, 15e9, 1.0, 0.5, 0.75, 0.6, 0.55, 1.3, 5e-6, 1e-6, 0.7])
"""Where everything begins: NCCL's constants and round figures."""
WIDE = np.array([1.0, 0.8, 0.8, 1.2, 0.6, 0.4, 0.4, 0.4, 0.4, 0.25, 0.8, 1.0, 0.4])
"""How far groups may lie from each other, as log-standard deviations."""
NOISE = 0.10
"""What the law misses a point of its own machine by (log sd), and what repeats scatter."""
POINTS_AN_OCTAVE = 3.0
"""Neighbouring sizes miss alike: so many points count as one."""


STATED: dict[str, dict[str, tuple[float, float]]] = {
    "ib": {"hop_s": (5e-6, 0.4)},
    "roce": {"hop_s": (5e-6, 0.5)},
    "efa-v1": {"hop_s": (75e-6, 0.4)},
    "efa-v2": {"hop_s": (20e-6, 0.3)},
    "slingshot": {"hop_s": (5e-6, 0.5)},
    "slingshot-default": {"hop_s": (5e-6, 0.5)},
    "tcp": {
        "hop_s": (20e-6, 0.5), "ll_bandwidth_bytes_per_s": (2e9, 1.0), "tree_share": (0.15, 0.7),
        "ring_share": (0.15, 0.7), "exchange_share": (0.15, 0.7), "peer_s": (20e-6, 0.5),
    },
}  # fmt: skip
"""What documents say of a class before any machine of it was measured, as a value and a log-standard deviation.

NCCL's tuner charges 5 us for a step between nodes; aws-ofi-nccl announces 75 us for P4d (src/platform-aws.cpp) and
counts 20 us for P5 (src/tuner/nccl_ofi_model.cpp). A message through the kernel takes some 20 us, and a few streams of
it carry some 15 % of 200 Gb/s (the house's priors)."""
SMALL = ("hop_s", "payload_s", "depth_factor", "ll_bandwidth_bytes_per_s", "ll_tree_factor")
"""What only small messages tell: curves that begin above 64 KiB say nothing of it."""
DOUBTFUL = ("gb10-spark-pair", "h200-sxm-mscclpp")
"""Machines whose rows are approximate or whose ranks are assumed: they have constants, but no voice in their class."""


@dataclass(frozen=True)
class Machine:
    """A machine of the data: its class, its node, and the floors [us] of one node."""

    family: str
    group: str
    kind: str
    k: int
    nics: float
    links: float
    step: float
    floors: dict[str, float]
    ll128: bool = True
    nvls: bool = False
    architecture: str = "hopper"
    library: str = "nccl"


_A8 = {"all_reduce": 21.5, "all_gather": 14.7, "reduce_scatter": 14.7, "all_to_all": 12.4}
_A4 = {"all_reduce": 14.0, "all_gather": 10.9, "reduce_scatter": 10.9, "all_to_all": 12.4}
_H8 = {"all_reduce": 15.6, "all_gather": 10.3, "reduce_scatter": 10.3, "all_to_all": 7.5}
_H4 = {"all_reduce": 9.4, "all_gather": 7.1, "reduce_scatter": 7.1, "all_to_all": 6.5}
_H1 = {"all_reduce": 4.8, "all_gather": 4.8, "reduce_scatter": 4.8, "all_to_all": 4.8}
_P8 = {"all_reduce": 24.8, "all_gather": 14.4, "reduce_scatter": 14.4, "all_to_all": 9.4}


def _a(family: str, group: str, kind: str, k: int, nics: float, *, ll128: bool = True) -> Machine:
    return Machine(family, group, kind, k, nics, 300.0, 0.949, _A8 if k == 8 else _A4, ll128, architecture="ampere")


def _h(family: str, group: str, kind: str, k: int, nics: float, *, ll128: bool = True) -> Machine:
    floors = {8: _H8, 4: _H4, 1: _H1}[k]
    return Machine(family, group, kind, k, nics, 450.0, 0.779, floors, ll128, nvls=k == 8)


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
        "mi300x-cx7-aac10", "verbs", "roce", 8, 400, 336, 1.0, _A8, ll128=False, architecture="cdna3", library="rccl"),
    ("mi35x-ainic-vultr", "vultr-alinux3"): Machine(
        "mi35x-ainic-vultr", "verbs", "roce", 8, 400, 538, 1.0, _A8, ll128=False, architecture="cdna3", library="rccl"),
    ("gb10-spark-pair", "dualspark22"): Machine(
        "gb10-spark-pair", "verbs", "roce", 1, 25, 25, 1.0, _H1, ll128=False, architecture="blackwell"),
    ("gb10-spark-pair", "spark-playbook103"): Machine(
        "gb10-spark-pair", "verbs", "roce", 1, 25, 25, 1.0, _H1, ll128=False, architecture="blackwell"),
}  # fmt: skip
for _way in ("aroff", "aron-ddpoff", "aron-ddpon"):
    MACHINES["rtx6000d-cx8-spectrumx", f"6kd-phb-{_way}"] = Machine(
        "rtx6000d-cx8-spectrumx", "verbs", "roce", 8, 400, 64, 1.3, _P8, ll128=False, architecture="blackwell"
    )
_ALPS = {"base": "slingshot-default", "bigcq": "slingshot", "crossnic1": "slingshot-cross-nic",
         "nogdrcopy": "slingshot-without-gdrcopy", "ignoreaff": "slingshot-default"}  # fmt: skip
for _name, _kind in _ALPS.items():
    for _ofi in ("ofi113", "ofi19"):
        MACHINES["gh200-slingshot", f"alps-{_name}-{_ofi}"] = _h("gh200-alps", "libfabric", _kind, 4, 100)
VERSIONS = {"a100-40g-polaris": "2.18"}
"""Of a machine that was measured with several versions of NCCL, the one without the regression of later ones."""


@dataclass
class Series:
    """One curve: an operation on a number of nodes of one variant of a machine."""

    op: Op
    machine: Machine
    k: int
    nodes: int
    sizes: np.ndarray
    seconds: np.ndarray

    def place(self, transport: Transport) -> Place:
        """Return where it ran, with the constants of a transport."""
        machine, share = self.machine, self.k / self.machine.k
        latency = machine.step * 1e-6
        span = Span(
            ranks=self.k * self.nodes, nodes=self.nodes, intra=Link(latency, machine.links * 1e9),
            inter=Link(5e-6, machine.nics * share / self.k * 1e9), rails=float(self.k),
        )  # fmt: skip
        floor = machine.floors[str(self.op).replace("-", "_")] * 1e-6
        if self.k != machine.k:
            floor = 4.8e-6 + 2 * (self.k - 1) * latency
        has = frozenset({"nvls"} if machine.nvls and self.k == machine.k else ())
        return Place(span=span, transport=transport, floor_s=floor, has=has)

    def predicted(self, theta: np.ndarray) -> np.ndarray:
        """Return times [s] of shape (d, sizes) by constants of shape (d, 12): logarithms."""
        values = dict(zip(NAMES, np.exp(theta.T)[:, :, None], strict=True))
        transport = Transport(name="", known="", ll128=self.machine.ll128, **values)
        library = store.library(self.machine.library, architecture=self.machine.architecture)[0]
        return np.asarray(across_nodes(self.op, self.sizes[None, :], self.place(transport), library).value)


@dataclass
class Variant:
    """The curves of one machine under settings of one class."""

    family: str
    group: str
    kind: str
    series: list[Series] = field(default_factory=list)


def read(folder: Path = DATA) -> dict[tuple[str, str], Variant]:
    """Return the variants by family and class."""
    cells: dict[tuple[str, str, str, int, int], dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    machines: dict[tuple[str, str], Machine] = {}
    with gzip.open(folder / "across_nodes.csv.gz", "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            machine = MACHINES.get((row["system"], row["settings"]))
            if machine is None or not _clean(row) or int(row["nodes"]) == 1:
                continue
            key = (machine.family, machine.kind + ("-container" if "container" in row["system"] else ""))
            machines[key] = machine
            cell = (*key, row["op"].replace("_", "-"), int(row["ranks_per_node"]), int(row["nodes"]))
            cells[cell][float(row["bytes"])].append(_seconds(row))
    found: dict[tuple[str, str], Variant] = {}
    for (family, kind, op, k, nodes), points in sorted(cells.items()):
        machine = machines[family, kind]
        variant = found.setdefault((family, kind), Variant(family, machine.group, machine.kind))
        sizes = np.array(sorted(size for size in points if size >= 8))
        seconds = np.array([median(points[size]) for size in sizes])
        if op not in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all"):
            continue
        variant.series.append(Series(Op(op), machine, k, nodes, sizes, seconds))
    return found


def _clean(row: dict[str, str]) -> bool:
    flag, wanted = row["flag"], VERSIONS.get(row["system"], row["version"])
    fine = all(part.startswith(("note=nodes", "approx", "ranks_assumed", "unit_assumed", "note=excerpt")) for part in flag.split(";"))
    return row["version"] == wanted and (not flag or fine) and bool(row["time_us"] or row["time_in_place_us"])


def _seconds(row: dict[str, str]) -> float:
    times = [float(row[name]) * 1e-6 for name in ("time_us", "time_in_place_us") if row[name]]
    return math.sqrt(times[0] * times[-1]) if max(times) < 1.5 * min(times) else min(times)


# --- fitting ------------------------------------------------------------------------------------------------------------


def misfit(variant: Variant, theta: np.ndarray) -> np.ndarray:
    """Return the weighted log-errors of a variant, of shape (d, points), by constants of shape (d, 12)."""
    return np.concatenate(
        [
            (np.log(each.predicted(theta)) - np.log(each.seconds)) / (NOISE * math.sqrt(POINTS_AN_OCTAVE))
            for each in variant.series
        ],
        axis=1,
    )


def fit(variant: Variant, centre: np.ndarray, spread: np.ndarray, start: np.ndarray | None = None, weight: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return the constants of a variant (logarithms) and their variances, the prior included."""
    step = 1e-4

    def residual(theta: np.ndarray) -> np.ndarray:
        return np.concatenate([weight * misfit(variant, theta[None, :])[0], (theta - centre) / spread])

    def slope(theta: np.ndarray) -> np.ndarray:
        moved = theta + np.vstack([np.zeros_like(theta), step * np.eye(len(theta))])
        values = weight * misfit(variant, moved)
        return np.vstack([((values[1:] - values[0]) / step).T, np.diag(1 / spread)])

    found = least_squares(residual, centre if start is None else start, jac=slope, loss="soft_l1", max_nfev=60)
    return found.x, np.linalg.inv(slope(found.x).T @ slope(found.x))


@dataclass
class Pool:
    """Centres and spreads of classes: what a machine of a class is expected to be like."""

    centres: dict[str, np.ndarray]
    spreads: dict[str, np.ndarray]
    groups: dict[str, np.ndarray]
    within: np.ndarray


@dataclass
class Fitted:
    """The constants of one variant, by data and prior, and what the data alone say of each: value and variance."""

    family: str
    group: str
    kind: str
    theta: np.ndarray
    alone: np.ndarray
    variance: np.ndarray


def pool(fits: list[Fitted], within: np.ndarray, between: np.ndarray, *, without: str = "") -> Pool:
    """Return classes as precision-weighted means of their families, shrunk to their group, and that to all."""
    used = [each for each in fits if each.family not in (without, *DOUBTFUL)]
    far = within**2 + between**2
    top = _mean(_voices(used, far, START), START, WIDE**2)[0]
    groups: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for group in {each.group for each in fits}:
        groups[group] = _mean(_voices([each for each in used if each.group == group], far, top), top, WIDE**2)
    centres, spreads = {}, {}
    for kind, group in {(each.kind, each.group) for each in fits}:
        members = [each for each in used if each.kind == kind]
        before = _stated(kind, groups[group][0], groups[group][1] + between**2)
        centre, variance = _mean(_voices(members, within**2, before[0]), *before)
        centres[kind], spreads[kind] = centre, np.sqrt(variance + within**2)
    return Pool(centres, spreads, {name: mean for name, (mean, _) in groups.items()}, within)


def _stated(kind: str, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what is expected of a class before its machines: its group, or what documents say of it."""
    mean, variance = mean.copy(), variance.copy()
    for name, (value, sd) in STATED.get(kind, {}).items():
        place = NAMES.index(name)
        mean[place], variance[place] = math.log(value), sd**2
    return mean, variance


def _voices(members: list[Fitted], spread2: np.ndarray, centre: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return what members say with their variances: one voice a family, and an odd one speaks the more softly."""
    found = []
    for each in members:
        count = sum(other.family == each.family for other in members)
        variance = each.variance + spread2
        odd = (each.alone - centre) ** 2 / variance
        found.append((each.alone, variance * count * (1 + odd / 4.0)))
    return found


def _mean(members: list[tuple[np.ndarray, np.ndarray]], prior: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior mean and variance of a centre, each member with its own variance."""
    weight = 1 / variance + sum((1 / each for _, each in members), np.zeros(len(prior)))
    mean = (prior / variance + sum((value / each for value, each in members), np.zeros(len(prior)))) / weight
    return mean, 1 / weight


WITHIN = np.array([0.30, 0.35, 0.6, 0.45, 0.25, 0.30, 0.30, 0.25, 0.30, 0.12, 0.35, 0.5, 0.25])
"""How far machines of a class lie from each other, where the data do not say: log-standard deviations."""
BETWEEN = np.array([0.6, 0.4, 0.5, 0.8, 0.25, 0.2, 0.2, 0.2, 0.25, 0.12, 0.5, 0.6, 0.25])
"""How far classes of a group do."""


def fitted(variants: dict[tuple[str, str], Variant], rounds: int = 4) -> tuple[list[Fitted], np.ndarray]:
    """Return the constants of every variant and the spread of machines in a class, each made from the other in turn."""
    within = WITHIN.copy()
    start: dict[tuple[str, str], np.ndarray] = {}
    fits: list[Fitted] = []
    pooled: Pool | None = None
    for _ in range(rounds):
        now = []
        for key, variant in variants.items():
            centre = START if pooled is None else pooled.centres[variant.kind]
            spread = WIDE if pooled is None else np.sqrt(within**2 + (0.5 * BETWEEN) ** 2)
            theta, covariance = fit(variant, centre, spread, start.get(key))
            start[key] = theta
            informed = np.maximum(1 / np.diag(covariance) - 1 / spread**2, 1e-6)
            alone = (theta / np.diag(covariance) - centre / spread**2) / informed
            alone = np.where(informed < 0.05 / spread**2, theta, alone)
            if min(float(each.sizes[0]) for each in variant.series) > 2**16:
                informed = np.where([name in SMALL for name in NAMES], 1e-6, informed)
            now.append(Fitted(variant.family, variant.group, variant.kind, theta, alone, 1 / informed))
        fits = now
        pooled = pool(fits, within, BETWEEN)
        within = _spread(fits, pooled)
    return fits, within


def _spread(fits: list[Fitted], pooled: Pool) -> np.ndarray:
    """Return the spread of machines in a class: what the fits show, with the assumed one as so many more machines."""
    assumed = 4.0
    kinds = {each.kind for each in fits if sum(other.kind == each.kind for other in fits) > 1}
    members = [each for each in fits if each.kind in kinds]
    weight = sum((WITHIN**2 / (WITHIN**2 + each.variance) for each in members), np.zeros(len(WITHIN)))
    square = sum(
        (WITHIN**2 / (WITHIN**2 + each.variance) * ((each.theta - pooled.centres[each.kind]) ** 2) for each in members),
        np.zeros(len(WITHIN)),
    )
    return np.sqrt((square + assumed * WITHIN**2) / (weight + assumed))


if __name__ == "__main__":
    variants = read()
    fits, within = fitted(variants)
    print("within", dict(zip(NAMES, within.round(2), strict=True)))
    np.set_printoptions(linewidth=220, precision=3, suppress=True)
    scale = np.array([1e6, 1e6, 1e6, 1e-9, 1, 1, 1, 1, 1, 1, 1e6, 1e6, 1])
    print("               ", NAMES)
    for each in fits:
        variant = variants[each.family, each.kind]
        worst = [abs(float(np.median(np.abs(np.log(s.predicted(each.theta[None]))[0] - np.log(s.seconds)))))for s in variant.series]
        print(f"{each.family:24.24} {each.kind:20.20}", np.exp(each.theta) * scale, "err", round(float(np.median(worst)), 3))
    for kind, centre in pool(fits, within, BETWEEN).centres.items():
        print(f"  class {kind:30}", np.exp(centre) * scale)
    sys.exit(0)
