"""A link: what one message pays on one path, in one direction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nhalf import units
from nhalf.errors import InputError

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Link:
    """The two numbers of Hockney's model t(n) = alpha + n / beta, for one path and one direction.

    `latency_s` (alpha) [s] is the cost of a message of no bytes; `bandwidth_bytes_per_s` (beta) [bytes/s] is payload
    per device, one way. Both may be arrays. Strings with units are read: ``Link("5us", "400GB/s")``.

    References
    ----------
    R. W. Hockney, "The communication challenge for MPP: Intel Paragon and Meiko CS-2", Parallel Computing 20 (1994).
    """

    latency_s: Quantity
    bandwidth_bytes_per_s: Quantity

    def __init__(self, latency_s: Quantity | str, bandwidth_bytes_per_s: Quantity | str) -> None:
        """Read the two numbers, with units where they are text.

        Raises
        ------
        InputError
            A latency that is negative or not finite, a bandwidth that is not positive and finite, a missing unit.
        """
        if isinstance(latency_s, str):
            latency_s = units.parse(latency_s, "time", where="latency")
        if isinstance(bandwidth_bytes_per_s, str):
            bandwidth_bytes_per_s = units.parse(bandwidth_bytes_per_s, "bandwidth", where="bandwidth")
        if not _within(latency_s, zero=True):
            raise InputError("a latency cannot be negative or infinite", where="latency", allowed="0 s or more")
        if not _within(bandwidth_bytes_per_s, zero=False):
            raise InputError(
                "a bandwidth cannot be zero, negative or infinite", where="bandwidth", allowed="more than 0 bytes/s"
            )
        object.__setattr__(self, "latency_s", latency_s)
        object.__setattr__(self, "bandwidth_bytes_per_s", bandwidth_bytes_per_s)

    @property
    def half_size_bytes(self) -> Quantity:
        """Return n_1/2 = alpha x beta [bytes]: the message that pays as much for latency as for its bytes."""
        # In nanoseconds first: latencies are round numbers of them, which floats hold exactly (5e-6 they do not).
        return self.latency_s * 1e9 * self.bandwidth_bytes_per_s / 1e9


def _within(value: Quantity, *, zero: bool) -> bool:
    """Tell whether every number is finite and positive, or 0 where that is possible."""
    if isinstance(value, float | int):
        return math.isfinite(value) and bool(value > 0 or (zero and value == 0))
    import numpy as np

    return bool(np.all(np.isfinite(value)) and np.all(value >= 0 if zero else value > 0))
