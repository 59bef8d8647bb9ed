"""A ladder: what a link charges for messages of rising size, and in which regime each is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from nhalf.laws.point_to_point import hockney

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.link import Link

Regime: TypeAlias = Literal["latency", "bandwidth"]
RUNGS_BYTES = tuple(float(2**power) for power in range(8, 31, 2))
"""The sizes shown when none is asked for [bytes]: 256 B to 1 GiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One message: its time, whether it pays more for latency or for its bytes, and the bandwidth it sees."""

    size_bytes: float
    time_s: float
    regime: Regime
    effective_bandwidth_bytes_per_s: float
    asked: bool

    def as_dict(self) -> dict[str, float | str | bool]:
        """Return the point by the names of its fields."""
        return asdict(self)


def ladder(link: Link, asked_bytes: Sequence[float]) -> list[Point]:
    """Return the points of a link, smallest first: the sizes asked for [bytes] among the rungs."""
    sizes = sorted({*RUNGS_BYTES, *asked_bytes})
    return [_point(link, size, asked=size in asked_bytes) for size in sizes]


def _point(link: Link, size_bytes: float, *, asked: bool) -> Point:
    time_s = float(hockney(size_bytes, link).value)
    return Point(
        size_bytes=size_bytes,
        time_s=time_s,
        regime="latency" if size_bytes < float(link.half_size_bytes) else "bandwidth",
        effective_bandwidth_bytes_per_s=size_bytes / time_s if time_s > 0 else float(link.bandwidth_bytes_per_s),
        asked=asked,
    )
