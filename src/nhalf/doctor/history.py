"""History: the same collective over time, and where its level changed, with the library's version on both sides."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.quantiles import TO_SIGMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.breakdown import Array
    from nhalf.evidence.curvefit import CurveFit

_LEAST, _SIGMAS = math.log(1.1), 4.0
"""A change is a tenth and more, and beyond four robust standard deviations of the runs on both sides."""
_BEFORE_ONE, _SIGMAS_OF_ONE = 4, 6.0
"""The last run alone is told from at least so many before it, and needs more deviations."""
_FLATTEST: Final = 0.01
"""Runs of one machine scatter by at least a hundredth [log]."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dated:
    """A curve with the day [ISO] that it was measured on, and the library's version as far as it is known."""

    day: str
    version: str
    curve: CurveFit


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of level: from `day` on, `value` (a floor, a bandwidth) is `ratio` times what it was before.

    The versions on both sides are there where they differ, else None.
    """

    curve: str
    value: str
    day: str
    ratio: float
    runs_before: int
    runs_after: int
    version_before: str | None = None
    version_after: str | None = None


def changes(runs: Sequence[Dated]) -> list[Change]:
    """Return every change of level of floor and bandwidth, curve by curve, in the order of days."""
    alike: dict[str, list[Dated]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.day):
        alike[_name(run.curve)].append(run)
    found = []
    for name, same in alike.items():
        for value in ("floor", "bandwidth"):
            known = [(run, number) for run in same if (number := _value(run.curve, value)) is not None]
            logs = np.log([number for _, number in known])
            found += [_change(name, value, known, logs, place) for place in _splits(logs, 0)]
    return found


def _name(curve: CurveFit) -> str:
    return str(replace(curve.series.key, label=""))


def _value(curve: CurveFit, value: str) -> float | None:
    if value == "floor":
        return None if curve.latency_refusal else curve.floor_s
    return curve.bandwidth.value if curve.bandwidth is not None else None


def _splits(logs: Array, start: int) -> list[int]:
    """Return the places of changes: the best split, where it is one, and those on both of its sides."""
    best, shift = 0, 0.0
    least = math.inf
    for place in range(1, len(logs)):
        one, other = logs[:place], logs[place:]
        cost = float(np.abs(one - np.median(one)).sum() + np.abs(other - np.median(other)).sum())
        last = len(logs) - 1 == place >= _BEFORE_ONE
        if (min(place, len(logs) - place) > 1 or last) and cost < least:
            best, least, shift = place, cost, float(np.median(other) - np.median(one))
    if not best:
        return []
    rest = np.concatenate([logs[:best] - np.median(logs[:best]), logs[best:] - np.median(logs[best:])])
    noise = max(TO_SIGMA * float(np.median(np.abs(rest))), _FLATTEST)
    if abs(shift) <= max(_LEAST, (_SIGMAS if best < len(logs) - 1 else _SIGMAS_OF_ONE) * noise):
        return []
    return [*_splits(logs[:best], start), start + best, *_splits(logs[best:], start + best)]


def _change(name: str, value: str, known: Sequence[tuple[Dated, float]], logs: Array, place: int) -> Change:
    """Return the change before the run at a place."""
    versions = [run.version for run, _ in known]
    before, after = versions[place - 1], versions[place]
    same = before == after or not (before and after)
    return Change(
        curve=name, value=value, day=known[place][0].day,
        ratio=math.exp(float(np.median(logs[place:]) - np.median(logs[:place]))),
        runs_before=place, runs_after=len(known) - place,
        version_before=None if same else before, version_after=None if same else after,
    )  # fmt: skip
