"""Made cases for the doctor: healthy curves, what a fault does to them, and the logs that a user would have.

The faults are made by what they are (a cap on bytes per second, time added to a message, a rank that arrives late), not
by the factors of `nhalf.doctor.faults`. Healthy curves are the catalogue's inside a node, and measured ones across.
"""

from __future__ import annotations

import math
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.logs.rendering import FACTORS, NcclTests
from tools.fabric_machines import curves

from nhalf.catalog import store
from nhalf.collective import Mode, Op

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Rows = list[tuple[int, float]]
"""Sizes [bytes] and times [us]."""


@dataclass(frozen=True, kw_only=True)
class Healthy:
    """A curve that nothing is wrong with; `link` and `nics` are rates of a device and of a node [bytes/s]."""

    system: str
    ranks: int
    nodes: int
    rows: Rows
    link: float
    nics: float
    test: str = "all_reduce"

    @property
    def factor(self) -> float:
        return FACTORS[self.test](self.ranks)


@dataclass(frozen=True, kw_only=True)
class Case:
    """The logs of one case as files, what is wrong (empty: nothing), and the arguments beside them."""

    name: str
    causes: frozenset[str]
    files: dict[str, str]
    arguments: tuple[str, ...] = field(default=())


SIZES = [2**power for power in range(10, 31)]
ACROSS = {
    ("h100-sxm-ib-xe9680", 2): "h100-sxm", ("h200-bf3-dell", 2): "h200-sxm-roce", ("a100-40g-oci", 2): "a100-sxm-roce",
    ("a100-80g-crusoe", 2): "a100-sxm", ("h100-sxm-efa", 2): "h100-sxm-efa", ("a100-40g-sophia", 2): "a100-sxm",
}  # fmt: skip


def inside(system: str, ranks: int = 8) -> Healthy:
    """Return NCCL's all-reduce in a node as the catalogue has it."""
    curve = next(
        each
        for each in store.measured(system)
        if (each.key.library, each.key.mode, each.key.op) == ("nccl", Mode.HOST, Op.ALL_REDUCE) and each.covers(ranks)
    )
    at, built = curve.at(ranks), store.system(system)[0]
    rows = [(size, 1e6 * float(at(float(size)))) for size in SIZES]
    link = float(built.fabric.intra_node.bandwidth_bytes_per_s)
    return Healthy(system=system, ranks=ranks, nodes=1, rows=rows, link=link, nics=0.0)


def across() -> list[Healthy]:
    """Return measured all-reduces over two nodes."""
    found = []
    for curve in curves():
        system = ACROSS.get((curve.family, curve.nodes))
        if system is None or curve.op != "all-reduce" or curve.k < 8 or min(curve.points)[0] > 2048:
            continue
        rows = [(int(size), 1e6 * time) for size, time in curve.points if size >= 1024]
        found.append(
            Healthy(
                system=system, ranks=curve.k * curve.nodes, nodes=curve.nodes, rows=rows,
                link=curve.machine.links * 1e9, nics=curve.machine.nics * 1e9,
            )
        )  # fmt: skip
    return found


def capped(healthy: Healthy, rate: float, added_us: float = 0.0) -> Rows:
    """Return rows whose bus bandwidth a rate [bytes/s] caps, each message longer by a time [us]."""
    return [
        (size, ((time + added_us) ** 3 + (1e6 * healthy.factor * size / rate) ** 3) ** (1 / 3))
        for size, time in healthy.rows
    ]


def noisy(rows: Rows, rng: random.Random, sd: float) -> Rows:
    return [(size, time * rng.lognormvariate(0.0, sd)) for size, time in rows]


def log(healthy: Healthy, rows: Rows, *, debug: tuple[str, ...] = (), **layout: object) -> str:
    """Return the log of a run, lines of NCCL_DEBUG before it."""
    run = NcclTests(test=healthy.test, ranks=healthy.ranks, hosts=healthy.nodes, named=True, **layout)  # type: ignore[arg-type]
    lines = "".join(f"node-0:4100:4180 [0] NCCL INFO {line}\n" for line in debug)
    return lines + run.render(rows)


IB = "NET/IB : Using " + " ".join(f"[{i}]mlx5_{i}:1/IB" for i in range(8)) + " [RO]; OOB eth0:10.0.0.1<0>"
RDMA = ("Using network IB", "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA")
PORT = "CA 'mlx5_0'\n\tPort 1:\n\t\tState: Active\n\t\tRate: {rate}\n"
DEVICE = "hca_id: mlx5_0\n\tport: 1\n\t\tactive_mtu: {mtu} (3)\n"


def pairs(rng: random.Random, *, slow: dict[tuple[int, int], float], count: int = 8, runs: int = 2, sd: float = 0.01,
          bad: dict[int, float] | None = None) -> dict[str, str]:  # fmt: skip
    """Return logs between every two of some nodes, slow ones by their factors, runs of each."""
    healthy = Healthy(system="h100-sxm", ranks=2, nodes=2, rows=[], link=450e9, nics=50e9)
    files = {}
    for one in range(count):
        for other in range(one + 1, count):
            factor = slow.get((one, other), 1.0) * (bad or {}).get(one, 1.0) * (bad or {}).get(other, 1.0)
            for run in range(runs):
                rows = [(size, factor * (25.0 + 1e6 * size / 46e9)) for size in (2**25, 2**27, 2**29)]
                text = log(healthy, noisy(rows, rng, sd))
                for place, name in enumerate((one, other)):
                    text = text.replace(f"node-{place} device", f"gpu{name:02d} device")
                files[f"r{run}/gpu{one:02d}_gpu{other:02d}.txt"] = text
    return files


def made(seed: int = 1) -> Iterator[Case]:  # noqa: C901  forty cases in one list
    """Yield forty cases in which something is wrong."""
    rng = random.Random(seed)  # noqa: S311  no secret
    far, near = across(), [inside(name) for name in ("h100-sxm", "h200-sxm", "b200-sxm", "a100-sxm")]

    debug: tuple[str, ...]

    def case(name: str, codes: str, healthy: Healthy, rows: Rows, **more: Any) -> Case:  # noqa: ANN401  of `log` and more
        sd, extra = more.pop("sd", 0.03), more.pop("extra", {})
        said, layout = more.pop("debug", ()), more
        text = log(healthy, noisy(rows, rng, sd), debug=said, **layout)
        told = () if layout.get("banner", True) else ("--ranks", str(healthy.ranks), "--nodes", str(healthy.nodes))
        files = {"run.txt": text, **extra}
        return Case(
            name=name, causes=frozenset(codes.split("+")), files=files, arguments=("--on", healthy.system, *told)
        )

    def cut(rows: Rows, step: int = 1, low: int = 0) -> Rows:
        return [row for row in rows if row[0] >= low][::step]

    for place, healthy in enumerate(far[:4]):
        rows = capped(healthy, rng.uniform(0.05, 0.15) * healthy.nics, rng.uniform(50, 90))
        yield case(f"sockets {place}", "tcp", healthy, cut(rows, 1 + place % 2), banner=place != 3)
    for place, healthy in enumerate(far[1:4]):
        rows = capped(healthy, rng.uniform(0.3, 0.45) * healthy.nics, rng.uniform(15, 25))
        debug = ("Using network IB", "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0") if place else ()
        yield case(f"staged {place}", "no-gdr", healthy, rows, debug=debug)
    for place, (healthy, part) in enumerate(zip(far[:4], (8, 4, 8, 2), strict=True)):
        debug = (IB.replace("[1]", "[x]").split(" [x]")[0] + " [RO]; OOB eth0:10.0.0.1<0>", *RDMA) if place % 2 else ()
        yield case(f"rails {place}", "rails", healthy, capped(healthy, 0.95 * healthy.nics / part), debug=debug)
    for place, healthy in enumerate((far[0], far[2])):
        nic = float(store.system(healthy.system)[0].fabric.inter_node.bandwidth_bytes_per_s)
        extra = {"ibstat.txt": PORT.format(rate=round(nic * 4e-9))}
        yield case(f"port {place}", "half-speed-link", healthy, capped(healthy, 0.5 * healthy.nics), extra=extra)
    for place, healthy in enumerate(near[:2]):
        rows = [(size, time + 1e6 * healthy.factor * size / healthy.link) for size, time in healthy.rows]
        yield case(f"links {place}", "half-speed-link", healthy, rows, sd=0.02)
    for place, healthy in enumerate(near):
        rows = capped(healthy, rng.uniform(8e9, 30e9), rng.uniform(15, 50))
        yield case(f"host {place}", "host-bounce", healthy, cut(rows, 1 + place % 2), sd=0.05, header=place != 2)
    for place, healthy in enumerate((far[0], far[1], far[3])):
        rows = capped(healthy, rng.uniform(0.5, 0.7) * healthy.nics, rng.uniform(150, 300))
        yield case(f"misplaced {place}", "nic-affinity", healthy, rows, sd=0.08)
    for place, healthy in enumerate((far[0], far[1], near[0], near[2])):
        rate = (healthy.nics or healthy.link) * rng.uniform(0.1, 0.2)
        debug = ("NCCL_PROTO set by environment to LL.",) if place % 2 == 0 else ("NCCL_MAX_NCHANNELS=2",)
        yield case(f"capped {place}", "protocol-capped", healthy, capped(healthy, rate), debug=debug)
    for place, healthy in enumerate(near[1:3]):
        debug = ("NVLS multicast support is not available on dev 0",) if place else ()
        rows = [(size, time * (1.3 if size > 2**20 else 1.0)) for size, time in healthy.rows]
        yield case(f"no nvls {place}", "nvls-off", healthy, rows, sd=0.01, debug=debug)
    for place, healthy in enumerate((far[0], near[1])):
        rate = 0.65 * (healthy.nics or healthy.link)
        yield case(f"crowd {place}", "other-jobs", healthy, noisy(capped(healthy, rate), rng, 0.2), sd=0.1)
    for place, healthy in enumerate((far[1], far[3])):
        extra = {"ibv.txt": DEVICE.format(mtu=1024)}
        yield case(f"packets {place}", "mtu", healthy, capped(healthy, 0.75 * healthy.nics), extra=extra)
    yield case("late", "slow-rank", near[0], [(size, time + rng.uniform(35, 45)) for size, time in near[0].rows])
    yield Case(name="pairs", causes=frozenset({"slow-pair"}), files=pairs(rng, slow={(1, 4): 1.5, (4, 6): 1.3}),
               arguments=("--on", "h100-sxm"))  # fmt: skip
    yield Case(name="node", causes=frozenset({"slow-pair"}), files=pairs(rng, slow={}, bad={3: 1.25}),
               arguments=("--on", "h100-sxm"))  # fmt: skip
    yield case("enqueued", "host-timed", near[0], [(size, 4.0 + size * 1e-10) for size in SIZES])
    both: list[tuple[str, str, Healthy, Rows, tuple[str, ...]]] = [
        ("two 0", "tcp+other-jobs", far[0], noisy(capped(far[0], 0.08 * far[0].nics, 80), rng, 0.2), ()),
        ("two 1", "rails+no-gdr", far[1], capped(far[1], 0.12 * far[1].nics, 25), ()),
        ("two 2", "host-bounce+other-jobs", near[0], noisy(capped(near[0], 15e9, 30), rng, 0.2), ()),
        ("two 3", "protocol-capped+slow-rank", near[2], capped(near[2], 0.12 * near[2].link, 40),
         ("NCCL_PROTO set by environment to LL.",)),
    ]  # fmt: skip
    for name, codes, healthy, rows, debug in both:
        yield case(name, codes, healthy, rows, debug=debug)


def alone(seed: int = 11, each: int = 14) -> Iterator[Case]:
    """Yield faults of any strength that only times tell, on machines drawn at random, without a word beside."""
    rng = random.Random(seed)  # noqa: S311  no secret
    far, near = across(), [inside(name) for name in ("h100-sxm", "h200-sxm", "b200-sxm", "a100-sxm")]

    def added(healthy: Healthy, rate: float, time: float) -> Rows:
        return [(size, own + time + 1e6 * healthy.factor * size / rate) for size, own in healthy.rows]

    def of(healthy: Healthy) -> float:
        return healthy.nics or healthy.link

    draw = rng.uniform
    faults: dict[str, tuple[list[Healthy], Callable[[Healthy], Rows]]] = {
        "tcp": (far, lambda h: added(h, draw(3e9, 20e9), draw(40, 150))),
        "no-gdr": (far, lambda h: added(h, h.nics * draw(0.5, 1.2), draw(6, 20))),
        "rails": (far, lambda h: capped(h, h.nics / rng.choice((2, 4, 8)) * draw(0.85, 1.0))),
        "half-speed-link": (near, lambda h: added(h, h.link, 0.0)),
        "host-bounce": (near, lambda h: added(h, draw(5e9, 40e9), draw(5, 60))),
        "nic-affinity": (far, lambda h: added(h, h.nics * draw(0.8, 2.0), draw(100, 400))),
        "protocol-capped": (near, lambda h: capped(h, h.link * draw(0.1, 0.35))),
        "nvls-off": (near[:3], lambda h: [(n, t * (draw(1.25, 1.35) if n > 2**20 else 1.0)) for n, t in h.rows]),
        "other-jobs": (far + near, lambda h: noisy(capped(h, of(h) * draw(0.4, 0.7)), rng, 0.25)),
        "slow-rank": (far + near, lambda h: added(h, math.inf, draw(30, 300))),
    }
    for code, (machines, make) in faults.items():
        for place in range(each):
            healthy = rng.choice(machines)
            text = log(healthy, noisy(make(healthy), rng, rng.choice((0.01, 0.03, 0.06))))
            yield Case(name=f"{code} {place}", causes=frozenset({code}), files={"run.txt": text},
                       arguments=("--on", healthy.system))  # fmt: skip


def sound(seed: int = 2) -> Iterator[Case]:
    """Yield healthy logs: measured ones, those of the catalogue with noise, with rows and columns missing."""
    rng = random.Random(seed)  # noqa: S311  no secret
    for place, healthy in enumerate(
        [*across(), *(inside(name) for name in ("h100-sxm", "h200-sxm", "b200-sxm", "a100-sxm"))]
    ):
        for run, sd in enumerate((0.0, 0.03, 0.06)):
            rows = [(size, time * rng.lognormvariate(0.0, 0.05)) for size, time in healthy.rows]
            text = log(healthy, noisy(rows[:: 1 + run], rng, sd), header=run != 1, debug=RDMA if run == 2 else ())
            yield Case(name=f"sound {place}.{run}", causes=frozenset(), files={"run.txt": text},
                       arguments=("--on", healthy.system))  # fmt: skip
