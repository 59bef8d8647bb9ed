"""A study: how far off `nhalf.fit` is on measured curves where points are held out, and how often its bands hold.

    python tests/bench/fit_study.py [collectives.csv.gz]

The table of measured collectives has the columns system, library, version, mode, op, kernel, dtype, ranks, bytes and
time_us. Repeats are reduced to medians and copies of a curve are dropped. Each task leaves points out, fits the rest
and predicts what was left out: the median and the 90 % quantile of the relative error, the share of times inside the
80 % band, and the goal where there is one. A second table asks how often the intervals of the latency and bandwidth of
a few of a sweep's sizes hold those of the whole sweep.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np

from nhalf.evidence.fit import Fit, fit
from nhalf.link import Link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nhalf.breakdown import Array
    from nhalf.system import System

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "collectives.csv.gz"
LINKS = {"a100_sxm": 300e9, "h100_sxm": 450e9, "h200_sxm": 450e9, "b200_sxm": 900e9, "b300_sxm": 900e9, "gb200": 900e9}
"""Data-sheet bandwidth per device and direction [bytes/s] of the NVLink systems."""
LEAST = 12


class Key(NamedTuple):
    system: str
    library: str
    version: str
    mode: str
    op: str
    kernel: str
    dtype: str


Group: TypeAlias = "dict[int, Array]"
"""Rows of size [bytes] and time [s], by ranks."""
Held: TypeAlias = "tuple[Array, Array, Array, Array]"
"""True and predicted times, and the ends of the band."""
Indices: TypeAlias = "np.ndarray[Any, Any]"


def read(path: Path) -> dict[Key, Group]:
    """Return the measured curves by key and ranks, copies left out."""
    runs: dict[Key, dict[tuple[int, float], list[float]]] = defaultdict(lambda: defaultdict(list))
    with gzip.open(path, "rt") as file:
        for row in csv.DictReader(file):
            key = Key(*(row[name] for name in Key._fields))
            runs[key][int(row["ranks"]), float(row["bytes"])].append(float(row["time_us"]) * 1e-6)
    seen: set[tuple[float, ...]] = set()
    found: dict[Key, Group] = {}
    for key, points in runs.items():
        by_ranks: dict[int, list[tuple[float, float]]] = defaultdict(list)
        for (ranks, size), times in sorted(points.items()):
            by_ranks[ranks].append((size, float(np.median(times))))
        group = {ranks: np.array(rows) for ranks, rows in by_ranks.items() if ranks > 1 and len(rows) >= LEAST}
        content = tuple(float(value) for rows in group.values() for value in rows.ravel())
        if group and content not in seen:
            seen.add(content)
            found[key] = group
    return found


def fitted(key: Key, parts: Group, system: System | None = None) -> Fit:
    rows = [(size, ranks, time) for ranks, points in parts.items() for size, time in points]
    sizes, ranks, times = zip(*rows, strict=True)
    columns = {
        "op": [key.op] * len(rows),
        "mode": [key.mode] * len(rows),
        "size_bytes": sizes,
        "ranks": ranks,
        "seconds": times,
    }
    return fit(columns, system=system)


def ask(found: Fit, ranks: int, held: Array) -> Held:
    return (held[:, 1], *found.predict(held[:, 0], ranks))


def sizes_out(
    choose: Callable[[Array], Indices], keep: Callable[[Array, Array], Indices]
) -> Callable[..., Iterator[Held]]:
    """Return a task that trains on chosen sizes and predicts those of the rest that `keep` keeps."""

    def task(key: Key, group: Group) -> Iterator[Held]:
        for ranks, points in group.items():
            train = choose(points)
            held = np.setdiff1d(np.arange(len(points)), train)
            held = held[keep(points[held, 0], points[train, 0])]
            if len(held):
                yield ask(fitted(key, {ranks: points[train]}), ranks, points[held])

    return task


def between(held: Array, train: Array) -> Indices:
    inside: Indices = (held > train[0]) & (held < train[-1])
    return inside


def everything(held: Array, train: Array) -> Indices:
    del train
    return np.ones(len(held), dtype=bool)


def above(limit: float, *, ceiling: bool) -> Callable[..., Iterator[Held]]:
    def task(key: Key, group: Group) -> Iterator[Held]:
        if key.system not in LINKS:
            return
        link = Link(5e-7, LINKS[key.system])
        system = cast(
            "System", SimpleNamespace(fabric=SimpleNamespace(intra_node=link, inter_node=link, devices_per_node=8))
        )
        for ranks, points in group.items():
            low = points[:, 0] <= limit
            if low.sum() >= 5 and not low.all():
                found = fitted(key, {ranks: points[low]}, system if ceiling else None)
                yield ask(found, ranks, points[~low])

    return task


def ranks_out(low: float, high: float, *, nvlink: bool, eager: bool) -> Callable[..., Iterator[Held]]:
    def task(key: Key, group: Group) -> Iterator[Held]:
        if (key.system in LINKS) != nvlink or len(group) < 3 or (key.mode == "eager" and not eager):
            return
        for ranks, points in group.items():
            held = points[(points[:, 0] >= low) & (points[:, 0] <= high)]
            yield ask(fitted(key, {other: rows for other, rows in group.items() if other != ranks}), ranks, held)

    return task


def step(by: int) -> Callable[[Array], Indices]:
    return lambda points: np.arange(0, len(points), by)


def five(points: Array) -> Indices:
    return np.unique(np.round(np.linspace(0, len(points) - 1, 5)).astype(int))


TASKS: dict[str, tuple[Callable[..., Iterator[Held]], str]] = {
    "every other size": (sizes_out(step(2), between), "2 / 12"),
    "three of four sizes": (sizes_out(step(4), between), ""),
    "five sizes": (sizes_out(five, between), "4 / 20"),
    "below 64 KiB": (sizes_out(lambda p: np.nonzero(p[:, 0] >= 65536)[0], everything), ""),
    "above 4 MiB, link unknown, NVLink": (above(2.0**22, ceiling=False), ""),
    "above 4 MiB, link known, NVLink": (above(2.0**22, ceiling=True), "10 / 30"),
    "above 64 MiB, link unknown, NVLink": (above(2.0**26, ceiling=False), ""),
    "other ranks, 8-256 KiB, NVLink, no eager": (ranks_out(8192, 262144, nvlink=True, eager=False), "4 / 15"),
    "other ranks, 8-256 KiB, NVLink": (ranks_out(8192, 262144, nvlink=True, eager=True), "4 / 15"),
    "other ranks, all sizes, NVLink": (ranks_out(0, np.inf, nvlink=True, eager=True), ""),
    "other ranks, all sizes, PCIe": (ranks_out(0, np.inf, nvlink=False, eager=True), ""),
}


CUTS: dict[str, Callable[[Array, np.random.Generator], Indices]] = {
    "two sizes, the ends": lambda p, _: np.array([0, len(p) - 1]),
    "three sizes": lambda p, random: np.sort(random.choice(len(p), 3, replace=False)),
    "five sizes": lambda p, random: np.sort(random.choice(len(p), 5, replace=False)),
    "every third size": lambda p, _: np.arange(0, len(p), 3),
    "from 64 KiB on": lambda p, _: np.flatnonzero(p[:, 0] >= 2**16),
    "from 1 MiB on": lambda p, _: np.flatnonzero(p[:, 0] >= 2**20),
    "up to 1 MiB": lambda p, _: np.flatnonzero(p[:, 0] <= 2**20),
    "up to 8 MiB": lambda p, _: np.flatnonzero(p[:, 0] <= 2**23),
}
"""What is left of a sweep, whose latency and bandwidth are then compared with those of the whole."""


def parameters(curves: dict[Key, Group]) -> None:
    """Print how often the 95 % intervals of what is left of a sweep hold the latency and bandwidth of the whole."""
    heads = f"{'curves':>8}{'told':>7}{'hold':>7}{'bounds hold':>13}{'width':>8}{'off':>8}"
    print(f"\n{'left of a sweep':24}{'value':>10}{heads}")
    random = np.random.default_rng(5)
    rows: dict[tuple[str, str], list[tuple[bool, bool, float, float]]] = defaultdict(list)
    for key, group in curves.items():
        for ranks, points in group.items():
            whole = fitted(key, {ranks: points}).curves[0]
            for cut, choose in CUTS.items():
                at = choose(points, random)
                part = fitted(key, {ranks: points[at]}).curves[0] if len(at) > 1 else None
                for name, seen in (("latency", whole.on_floor), ("bandwidth", whole.on_ceiling)):
                    truth, found = getattr(whole, name), part and (getattr(part, name) or part.limits.get(name))
                    if truth is None or not seen or not found:
                        continue
                    told = getattr(part, name) is not None
                    held = (found.low or 0.0) <= truth.value <= (found.high or np.inf)
                    width = (found.high or np.inf) / found.low if found.low and told else np.nan
                    rows[cut, name].append((told, held, width, abs(found.value / truth.value - 1.0)))
    for (cut, name), found in rows.items():
        told, held, width, off = np.array(found, dtype=float).T
        known = told > 0
        rest = f"{100 * held[~known].mean():.0f}%" if (~known).any() else "-"
        print(
            f"{cut:24}{name:>10}{len(told):8}{100 * known.mean():6.0f}%{100 * held[known].mean():6.0f}%{rest:>13}"
            f"{np.nanmedian(width):7.2f}x{100 * np.median(off[known]):7.1f}%"
        )


def main(path: Path) -> None:
    """Print the tables."""
    curves = read(path)
    print(f"{sum(map(len, curves.values()))} curves of {len({key.system for key in curves})} systems")
    print(f"{'held out':44}{'points':>8}{'median':>9}{'p90':>8}{'inside 80 % band':>18}  goal")
    for name, (task, goal) in TASKS.items():
        parts = [part for key, group in curves.items() for part in task(key, group)]
        true, time, low, high = (np.concatenate(column) for column in zip(*parts, strict=True))
        error = np.abs(time / true - 1.0)
        inside = float(np.mean((true >= low) & (true <= high)))
        print(
            f"{name:44}{len(true):8}{100 * np.median(error):8.1f}%{100 * np.quantile(error, 0.9):7.1f}%"
            f"{100 * inside:17.1f}%  {goal}"
        )
    parameters(curves)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA)
