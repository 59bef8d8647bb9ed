"""Drift: whether steps take longer than before at the same load, by a sequential test with a rate of false alarms.

A regression of the step on what the load explains (batch, tokens in the cache and of prompts) learns from windows that
lie back; each new window is predicted with the doubt about that, and the standardised surprises are added up. Where the
load goes where it never was, the doubt is wide, and no alarm comes of it.

References
----------
E. Page, "Continuous inspection schemes", Biometrika 41 (1954): the cumulative sum. D. Siegmund, "Sequential Analysis"
(1985), section 2.6: the mean number of observations to a false alarm, of which the limit is made.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.quantiles import TO_SIGMA, Z80

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.breakdown import Array

DAYS: Final = 7.0
"""The mean time between false alarms that the test is set to, if surprises are normal [days]."""
LEAST: Final = 0.02
"""A change of less than this share of a step is none that anybody acts on."""
_SHIFT: Final = 1.0
"""The change that the test is quickest at, in standard deviations of a window."""
_CLIP: Final = 3.0
"""One window counts for so many standard deviations at most: one that went wrong is no drift."""
_BACK: Final = 24
"""Windows that are waited for before the regression learns from one: a change is in none of them when it is found."""
_LEARN: Final = 30
"""Windows after which the test begins."""
_MEMORY: Final = 2000.0
"""Windows that the regression remembers: it follows what changes within hours."""
_RECENT: Final = 1500
"""Windows whose surprises say how large surprises are."""
_CORRECTION: Final = 1.166
"""What a discrete cumulative sum overshoots its limit by on both ends together (Siegmund)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """A change of the step that the load does not explain: `excess_s` with its 80 % range, since a time [s]."""

    since: float
    found: float
    excess_s: float
    low_s: float
    high_s: float


def limit(windows: float, shift: float = _SHIFT) -> float:
    """Return the limit of a one-sided cumulative sum that is reached by chance once in so many windows."""
    low, high = 0.0, 60.0
    for _ in range(60):
        middle = (low + high) / 2
        reach = shift * (middle + _CORRECTION)
        low, high = (middle, high) if 2 * (math.exp(reach) - reach - 1) / shift**2 < windows else (low, middle)
    return high


@dataclass(slots=True, eq=False)
class Regression:
    """A linear regression that learns window by window and forgets: `mean` and `spread` of its coefficients."""

    mean: Array
    spread: Array
    noise: float

    def expected(self, given: Array) -> tuple[float, float]:
        """Return the value at some inputs, and the variance of its doubt in units of the noise's."""
        return float(given @ self.mean), float(given @ self.spread @ given)

    def learn(self, given: Array, value: float) -> None:
        """Learn from one window (recursive least squares with a memory: what has no part in a window stays known)."""
        part = given != 0
        self.spread = self.spread * np.where(part[:, None] & part, 1.0 + 1.0 / _MEMORY, 1.0)
        toward = self.spread @ given
        gain = toward / (1.0 + float(given @ toward))
        self.mean = self.mean + gain * (value - float(given @ self.mean))
        self.spread = self.spread - np.outer(gain, toward)


@dataclass(slots=True, eq=False)
class _Seen:
    """A window that waits to be learnt from, as far as its surprise counts."""

    at: float
    given: Array
    value: float
    off: float


@dataclass(slots=True, eq=False)
class Drift:
    """The test of one server: `add` a window, read `shifts`.

    `prior` and `doubts` are what the coefficients are before anything is learnt, `scale` a step [s]; `every` is the
    time between windows [s], of which the limit is made.
    """

    prior: Sequence[float]
    doubts: Sequence[float]
    scale: float
    every: float
    shifts: list[Shift] = field(default_factory=list)
    _seen: deque[_Seen] = field(default_factory=deque)
    _off: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))
    _count: int = 0
    _up: float = 0.0
    _down: float = 0.0
    _since: dict[str, float] = field(default_factory=dict)
    _fit: Regression = field(init=False)
    _limit: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin with the prior."""
        self._begin(np.asarray(self.prior, dtype=float), np.asarray(self.doubts, dtype=float))
        self._limit = limit(DAYS * 86400.0 / self.every / 2.0)  # two sides

    def _begin(self, mean: Array, doubts: Array, noise: float = 0.02) -> None:
        self._fit = Regression(mean=mean, spread=np.diag((doubts / noise) ** 2), noise=noise)

    @property
    def coefficients(self) -> Array:
        """Return what was learnt of each input, in units of `scale`."""
        return self._fit.mean

    def add(self, at: float, given: Sequence[float], value_s: float) -> Shift | None:
        """Take a window's inputs and its step [s]; return a change, where it proves one."""
        inputs, value = np.asarray(given, dtype=float), value_s / self.scale
        self._count += 1
        if self._count <= _LEARN:
            self._fit.learn(inputs, value)
            if self._count == _LEARN:
                self._off.clear()
            return None
        expected, doubt = self._fit.expected(inputs)
        off = (value - expected) / math.sqrt(1.0 + doubt)
        noise = self._noise()
        most = _CLIP * noise * math.sqrt(1.0 + doubt)
        self._seen.append(_Seen(at, inputs, expected + max(min(value - expected, most), -most), value - expected))
        surprise = max(min(off / noise, _CLIP), -_CLIP)
        self._off.append(off)
        # What is not known of the regression is common to all windows, and adds up with them as a drift would.
        shared = Z80 * math.sqrt(doubt) * self._fit.noise / noise
        self._up = self._sum(self._up, surprise - shared, "up", at)
        self._down = self._sum(self._down, -surprise - shared, "down", at)
        if max(self._up, self._down) > self._limit and (found := self._proved(at, noise)) is not None:
            return found
        # Of a sum that neither grows nor ends, what it holds is learnt at last.
        calm = max(self._up, self._down) < self._limit / 2
        if len(self._seen) > (_BACK if calm else 4 * _BACK):
            old = self._seen.popleft()
            self._fit.learn(old.given, old.value)
        return None

    def _noise(self) -> float:
        """Return the standard deviation of surprises, wider where windows err together (their lag-1 correlation)."""
        recent = np.asarray(self._off)
        if len(recent) < _LEARN:
            return max(self._fit.noise, float(np.median(np.abs(recent))) * TO_SIGMA if len(recent) else 0.0)
        sigma = max(float(np.median(np.abs(recent))) * TO_SIGMA, 1e-3)
        clipped = np.clip(recent, -_CLIP * sigma, _CLIP * sigma)
        sigma = max(float(np.std(clipped)), 1e-3)
        together = float(np.mean(clipped[1:] * clipped[:-1]) / np.mean(clipped**2))
        together = min(max(together, 0.0), 0.9)
        return sigma * math.sqrt((1.0 + together) / (1.0 - together))

    def _sum(self, before: float, surprise: float, side: str, at: float) -> float:
        """Return a cumulative sum with one more surprise, and keep when it left zero."""
        now = max(before + surprise - _SHIFT / 2, 0.0)
        if now > 0 and before <= 0:
            self._since[side] = at
        return now

    def _proved(self, at: float, noise: float) -> Shift | None:
        """Return the change that a sum over its limit proves; one too small to act on is learnt instead."""
        side = "up" if self._up > self._limit else "down"
        since = self._since[side]
        off = np.array([each.off for each in self._seen if each.at >= since])
        excess = float(np.median(off))
        doubt = [self._fit.expected(each.given)[1] for each in self._seen if each.at >= since]
        width = Z80 * noise * math.sqrt(1.0 / len(off) + float(np.mean(doubt)))
        if abs(excess) < LEAST:
            for each in self._seen:
                self._fit.learn(each.given, each.value)
            self._restart()
            return None
        found = Shift(since=since, found=at, excess_s=excess * self.scale, low_s=(excess - width) * self.scale,
                      high_s=(excess + width) * self.scale)  # fmt: skip
        self.shifts.append(found)
        self._fit.mean = self._fit.mean + np.eye(len(self._fit.mean))[0] * excess
        self._fit.spread[0, 0] += (max(abs(excess), 0.02) / self._fit.noise) ** 2
        self._restart()
        return found

    def _restart(self) -> None:
        """Begin both sums anew."""
        self._seen.clear()
        self._up = self._down = 0.0
