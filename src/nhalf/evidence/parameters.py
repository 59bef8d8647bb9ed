"""The latency and the bandwidth of one segment of a sweep, each with the interval of every doubt about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.evidence.intervals import Doubt, Estimate, estimate, inverted, noise_draws
from nhalf.evidence.lines import line_times, robust_line

if TYPE_CHECKING:
    from nhalf.curve import Line
    from nhalf.evidence.segments import Segment
    from nhalf.evidence.series import Series

VAGUE: Final = 0.5
"""An interval of noise wider than plus or minus half of the value is no measurement of it."""
_UNBOUNDED: Final = 1.0
"""An interval as wide as the value either way reaches 0, so the value or its inverse has no bound."""
_ENOUGH_RUNS: Final = 3


def latency(series: Series, segment: Segment, line: Line | None = None) -> Estimate:
    """Return the latency [s] of a segment; the one `line` through the whole sweep, where given, is a doubt too."""
    others, doubt = _others(series, segment)
    systematic: dict[str, float | None] = {name: other.latency_s for name, other in others.items()}
    return estimate(
        segment.latency_s,
        {name: alphas for name, (alphas, _) in noise_draws(doubt).items()},
        systematic if line is None else {**systematic, "one line": line.latency_s},
    )


def bandwidth(series: Series, segment: Segment, line: Line | None = None) -> Estimate:
    """Return the bandwidth [bytes/s] of a segment; the one `line`, where given, is a doubt too."""
    others, doubt = _others(series, segment)
    systematic: dict[str, float | None] = {name: 1.0 / other.bandwidth_bytes_per_s for name, other in others.items()}
    found = estimate(
        1.0 / segment.bandwidth_bytes_per_s,
        {name: inverses for name, (_, inverses) in noise_draws(doubt).items()},
        systematic if line is None else {**systematic, "one line": 1.0 / line.bandwidth_bytes_per_s},
    )
    return inverted(found)


def too_vague(found: Estimate, name: str) -> str:
    """Return why a value is not in the data, or nothing where it is."""
    if found.noise <= VAGUE:
        return ""
    if found.noise >= _UNBOUNDED:
        return f"the noise alone leaves {name} unbounded"
    return f"the noise alone leaves {name} an interval of {100 * found.noise:.2g} % either way"


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
