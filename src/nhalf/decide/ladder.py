"""A ladder: what a link charges for messages of rising size; and the hierarchy of links, by orders of magnitude."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from nhalf.laws.point_to_point import hockney

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One rung: its two numbers, and how they stand to the first rung.

    `latency_orders` and `bandwidth_orders` are decimal orders of magnitude from the first rung, slower and narrower
    counted as positive.
    """

    name: str
    latency_s: float
    bandwidth_bytes_per_s: float
    half_size_bytes: float
    latency_orders: float
    bandwidth_orders: float


def hierarchy(links: Iterable[tuple[str, Link]]) -> list[Rung]:
    """Return the rungs of named links, in their order; a link of no latency has no place on it and is left out."""
    found: list[Rung] = []
    for name, link in links:
        latency_s, bandwidth = float(link.latency_s), float(link.bandwidth_bytes_per_s)
        if latency_s <= 0:
            continue
        first_s, first = (found[0].latency_s, found[0].bandwidth_bytes_per_s) if found else (latency_s, bandwidth)

        found.append(
            Rung(
                name=name,
                latency_s=latency_s,
                bandwidth_bytes_per_s=bandwidth,
                half_size_bytes=float(link.half_size_bytes),
                latency_orders=math.log10(latency_s / first_s),
                bandwidth_orders=math.log10(first / bandwidth),
            )
        )
    return found
