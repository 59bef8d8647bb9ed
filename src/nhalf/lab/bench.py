"""What the lab measures: a small decoder, the links that are imposed between its ranks, and its tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from nhalf.evidence.probe.decoder import FLOAT_BYTES
from nhalf.evidence.probe.messages import Decode
from nhalf.evidence.probe.statistics import interval, median

MODEL: Final = Decode(layers=8, hidden=128, heads=8, vocabulary=256, batch=1, tokens=1)
"""The decoder of the lab: small enough that a link, not a processor, sets its pace."""
SUMS: Final = 2 * MODEL.layers
"""All-reduces of a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """What is imposed between any two hosts: one-way latency [s] and bandwidth [bytes/s]."""

    latency_s: float
    bandwidth_bytes_per_s: float

    def having(self, *, latency: float = 1.0, bandwidth: float = 1.0) -> Wire:
        """Return the wire with its latency and bandwidth so many times as large."""
        return replace(self, latency_s=self.latency_s * latency,
                       bandwidth_bytes_per_s=self.bandwidth_bytes_per_s * bandwidth)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens that were decoded: the times of each [s], and which they were."""

    times_s: tuple[float, ...]
    ids: tuple[int, ...]

    @property
    def time_s(self) -> float:
        """Return the median time of a token [s]."""
        return median(self.times_s)

    @property
    def ends_s(self) -> tuple[float, float]:
        """Return the 95 % interval of the median [s], of few tokens the quickest and the slowest."""
        return interval(self.times_s) or (min(self.times_s), max(self.times_s))


def size_of(batch: int) -> int:
    """Return the bytes that are summed, or handed over, for a batch [bytes]."""
    return batch * MODEL.hidden * FLOAT_BYTES


def order(batch: int, tokens: int, *, tp: int = 1, pp: int = 1) -> Decode:
    """Return an order to decode some tokens; the first of them is for warming up."""
    return Decode(layers=MODEL.layers, hidden=MODEL.hidden, heads=MODEL.heads, vocabulary=MODEL.vocabulary,
                  batch=batch, tokens=tokens + 1, tp=tp, pp=pp)  # fmt: skip
