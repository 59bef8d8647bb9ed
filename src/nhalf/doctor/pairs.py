"""Pairs: logs between two ends each become a matrix; slow ends, then slow pairs, by a rule that a few cannot move.

ln t = usual + end i + end j + pair: ends are medians of what is left, found in turns, so that half of a row may be
slow. A pair is slow where its own part exceeds a tenth and six robust standard deviations in every repeat; one that was
measured once is only suspected.

References
----------
J. W. Tukey, "Exploratory Data Analysis" (1977), chapter 11, for fitting rows and columns by medians. The house's note
on collectives across nodes: 136 pairs of 17 nodes scatter by 0.4 to 0.6 %, slow ones take 1.4 to 3.1 times as long.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.quantiles import TO_SIGMA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.evidence.curvefit import CurveFit

_LEAST, _SIGMAS = math.log(1.1), 6.0
"""A pair is slow from a tenth on, and beyond six robust standard deviations: one in 10^9 of a normal."""
_TURNS: Final = 10
_ENDS: Final = 4
"""Fewer ends cannot be told from their pairs."""
_MOST: Final = 0.8
"""What so many of the slow pairs share is what they have in common."""
_SEPARATORS: Final = ("__", "_", "--", "-to-", "-vs-", ",", "+", "-")
_DIGITS: Final = re.compile(r"\d+")

Ends = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two ends: how many times as long as usual their messages take [1], in each of the repeats and in the median.

    `slow` is None where no repeat confirms it. `extra_s` [s] is what a slow one adds to a token, where that was asked.
    """

    ends: Ends
    ratio: float
    own_ratio: float
    repeats: int
    slow: bool | None
    extra_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """All pairs, the slowest first; the ends that are slow with everybody, and what slow pairs have in common."""

    ranks: int | None
    pairs: tuple[Pair, ...]
    slow_ends: tuple[tuple[str, float], ...]
    common: str
    noise: float

    @property
    def slow(self) -> tuple[Pair, ...]:
        """Return the pairs that are slow in every repeat."""
        return tuple(pair for pair in self.pairs if pair.slow)


def ends_of(curve: CurveFit, hosts: str = "") -> Ends | None:
    """Return the two ends that a log is of: its two hosts, or else two names of one kind in the name of its file."""
    found = tuple(sorted(set(filter(None, hosts.split(",")))))
    if len(found) == 2:  # noqa: PLR2004  a pair
        return found[0], found[1]
    stem = re.sub(r"(?:\.\w{2,5})+$", "", curve.series.key.file.replace("\\", "/").rpartition("/")[2])
    for separator in _SEPARATORS:
        parts = [part for part in stem.split(separator) if part]
        kinds = [_DIGITS.sub("#", part) for part in parts]
        for place in range(len(parts) - 2, -1, -1):
            one, other = parts[place : place + 2]
            if kinds[place] == kinds[place + 1] and "#" in kinds[place] and kinds[place] != "#" and one != other:
                return (one, other) if one <= other else (other, one)
    return None


def matrices(curves: Sequence[tuple[Ends, CurveFit]]) -> list[Matrix]:
    """Return the matrix of curves between two ends each for every number of ranks that at least three pairs had."""
    by_ranks: dict[int | None, list[tuple[Ends, CurveFit]]] = defaultdict(list)
    for ends, curve in curves:
        by_ranks[curve.series.key.ranks].append((ends, curve))
    return [found for alike in by_ranks.values() if (found := _matrix(alike)) is not None]


def _matrix(curves: Sequence[tuple[Ends, CurveFit]]) -> Matrix | None:
    runs = _logs(curves)
    if len(runs) < 3:  # noqa: PLR2004  two pairs have no usual one
        return None
    usual = {ends: float(np.median(values)) for ends, values in runs.items()}
    ends, noise = _by_medians(usual)
    middle = float(np.median(list(usual.values()))) if not ends else ends.pop("")
    limit = max(_LEAST, _SIGMAS * noise)
    pairs = []
    for (one, other), values in runs.items():
        part = middle + ends.get(one, 0.0) + ends.get(other, 0.0)
        own = [value - part for value in values]
        slow = min(own) > limit if len(own) > 1 else None if own[0] > limit else False
        ratio, own_ratio = math.exp(usual[one, other] - middle), math.exp(float(np.median(own)))
        pairs.append(Pair(ends=(one, other), ratio=ratio, own_ratio=own_ratio, repeats=len(own), slow=slow))
    pairs.sort(key=lambda pair: -pair.ratio)
    slow_ends = [(name, math.exp(value)) for name, value in ends.items() if value > limit / 2.0]
    slow_ends.sort(key=lambda each: -each[1])
    return Matrix(
        ranks=curves[0][1].series.key.ranks, pairs=tuple(pairs), slow_ends=tuple(slow_ends),
        common=_common(pairs, slow_ends), noise=noise,
    )  # fmt: skip


def _logs(curves: Sequence[tuple[Ends, CurveFit]]) -> dict[Ends, list[float]]:
    """Return ln of each run's time over the median of its size and kind, by pair; each curve is one run."""
    kinds: dict[tuple[object, ...], dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for _, curve in curves:
        for size, time in zip(*curve.fitted_points, strict=True):
            kinds[_kind(curve)][float(size)].append(math.log(time))
    found: dict[Ends, list[float]] = defaultdict(list)
    for ends, curve in curves:
        middle = {size: float(np.median(logs)) for size, logs in kinds[_kind(curve)].items()}
        own = [math.log(time) - middle[float(size)] for size, time in zip(*curve.fitted_points, strict=True)]
        if own:
            found[ends].append(float(np.median(own)))
    return dict(found)


def _kind(curve: CurveFit) -> tuple[object, ...]:
    key = curve.series.key
    return key.name, key.ranks, key.mode, key.quantity


def _by_medians(usual: Mapping[Ends, float]) -> tuple[dict[str, float], float]:
    """Return what each end adds to ln t with the middle under an empty name, and the noise of the pairs' own part."""
    names = sorted({name for ends in usual for name in ends})
    values = np.array(list(usual.values()))
    if len(names) < _ENDS or len(usual) < 2 * len(names) - _ENDS:
        return {}, TO_SIGMA * float(np.median(np.abs(values - np.median(values))))
    place = {name: index for index, name in enumerate(names)}
    one, other = (np.array([place[ends[side]] for ends in usual]) for side in (0, 1))
    middle, added = float(np.median(values)), np.zeros(len(names))
    for _ in range(_TURNS):
        for index in range(len(names)):
            mine = (one == index) | (other == index)
            far = np.where(one == index, other, one)[mine]
            added[index] = float(np.median(values[mine] - middle - added[far]))
        shift = float(np.median(added))
        added, middle = added - shift, middle + 2.0 * shift
    own = values - middle - added[one] - added[other]
    return {"": middle, **dict(zip(names, added.tolist(), strict=True))}, TO_SIGMA * float(np.median(np.abs(own)))


def _common(pairs: Sequence[Pair], slow_ends: Sequence[tuple[str, float]]) -> str:
    """Return what all slow pairs have in common: an end that is slow with everybody, or one that most of them share."""
    if slow_ends:
        return slow_ends[0][0]
    slow = [pair for pair in pairs if pair.slow]
    counts: dict[str, int] = defaultdict(int)
    for pair in slow:
        for name in {part for end in pair.ends for part in _parts(end)}:
            counts[name] += 1
    best = max(counts, key=lambda name: (counts[name], len(name)), default="")
    return best if counts[best] >= max(2.0, _MOST * len(slow)) else ""


def _parts(end: str) -> tuple[str, ...]:
    """Return an end, and the node and NIC of one that names both (`node-a:mlx5_0`)."""
    node, mark, nic = end.partition(":")
    return (end, node, nic) if mark else (end,)
