"""How well the catalogue's measured curves predict what is held out of them: sizes, and numbers of ranks.

    python tests/bench/curve_study.py

It needs nothing beside the catalogue: points are taken away, and predicted from those that are left. The error is
|predicted / measured - 1|, its median and 90th percentile; goals are those of the roadmap's part 3, and the 80 % bands
should hold 75 to 85 % of the points. Rank counts are predicted from the others of the same node, in two tables: devices
joined by switches or links of their own, and those that share PCIe, whose larger groups cross sockets.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nhalf.catalog import store
from nhalf.collective import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nhalf.breakdown import Array
    from nhalf.curve import MeasuredCurve

FEW = 5
BAND_BYTES = (8 * 1024, 256 * 1024)
GOALS = {
    "every other size held out": "2 / 12",
    "five sizes kept": "4 / 20",
    "missing ranks, 8-256 KiB, own links, no eager": "4 / 15",
    "missing ranks, 8-256 KiB, own links": "4 / 15",
    "missing ranks, 8-256 KiB, on PCIe": "",
}
ON_PCIE = {"l40s", "rtx-pro-6000", "b60"}


def curves() -> Iterator[MeasuredCurve]:
    """Yield every curve of the catalogue that is not flagged, each once."""
    seen = set()
    for name in store.names("system"):
        for curve in store.system(name, curves=True)[0].curves:
            if not curve.flag and str(curve.key) not in seen:
                seen.add(str(curve.key))
                yield curve


class Held(NamedTuple):
    """Points held out: predicted and measured times [s], and the half-width of the 80 % band [ln]."""

    predicted: Array
    measured: Array
    half: Array


def ask(less: MeasuredCurve, ranks: int, sizes: Array, times: Array) -> Held:
    """Return what a curve with points taken away says of them."""
    return Held(np.asarray(less.time_s(sizes, ranks)), times, less.half_width(sizes, ranks))


def of_sizes(curve: MeasuredCurve, index: int, kept: list[int]) -> Held:
    """Return the sizes between those that are kept, at one number of ranks."""
    sizes, times = curve.sizes_bytes[index], curve.times_s[index]
    less = replace(curve, ranks=(curve.ranks[index],), sizes_bytes=(sizes[kept],), times_s=(times[kept],))
    held = np.setdiff1d(np.arange(kept[0], kept[-1]), kept)
    return ask(less, curve.ranks[index], sizes[held], times[held])


def of_ranks(curve: MeasuredCurve) -> Iterator[Held]:
    """Yield every number of ranks between others, 8 to 256 KiB, as the others predict it."""
    for place in range(1, len(curve.ranks) - 1):
        others = [index for index in range(len(curve.ranks)) if index != place]
        less = replace(
            curve,
            ranks=tuple(curve.ranks[i] for i in others),
            sizes_bytes=tuple(curve.sizes_bytes[i] for i in others),
            times_s=tuple(curve.times_s[i] for i in others),
        )
        sizes, times = curve.sizes_bytes[place], curve.times_s[place]
        inside = (sizes >= BAND_BYTES[0]) & (sizes <= BAND_BYTES[1])
        yield ask(less, curve.ranks[place], sizes[inside], times[inside])


def line(name: str, parts: list[Held], goal: str) -> str:
    """Return one row of the table."""
    predicted, measured, half = (np.concatenate(column) for column in zip(*parts, strict=True))
    off = np.abs(np.log(predicted / measured))
    error = np.abs(predicted / measured - 1.0)
    median, tail = 100.0 * np.median(error), 100.0 * np.quantile(error, 0.9)
    held = 100.0 * np.mean(off <= half)
    return f"{name:46} {median:5.1f} / {tail:5.1f} %   goal {goal:7} {len(off):5} points, {held:3.0f} % in the band"


def main() -> None:
    """Print the table."""
    found: dict[str, list[Held]] = defaultdict(list)
    for curve in curves():
        for index, sizes in enumerate(curve.sizes_bytes):
            found["every other size held out"].append(of_sizes(curve, index, list(range(0, len(sizes), 2))))
            few = sorted({round(at) for at in np.linspace(0, len(sizes) - 1, FEW)})
            found["five sizes kept"].append(of_sizes(curve, index, few))
        where = "on PCIe" if curve.key.system in ON_PCIE else "own links"
        for held in of_ranks(curve):
            found[f"missing ranks, 8-256 KiB, {where}"].append(held)
            if curve.key.mode is not Mode.EAGER:
                found[f"missing ranks, 8-256 KiB, {where}, no eager"].append(held)
    for name, goal in GOALS.items():
        print(line(name, found[name], goal))


if __name__ == "__main__":
    main()
