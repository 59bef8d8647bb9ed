"""A device: what one accelerator computes, remembers and charges for a launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity

_REFRESHES = {"blackwell-ultra": "blackwell"}
"""An architecture that is another one with more of the same: kernels and dtypes are those of the first."""


def generation(architecture: str) -> str:
    """Return the architecture whose dtypes and kernels one has: itself, but for a refresh."""
    return _REFRESHES.get(architecture, architecture)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Device:
    """One accelerator.

    `memory_bytes` [bytes] is what the driver reports, `memory_bandwidth_bytes_per_s` [bytes/s] the datasheet rate of
    its memory, `streaming_efficiency` [1] the share of it that a benchmark which only streams was measured to reach (1
    where nobody measured), the `*_flop_per_s` [FLOP/s] its dense peaks; a dtype the device cannot compute in has the
    peak of the dtype its kernels convert to.
    """

    name: str
    architecture: str
    memory_bytes: Quantity
    memory_bandwidth_bytes_per_s: Quantity
    bf16_flop_per_s: Quantity
    fp8_flop_per_s: Quantity
    fp4_flop_per_s: Quantity
    streaming_efficiency: Quantity = 1.0
