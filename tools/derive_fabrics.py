"""Derive the constants of transports from measured collectives across nodes: catalog/data/fabrics.toml.

    python tools/derive_fabrics.py

A machine is a family with one voice: its constants (logarithms) scatter around its class, a class around its group of
network stacks, a group around all (partial pooling). Every family is left out once, so that the doubt about a class is
what an unseen machine of it showed. The points are those of tests/golden/across_nodes.csv (tools/fabric_machines.py).
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import least_squares

sys.path.insert(0, str(Path(__file__).parents[1]))

from tools.fabric_machines import Machine, curves

from nhalf.breakdown import Quantity, weighted_parts
from nhalf.catalog import files, store
from nhalf.collective import Mode, Op
from nhalf.fabric import Span
from nhalf.laws.across_nodes import Place, Steps, across_nodes
from nhalf.link import Link
from nhalf.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Callable

FABRICS = Path(files.__file__).with_name("data") / "fabrics.toml"
NAMES = (
    "hop_s", "payload_s", "bulk_s", "ll_bandwidth_bytes_per_s", "ll_tree_factor", "tree_share", "ring_share",
    "nvls_share", "exchange_share", "depth_factor", "peer_s", "inject_s", "ll128_share",
)  # fmt: skip
START = np.log([6e-6, 7e-6, 10e-6, 15e9, 1.0, 0.9, 0.8, 0.9, 0.55, 1.3, 5e-6, 1e-6, 0.7])
"""Where everything begins: NCCL's constants and round figures."""
WIDE = np.array([1.0, 0.8, 0.8, 1.2, 0.6, 0.4, 0.4, 0.4, 0.4, 0.25, 0.8, 1.0, 0.4])
"""How far groups may lie from each other, as log-standard deviations."""
NOISE = 0.10
"""What the law misses a point of its own machine by (log sd), and what repeats scatter."""
SWITCHES = (1.0, 0.5, 2.0)
"""Where a library may switch, in sizes of its plan: the path of a point beside a switch is taken as it fits."""
PENALTY = np.array([1.0, 1.3, 1.3])
"""By how much better a path an octave off has to fit."""
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
        inside: Callable[[Quantity], Quantity] = Steps(self.op, self.k, latency)
        for curve in store.measured(machine.like) if machine.like else ():
            key = curve.key
            if (key.library, key.mode, key.op) == ("nccl", Mode.HOST, self.op) and self.k > 1 and curve.covers(self.k):
                inside = curve.at(self.k)
        has = frozenset({"nvls"} if machine.nvls and self.k == machine.k else ())
        return Place(span=span, transport=transport, inside=inside, has=has)

    def paths(self) -> np.ndarray:
        """Return which path the plan takes at each size, by its place."""
        values = dict(zip(NAMES, np.exp(START), strict=True))
        transport = Transport(name="", known="class", ll128=self.machine.ll128, **values)
        term = across_nodes(self.op, self.sizes, self.place(transport),
                            store.library(self.machine.library, architecture=self.machine.architecture)[0])  # fmt: skip
        if term.rule != "chosen":
            return np.zeros(len(self.sizes))
        taken: np.ndarray = np.argmax(
            [np.broadcast_to(weight, self.sizes.shape) for _, weight in weighted_parts(term)], axis=0
        )
        return taken

    def predicted(self, theta: np.ndarray, switch: float | np.ndarray = 1.0) -> np.ndarray:
        """Return times [s] of shape (d, sizes) by constants of shape (d, 13): logarithms."""
        values = dict(zip(NAMES, np.exp(theta.T)[:, :, None], strict=True))
        transport = Transport(name="", known="class", ll128=self.machine.ll128, switch=switch, **values)
        library = store.library(self.machine.library, architecture=self.machine.architecture)[0]
        return np.asarray(across_nodes(self.op, self.sizes[None, :], self.place(transport), library).value)


@dataclass
class Variant:
    """The curves of one machine under settings of one class."""

    family: str
    group: str
    kind: str
    series: list[Series] = field(default_factory=list)


def read() -> dict[tuple[str, str], Variant]:
    """Return the curves that ship, by family and settings."""
    found: dict[tuple[str, str], Variant] = {}
    for curve in curves():
        machine = curve.machine
        variant = found.setdefault((curve.family, curve.label), Variant(curve.family, machine.group, machine.kind))
        sizes, seconds = np.array(curve.points).T
        variant.series.append(Series(Op(curve.op), machine, curve.k, curve.nodes, sizes, seconds))
    return found


# --- fitting ----------------------------------------------------------------------------------------------------------


def misfit(variant: Variant, theta: np.ndarray) -> np.ndarray:
    """Return the weighted log-errors of a variant, of shape (d, points), by constants of shape (d, 12)."""
    found = []
    for each in variant.series:
        errors = np.stack([np.log(each.predicted(theta, switch)) - np.log(each.seconds) for switch in SWITCHES])
        # A library switches within an octave of its plan: a point beside a switch may be of either path.
        best = np.argmin(np.abs(errors[:, 0]) * PENALTY[:, None], axis=0)
        found.append(np.take_along_axis(errors, best[None, None, :], axis=0)[0])
    return np.concatenate(found, axis=1) / (NOISE * math.sqrt(POINTS_AN_OCTAVE))


RATES = [NAMES.index(name) for name in ("tree_share", "ring_share", "nvls_share", "exchange_share")]
"""Constants that lie high or low together from machine to machine."""
TIED = 0.6
"""How strongly they do: their correlation."""


def whitening(spread: np.ndarray) -> np.ndarray:
    """Return the matrix that makes independent unit draws of a prior's deviations."""
    correlation = np.eye(len(NAMES))
    correlation[np.ix_(RATES, RATES)] += TIED * (1 - np.eye(len(RATES)))
    return np.linalg.inv(np.linalg.cholesky(correlation * np.outer(spread, spread)))


def fit(
    variant: Variant,
    centre: np.ndarray,
    spread: np.ndarray,
    start: np.ndarray | None = None,
    weight: float = 1.0,
    loss: str = "soft_l1",
) -> tuple[np.ndarray, np.ndarray]:
    """Return the constants of a variant (logarithms) and their variances, the prior included."""
    step, white = 1e-4, whitening(spread)

    def residual(theta: np.ndarray) -> np.ndarray:
        return np.concatenate([weight * misfit(variant, theta[None, :])[0], white @ (theta - centre)])

    def slope(theta: np.ndarray) -> np.ndarray:
        moved = theta + np.vstack([np.zeros_like(theta), step * np.eye(len(theta))])
        values = weight * misfit(variant, moved)
        return np.vstack([((values[1:] - values[0]) / step).T, white])

    found = least_squares(residual, centre if start is None else start, jac=slope, loss=loss, max_nfev=60)
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
    covariance: np.ndarray


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


def _mean(
    members: list[tuple[np.ndarray, np.ndarray]], prior: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior mean and variance of a centre, each member with its own variance."""
    weight = 1 / variance + sum((1 / each for _, each in members), np.zeros(len(prior)))
    mean = (prior / variance + sum((value / each for value, each in members), np.zeros(len(prior)))) / weight
    return mean, 1 / weight


DRAWS, LEVEL = 200, 0.8
Z80, Z95 = 1.2816, 1.96
DOUBTS = np.arange(0.05, 0.6, 0.025)
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
            now.append(
                Fitted(variant.family, variant.group, variant.kind, theta, alone, 1 / informed, np.diag(covariance))
            )
        fits = now
        pooled = pool(fits, within, BETWEEN)
        within = _spread(fits, pooled)
    return fits, within


def _spread(fits: list[Fitted], pooled: Pool) -> np.ndarray:
    """Return the spread of machines in a class: what the fits show, with the assumed one as so many more machines."""
    assumed = 4.0
    kinds = {each.kind for each in fits if sum(other.kind == each.kind for other in fits) > 1}
    members = [each for each in fits if each.kind in kinds and each.family not in DOUBTFUL]
    weight = sum((WITHIN**2 / (WITHIN**2 + each.variance) for each in members), np.zeros(len(WITHIN)))
    square = sum(
        (
            WITHIN**2
            / (WITHIN**2 + each.variance)
            * np.minimum((each.theta - pooled.centres[each.kind]) ** 2, (2 * WITHIN) ** 2)
            for each in members
        ),
        np.zeros(len(WITHIN)),
    )
    return np.sqrt((square + assumed * WITHIN**2) / (weight + assumed))


# --- how far a class is off ------------------------------------------------------------------------------------------


def drawn(series: Series, centre: np.ndarray, spread: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Return draws of the time [s] of shape (draws, sizes) from independent constants and switches within an octave."""
    theta = centre + spread * normal[:, : len(NAMES)]
    switch = np.exp(math.log(2.0) / Z95 * normal[:, len(NAMES)])[:, None]
    return series.predicted(theta, switch)


def held(series: Series, centre: np.ndarray, spread: np.ndarray, doubt: float) -> np.ndarray:
    """Tell which measured times lie in the 80 % band that draws make."""
    normal = np.random.default_rng(1).standard_normal((DRAWS, len(NAMES) + 2))
    times = drawn(series, centre, spread, normal) * np.exp(doubt * normal[:, -1:])
    low, high = np.quantile(times, (0.1, 0.9), axis=0)
    inside: np.ndarray = (low <= series.seconds) & (series.seconds <= high)
    return inside


def coverage(variants: dict[tuple[str, str], Variant], pools: dict[str, Pool], doubt: float) -> dict[str, float]:
    """Return which share of all-reduces from 1 KiB the class's band holds, by family, each left out of its class."""
    found: dict[str, list[np.ndarray]] = {}
    for variant in variants.values():
        pooled = pools[variant.family]
        for series in variant.series:
            if series.op == Op.ALL_REDUCE and variant.family not in DOUBTFUL:
                inside = held(series, pooled.centres[variant.kind], pooled.spreads[variant.kind], doubt)
                found.setdefault(variant.family, []).append(inside[series.sizes >= 2**10])
    return {family: float(np.mean(np.concatenate(each))) for family, each in found.items()}


def left_out(fits: list[Fitted], within: np.ndarray) -> dict[str, Pool]:
    """Return the classes without each family."""
    return {family: pool(fits, within, BETWEEN, without=family) for family in {each.family for each in fits}}


def class_doubt(variants: dict[tuple[str, str], Variant], pools: dict[str, Pool]) -> float:
    """Return the log-standard deviation beyond the constants' with which 80 % bands of unseen machines hold 80 %."""
    for doubt in DOUBTS:
        if np.mean(list(coverage(variants, pools, doubt).values())) >= LEVEL:
            return float(doubt)
    return float(DOUBTS[-1])


def own_doubt(variant: Variant, theta: np.ndarray) -> float:
    """Return the log-standard deviation with which the law misses the points of its own machine."""
    errors = np.concatenate([np.abs(np.log(each.predicted(theta[None])[0] / each.seconds)) for each in variant.series])
    return max(float(np.quantile(errors, LEVEL)) / Z80, NOISE)


# --- the file ---------------------------------------------------------------------------------------------------------

TITLES = {
    "ib": "InfiniBand by verbs, NCCL's own network stack",
    "roce": "RDMA over Converged Ethernet by verbs",
    "efa-v1": "AWS EFA v1 (P4d, P4de), by libfabric",
    "efa-v2": "AWS EFA v2 (P5, P5e), by libfabric",
    "slingshot": "HPE Slingshot 11 with large CQ, TX and SAFE_DEVMEM thresholds (CXI), by libfabric",
    "slingshot-default": "HPE Slingshot 11 with the defaults of CXI, by libfabric",
    "slingshot-without-gdrcopy": "HPE Slingshot 11 with the defaults of CXI and no GDRCopy, by libfabric",
    "slingshot-cross-nic": "HPE Slingshot 11 with NCCL_CROSS_NIC=1, by libfabric",
    "slingshot-software-matching": "HPE Slingshot 11 with software matching of messages, by libfabric",
    "tcp": "sockets through the kernel instead of RDMA",
}
OWN = {
    ("h100-sxm-efa", "efa-v2"): "efa-v2-p5",
    ("a100-80g-efa-p4de", "efa-v1"): "efa-v1-p4de",
    ("gh200-alps", "slingshot"): "slingshot-alps",
    ("gh200-alps", "slingshot-default"): "slingshot-default-alps",
    ("a100-40g-polaris", "slingshot"): "slingshot-polaris",
    ("a100-40g-polaris-tcp", "tcp"): "tcp-polaris",
    ("a100-40g-sophia", "ib"): "ib-sophia",
    ("h100-ib-snellius", "ib"): "ib-snellius",
    ("h100-sxm-ib-xe9680", "ib"): "ib-xe9680",
}
"""Machines that have constants of their own in the catalogue, and the names of those."""
_UNITS = {"hop": "us", "payload": "us", "bulk": "us", "ll_bandwidth": "GB/s", "peer": "us", "inject": "us"}
_SCALES = {"us": 1e6, "GB/s": 1e-9, "": 1.0}


@dataclass(frozen=True)
class Entry:
    """One table of the file: constants as logarithms, with their log-standard deviations, and what they rest on."""

    name: str
    title: str
    known: str
    rests_on: str
    ll128: bool
    centre: np.ndarray
    spread: np.ndarray
    doubt: float


def entries(variants: dict[tuple[str, str], Variant], fits: list[Fitted], within: np.ndarray) -> list[Entry]:
    """Return the classes, those that no machine of was measured, and the machines that have their own."""
    pools, whole = left_out(fits, within), pool(fits, within, BETWEEN)
    doubt = class_doubt(variants, pools)
    found = []
    for kind, title in TITLES.items():
        machines = sorted({each.family for each in fits if each.kind == kind and each.family not in DOUBTFUL})
        rests = f"{len(machines)} machine{'s' * (len(machines) > 1)}: {', '.join(machines)}"
        found.append(
            Entry(kind, title, "class", rests, kind != "efa-v1", whole.centres[kind], whole.spreads[kind], doubt)
        )
    found += _unmeasured(found, whole, within, doubt)
    for (family, label), name in OWN.items():
        variant = variants[family, label]
        fitted_one = next(each for each, key in zip(fits, variants, strict=True) if key == (family, label))
        nodes = sorted({each.nodes for each in variant.series})
        count = sum(len(each.sizes) for each in variant.series)
        rests = f"{count} points of {family} on {', '.join(map(str, nodes))} nodes"
        title = f"fabric {variant.kind}, as measured on {family}"
        own = own_doubt(variant, fitted_one.theta)
        spread = np.minimum(np.sqrt(fitted_one.covariance), whole.spreads[variant.kind])
        ll128 = variant.series[0].machine.ll128
        found.append(Entry(name, title, "machine", rests, ll128, fitted_one.theta, spread, own))
    return found


def _unmeasured(classes: list[Entry], whole: Pool, within: np.ndarray, doubt: float) -> list[Entry]:
    """Return the classes that nobody measured: EFA's next generations, by the one before, and stacks of one vendor."""
    second = next(each for each in classes if each.name == "efa-v2")
    newer, ll128 = second.centre.copy(), second.ll128
    newer[0] += math.log(18.0 / 20.0)
    wider = np.sqrt(second.spread**2 + 0.3**2)
    rests = "no machine: EFA v2, and 18 us instead of 20 a message in the plugin's own model of P5en"
    found = [
        Entry(
            f"efa-{version}", f"AWS EFA {version} ({where}), by libfabric", "class", rests, ll128, newer, wider, doubt
        )
        for version, where in (("v3", "P5en"), ("v4", "P6"))
    ]
    centre = np.mean([whole.groups[group] for group in ("verbs", "libfabric")], axis=0)
    spread = np.sqrt(within**2 + BETWEEN**2 + 0.3**2)
    rests = "no machine of it: what verbs and libfabric are like, with a wide prior"
    return [
        *found,
        Entry("proprietary", "a network stack of one vendor, unmeasured", "wide", rests, ll128, centre, spread, doubt),
    ]


def document(found: list[Entry]) -> str:
    """Return the file."""
    text = [
        "# Transports: the constants by which a collective across nodes is priced, by class of network stack, and of",
        "# the machines that were measured. tools/derive_fabrics.py, from tests/golden/across_nodes.csv. Do not edit.",
        "",
        "[common]",
        'source = "nccl-tests-across-nodes"',
        'kind = "fitted"',
        'date = "2026-11"',
        'locator = "tools/derive_fabrics.py: what the class rests on stands beside it"',
        'note = "low and high: what 95 % of unseen machines of the class lie between; of a machine, its own interval"',
    ]
    for entry in found:
        text += ["", f"[transports.{entry.name}]", f'title = "{entry.title}"', f'known = "{entry.known}"']
        text += [f'rests_on = "{entry.rests_on}"', f"ll128 = {str(entry.ll128).lower()}"]
        for name, value, sd in zip(NAMES, entry.centre, entry.spread, strict=True):
            short = name.removesuffix("_bytes_per_s").removesuffix("_s")
            unit = _UNITS.get(short, "")
            number = f"{math.exp(value) * _SCALES[unit]:.4g} {unit}".strip()
            text.append(f'{short} = {{ value = "{number}", log_sd = {sd:.3f} }}')
        locator = "what the law misses: of machines left out, or of its own points"
        text.append(f'doubt = {{ value = "1", log_sd = {entry.doubt:.3f}, locator = "{locator}" }}')
        locator = "a library switches within an octave of its plan"
        text.append(f'switch = {{ value = "1", low = "0.5", high = "2", locator = "{locator}" }}')
    return "\n".join(text) + "\n"


if __name__ == "__main__":
    known = read()
    FABRICS.write_text(document(entries(known, *fitted(known))), encoding="utf-8")
