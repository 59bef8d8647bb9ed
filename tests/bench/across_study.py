"""Families of machines left out: how far the law across nodes is off where a class, a point, or a sweep is known.

    python tests/bench/across_study.py

A machine is a family with one voice: printed are the medians over families of each family's median and p90 of errors,
and, pooled, the same of all points with each family weighing alike. Figures are those reached, misses included.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools import derive_fabrics as derive

from nhalf.breakdown import smallest
from nhalf.catalog import store
from nhalf.laws import tuner

RANGES = {"1 KiB-1 MiB": (2**10, 2**20), "8-256 KiB": (2**13, 2**18), "1 MiB-1 GiB": (2**20, 2**30)}
MARKS = {"class": (), "one point": (2**13,), "three points": (2**13, 2**20, 2**28)}
NAMED = ("matching", "without", "cross-nic")
"""Settings that are constants of their own: printed apart."""
WEIGHT = 4.0
"""How much more a user's own point counts than one of a machine's many."""
CARRIED = 0.2
"""What a point leaves unexplained is carried to its neighbours: log-standard deviation, over three octaves."""
OTHER_PATH = 0.3
"""How much of it goes over to another path."""


@dataclass(frozen=True)
class Row:
    """The log-errors of one curve, and which of its sizes were known."""

    family: str
    label: str
    series: derive.Series
    gap: np.ndarray
    known: np.ndarray


def carried(series: derive.Series, known: list[int], gap: np.ndarray) -> np.ndarray:
    """Return the smooth remainder that measured points leave, at every size."""
    if not known:
        return np.zeros(len(series.sizes))
    octaves, paths = np.log2(series.sizes), series.paths()
    covariance = CARRIED**2 * np.exp(-np.abs(octaves[:, None] - octaves[None, :]) / 3)
    covariance *= np.where(paths[:, None] == paths[None, :], 1.0, OTHER_PATH)
    found: np.ndarray = covariance[:, known] @ np.linalg.solve(
        covariance[np.ix_(known, known)] + 0.03**2 * np.eye(len(known)), gap
    )
    return found


def places(series: derive.Series, sizes: tuple[int, ...]) -> list[int]:
    """Return which points of a curve lie at some sizes."""
    found = [int(np.argmin(np.abs(np.log2(series.sizes / size)))) for size in sizes]
    return sorted(
        {place for place, size in zip(found, sizes, strict=True) if abs(np.log2(series.sizes[place] / size)) < 1}
    )


def part(series: derive.Series, known: list[int]) -> derive.Series:
    """Return some points of a curve."""
    return replace(series, sizes=series.sizes[known], seconds=series.seconds[known])


def predicted(
    variant: derive.Variant, pooled: derive.Pool, series: derive.Series, known: list[int], *others: derive.Series
) -> np.ndarray:
    """Return the log-errors of a curve by its class, some of its points, and other whole curves of the machine."""
    theta, spread = pooled.centres[variant.kind], pooled.spreads[variant.kind]
    small = replace(variant, series=list(others))
    if others:
        theta, covariance = derive.fit(small, theta, spread)
        spread = np.maximum(np.sqrt(np.diag(covariance)), 0.05)
    if known:
        theta = derive.fit(replace(variant, series=[part(series, known)]), theta, spread, weight=WEIGHT)[0]
    gap = np.log(series.seconds) - np.log(series.predicted(theta[None])[0])
    rest: np.ndarray = gap - carried(series, known, gap[known])
    return rest


def study(
    variants: dict[tuple[str, str], derive.Variant],
    pools: dict[str, derive.Pool],
    op: str = "all-reduce",
    *,
    named: bool = False,
) -> dict[str, list[Row]]:
    """Return the errors of an operation by what is known of the machine, its family left out of the classes."""
    rows: dict[str, list[Row]] = {name: [] for name in (*MARKS, "own point", "sweep")}
    for (family, label), variant in variants.items():
        if family in derive.DOUBTFUL or any(word in label for word in NAMED) != named:
            continue
        reduces = [each for each in variant.series if each.op == "all-reduce"]
        for series in (each for each in variant.series if each.op == op):
            for name, marks in MARKS.items():
                known = places(series, marks)
                if name == "class" or known:
                    gap = predicted(variant, pools[family], series, known)
                    rows[name].append(Row(family, label, series, gap, np.isin(np.arange(len(gap)), known)))
            known = places(series, (2**13,))
            if op != "all-reduce" and known:
                gap = predicted(variant, pools[family], series, known, *reduces)
                rows["own point"].append(Row(family, label, series, gap, np.isin(np.arange(len(gap)), known)))
            first = [each for each in variant.series if each.op == op and each.nodes == 2 and each.k == series.k]
            if series.nodes > 2 and first:
                gap = predicted(variant, pools[family], series, [], *first)
                rows["sweep"].append(Row(family, label, series, gap, np.zeros(len(gap), dtype=bool)))
    return rows


def planned(rows: list[Row]) -> list[Row]:
    """Return the errors of the tuner's own plan, for the same curves."""
    found = []
    for row in rows:
        series = row.series
        library = store.library(series.machine.library, architecture=series.machine.architecture)[0]
        place = series.place(None)  # type: ignore[arg-type]
        plan = smallest("plan", *(term for _, term in tuner.plan(series.op, series.sizes, place.span, library)))
        found.append(replace(row, gap=np.log(series.seconds) - np.log(plan.value)))
    return found


def errors(rows: list[Row], low: int, high: int) -> dict[str, np.ndarray]:
    """Return the relative errors between two sizes, by family."""
    found: dict[str, list[np.ndarray]] = {}
    for row in rows:
        inside = (row.series.sizes >= low) & (row.series.sizes <= high) & ~row.known
        if inside.any():
            found.setdefault(row.family, []).append(np.abs(np.exp(-row.gap[inside]) - 1))
    return {family: np.concatenate(each) for family, each in found.items()}


def figures(rows: list[Row], low: int, high: int) -> str:
    """Return median and p90 [%], a voice a family, then pooled, and the count of families."""
    found = errors(rows, low, high)
    if not found:
        return f"{'-':>30}"
    by = np.array([[np.quantile(each, level) for level in (0.5, 0.9)] for each in found.values()])
    values = np.concatenate(list(found.values()))
    weights = np.concatenate([np.full(len(each), 1 / len(each)) for each in found.values()])
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    pooled = [values[order][np.searchsorted(total, level * total[-1])] for level in (0.5, 0.9)]
    middle = 100 * np.median(by, axis=0)
    return (
        f"{middle[0]:4.0f} /{middle[1]:4.0f} ({100 * pooled[0]:3.0f} /{100 * pooled[1]:4.0f} pooled; {len(found):2d})"
    )


def main() -> None:
    """Print the table."""
    variants = derive.read()
    fits, within = derive.fitted(variants)
    pools = derive.left_out(fits, within)
    rows = study(variants, pools)
    print(f"{'all-reduce, known':26}", "  ".join(f"{name:>30}" for name in RANGES))
    shown = {**{name: rows[name] for name in MARKS}, "2-node sweep to 4..256": rows["sweep"],
             "the plan as it is": planned(rows["class"])}  # fmt: skip
    for name, found in shown.items():
        print(f"{name:26}", "  ".join(figures(found, *each) for each in RANGES.values()))
    named = study(variants, pools, named=True)
    print(f"{'class, named settings':26}", "  ".join(figures(named["class"], *each) for each in RANGES.values()))
    for op in ("all-gather", "all-to-all"):
        more = study(variants, pools, op)
        for name in ("class", "own point"):
            print(f"{op + ', ' + name:26}", "  ".join(figures(more[name], *each) for each in RANGES.values()))
    doubt = derive.class_doubt(variants, pools)
    held = derive.coverage(variants, pools, doubt)
    under = {family: f"{100 * share:.0f} %" for family, share in held.items() if share < 0.55}
    print(
        f"80 % bands of a class (doubt {doubt:.3f}) hold {100 * np.mean(list(held.values())):.0f} %; "
        f"under 55 %: {under or 'none'}"
    )
    worse = []
    whole = (2**10, 2**30)
    before, after = errors(planned(rows["class"]), *whole), errors(rows["class"], *whole)
    for family, own in after.items():
        more_off = 100 * (np.median(own) - np.median(before[family]))
        worse += [f"{family} by {more_off:.0f} points"] if more_off > 10 else []
    print("worse than the plan by more than 10 points:", "; ".join(worse) or "none")
    for family in after:
        print(
            f"  {family:24} median {100 * np.median(after[family]):4.0f} %, "
            f"plan {100 * np.median(before[family]):4.0f} %, band holds {100 * held[family]:4.0f} %"
        )


if __name__ == "__main__":
    main()
