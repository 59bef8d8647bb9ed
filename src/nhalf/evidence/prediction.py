"""Predictions from measured curves with their 80 % band: between sizes, outside them, and at ranks nobody measured.

The widths of the band were calibrated on 535 curves of 8 systems (collectives of aiconfigurator-core 0.12.0) by leaving
sizes or ranks out and taking the 80 % quantile of |ln predicted - ln measured|; `tests/bench/fit_study.py` prints
how often the bands hold. Reference for the idea: V. Vovk, A. Gammerman and G. Shafer, "Algorithmic Learning in a Random
World" (2005), split-conformal prediction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.collective import Mode, Op
from nhalf.evidence.surface import Surface, sent_share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.breakdown import Array
    from nhalf.evidence.curvefit import CurveFit

_NOISE, _NOISE_EAGER = 0.016, 0.035  # half-width at a measured size [ln]: the noise of one point, more with the host
_TO_80: Final = 1.2816  # standard deviations to the ends of an 80 % interval
_BEND, _BEND_POWER = 0.2, 0.75  # half-width = bend x W^power, W as in `_bend`
_HELD, _HELD_GROWTH = 0.03, 0.03  # beyond a floor or a ceiling that was seen, and more for each doubling
_BELOW, _BELOW_POWER = 0.35, 0.6  # below a sweep that never saw its floor
_ABOVE_FLAT, _ABOVE_SLOPE, _ABOVE_POWER = 0.1, 0.4, 0.75  # above a sweep that never saw its ceiling
_TOWARDS_CEILING: Final = 0.16  # above such a sweep, when the link's bandwidth is known
# At other ranks: half-width = first x the spread of the shared surface + second x what its base misses at that size.
_BETWEEN_RANKS, _BEYOND_RANKS = (0.8, 0.45), (1.5, 1.1)

_CEILING_SIZES: Final = (2.0**28, 2.0**30)  # [bytes] where a curve has reached its ceiling
_CEILING_SPREAD: Final = 0.15  # [ln] of the efficiency below
_EFFICIENCY: Final[Mapping[bool, Mapping[int, float]]] = {
    True: {2: 0.63, 4: 0.72, 8: 0.81},
    False: {2: 0.50, 4: 0.63, 8: 0.70},
}
"""Bus bandwidth of the largest messages over the link's data-sheet bandwidth, by ranks: all-reduce, then the others.
Medians over NVLink systems A100 to GB200 of the curves named above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """ln of the time and the half-width of its band [ln], for every size asked."""

    log_time: Array
    half: Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """One measured curve as a predictor. `link_bandwidth_bytes_per_s` is that of the link, where it is known."""

    fit: CurveFit
    link_bandwidth_bytes_per_s: float | None = None

    @property
    def ranks(self) -> float:
        """Return the ranks of the curve."""
        return float(self.fit.series.key.ranks or 1)

    def answer(self, sizes_bytes: Array) -> Answer:
        """Return the time at each size [bytes], and its band."""
        sizes, times = self.fit.fitted_points
        log_time, _ = self._surface.log_time(sizes_bytes, self.each(sizes_bytes))
        half = self._noise + _bend(np.log(sizes), np.log(times), np.log(sizes_bytes))
        below, above = sizes_bytes < sizes[0], sizes_bytes > sizes[-1]
        if below.any():
            log_time[below], half[below] = self._below(sizes_bytes[below], log_time[below])
        if above.any():
            log_time[above], half[above] = self._above(sizes_bytes[above], log_time[above])
        return Answer(log_time=log_time, half=half)

    @cached_property
    def _noise(self) -> float:
        known = _NOISE_EAGER if self.fit.series.key.mode is Mode.EAGER else _NOISE
        return max(known, _TO_80 * self.fit.repeat_noise)

    @cached_property
    def _surface(self) -> Surface:
        sizes, times = self.fit.fitted_points
        noise = np.full(len(sizes), self.fit.repeat_noise)
        ceiling = self._ceiling
        if ceiling is not None:
            known = np.array([size for size in _CEILING_SIZES if size > 4 * sizes[-1]])
            sizes, times = np.append(sizes, known), np.append(times, times.min() + known / ceiling)
            noise = np.append(noise, np.full(len(known), _CEILING_SPREAD))
        return Surface(
            ranks=self.each(sizes), sizes_bytes=sizes, times_s=times, noise=noise, doubled=False, shared=False
        )

    @cached_property
    def _ceiling(self) -> float | None:
        """Return the bandwidth [bytes/s] that large messages should reach, when the sweep did not see it itself."""
        link, op = self.link_bandwidth_bytes_per_s, self.fit.series.key.op
        if link is None or not self.fit.bandwidth_refusal or self.ranks < 2 or op is None:  # noqa: PLR2004  one sends nothing
            return None
        doubled = op is Op.ALL_REDUCE
        known = _EFFICIENCY[doubled]
        efficiency = float(np.interp(np.log2(self.ranks), np.log2(list(known)), list(known.values())))
        return efficiency * link / float(sent_share(np.array(self.ranks), doubled=doubled))

    def each(self, sizes_bytes: Array) -> Array:
        """Return the ranks once for every size."""
        return np.full(len(sizes_bytes), self.ranks)

    def _below(self, asked: Array, log_time: Array) -> tuple[Array, Array]:
        doublings = np.log2(self.fit.fitted_points[0][0] / asked)
        if not self.fit.latency_refusal:
            floor = np.full(len(asked), math.log(self.fit.floor_s or 1.0))
            return floor, self._noise + _HELD + _HELD_GROWTH * doublings
        return log_time, self._noise + _BELOW * doublings**_BELOW_POWER

    def _above(self, asked: Array, log_time: Array) -> tuple[Array, Array]:
        sizes, times = self.fit.fitted_points
        doublings = np.log2(asked / sizes[-1])
        if not self.fit.bandwidth_refusal:
            line = np.log(self.fit.segments[-1].times_s(asked))
            return (line + log_time) / 2.0, self._noise + _HELD + _HELD_GROWTH * doublings
        if self._ceiling is not None:
            return log_time, np.full(len(asked), self._noise + _TOWARDS_CEILING)
        last = slice(-3, None)
        slope = float(np.polyfit(np.log(sizes[last]), np.log(times[last]), 1)[0])
        width = _ABOVE_FLAT + _ABOVE_SLOPE * min(max(1.0 - slope, 0.0), 1.0)
        return log_time, self._noise + width * doublings**_ABOVE_POWER


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """The curves of one operation at several rank counts inside one locality domain, for ranks between and beyond."""

    curves: Sequence[Curve]

    def answer(self, sizes_bytes: Array, ranks: int) -> Answer:
        """Return the time at each size [bytes] on a rank count that was not measured, and its band."""
        asked = np.full(len(sizes_bytes), float(ranks))
        log_time, spread = self._surface.log_time(sizes_bytes, asked)
        measured = [curve.ranks for curve in self.curves]
        inside = min(measured) < ranks < max(measured)
        nearest = min(self.curves, key=lambda curve: abs(math.log(curve.ranks / ranks)))
        # What is not known of the nearest measured curve at this size is not known here either.
        own = nearest.answer(sizes_bytes).half
        missed = np.max([np.abs(self._surface.residual(sizes_bytes, c.each(sizes_bytes))) for c in self.curves], axis=0)
        of_spread, of_missed = _BETWEEN_RANKS if inside else _BEYOND_RANKS
        return Answer(log_time=log_time, half=own + of_spread * spread + of_missed * missed)

    @cached_property
    def _surface(self) -> Surface:
        parts = [curve.fit.fitted_points for curve in self.curves]
        ranks = [
            np.full(len(sizes), float(c.fit.series.key.ranks or 1))
            for c, (sizes, _) in zip(self.curves, parts, strict=True)
        ]
        noise = [np.full(len(sizes), c.fit.repeat_noise) for c, (sizes, _) in zip(self.curves, parts, strict=True)]
        return Surface(
            ranks=np.concatenate(ranks),
            sizes_bytes=np.concatenate([sizes for sizes, _ in parts]),
            times_s=np.concatenate([times for _, times in parts]),
            noise=np.concatenate(noise),
            doubled=self.curves[0].fit.series.key.op is Op.ALL_REDUCE,
            shared=True,
        )


def band(answer: Answer) -> tuple[Array, Array, Array]:
    """Return the time [s] and the two ends of its 80 % band."""
    return (
        np.exp(answer.log_time),
        np.exp(answer.log_time - answer.half),
        np.exp(answer.log_time + answer.half),
    )


def _bend(known: Array, log_times: Array, asked: Array) -> Array:
    """Return how much the curve may bend between the measured sizes around each asked one, as a half-width [ln].

    Between two sizes that are g apart [ln] and whose times rise by L [ln], the curve lies near one of its asymptotes
    when L is near 0 (the floor) or near g (the ceiling); W = min(|L|, |g - L|) says how far from both it may be.
    """
    right = np.clip(np.searchsorted(known, asked), 1, len(known) - 1)
    gap = known[right] - known[right - 1]
    rise = log_times[right] - log_times[right - 1]
    room = np.minimum(np.abs(rise), np.abs(gap - rise))
    share = np.clip((asked - known[right - 1]) / gap, 0.0, 1.0)
    middle: Array = np.sqrt(4.0 * share * (1.0 - share))
    return _BEND * room**_BEND_POWER * middle
