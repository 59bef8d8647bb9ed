"""Families of machines left out: how far the law across nodes is off where a class, a point, or a sweep is known.

    python tests/bench/across_study.py [--data ../shared/data]

A machine is a family with one voice in every median. Printed are the figures reached, misses included.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
from tools import derive_fabrics as derive  # noqa: E402

RANGES = {"1 KiB-1 MiB": (2**10, 2**20), "8-256 KiB": (2**13, 2**18), "1 MiB-1 GiB": (2**20, 2**30)}
WEIGHT = float(__import__("os").environ.get("W", 2))
LOSS = __import__("os").environ.get("LOSS","soft_l1")
SD = float(__import__("os").environ.get("SD", 0.2))
MARKS = {"class": (), "one point": (2**13,), "three points": (2**13, 2**20, 2**28)}


def carried(series, known, gap):
    """Return the smooth remainder that measured points leave, at every size: sd 0.25, 3 octaves."""
    if not len(known):
        return np.zeros(len(series.sizes))
    octaves, paths = np.log2(series.sizes), series.paths()
    whole = SD**2 * np.exp(-np.abs(octaves[:, None] - octaves[None, :]) / 3)
    whole *= np.where(paths[:, None] == paths[None, :], 1.0, 0.3)
    kernel = lambda a, b: whole[np.ix_(a, b)]
    at = np.array(known)
    return kernel(np.arange(len(octaves)), at) @ np.linalg.solve(kernel(at, at) + 0.03**2 * np.eye(len(at)), gap)


def known_at(series, sizes):
    found = []
    for size in sizes:
        near = np.argmin(np.abs(np.log2(series.sizes / size)))
        if abs(np.log2(series.sizes[near] / size)) < 1.01:
            found.append(int(near))
    return sorted(set(found))


def scored(family, label):
    """Tell whether a variant counts: named settings are scored apart, doubtful rows not at all."""
    return family not in derive.DOUBTFUL and not any(word in label for word in ("matching", "without", "cross-nic"))


def part(series, places):
    return derive.Series(series.op, series.machine, series.k, series.nodes, series.sizes[places], series.seconds[places])


def study(variants, fits, within, op="all-reduce", verbose=False):
    rows = {name: [] for name in MARKS}
    pools = {family: derive.pool(fits, within, derive.BETWEEN, without=family) for family in {f.family for f in fits}}
    for key, variant in variants.items():
        if not scored(*key):
            continue
        pooled = pools[variant.family]
        centre, spread = pooled.centres[variant.kind], pooled.spreads[variant.kind]
        for series in variant.series:
            if series.op != op:
                continue
            for name, marks in MARKS.items():
                known = known_at(series, marks)
                theta = centre
                if name != "class" and not known:
                    continue
                if known:
                    small = derive.Variant(variant.family, variant.group, variant.kind, [part(series, known)])
                    theta = derive.fit(small, centre, spread, weight=WEIGHT, loss=LOSS)[0]
                predicted = np.log(series.predicted(theta[None])[0])
                gap = np.log(series.seconds) - predicted
                predicted = predicted + carried(series, known, gap[known])
                gap = np.log(series.seconds) - predicted
                rows[name].append((variant.family, key[1], series, gap, np.isin(np.arange(len(gap)), known)))
    return rows


def quantile(values, weights, at):
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, at * total[-1])])


def figures(rows, low, high):
    """Return median and p90 of errors [%], one voice a family, and how many families."""
    values, families = [], []
    for family, _, series, gap, known in rows:
        inside = (series.sizes >= low) & (series.sizes <= high) & ~known
        values += np.abs(np.exp(-gap[inside]) - 1).tolist()
        families += [family] * int(inside.sum())
    values, families = np.array(values), np.array(families)
    if not len(values):
        return float("nan"), float("nan"), 0
    counts = {f: (families == f).sum() for f in set(families)}
    weights = np.array([1 / counts[f] for f in families])
    return 100 * quantile(values, weights, 0.5), 100 * quantile(values, weights, 0.9), len(counts)


def by_family(rows, low, high):
    """Return the medians over families of each family's median and p90 of errors [%], and how many families."""
    found = []
    for family in {row[0] for row in rows}:
        own = figures([row for row in rows if row[0] == family], low, high)
        found += [own[:2]] if own[2] else []
    return (*(float(np.median([each[place] for each in found])) for place in (0, 1)), len(found)) if found else (np.nan, np.nan, 0)


if __name__ == "__main__":
    variants = derive.read()
    fits, within = derive.fitted(variants)
    rows = study(variants, fits, within)
    for name, found in rows.items():
        cells = [figures(found, *RANGES[each]) for each in RANGES]
        cells = [by_family(found, *RANGES[each]) for each in RANGES]
        print(f"{name:14} a family", "   ".join(f"{a:5.1f} / {b:5.1f} ({c})" for a, b, c in cells))
        cells = [figures(found, *RANGES[each]) for each in RANGES]
        print(f"{name:14} pooled  ", "   ".join(f"{a:5.1f} / {b:5.1f} ({c})" for a, b, c in cells))
    for op in ("all-gather", "reduce-scatter", "all-to-all"):
        more = study(variants, fits, within, op)
        for name in ("class", "one point"):
            print(op, name, "   ".join("%5.1f / %5.1f (%d)" % figures(more[name], *RANGES[each]) for each in RANGES))
    print("by family, median error: class", list(RANGES), "one point")
    for family in sorted({r[0] for r in rows["class"]}):
        own = {name: [r for r in found if r[0] == family] for name, found in rows.items()}
        print(f"{family:26}", "  ".join("%5.1f/%5.1f" % figures(own[name], *RANGES[each])[:2] for name in MARKS for each in RANGES))
