"""Roofline: the time of an operator that streams bytes, and of one that computes.

References
----------
S. Williams, A. Waterman and D. Patterson, "Roofline: an insightful visual performance model", CACM 52 (2009).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.breakdown import Input, Quantity, Term, leaf, some

if TYPE_CHECKING:
    from nhalf.device import Device


def byte_time(name: str, read: Term, device: Device, efficiency: Quantity, *, column: str = "") -> Term:
    """Return the time [s] to stream `read` [bytes] at a share of the datasheet rate of a device's memory.

    No kernel reads faster than a benchmark that does nothing else, so that share is at most what one was measured to
    reach on the device (Williams et al., section 4: the roof is the sustained rate, not the datasheet's).
    """
    inputs: dict[str, Input] = {"bytes": read, "B": device.memory_bandwidth_bytes_per_s, "eta": efficiency}
    if not some(device.streaming_efficiency < 1):
        return leaf(name, "bytes / (B * eta)", inputs, column=column)
    inputs["stream"] = device.streaming_efficiency
    return leaf(name, "bytes / (B * minimum(eta, stream))", inputs, column=column)


def flop_time(name: str, work: Term, peak_flop_per_s: Quantity, efficiency: Quantity, *, column: str = "") -> Term:
    """Return the time [s] of `work` [FLOP] at a share of a peak rate [FLOP/s]."""
    inputs = {"flop": work, "F": peak_flop_per_s, "eta": efficiency}
    return leaf(name, "flop / (F * eta)", inputs, column=column)
