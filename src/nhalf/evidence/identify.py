"""What a sweep can tell: the exact reason why a latency or a bandwidth is not in the data, or that it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf import units
from nhalf.curve.leastsquares import NOISE_FLOOR

if TYPE_CHECKING:
    from nhalf.evidence.segments import Segment
    from nhalf.evidence.series import Series

ON_FLOOR: Final = 1.5
"""A size lies on the floor when it takes less than this many times the floor."""
ON_CEILING: Final = 4.0
"""A size lies on the ceiling when it is more than this many times n_1/2 of its segment: latency is below a fifth."""
ENOUGH: Final = 3
"""Sizes on the floor, or on the ceiling, below which nothing is said of it."""
_OWN_SHARE: Final = 0.5
_RISEN: Final = 2.0
_FEW: Final = 3


def latency_refusal(series: Series, segments: tuple[Segment, ...], floor_s: float) -> str:
    """Return why the sweep does not hold the latency, or nothing when it does.

    Three sizes within 1.5 times the floor [s] are needed on the first segment, and there the latency must be at least
    half of the time, so that a fine sweep of large sizes is no floor.
    """
    common = _common_refusal(series)
    if common:
        return common
    if series.streamed:
        return (
            f"{series.tool or 'the tool'} keeps many messages under way and times the stream: its smallest time is the "
            "gap between messages, not a latency"
        )
    first = segments[0]
    sizes, times = series.sizes_bytes[series.good], series.times_s[series.good]
    on_floor = int(np.sum(times[first.points] < ON_FLOOR * floor_s))
    if on_floor < ENOUGH:
        return (
            f"{_sizes(on_floor)} within 1.5 times the floor ({units.format_time(floor_s)}), and 3 are needed: the "
            f"sweep starts at {units.format_size(float(sizes[0]))}, where bytes already cost"
        )
    if first.latency_s < _OWN_SHARE * floor_s:
        return (
            f"at the smallest size, {units.format_size(float(sizes[0]))}, bytes already cost more than half of the time"
        )
    return ""


def bandwidth_refusal(series: Series, segments: tuple[Segment, ...], floor_s: float) -> str:
    """Return why the sweep does not hold the bandwidth, or nothing when it does.

    Three sizes beyond four times n_1/2 of the last segment are needed, and a time that has doubled the floor [s].
    """
    common = _common_refusal(series)
    if common:
        return common
    last = segments[-1]
    sizes, times = series.sizes_bytes[series.good], series.times_s[series.good]
    largest = units.format_size(float(sizes[-1]))
    if sizes[-1] / last.bandwidth_bytes_per_s < NOISE_FLOOR * times[-1]:
        return f"the time does not grow with the size up to {largest}: every size lies on the floor"
    half = last.latency_s * last.bandwidth_bytes_per_s
    beyond = int(np.sum(sizes[last.points] > ON_CEILING * half))
    if beyond < ENOUGH:
        return (
            f"{_sizes(beyond)} beyond 4 times n_1/2 of the last segment ({units.format_size(half)}), and 3 are "
            f"needed: the sweep ends at {largest}, before the ceiling"
        )
    if times[-1] < _RISEN * floor_s and segments[0].latency_s >= _OWN_SHARE * floor_s:
        return f"the time has not doubled by {largest}: the sweep ends on the floor"
    return ""


def _common_refusal(series: Series) -> str:
    """Return why a series holds neither."""
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
    if count <= _FEW:
        return f"{count} sizes only: an estimate without an interval, as nothing is left to be wrong about"
    return ""


def _sizes(count: int) -> str:
    if count == 0:
        return "no size lies"
    return "only 1 size lies" if count == 1 else f"only {count} sizes lie"
