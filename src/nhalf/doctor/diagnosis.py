"""Diagnosis: how probable each cause is, by how curves lie against their yardsticks and by what the logs say.

Every set of at most two faults is a hypothesis: what it does to the yardstick's times, with its spread, is compared
with the measured ones in ranges of size. A cause's probability is that of all hypotheses that hold it. Each range has
tails of Student's t: a law that misses one of them must not decide. Several curves of one system share their errors,
so n of them count as the root of n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.doctor.faults import FAULTS, UNKNOWN, effect, together
from nhalf.quantiles import TO_SIGMA, Z80

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.breakdown import Array
    from nhalf.doctor.clues import Clue
    from nhalf.doctor.faults import Fault
    from nhalf.doctor.yardstick import Yardstick
    from nhalf.evidence.curvefit import CurveFit

_KIB: Final = 1024.0
RANGES: Final = (
    ("up to 2 KiB", 0.0, 2 * _KIB), ("2 to 16 KiB", 2 * _KIB, 16 * _KIB), ("16 to 128 KiB", 16 * _KIB, 128 * _KIB),
    ("128 KiB to 1 MiB", 128 * _KIB, 1024 * _KIB), ("1 to 8 MiB", 1024 * _KIB, 8192 * _KIB),
    ("8 to 64 MiB", 8192 * _KIB, 65536 * _KIB), ("64 MiB and more", 65536 * _KIB, math.inf),
)  # fmt: skip
"""The ranges of size whose means are compared."""
_FREEDOM: Final = {"measured": 20.0, "machine": 6.0, "class": 6.0, "wide": 6.0}
"""Of Student's t: what was measured misses a range more seldom than a law does."""
_CLASS: Final = (0.1, 0.1, 0.15, 0.3, 0.15, 0.22, 0.22)
_MACHINE: Final = (0.11, 0.1, 0.13, 0.32, 0.18, 0.18, 0.17)
_MISFIT: Final = {"measured": (0.04,) * 7, "machine": _MACHINE, "class": _CLASS, "wide": _CLASS}
"""What a yardstick misses in a range beyond its covariance (log-standard deviations): of classes as 14 to 18 machines
left out show it, of machines as nine by their own constants do (tests/bench/doctor_study.py). Switches of protocol lie
at 128 KiB to 1 MiB."""
_ROUGH_SD: Final = 0.7
_TWO_AT_ONCE: Final = 0.3
"""Two faults that have nothing to do with each other come together this much more seldom than chance has it."""
_SMOOTH: Final = 0.04
"""How much neighbouring sizes of a healthy run scatter [log]: repeats of the house's note, 1.4 to 3.7 %."""
_FEWEST: Final = 5
_EFFECT: Final = 0.22
"""A fault does something in a range from about a quarter on [log]."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One curve against its yardstick: the ranges that it has, and in them the mean of ln(measured / yardstick).

    `covariance` is how healthy ones scatter there, `means_of` takes sizes to ranges, `rough` is how much neighbours
    scatter, None where too few points say. `impossible`: it is faster than twice what the links carry.
    """

    curve: CurveFit
    yardstick: Yardstick
    across: bool
    sizes: Array
    places: tuple[int, ...]
    mean: Array
    covariance: Array
    means_of: Array
    rough: float | None
    impossible: bool

    @classmethod
    def of(cls, curve: CurveFit, yardstick: Yardstick, *, across: bool, impossible: bool = False) -> Case:
        """Return the case of a curve."""
        sizes, times = curve.fitted_points
        inside = [(sizes > low) & (sizes <= high) for _, low, high in RANGES]
        places = tuple(place for place, each in enumerate(inside) if each.any())
        means_of = np.array([inside[place] / inside[place].sum() for place in places])
        covariance = means_of @ yardstick.covariance @ means_of.T
        covariance += np.diag([_MISFIT[yardstick.kind][place] ** 2 for place in places])
        mean = means_of @ np.log(times / yardstick.times_s)
        rough = _roughness(curve, yardstick)
        return cls(curve, yardstick, across, sizes, places, mean, covariance, means_of, rough, impossible)

    @property
    def ranges(self) -> tuple[tuple[str, float], ...]:
        """Return how many times as long as the yardstick the messages of each range took [1]."""
        rows = zip(self.places, self.mean, strict=True)
        return tuple((RANGES[place][0], float(np.exp(mean))) for place, mean in rows)

    def touched(self, faults: Sequence[Fault]) -> list[Fault]:
        """Return the faults that can touch this curve."""
        op = self.curve.series.key.op
        return [
            fault
            for fault in faults
            if fault.where in ("both", "nodes" if self.across else "node")
            and (not fault.only or op in fault.only)
            and (not fault.switched or self.yardstick.switched)
            and (not fault.priced or fault.priced in self.yardstick.moved)
            and (fault.bytes_ >= 1.0 or self.impossible)
        ]

    def against(self, faults: Sequence[Fault]) -> tuple[Array, Array]:
        """Return what faults leave unexplained in each range [log], and its covariance."""
        # To be faster than like systems is no symptom: beyond one standard deviation it does not count.
        mean = self.mean if self.impossible else np.maximum(self.mean, -np.sqrt(np.diag(self.covariance)))
        if not faults:
            return mean, self.covariance
        factor, gradients, variances = effect(self.sizes, self.yardstick, faults)
        moved = gradients @ self.means_of.T
        return mean - self.means_of @ factor, self.covariance + (moved.T * variances) @ moved

    def slowed(self, faults: Sequence[Fault]) -> Array:
        """Return how many times as long as usual faults make the messages of each range [log]."""
        own = self.touched(faults)
        found: Array = self.means_of @ effect(self.sizes, self.yardstick, own)[0] if own else np.zeros(len(self.mean))
        return found

    def log_likelihood(self, faults: Sequence[Fault]) -> float:
        """Return ln of how likely the curve is under faults, up to a constant."""
        gap, covariance = self.against(self.touched(faults))
        root = np.linalg.cholesky(covariance)
        apart = np.linalg.solve(root, gap)
        freedom = _FREEDOM[self.yardstick.kind]
        tails = 0.5 * (freedom + 1.0) * np.log1p(apart**2 / freedom)
        found = -float(np.log(np.diag(root)).sum() + tails.sum())
        if self.rough is not None:
            expected = max([_SMOOTH, *(fault.roughness for fault in faults)])
            found -= 0.5 * (math.log(self.rough / expected) / _ROUGH_SD) ** 2
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause with its probability [1], and what speaks for and against it.

    `left` is how many times as long as usual the smallest and the largest messages of a `curve` take once it is gone:
    longer where it comes together with another. `curve` is empty where none shows it.
    """

    code: str
    probability: float
    for_: tuple[str, ...]
    against: tuple[str, ...]
    curve: str = ""
    left: tuple[float, float] = (1.0, 1.0)


def weighed(cases: Sequence[Case], clues: Sequence[Clue]) -> tuple[float, tuple[Cause, ...]]:
    """Return the probability that nothing is wrong, and those of the causes, best first."""
    rows = [fault for fault in FAULTS if any(case.touched([fault]) for case in cases)]
    weights = {row.code: sum(clue.weight for clue in clues if clue.code == row.code) for row in rows}
    sets: list[tuple[Fault, ...]] = [(), *((row,) for row in rows)]
    sets += [pair for pair in combinations(rows, 2) if together(*pair)]
    scores = np.array([_score(faults, cases, weights) for faults in sets])
    chances = np.exp(scores - scores.max())
    chances /= chances.sum()
    causes = [_cause(code, sets, chances, cases, clues) for code in weights if code != UNKNOWN]
    causes.sort(key=lambda cause: -cause.probability)
    return float(chances[0]), tuple(causes)


def _score(faults: tuple[Fault, ...], cases: Sequence[Case], weights: dict[str, float]) -> float:
    """Return ln of the odds of a set of faults, up to a constant."""
    prior = sum(math.log(fault.odds) + weights[fault.code] for fault in faults)
    prior += math.log(_TWO_AT_ONCE) * (len(faults) > 1)
    return prior + sum(case.log_likelihood(faults) for case in cases) / math.sqrt(len(cases))


def _cause(
    code: str, sets: Sequence[tuple[Fault, ...]], chances: Array, cases: Sequence[Case], clues: Sequence[Clue]
) -> Cause:
    """Return a cause, with what speaks for and against it: the clues, then the ranges of the curve that tells most."""
    holding = [place for place, each in enumerate(sets) if any(fault.code == code for fault in each)]
    best = sets[max((place for place in holding if len(sets[place]) == 1), key=lambda place: chances[place])]
    case = max((case for case in cases if case.touched(best)), key=lambda case: float(np.abs(case.mean).max()))
    gap, covariance = case.against(case.touched(best))
    shown: dict[bool, list[tuple[float, str]]] = {True: [], False: []}
    for place, left, variance, mean in zip(case.places, gap, np.diag(covariance), case.mean, strict=True):
        text = f"{RANGES[place][0]}: {_times(mean)} as long; it makes {_times(mean - left)}"
        if abs(left) > Z80 * math.sqrt(variance):
            shown[False].append((-abs(left), text))
        elif abs(mean - left) > _EFFECT:
            shown[True].append((-abs(mean), text))
    pro, con = (
        [clue.text for clue in clues if clue.code == code and (clue.weight > 0) is side]
        + [text for _, text in sorted(shown[side])]
        for side in (True, False)
    )
    rest = [[fault for fault in sets[place] if fault.code != code] for place in holding]
    left = np.exp(np.average([case.slowed(each) for each in rest], axis=0, weights=chances[holding]))
    return Cause(code=code, probability=float(chances[holding].sum()), for_=tuple(pro), against=tuple(con),
                 curve=str(case.curve.series.key), left=(float(left[0]), float(left[-1])))  # fmt: skip


def _times(log_ratio: float) -> str:
    return f"{math.exp(log_ratio):.2g} times"


def _roughness(curve: CurveFit, yardstick: Yardstick) -> float | None:
    """Return how much neighbouring sizes and both columns of a curve scatter [log], None where too few points say."""
    sizes, times = curve.fitted_points
    if len(sizes) < _FEWEST:
        return None
    bend = np.diff(np.log(times / yardstick.times_s), 2) / math.sqrt(6.0)
    found = TO_SIGMA * float(np.median(np.abs(bend)))
    apart = np.abs(np.log(curve.series.in_place_s / curve.series.times_s))[curve.series.good]
    if np.isfinite(apart).any():
        found = max(found, TO_SIGMA * float(np.nanmedian(apart)) / math.sqrt(2.0))
    return max(found, 0.01)
