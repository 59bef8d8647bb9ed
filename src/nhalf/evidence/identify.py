"""What a sweep can tell: whether it reached its floor and its ceiling, and why a latency or bandwidth is not in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf import units
from nhalf.collective import Op
from nhalf.curve.leastsquares import NOISE_FLOOR

if TYPE_CHECKING:
    from nhalf.evidence.intervals import Estimate
    from nhalf.evidence.segments import Segment
    from nhalf.evidence.series import Series

ON_FLOOR: Final = 1.5
"""A size lies on the floor when it takes less than this many times the floor."""
ON_CEILING: Final = 4.0
"""A size lies on the ceiling when it is more than this many times n_1/2 of its segment: latency is below a fifth."""
ENOUGH: Final = 3
"""Sizes on the floor, or on the ceiling, from which on a sweep has seen it."""
DECADE: Final = 10.0
"""An interval whose ends are further apart than this many times tells no more than a guess does."""
OWN_SHARE: Final = 0.5
SMALL: Final = 4096.0
"""Up to this size [bytes] every library runs its quickest protocol."""
LARGE, LARGE_ON_A_LINK = 2.0**26, 2.0**20  # [bytes] where collectives and single messages near their ceiling
_RISEN: Final = 2.0
_NOISY: Final = "the noise of the times leaves it open"


def on_floor(series: Series, segments: tuple[Segment, ...], floor_s: float) -> bool:
    """Tell whether a sweep saw its floor [s]: three sizes within 1.5 times of it, latency at least half of the time."""
    first = segments[0]
    times = series.times_s[series.good][first.points]
    return int(np.sum(times < ON_FLOOR * floor_s)) >= ENOUGH and first.latency_s >= OWN_SHARE * floor_s


def on_ceiling(series: Series, segments: tuple[Segment, ...], floor_s: float) -> bool:
    """Tell whether a sweep saw its ceiling: three sizes beyond 4 times n_1/2 of the last segment, twice the floor [s].

    A time that does not grow has no ceiling.
    """
    last = segments[-1]
    sizes, times = series.sizes_bytes[series.good], series.times_s[series.good]
    half = last.latency_s * last.bandwidth_bytes_per_s
    if is_flat(series, last) or int(np.sum(sizes[last.points] > ON_CEILING * half)) < ENOUGH:
        return False
    return bool(times[-1] >= _RISEN * floor_s) or segments[0].latency_s < OWN_SHARE * floor_s


def is_flat(series: Series, last: Segment) -> bool:
    """Tell whether the time of the largest sizes does not grow with the size."""
    sizes, times = series.sizes_bytes[series.good], series.times_s[series.good]
    return bool(sizes[-1] / last.bandwidth_bytes_per_s < NOISE_FLOOR * times[-1])


def is_open(found: Estimate) -> bool:
    """Tell whether an interval is open on a side, or wider than a decade."""
    return not found.low or found.high is None or found.high > DECADE * found.low


def nothing_to_fit(series: Series) -> str:
    """Return why a series holds neither a latency nor a bandwidth, or nothing where it may."""
    count = int(series.good.sum())
    if series.refusal:
        return series.refusal
    if series.key.ranks == 1:
        return "each process ran alone (n = 1): nothing was sent, so there is neither a latency nor a bandwidth"
    if count == 0:
        return "no size is known: a time without a size gives no line"
    if count == 1:
        size = units.format_size(float(series.sizes_bytes[series.good][0]))
        return f"one size only ({size}): one row identifies neither a latency nor a bandwidth"
    return ""


def latency_refusal(series: Series, found: Estimate) -> str:
    """Return why the latency is not in a sweep, with the bound that is, or nothing where it is."""
    if series.streamed:
        return (
            f"{series.tool or 'the tool'} keeps many messages under way and times the stream: its smallest time is the "
            "gap between messages, not a latency"
        )
    if not is_open(found):
        return ""
    start = units.format_size(float(series.sizes_bytes[series.good][0]))
    small = float(series.sizes_bytes[series.good][0]) <= SMALL
    why = _NOISY if small else f"the sweep starts at {start}, where bytes already cost"
    return f"{_bounds(found, 's')}, as {why}"


def bandwidth_refusal(series: Series, last: Segment, found: Estimate | None) -> str:
    """Return why the bandwidth is not in a sweep, with the bound that is, or nothing where it is."""
    end = units.format_size(float(series.sizes_bytes[series.good][-1]))
    if found is None or is_flat(series, last):
        return f"the time does not grow with the size up to {end}: every size lies on the floor"
    if not is_open(found):
        return ""
    large = float(series.sizes_bytes[series.good][-1]) >= largest(series)
    why = _NOISY if large else f"the sweep ends at {end}, before bytes are most of the time"
    return f"{_bounds(found, 'bytes/s')}, as {why}"


def largest(series: Series) -> float:
    """Return the size [bytes] from which on a sweep should near its ceiling."""
    return LARGE_ON_A_LINK if series.key.op is Op.SEND_RECV else LARGE


def _bounds(found: Estimate, unit: str) -> str:
    """Return in words what an open or wide interval says."""
    low, high = (units.format_value(end, unit) if end else "" for end in (found.low, found.high))
    if low and high:
        return f"anywhere from {low} to {high}"
    return f"at least {low}" if low else f"at most {high}" if high else "unbounded either way"
