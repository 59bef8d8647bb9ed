"""The latency and the bandwidth of one segment of a sweep, each with the interval of every doubt about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.evidence.identify import SMALL, largest
from nhalf.evidence.intervals import Doubt, Estimate, estimate, inverted, noise_draws
from nhalf.evidence.lines import line_times, robust_line

if TYPE_CHECKING:
    from nhalf.curve import Line
    from nhalf.evidence.segments import Segment
    from nhalf.evidence.series import Series

_ENOUGH_RUNS: Final = 3
_QUICKEST: Final = 1024.0
"""Up to this size [bytes] every library runs its quickest protocol."""
_WIDEST: Final = 4.0
"""From so many times the size at which a sweep nears its ceiling on, every library runs its widest protocol."""
_BELOW, _ABOVE = 0.19, 0.35
"""Beyond the sizes that were run a library may have a quicker or a wider protocol: exponents of how many times, against
how far the sizes stop short. They are the 2.5 % and 97.5 % quantiles of 250 measured curves (collectives of
aiconfigurator-core 0.12.0), of which three sizes were left."""


def latency(series: Series, segment: Segment, line: Line | None = None, *, seen: bool = True) -> Estimate:
    """Return the latency [s] of a segment; the one `line` through the whole sweep, where given, is a doubt too.

    Unless the floor was `seen`, it may be anywhere up to the smallest time, and as many times below; a floor of large
    sizes may be that of a slower protocol.
    """
    others, doubt = _others(series, segment)
    values = {name: [other.latency_s] for name, other in others.items()}
    if line is not None:
        values["one line"] = [line.latency_s]
    smallest = float(doubt.sizes_bytes[0])
    if not seen or smallest > SMALL:
        nearest = segment.latency_s if seen else float(doubt.times_s.min())
        further = max(smallest / _QUICKEST, 1.0) ** _BELOW
        values["sizes off the floor"] = _either_way(segment.latency_s, nearest, further)
    return estimate(segment.latency_s, {name: alphas for name, (alphas, _) in noise_draws(doubt).items()}, values)


def bandwidth(series: Series, segment: Segment, line: Line | None = None, *, seen: bool = True) -> Estimate:
    """Return the bandwidth [bytes/s] of a segment; the one `line`, where given, is a doubt too.

    Unless the ceiling was `seen`, it is at least what the largest size reached, and may be as many times above.
    """
    others, doubt = _others(series, segment)
    values = {name: [1.0 / other.bandwidth_bytes_per_s] for name, other in others.items()}
    if line is not None:
        values["one line"] = [1.0 / line.bandwidth_bytes_per_s]
    inverse = 1.0 / segment.bandwidth_bytes_per_s
    if not seen:
        further = max(_WIDEST * largest(series) / float(doubt.sizes_bytes[-1]), 1.0) ** _ABOVE
        values["sizes off the ceiling"] = _either_way(
            inverse, float((doubt.times_s / doubt.sizes_bytes).min()), further
        )
    return inverted(estimate(inverse, {name: inverses for name, (_, inverses) in noise_draws(doubt).items()}, values))


def _either_way(value: float, nearest: float, further: float) -> list[float]:
    """Return how far a value carried on from the `nearest` one seen may be: so far again, or `further`."""
    return [max(nearest, value), value * min(value / nearest, 1.0 / further)]


def _doubt(series: Series, segment: Segment) -> Doubt:
    index = np.nonzero(series.good)[0][segment.points]
    sizes, times = series.sizes_bytes[index], series.times_s[index]
    line, weights = robust_line(sizes, times)
    return Doubt(
        sizes_bytes=sizes,
        times_s=times,
        fitted_s=line_times(line, sizes),
        weights=weights,
        low_s=series.low_s[index],
        high_s=series.high_s[index],
        runs=tuple(series.runs[i] for i in index),
    )


def _others(series: Series, segment: Segment) -> tuple[dict[str, Line], Doubt]:
    """Return the lines through a segment's in-place times and fastest runs, and the doubts about its own line."""
    doubt = _doubt(series, segment)
    found: dict[str, Line] = {}
    index = np.nonzero(series.good)[0][segment.points]
    if np.isfinite(series.in_place_s[index]).all():
        found["in place"] = robust_line(doubt.sizes_bytes, series.in_place_s[index])[0]
    if series.repeats >= _ENOUGH_RUNS:
        found["fastest run"] = robust_line(doubt.sizes_bytes, np.array([run.min() for run in doubt.runs]))[0]
    return found, doubt
