"""How well few measurements of one's own, with the curves of other systems, predict what was not measured in a node.

    python tests/bench/cluster_study.py

It needs the catalogue, and across nodes the measurements that `tools/derive_fabrics.py` reads: a system is left out, a
few of its own points are given back, and the rest is predicted by `nhalf.curve.moved` from the systems that are left,
as `--on FILE.toml` does it. The error is
|predicted / measured - 1| from 1 KiB to 1 MiB, in a graph or from the host; goals are those of part 5, and 80 % bands
should hold 75 to 85 % of the points. Siblings (H100 and H200, or B200, B300 and the racks) know each other well, so
everything is told a second time with the whole family left out.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench import across_study
from tools import derive_fabrics as derive

from nhalf.catalog import stated, store
from nhalf.catalog.curves import find
from nhalf.collective import Mode, Op
from nhalf.curve.moved import filled
from nhalf.fabric import Topology

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.across_study import Row

    from nhalf.breakdown import Array
    from nhalf.curve import MeasuredCurve

SIZES: Final = 2.0 ** np.arange(10, 20.01, 1)
ONE: Final = np.array([16384.0])
THREE: Final = np.array([2048.0, 65536.0, 1048576.0])
FAMILIES: Final = (
    {"h100-sxm", "h200-sxm"},
    {"b200-sxm", "b300-sxm", "gb200-nvl72", "gb300-nvl72"},
)
GOALS: Final = {"a curve at another rank count": "4 / 16", "one point, 16 KiB": "12 / 35", "three points": "6 / 22"}
OPS: Final = (Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_TO_ALL)


def newest() -> Iterator[dict[str, MeasuredCurve]]:
    """Yield, for each library, mode and operation, the newest curve of each system."""
    own = {
        name: [curve for curve in store.measured(name) if not curve.lent_to]
        for name in store.names("system")
        if store.measured(name) and store.measured(name)[0].key.system == name
    }
    libraries = {curve.key.library for curves in own.values() for curve in curves}
    for library in sorted(libraries):
        for mode in (Mode.GRAPH, Mode.HOST):
            for op in OPS:
                found = {name: find(curves, library, mode=mode, op=op) for name, curves in own.items()}
                yield {name: curve for name, curve in found.items() if curve is not None}


def kept(curve: MeasuredCurve, ranks: int, sizes: Array) -> MeasuredCurve:
    """Return a curve as a cluster's own, with some sizes of one rank count alone."""
    times = np.asarray(curve.time_s(sizes, ranks))
    return replace(curve, own="study", ranks=(ranks,), sizes_bytes=(sizes,), times_s=(times,))


class Errors:
    """Errors of predictions, and whether the bands held them."""

    def __init__(self) -> None:
        """Begin without any."""
        self.off: list[Array] = []
        self.held: list[Array] = []

    def add(self, predicted: MeasuredCurve, ranks: int, measured: MeasuredCurve, at: Array) -> None:
        """Take what a curve says at some sizes beside what was measured."""
        found, truth = np.asarray(predicted.time_s(at, ranks)), np.asarray(measured.time_s(at, ranks))
        below, above = predicted.half_widths(at, ranks)
        ratio = np.log(truth / found)
        self.off.append(np.abs(found / truth - 1))
        self.held.append((-below <= ratio) & (ratio <= above))

    def __str__(self) -> str:
        """Return median and 90th percentile, the number of points, and the share that the bands held."""
        off, held = np.concatenate(self.off), np.concatenate(self.held)
        median, tail = 100 * np.median(off), 100 * np.quantile(off, 0.9)
        return f"{median:5.1f} / {tail:5.1f} % of {len(off):5}, bands hold {100 * np.mean(held):3.0f} %"


def study(*, families: bool) -> dict[tuple[str, bool], Errors]:
    """Return the errors by what was known, and whether devices are joined by links of their own."""
    found: dict[tuple[str, bool], Errors] = defaultdict(Errors)
    for curves in newest():
        for name, curve in curves.items():
            topology = stated.system(name).fabric.topology
            family = next((each for each in FAMILIES if families and name in each), {name})
            others = [
                each
                for other, each in curves.items()
                if other not in family and stated.system(other).fabric.topology == topology
            ]
            if not others:
                continue
            linked = topology != Topology.HOST
            for ranks in curve.ranks:
                sizes = curve.sizes_bytes[curve.ranks.index(ranks)]
                whole = filled(kept(curve, ranks, sizes), others, slots=not linked)
                for other in curve.ranks:
                    if other != ranks and other in whole.ranks:
                        found["a curve at another rank count", linked].add(whole, other, curve, SIZES)
                if any(each.covers(ranks) for each in others):
                    for label, points in (("one point, 16 KiB", ONE), ("three points", THREE)):
                        held = np.setdiff1d(SIZES, points)
                        found[label, linked].add(
                            filled(kept(curve, ranks, points), others, slots=not linked), ranks, curve, held
                        )
    return found


def across() -> dict[str, list[Row]]:
    """Return the errors across nodes of the law of the class, moved through points or through two nodes as a ratio."""
    variants = derive.read()
    fits, within = derive.fitted(variants)
    rows = across_study.study(variants, derive.left_out(fits, within))["class"]
    found: dict[str, list[Row]] = defaultdict(list)
    two = {(row.family, row.label, row.series.k): row for row in rows if row.series.nodes == 2}
    for row in rows:
        for name, marks in across_study.MARKS.items():
            known = across_study.places(row.series, marks)
            if known:
                found[name].append(moved(row, row.series.sizes[known], row.gap[known], known))
        near = two.get((row.family, row.label, row.series.k))
        if row.series.nodes > 2 and near is not None:
            found["two nodes to more"].append(moved(row, near.series.sizes, near.gap, []))
    return found


def moved(row: Row, sizes: Array, gaps: Array, known: list[int]) -> Row:
    """Return the errors of a curve whose law is moved by gaps [ln] at some sizes [bytes]."""
    at = np.log2(row.series.sizes)
    return replace(row, gap=row.gap - np.interp(at, np.log2(sizes), gaps), known=np.isin(np.arange(len(at)), known))


def main() -> None:
    """Print the tables."""
    for families in (False, True):
        print("Families left out" if families else "Systems left out")
        found = study(families=families)
        for linked in (True, False):
            for label, goal in GOALS.items():
                where = "links" if linked else "PCIe"
                print(f"  {label:30} {where:5} {found[label, linked]}   goal {goal}")
    print(f"Across nodes, machines left out: {', '.join(across_study.RANGES)}")
    for label, rows in across().items():
        print(f"  {label:30}", " ".join(across_study.figures(rows, *each) for each in across_study.RANGES.values()))


if __name__ == "__main__":
    main()
