"""The examination: everything that was read about one system, and the verdict on it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.doctor.clues import HINT, Clue
from nhalf.doctor.diagnosis import Case, Cause, weighed
from nhalf.doctor.yardstick import bus_ceiling, is_across, yardstick
from nhalf.laws.collective.bandwidth import busbw
from nhalf.quantiles import Z80

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.breakdown import Array
    from nhalf.doctor.history import Change
    from nhalf.doctor.pairs import Matrix
    from nhalf.doctor.yardstick import Known
    from nhalf.evidence.curvefit import CurveFit

_SETTLED, _DOUBTED = 0.5, 0.25
"""Normal from even odds on; below one in four something is wrong; between them nobody can tell."""
_PRIOR: Final = 0.05
"""Odds of a cause that only the text of logs speaks for."""
_WORTH: Final = 0.05
"""Causes less probable than this are not named."""
_TWICE: Final = 2.0
"""Nothing moves faster than twice what the links carry; in-network reductions stay below that."""
_APART: Final = math.log(1.5)
"""Runs of the same that differ by more were not run under the same conditions."""
_LARGE_BYTES, _SMALL_BYTES, _FLOOR_BYTES = float(1 << 20), float(16 << 10), 2048.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The two numbers of one curve beside those of like systems, in bytes/s and s; None where its sizes do not show it.

    `expected_low_bytes_per_s` and `expected_high_bytes_per_s` are the 80 % range of what like systems reach; `ranges`
    says for each range of sizes how many times as long as on them messages took.
    """

    curve: str
    like: str = ""
    kind: str = ""
    busbw_bytes_per_s: float | None = None
    ceiling_bytes_per_s: float | None = None
    expected_bytes_per_s: float | None = None
    expected_low_bytes_per_s: float | None = None
    expected_high_bytes_per_s: float | None = None
    floor_s: float | None = None
    expected_floor_s: float | None = None
    ranges: tuple[tuple[str, float], ...] = ()

    @property
    def share_of_ceiling(self) -> float | None:
        """Return the bus bandwidth over what the links allow [1]."""
        return _ratio(self.busbw_bytes_per_s, self.ceiling_bytes_per_s)

    @property
    def share_of_measured(self) -> float | None:
        """Return the bus bandwidth over that of like systems [1]; where no message is large, by the smallest ones."""
        return _ratio(self.busbw_bytes_per_s, self.expected_bytes_per_s) or _ratio(self.expected_floor_s, self.floor_s)


def _ratio(one: float | None, other: float | None) -> float | None:
    return None if one is None or not other else one / other


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Examination:
    """What was found: `normal_odds` is the probability that nothing is wrong, None where no time was compared.

    `readings` are those of the curves, that with the least share of like systems first.
    """

    system: str
    assumed: str = ""
    readings: tuple[Reading, ...] = ()
    normal_odds: float | None = None
    causes: tuple[Cause, ...] = ()
    matrices: tuple[Matrix, ...] = ()
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def normal(self) -> bool | None:
        """Return whether it is normal, None where that cannot be told."""
        seen = (cause for cause in self.causes if cause.code in ("slow-pair", "slow-rank", "waiting"))
        if any(cause.probability > _SETTLED for cause in seen):
            return False
        if self.normal_odds is None:
            return None
        return True if self.normal_odds >= _SETTLED else False if self.normal_odds < _DOUBTED else None

    @property
    def named(self) -> tuple[Cause, ...]:
        """Return the causes worth a name, best first; `normal` is the first where nothing is wrong."""
        found = tuple(cause for cause in self.causes if cause.probability >= _WORTH)
        if self.normal is not True or self.worst is None:
            return found
        reasons = tuple(f"{name}: {ratio:.2g} times as long as on like systems" for name, ratio in self.worst.ranges)
        return (Cause(code="normal", probability=self.normal_odds or 0.0, for_=reasons, against=()), *found)

    @property
    def worst(self) -> Reading | None:
        """Return the reading with the least share of like systems."""
        return self.readings[0] if self.readings else None


def examined(
    curves: Sequence[CurveFit], known: Known | None, clues: Sequence[Clue], more: Sequence[Cause] = ()
) -> tuple[tuple[Reading, ...], float | None, tuple[Cause, ...]]:
    """Return the readings of curves, the probability that they are normal, and the causes, best first.

    `more` are causes that other evidence than curves names.
    """
    cases: list[Case] = []
    readings: list[Reading] = []
    for curve in curves if known is not None else ():
        ceiling, measure = bus_ceiling(curve, known.system), yardstick(curve, known)  # type: ignore[union-attr, arg-type]
        case = None
        if measure is not None:
            impossible = ceiling is not None and float(np.max(_bus(curve, curve.fitted_points[1]))) > _TWICE * ceiling
            case = Case.of(curve, measure, across=is_across(curve, known.system), impossible=impossible)  # type: ignore[union-attr]
            cases.append(case)
        if case is not None or ceiling is not None:
            readings.append(_reading(curve, case, ceiling))
    readings.sort(key=lambda reading: reading.share_of_measured or math.inf)
    cases, clues = _one_run(cases, clues)
    odds, found = weighed(cases, clues) if cases else (None, ())
    # What was seen in a trace or among pairs needs no guess, and what no fault explains still has its clues.
    by_code = {cause.code: cause for cause in (*_of_clues(clues), *found, *more)}
    return tuple(readings), odds, tuple(sorted(by_code.values(), key=lambda cause: -cause.probability))


def _one_run(cases: list[Case], clues: Sequence[Clue]) -> tuple[list[Case], list[Clue]]:
    """Return the slowest of runs of the same that differ, and that they do: it is not the machine's constant state."""
    alike: dict[object, list[Case]] = {}
    for case in cases:
        key = replace(case.curve.series.key, label="", file="")
        alike.setdefault((key, case.places), []).append(case)
    kept, told = [], list(clues)
    for same in alike.values():
        apart = float(np.max(np.ptp([case.mean for case in same], axis=0)))
        kept += [max(same, key=lambda case: float(case.mean.sum()))] if apart > _APART else same
        if apart > _APART:
            text = f"runs of the same differ by {math.exp(apart):.2g} times"
            told.append(Clue(code="other-jobs", weight=HINT, text=text))
    return kept, told


def _of_clues(clues: Sequence[Clue]) -> list[Cause]:
    """Return the causes that the text of logs alone speaks for."""
    found = []
    for code in dict.fromkeys(clue.code for clue in clues):
        own = [clue for clue in clues if clue.code == code]
        weight = sum(clue.weight for clue in own)
        if weight >= HINT:
            chance = 1.0 / (1.0 + math.exp(-weight) / _PRIOR)
            pro, con = (tuple(clue.text for clue in own if (clue.weight > 0) is side) for side in (True, False))
            found.append(Cause(code=code, probability=chance, for_=pro, against=con))
    return found


def _reading(curve: CurveFit, case: Case | None, ceiling: float | None) -> Reading:
    """Return the two numbers of a curve."""
    sizes, times = curve.fitted_points
    usual = case.yardstick.times_s if case is not None else None
    found: dict[str, float | None] = {}
    if sizes[-1] > _LARGE_BYTES:
        top = sizes >= sizes[-1] / 4.0
        found |= {"busbw_bytes_per_s": float(np.median(_bus(curve, times)[top])), "ceiling_bytes_per_s": ceiling}
        if case is not None and usual is not None:
            expected = float(np.median(_bus(curve, usual)[top]))
            width = math.exp(Z80 * math.sqrt(float(case.covariance[-1, -1])))
            high = min(expected * width, max(ceiling or math.inf, expected))
            found |= {"expected_bytes_per_s": expected, "expected_low_bytes_per_s": expected / width}
            found["expected_high_bytes_per_s"] = high
    if sizes[0] <= _SMALL_BYTES:
        low = sizes <= max(float(sizes[0]), _FLOOR_BYTES)
        found["floor_s"] = float(np.median(times[low]))
        found["expected_floor_s"] = float(np.median(usual[low])) if usual is not None else None
    bare = replace(Reading(curve=str(curve.series.key)), **found)  # type: ignore[arg-type]
    return bare if case is None else replace(
        bare, like=case.yardstick.like, kind=case.yardstick.kind, ranges=case.ranges
    )  # fmt: skip


def _bus(curve: CurveFit, times: Array) -> Array:
    """Return the bus bandwidth [bytes/s] of each size of a curve whose operation is known."""
    key = curve.series.key
    found: Array = np.asarray(busbw(key.op, curve.fitted_points[0], times, float(key.ranks or 1)))  # type: ignore[arg-type]
    return found
