"""The hierarchy of memories and links as one ladder: how many orders of magnitude each rung is from the first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.link import Link


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


def ladder(links: Iterable[tuple[str, Link]]) -> list[Rung]:
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
