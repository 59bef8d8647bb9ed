"""The fit of one series: floor, latency, bandwidth, n_1/2, segments, each with its interval or its refusal."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf.evidence import identify, parameters
from nhalf.evidence.intervals import Estimate, median_spread
from nhalf.evidence.lines import robust_line
from nhalf.evidence.segments import Segment, Switch, modelled, split, switches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.breakdown import Array
    from nhalf.curve import Line
    from nhalf.evidence.series import Series
    from nhalf.evidence.table import Figure, Note

_DOUBLE: Final = 2.0
_WIDEST_GAP: Final = 16.0
"""Between two sizes this many times apart a line of log against log misses the doubling of alpha + n / beta by up to a
third (sizes at n_1/2 / 4 and 4 n_1/2: 0.64 n_1/2); further apart nothing is said but the two sizes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CurveFit:
    """What was fitted to one series, and the reason for each value that it does not hold.

    `latency` [s] is the fixed time of the whole operation, from the first segment; `bandwidth` [bytes/s] counts the
    size column, from the last; each is None when its refusal says why: its interval is open or wider than a decade,
    and `limits` hold what it still says of both (low and high). `on_floor` and `on_ceiling` tell whether the sweep saw
    them. `floor_s` [s] is the smallest time of the segments. `line` is the best single line, with its misfit. `notes`
    say what else to know, and `misconfigured` that the numbers describe software rather than a link, so that n_1/2 is
    no advice.
    """

    series: Series
    segments: tuple[Segment, ...] = ()
    line: Line | None = None
    latency: Estimate | None = None
    bandwidth: Estimate | None = None
    latency_refusal: str = ""
    bandwidth_refusal: str = ""
    limits: Mapping[str, Estimate] = field(default_factory=dict)
    on_floor: bool = False
    on_ceiling: bool = False
    floor_s: float | None = None
    misconfigured: bool = False
    notes: tuple[Note, ...] = field(default=())

    @property
    def fitted_points(self) -> tuple[Array, Array]:
        """Return sizes [bytes] and times [s] without the spikes."""
        good = self.series.good
        return self.series.sizes_bytes[good], self.series.times_s[good]

    @property
    def half_size_bytes(self) -> float | None:
        """Return n_1/2 = latency x bandwidth [bytes], where both are in the data."""
        if self.latency is None or self.bandwidth is None:
            return None
        return self.latency.value * self.bandwidth.value

    @property
    def half_size_interval_bytes(self) -> tuple[float, float] | None:
        """Return the 95 % interval of n_1/2 [bytes]: that of a product of two values whose errors are independent."""
        half, latency, bandwidth = self.half_size_bytes, self.latency, self.bandwidth
        if half is None or latency is None or bandwidth is None:
            return None
        if latency.low is None or latency.high is None or bandwidth.low is None or bandwidth.high is None:
            return None
        if latency.low <= 0.0:
            return None
        low = math.hypot(math.log(latency.value / latency.low), math.log(bandwidth.value / bandwidth.low))
        high = math.hypot(math.log(latency.high / latency.value), math.log(bandwidth.high / bandwidth.value))
        return half * math.exp(-low), half * math.exp(high)

    @property
    def double_floor_between_bytes(self) -> tuple[float, float] | None:
        """Return the two measured sizes [bytes] between which the time passes twice the floor for the last time."""
        found = self._doubling()
        sizes, _ = self.fitted_points
        return None if found is None else (float(sizes[found]), float(sizes[found + 1]))

    @property
    def double_floor_size_bytes(self) -> float | None:
        """Return the size [bytes] above which the curve stays above twice its floor, if the sweep shows it.

        It needs no model: the last crossing of twice the floor, on the straight line in log-log between two points,
        unless these are more than 16 times apart.
        """
        last = self._doubling()
        if last is None or self.floor_s is None:
            return None
        sizes, times = self.fitted_points
        if sizes[last + 1] > _WIDEST_GAP * sizes[last]:
            return None
        x, y = np.log(sizes), np.log(times)
        share = (math.log(_DOUBLE * self.floor_s) - y[last]) / (y[last + 1] - y[last])
        return float(math.exp(x[last] + share * (x[last + 1] - x[last])))

    def _doubling(self) -> int | None:
        """Return the index of the last point within twice the floor; None when no later point exceeds it."""
        if self.floor_s is None or self.latency is None or self.latency.value < identify.OWN_SHARE * self.floor_s:
            return None
        _, times = self.fitted_points
        below = np.nonzero(times <= _DOUBLE * self.floor_s)[0]
        return None if not len(below) or below[-1] == len(times) - 1 else int(below[-1])

    @property
    def switches(self) -> tuple[Switch, ...]:
        """Return where the algorithm or protocol switches: between which two segments, with the 95 % interval."""
        return switches(*self.fitted_points, self.segments)

    @property
    def segment_estimates(self) -> tuple[tuple[Estimate | None, Estimate | None], ...]:
        """Return the latency [s] and bandwidth [bytes/s] of every segment, None where the noise hides it."""
        return tuple(
            (
                _seen(parameters.latency(self.series, each)) if each.latency_s > 0.0 else None,
                _seen(parameters.bandwidth(self.series, each)) if each.bandwidth_bytes_per_s < math.inf else None,
            )
            for each in self.segments
        )

    @property
    def repeat_noise(self) -> float:
        """Return the relative standard deviation of the median of a point's repeats, 0 when there are none."""
        spreads = [median_spread(run) for run in self.series.runs]
        return float(np.median(spreads)) if spreads else 0.0

    @property
    def point_noise(self) -> float:
        """Return the relative standard deviation of a point: that of its repeats, or that around the segments."""
        sizes, times = self.fitted_points
        if not self.segments or len(times) <= 2 * len(self.segments):
            return self.repeat_noise
        misfit = np.log(times / modelled(self.segments, sizes))
        freedom = len(times) - 2 * len(self.segments)
        return max(self.repeat_noise, math.sqrt(float(misfit @ misfit) / freedom))

    def times_at(self, sizes_bytes: Array) -> Array:
        """Return the times [s] of the segments at some sizes [bytes], or between the points where there are none."""
        sizes, times = self.fitted_points
        found: Array = np.exp(np.interp(np.log(sizes_bytes), np.log(sizes), np.log(times)))
        for segment in self.segments:
            inside = (sizes_bytes >= segment.from_bytes) & (sizes_bytes <= segment.to_bytes)
            found[inside] = segment.times_s(sizes_bytes[inside])
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the fit with the keys of the contract, in SI units; unknown is None."""
        key, line = self.series.key, self.line
        found: dict[str, Any] = {
            "op": key.name or None,
            "ranks": key.ranks,
            "nodes": key.nodes,
            "mode": str(key.mode) if key.mode is not None else None,
            "quantity": key.quantity,
            "label": key.label,
            "dtype": key.dtype,
            "file": key.file,
            "tool": self.series.tool,
            "size_is": self.series.size_is or None,
            "points": self.series.rows,
        }
        for name, unit in (("latency", "s"), ("bandwidth", "bytes_per_s")):
            value = getattr(self, name)
            found |= {
                **_of_estimate(value or self.limits.get(name), name, unit),
                f"{name}_{unit}": value and value.value,
            }
        found |= {
            **_of_interval(self.half_size_bytes, self.half_size_interval_bytes, "half_size"),
            "floor_s": self.floor_s,
            **_of_interval(self.double_floor_size_bytes, self.double_floor_between_bytes, "double_floor_size"),
            "segments": [_of_segment(*each) for each in zip(self.segments, self.segment_estimates, strict=True)],
            "switches": [
                {"size_bytes": each.size_bytes, "low_bytes": each.low_bytes, "high_bytes": each.high_bytes}
                for each in self.switches
            ],
            "misfit_median": line.misfit_median if line else None,
            "misfit_max": line.misfit_max if line else None,
            "identifiable": {"latency": not self.latency_refusal, "bandwidth": not self.bandwidth_refusal},
            "refusals": {"latency": self.latency_refusal or None, "bandwidth": self.bandwidth_refusal or None},
            "notes": [{"code": note.code, "text": note.text} for note in self.notes],
            "skipped": [{"file": s.file, "line": s.line, "why": s.why} for s in self.series.skipped],
        }
        return found


def _seen(found: Estimate) -> Estimate | None:
    return None if identify.is_open(found) else found


def _of_estimate(found: Estimate | None, name: str, unit: str) -> dict[str, Any]:
    return {
        f"{name}_low_{unit}": found.low or None if found else None,
        f"{name}_high_{unit}": found.high if found else None,
        f"{name}_interval_from": found.because or None if found else None,
    }


def _of_interval(value: float | None, ends: tuple[float, float] | None, name: str) -> dict[str, Any]:
    low, high = ends or (None, None)
    return {f"{name}_bytes": value, f"{name}_low_bytes": low, f"{name}_high_bytes": high}


def _of_segment(segment: Segment, found: tuple[Estimate | None, Estimate | None]) -> dict[str, Any]:
    latency, bandwidth = found
    rate = segment.bandwidth_bytes_per_s
    return {
        "from_bytes": segment.from_bytes,
        "to_bytes": segment.to_bytes,
        "latency_s": segment.latency_s,
        "latency_low_s": latency.low if latency else None,
        "latency_high_s": latency.high if latency else None,
        "bandwidth_bytes_per_s": rate if math.isfinite(rate) else None,
        "bandwidth_low_bytes_per_s": bandwidth.low if bandwidth else None,
        "bandwidth_high_bytes_per_s": bandwidth.high if bandwidth else None,
    }


def fit_series(series: Series) -> CurveFit:
    """Return the fit of one series; what it does not hold is refused with the reason, never an error."""
    if not series.good.any() or series.figures:
        return _of_figures(series)
    sizes, times = series.sizes_bytes[series.good], series.times_s[series.good]
    refusal = identify.nothing_to_fit(series)
    if refusal:
        # Several times of one size may be those of several implementations, so the smallest is not their median.
        only = series.runs[int(np.nonzero(series.good)[0][0])]
        floor_s = float(times.min() if len(sizes) > 1 else only.min())
        return CurveFit(series=series, latency_refusal=refusal, bandwidth_refusal=refusal, floor_s=floor_s)
    segments = split(sizes, times)
    line, _ = robust_line(sizes, times)
    floor_s = float(modelled(segments, sizes).min())
    low, high = (seen(series, segments, floor_s) for seen in (identify.on_floor, identify.on_ceiling))
    latency = parameters.latency(series, segments[0], line, seen=low)
    grows = math.isfinite(segments[-1].bandwidth_bytes_per_s)
    bandwidth = parameters.bandwidth(series, segments[-1], line, seen=high) if grows else None
    no_latency = identify.latency_refusal(series, latency)
    no_bandwidth = identify.bandwidth_refusal(series, segments[-1], bandwidth)
    limits = {} if series.streamed else {"latency": latency}
    return CurveFit(
        series=series,
        segments=segments,
        line=line,
        latency=None if no_latency else latency,
        bandwidth=None if no_bandwidth else bandwidth,
        latency_refusal=no_latency,
        bandwidth_refusal=no_bandwidth,
        limits=limits if bandwidth is None else {**limits, "bandwidth": bandwidth},
        on_floor=low and not series.streamed,
        on_ceiling=high,
        floor_s=floor_s,
    )


def _of_figures(series: Series) -> CurveFit:
    """Return what numbers without a size say: a latency, a bandwidth, or only a time."""
    figures = {name: [each for each in series.figures if each.of == name] for name in ("latency", "bandwidth", "time")}
    latency, bandwidth = _of_values(figures["latency"]), _of_values(figures["bandwidth"])
    times = [each.value for each in figures["time"]]
    none = "no size is known: a time without a size gives no line"
    no_latency = "only a bandwidth is printed, of no known size" if bandwidth else none
    alone = "each process ran alone (n = 1): nothing was sent" if series.key.ranks == 1 else ""
    return CurveFit(
        series=series,
        latency=None if alone else latency,
        bandwidth=None if alone else bandwidth,
        latency_refusal=alone or ("" if latency else no_latency),
        bandwidth_refusal=alone or ("" if bandwidth else none),
        floor_s=min(times) if times else latency.value if latency else None,
    )


def _of_values(figures: list[Figure]) -> Estimate | None:
    """Return the median of several figures with their extremes; one figure has no interval."""
    if not figures:
        return None
    values = [each.value for each in figures]
    if len(values) == 1:
        return Estimate(value=values[0])
    low = min(each.value if each.low is None else each.low for each in figures)
    high = max(each.value if each.high is None else each.high for each in figures)
    return Estimate(value=float(np.median(values)), low=low, high=high, noise_low=low, noise_high=high, because="cells")
