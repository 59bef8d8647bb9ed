"""The examination: everything that was read about one system, and the verdict on it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.doctor.advice import ADVICE
from nhalf.doctor.clues import LIKELY
from nhalf.doctor.diagnosis import Case, Cause, weighed
from nhalf.doctor.yardstick import bus_ceiling, is_across, yardstick
from nhalf.laws.collective.bandwidth import busbw
from nhalf.quantiles import Z80

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.doctor.clues import Clue
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
_LARGE_BYTES, _SMALL_BYTES = float(1 << 20), float(16 << 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The two numbers of one curve beside those of like systems, in bytes/s and s; None where its sizes do not show it.

    `low_bytes_per_s` and `high_bytes_per_s` are the 80 % range of what like systems reach.
    """

    curve: str
    like: str
    kind: str
    bus_bytes_per_s: float | None = None
    ceiling_bytes_per_s: float | None = None
    expected_bytes_per_s: float | None = None
    low_bytes_per_s: float | None = None
    high_bytes_per_s: float | None = None
    floor_s: float | None = None
    expected_floor_s: float | None = None
    ranges: tuple[tuple[str, float], ...] = ()

    @property
    def share_of_ceiling(self) -> float | None:
        """Return the bus bandwidth over what the links allow [1]."""
        return _ratio(self.bus_bytes_per_s, self.ceiling_bytes_per_s)

    @property
    def share_of_measured(self) -> float | None:
        """Return the bus bandwidth over that of like systems [1]; where no message is large, by the smallest ones."""
        return _ratio(self.bus_bytes_per_s, self.expected_bytes_per_s) or _ratio(self.expected_floor_s, self.floor_s)


def _ratio(one: float | None, other: float | None) -> float | None:
    return None if one is None or not other else one / other


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Examination:
    """What was found: `normal_odds` is the probability that nothing is wrong, None where no time was compared.

    `readings` are those of the curves, that which lies furthest from its yardstick first.
    """

    system: str
    assumed: str = ""
    readings: tuple[Reading, ...] = ()
    normal_odds: float | None = None
    causes: tuple[Cause, ...] = ()
    matrices: tuple[Matrix, ...] = ()
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()
    logs: int = 0
    skipped: tuple[tuple[str, str], ...] = field(default=())

    @property
    def normal(self) -> bool | None:
        """Return whether it is normal, None where that cannot be told."""
        if any(
            cause.code in ("slow-pair", "slow-rank", "waiting") and cause.probability > _SETTLED
            for cause in self.causes
        ):
            return False
        if self.normal_odds is None:
            return None
        return True if self.normal_odds >= _SETTLED else False if self.normal_odds < _DOUBTED else None

    @property
    def named(self) -> tuple[Cause, ...]:
        """Return the causes worth a name, best first; `normal` is the first where nothing is wrong."""
        found = tuple(cause for cause in self.causes if cause.probability >= _WORTH)
        if self.normal is not True:
            return found
        reasons = (
            tuple(f"{name}: {ratio:.2g} times like systems" for name, ratio in self.readings[0].ranges)
            if self.readings
            else ()
        )
        return (Cause(code="normal", probability=self.normal_odds or 0.0, for_=reasons, against=()), *found)

    @property
    def worst(self) -> Reading | None:
        """Return the reading that lies furthest from its yardstick."""
        return self.readings[0] if self.readings else None


def examined(
    curves: Sequence[CurveFit], known: Known | None, clues: Sequence[Clue], more: Sequence[Cause] = ()
) -> tuple[tuple[Reading, ...], float | None, tuple[Cause, ...]]:
    """Return the readings of curves, the probability that they are normal, and the causes, best first.

    `more` are causes that other evidence than curves names.
    """
    cases, readings = [], []
    for curve in curves:
        measure = yardstick(curve, known) if known is not None else None
        if known is None or measure is None:
            if known is not None and (ceiling := bus_ceiling(curve, known.system)) is not None:
                readings.append(_reading(curve, None, ceiling))
            continue
        ceiling = bus_ceiling(curve, known.system)
        impossible = ceiling is not None and _fastest(curve) > _TWICE * ceiling
        case = Case.of(curve, measure, across=is_across(curve, known.system), impossible=impossible)
        cases.append(case)
        readings.append(_reading(curve, case, ceiling))
    if not cases:
        return tuple(readings), None, tuple(sorted([*_of_clues(clues), *more], key=lambda cause: -cause.probability))
    odds, causes = weighed(cases, clues)
    taken = {cause.code for cause in causes}
    rest = [cause for cause in _of_clues(clues) if cause.code not in taken]
    readings.sort(key=lambda reading: reading.share_of_measured or math.inf)
    known_more = {cause.code for cause in more}
    kept = [cause for cause in causes if cause.code not in known_more]
    return tuple(readings), odds, tuple(sorted([*kept, *rest, *more], key=lambda cause: -cause.probability))


def _of_clues(clues: Sequence[Clue]) -> list[Cause]:
    """Return the causes that the text of logs alone speaks for."""
    found = []
    for code in dict.fromkeys(clue.code for clue in clues):
        weight = sum(clue.weight for clue in clues if clue.code == code)
        odds = _PRIOR * math.exp(weight)
        if weight >= LIKELY / 2.0:
            texts = tuple(clue.text for clue in clues if clue.code == code and clue.weight > 0)
            against = tuple(clue.text for clue in clues if clue.code == code and clue.weight < 0)
            found.append(Cause(code=code, probability=odds / (1.0 + odds), for_=texts, against=against))
    return found


def _reading(curve: CurveFit, case: Case | None, ceiling: float | None) -> Reading:
    """Return the two numbers of a curve."""
    key = curve.series.key
    sizes, times = curve.fitted_points
    found: dict[str, float | None] = {}
    top = sizes >= sizes[-1] / 4.0
    if sizes[-1] > _LARGE_BYTES and key.op is not None and key.ranks:
        found |= {"bus_bytes_per_s": _bus(curve, times, top), "ceiling_bytes_per_s": ceiling}
        if case is not None:
            expected = _bus(curve, case.yardstick.times_s, top)
            width = math.exp(Z80 * math.sqrt(float(case.covariance[-1, -1])))
            found |= {"expected_bytes_per_s": expected, "low_bytes_per_s": expected / width}
            found["high_bytes_per_s"] = min(expected * width, max(ceiling or math.inf, expected))
    if sizes[0] <= _SMALL_BYTES:
        low = sizes <= max(float(sizes[0]), 2048.0)
        found["floor_s"] = float(np.median(times[low]))
        found["expected_floor_s"] = float(np.median(case.yardstick.times_s[low])) if case is not None else None
    return Reading(
        curve=str(key),
        like=case.yardstick.like if case is not None else "",
        kind=case.yardstick.kind if case is not None else "",
        ranges=tuple((each.name, each.ratio) for each in case.ranges) if case is not None else (),
        **found,
    )


def _fastest(curve: CurveFit) -> float:
    """Return the largest bus bandwidth [bytes/s] of a curve."""
    sizes, times = curve.fitted_points
    key = curve.series.key
    return float(np.max(busbw(key.op, sizes, times, float(key.ranks or 1)))) if key.op is not None else 0.0


def _bus(curve: CurveFit, times: np.ndarray, top: np.ndarray) -> float:
    """Return the bus bandwidth [bytes/s] of the largest sizes."""
    key, (sizes, _) = curve.series.key, curve.fitted_points
    ranks = float(key.ranks or 1)
    return float(np.median(np.asarray(busbw(key.op, sizes[top], times[top], ranks))))  # type: ignore[arg-type]


def says(code: str) -> str:
    """Return a cause in words."""
    return ADVICE[code].says
