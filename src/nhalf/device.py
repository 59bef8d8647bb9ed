"""A device: what one accelerator computes, remembers and charges for a launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity

_REFRESHES = {"blackwell-ultra": "blackwell"}
"""An architecture that is another one with more of the same: kernels and dtypes are those of the first."""

EIGHT_BITS: Final = frozenset({"fp8", "int8"})
FOUR_BITS: Final = frozenset({"nvfp4", "mxfp4"})
"""Dtypes of weights that products may run in; integers of 4 bits are widened first."""


def generation(architecture: str) -> str:
    """Return the architecture whose dtypes and kernels one has: itself, but for a refresh."""
    return _REFRESHES.get(architecture, architecture)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Device:
    """One accelerator.

    `memory_bytes` [bytes] is what the driver reports, `memory_bandwidth_bytes_per_s` [bytes/s] the datasheet rate of
    its memory, `streaming_efficiency` [1] the share of it that a benchmark which only streams was measured to reach (1
    where nobody measured), the `*_flop_per_s` [FLOP/s] its dense peaks; a dtype the device cannot compute in has the
    peak of the dtype its kernels convert to. `computes_in` are the dtypes of weights narrower than bf16 that it has
    units for.
    """

    name: str
    architecture: str
    memory_bytes: Quantity
    memory_bandwidth_bytes_per_s: Quantity
    bf16_flop_per_s: Quantity
    fp8_flop_per_s: Quantity
    fp4_flop_per_s: Quantity
    streaming_efficiency: Quantity = 1.0
    computes_in: frozenset[str] = frozenset()

    def flop_per_s(self, dtype: str) -> Quantity:
        """Return the dense peak [FLOP/s] of products with weights of a dtype; that of bf16 where they are widened."""
        if dtype in EIGHT_BITS:
            return self.fp8_flop_per_s
        return self.fp4_flop_per_s if dtype in FOUR_BITS else self.bf16_flop_per_s
