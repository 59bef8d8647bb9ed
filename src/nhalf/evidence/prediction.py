"""Predictions from measured curves with their 80 % band: between sizes, outside them, and at ranks nobody measured.

The widths that a catalogue's curve has too, and how they were found, are in `nhalf.curve.spread`; those of sweeps that
stop early were found in the same way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.collective import Op
from nhalf.curve import spread
from nhalf.curve.surface import INSIDE, OUTSIDE, SHARED, Form, Surface, sent_share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.breakdown import Array
    from nhalf.evidence.curvefit import CurveFit

_BELOW, _BELOW_POWER = 0.35, 0.6  # below a sweep that never saw its floor
_ABOVE_FLAT, _ABOVE_SLOPE, _ABOVE_POWER = 0.1, 0.4, 0.75  # above a sweep that never saw its ceiling
_TOWARDS_CEILING: Final = 0.16  # above such a sweep, when the link's bandwidth is known
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
        log_time = self._inside.log_time(sizes_bytes, self.each(sizes_bytes))[0]
        half = self._noise + spread.bend(np.log(sizes), np.log(times), np.log(sizes_bytes))
        for beyond, extended in ((sizes_bytes < sizes[0], self._below), (sizes_bytes > sizes[-1], self._above)):
            if beyond.any():
                asked = sizes_bytes[beyond]
                carried = self._outside.log_time(asked, self.each(asked))[0]
                log_time[beyond], half[beyond] = extended(asked, carried)
        return Answer(log_time=log_time, half=half)

    @cached_property
    def _noise(self) -> float:
        return spread.noise(self.fit.series.key.mode, self.fit.repeat_noise)

    @cached_property
    def _inside(self) -> Surface:
        sizes, times = self.fit.fitted_points
        return self._through(sizes, times, np.full(len(sizes), self.fit.repeat_noise), INSIDE)

    @cached_property
    def _outside(self) -> Surface:
        sizes, times = self.fit.fitted_points
        noise = np.full(len(sizes), self.fit.repeat_noise)
        ceiling = self._ceiling
        if ceiling is not None:
            known = np.array([size for size in _CEILING_SIZES if size > 4 * sizes[-1]])
            sizes, times = np.append(sizes, known), np.append(times, times.min() + known / ceiling)
            noise = np.append(noise, np.full(len(known), _CEILING_SPREAD))
        return self._through(sizes, times, noise, OUTSIDE if ceiling is None else INSIDE)

    def _through(self, sizes: Array, times: Array, noise: Array, form: Form) -> Surface:
        return Surface(ranks=self.each(sizes), sizes_bytes=sizes, times_s=times, noise=noise, doubled=False, form=form)

    @cached_property
    def _ceiling(self) -> float | None:
        """Return the bandwidth [bytes/s] that large messages should reach, when the sweep did not see it itself."""
        link, op = self.link_bandwidth_bytes_per_s, self.fit.series.key.op
        if link is None or self.fit.on_ceiling or self.ranks < 2 or op is None:  # noqa: PLR2004  one sends nothing
            return None
        doubled = op is Op.ALL_REDUCE
        known = _EFFICIENCY[doubled]
        efficiency = float(np.interp(np.log2(self.ranks), np.log2(list(known)), list(known.values())))
        return efficiency * link / float(sent_share(np.array(self.ranks), doubled=doubled))

    def each(self, sizes_bytes: Array) -> Array:
        """Return the number of ranks as an array with one entry a size."""
        return np.full(len(sizes_bytes), self.ranks)

    def _below(self, asked: Array, log_time: Array) -> tuple[Array, Array]:
        doublings = np.log2(self.fit.fitted_points[0][0] / asked)
        if self.fit.on_floor:
            floor = np.full(len(asked), math.log(self.fit.floor_s or 1.0))
            return floor, self._noise + spread.held(doublings)
        return log_time, self._noise + _BELOW * doublings**_BELOW_POWER

    def _above(self, asked: Array, log_time: Array) -> tuple[Array, Array]:
        sizes, times = self.fit.fitted_points
        doublings = np.log2(asked / sizes[-1])
        if self.fit.on_ceiling:
            line = np.log(self.fit.segments[-1].times_s(asked))
            return (line + log_time) / 2.0, self._noise + spread.held(doublings)
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
        log_time, unknown = self._surface.log_time(sizes_bytes, asked)
        nearest = min(self.curves, key=lambda curve: abs(math.log(curve.ranks / ranks)))
        # What is not known of the nearest measured curve at this size is not known here either.
        own = nearest.answer(sizes_bytes).half
        missed = np.max([np.abs(self._surface.residual(sizes_bytes, c.each(sizes_bytes))) for c in self.curves], axis=0)
        return Answer(
            log_time=log_time, half=own + spread.other_ranks(unknown, missed, self._apart(sizes_bytes, ranks))
        )

    def _apart(self, sizes_bytes: Array, ranks: int) -> Array | None:
        """Return how far the times of the measured ranks on either side differ [ln], or None beyond all of them."""
        below = [curve for curve in self.curves if curve.ranks < ranks]
        above = [curve for curve in self.curves if curve.ranks > ranks]
        if not below or not above:
            return None
        low, high = max(below, key=lambda curve: curve.ranks), min(above, key=lambda curve: curve.ranks)
        return np.abs(high.answer(sizes_bytes).log_time - low.answer(sizes_bytes).log_time)

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
            form=SHARED,
        )


def band(answer: Answer) -> tuple[Array, Array, Array]:
    """Return the time [s] and the two ends of its 80 % band."""
    return (
        np.exp(answer.log_time),
        np.exp(answer.log_time - answer.half),
        np.exp(answer.log_time + answer.half),
    )
