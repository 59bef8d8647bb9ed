"""How well the catalogue's measured curves predict what is held out of them: sizes, and numbers of ranks.

    python tests/bench/curve_study.py

It needs nothing beside the catalogue: points are taken away, and predicted from those that are left. The error is
|predicted / measured - 1|; goals are those of the roadmap's part 3 (median / 90th percentile).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nhalf.catalog import store
from nhalf.collective import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nhalf.breakdown import Array
    from nhalf.curve import MeasuredCurve

FEW = 5
BAND_BYTES = (8 * 1024, 256 * 1024)
Z80 = 1.2816


def curves() -> Iterator[MeasuredCurve]:
    """Yield every curve of the catalogue that is not flagged, each once."""
    seen = set()
    for name in store.names("system"):
        for curve in store.system(name, curves=True)[0].curves:
            if not curve.flag and str(curve.key) not in seen:
                seen.add(str(curve.key))
                yield curve


def of_sizes(curve: MeasuredCurve, index: int, kept: list[int]) -> tuple[Array, Array]:
    """Return predicted and measured times of the sizes that are not kept, at one number of ranks."""
    sizes, times = curve.sizes_bytes[index], curve.times_s[index]
    less = replace(curve, ranks=(curve.ranks[index],), sizes_bytes=(sizes[kept],), times_s=(times[kept],))
    held = np.setdiff1d(np.arange(len(sizes)), kept)
    return np.asarray(less.time_s(sizes[held], curve.ranks[index])), times[held]


def of_ranks(curve: MeasuredCurve) -> tuple[Array, Array]:
    """Return predicted and measured times at the middle number of ranks, 8 to 256 KiB, from its neighbours."""
    if len(curve.ranks) < 3:
        return np.empty(0), np.empty(0)
    ends = [0, len(curve.ranks) - 1]
    less = replace(
        curve,
        ranks=tuple(curve.ranks[i] for i in ends),
        sizes_bytes=tuple(curve.sizes_bytes[i] for i in ends),
        times_s=tuple(curve.times_s[i] for i in ends),
    )
    sizes = curve.sizes_bytes[1]
    inside = (sizes >= BAND_BYTES[0]) & (sizes <= BAND_BYTES[1])
    return np.asarray(less.time_s(sizes[inside], curve.ranks[1])), curve.times_s[1][inside]


def line(name: str, pairs: list[tuple[Array, Array]], spreads: list[float], goal: str) -> str:
    """Return one row of the table: the errors, and how often a point lies within the curve's own noise."""
    errors: list[float] = []
    inside: list[bool] = []
    for (predicted, measured), spread in zip(pairs, spreads, strict=True):
        off = np.abs(np.log(predicted / measured)).tolist()
        errors += off
        inside += [error <= Z80 * spread for error in off]
    median, tail = (100 * float(np.expm1(np.quantile(errors, level))) for level in (0.5, 0.9))
    share = 100 * sum(inside) / len(inside)
    return (
        f"{name:34} {median:5.1f} / {tail:5.1f} %   goal {goal:7} {len(errors):5} points, {share:3.0f} % in the noise"
    )


def main() -> None:
    """Print the table."""
    other: list[tuple[Array, Array]] = []
    few: list[tuple[Array, Array]] = []
    ranks: list[tuple[Array, Array]] = []
    quick: list[tuple[Array, Array]] = []
    spread: dict[str, list[float]] = {"other": [], "few": [], "ranks": [], "quick": []}
    for curve in curves():
        for index, sizes in enumerate(curve.sizes_bytes):
            other.append(of_sizes(curve, index, list(range(0, len(sizes), 2))))
            few.append(of_sizes(curve, index, sorted({round(at) for at in np.linspace(0, len(sizes) - 1, FEW)})))
            spread["other"].append(curve.log_sd)
            spread["few"].append(curve.log_sd)
        ranks.append(of_ranks(curve))
        spread["ranks"].append(curve.log_sd)
        if curve.key.mode != Mode.EAGER:
            quick.append(ranks[-1])
            spread["quick"].append(curve.log_sd)
    print(line("every other size held out", other, spread["other"], "2 / 12"))
    print(line("five sizes kept", few, spread["few"], "4 / 20"))
    print(line("missing ranks, 8-256 KiB", ranks, spread["ranks"], "4 / 15"))
    print(line("missing ranks, 8-256 KiB, no eager", quick, spread["quick"], "4 / 15"))


if __name__ == "__main__":
    main()
