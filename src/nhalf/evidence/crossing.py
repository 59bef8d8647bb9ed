"""Crossings: from which size on one of two measured curves is faster, and how far the noise leaves that open."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf.evidence.comparison import LAUNCH_NOISE
from nhalf.quantiles import Z95

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.breakdown import Array
    from nhalf.evidence.curvefit import CurveFit

_MOST: Final = 8
"""Curves that are compared with each other: 28 pairs."""
_STEPS: Final = 400
_LEAST: Final = 2
_TELLING: Final = ("label", "name", "ranks", "nodes", "mode", "quantity", "dtype")
"""Fields of a key that tell curves apart, besides the file, the plainest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """The size [bytes] from which on curve `b` is faster than `a`, between `low_bytes` and `high_bytes` at 95 %.

    Where the two are alike below it there is no `low_bytes`. `batch` is that of a model's message of this size.
    """

    a: str
    b: str
    size_bytes: float
    low_bytes: float | None
    high_bytes: float
    batch: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the crossing with the keys of the contract."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """Two curves over the sizes that both ran: which is faster where, by `stretches` of sizes [bytes], and crossings.

    Between two stretches, and at the ends that they do not reach, the two differ by no more than the noise.
    """

    a: str
    b: str
    from_bytes: float
    to_bytes: float
    stretches: tuple[tuple[str, float, float], ...]
    crossings: tuple[Crossing, ...]


def contests(curves: Sequence[CurveFit], message_bytes: float | None = None) -> list[Contest]:
    """Return what pairs of curves of one operation, of other logs or runs, say about which is faster from where on.

    `message_bytes` [bytes] is what one sequence of a model sends, which makes a batch of a size.
    """
    found = []
    named = names(curves)
    usable = [(name, curve) for name, curve in zip(named, curves, strict=True) if len(curve.fitted_points[0]) >= _LEAST]
    for (a, one), (b, other) in combinations(usable[:_MOST], 2):
        if _comparable(one, other) and (contest := _contest((a, one), (b, other), message_bytes)):
            found.append(contest)
    return found


def names(curves: Sequence[CurveFit]) -> list[str]:
    """Return the shortest names by which curves differ: the file, the run, or how they were measured; else all."""
    keys = [curve.series.key for curve in curves]
    columns = [[PurePath(key.file).name for key in keys]]
    columns += [[_said(name, getattr(key, name)) for key in keys] for name in _TELLING]
    telling = [column for column in columns if len(set(column)) > 1] or columns[:1]
    joined = [telling[:count] for count in range(1, len(telling) + 1)]
    for chosen in ([column] for column in telling), joined:
        for each in chosen:
            found = [", ".join(filter(None, row)) for row in zip(*each, strict=True)]
            if len(set(found)) == len(found) and all(found):
                return found
    return [f"{key} ({place})" if len(keys) > 1 else str(key) for place, key in enumerate(keys, start=1)]


def _said(name: str, value: object) -> str:
    return "" if value is None else f"{value} {name}" if name in ("ranks", "nodes") else str(value)


def _comparable(one: CurveFit, other: CurveFit) -> bool:
    """Tell whether two curves are of one operation, and of two logs or of two runs on as many ranks.

    A stream's gap between messages is no time of one.
    """
    a, b = one.series.key, other.series.key
    if one.series.streamed is not other.series.streamed:
        return False
    return a.name == b.name and (a.file != b.file or (a.ranks == b.ranks and a.nodes == b.nodes))


def _contest(first: tuple[str, CurveFit], second: tuple[str, CurveFit], message_bytes: float | None) -> Contest | None:
    """Return which of two curves is faster where, or None where they have no sizes in common."""
    (a, one), (b, other) = first, second
    low = max(float(one.fitted_points[0][0]), float(other.fitted_points[0][0]))
    high = min(float(one.fitted_points[0][-1]), float(other.fitted_points[0][-1]))
    if low >= high:
        return None
    sizes = np.geomspace(low, high, _STEPS)
    ahead = np.log(one.times_at(sizes) / other.times_at(sizes))  # above 0 where `b` is faster
    noise = Z95 * math.hypot(one.point_noise, other.point_noise, math.sqrt(2.0) * LAUNCH_NOISE)
    side = np.where(np.abs(ahead) > noise, np.sign(ahead), 0.0)
    edges = [0, *(np.flatnonzero(np.diff(side)) + 1).tolist(), _STEPS]
    runs = [(float(side[i]), i, j - 1) for i, j in pairwise(edges) if side[i]]
    found = []
    for place, (winner, start, _) in enumerate(runs):
        before = runs[place - 1] if place else None
        if (before is None and start == 0) or (before is not None and before[0] == winner):
            continue
        at = _zero(sizes, ahead, before[2] if before else 0, start)
        names_of = (a, b) if winner > 0 else (b, a)
        found.append(
            Crossing(
                a=names_of[0], b=names_of[1], size_bytes=at,
                low_bytes=float(sizes[before[2]]) if before else None, high_bytes=float(sizes[start]),
                batch=math.ceil(at / message_bytes) if message_bytes else None,
            )
        )  # fmt: skip
    return Contest(
        a=a, b=b, from_bytes=low, to_bytes=high, crossings=tuple(found),
        stretches=tuple((b if w > 0 else a, float(sizes[i]), float(sizes[j])) for w, i, j in runs),
    )  # fmt: skip


def _zero(sizes: Array, ahead: Array, low: int, high: int) -> float:
    """Return the size [bytes] of the last change of sign between two places, or of the later where there is none."""
    changes = np.flatnonzero(np.diff(np.sign(ahead[low : high + 1])))
    if not len(changes):
        return float(sizes[high])
    at = low + int(changes[-1])
    share = ahead[at] / (ahead[at] - ahead[at + 1])
    return float(sizes[at] * (sizes[at + 1] / sizes[at]) ** share)
