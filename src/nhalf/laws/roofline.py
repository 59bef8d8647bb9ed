"""Roofline: the time of an operator that streams bytes, and of one that computes.

References
----------
S. Williams, A. Waterman and D. Patterson, "Roofline: an insightful visual performance model", CACM 52 (2009).
"""

from __future__ import annotations

from nhalf.breakdown import Quantity, Term, leaf


def byte_time(
    name: str, read: Term, bandwidth_bytes_per_s: Quantity, efficiency: Quantity, *, column: str = ""
) -> Term:
    """Return the time [s] to stream `read` [bytes] at a share of a memory bandwidth [bytes/s]."""
    inputs = {"bytes": read, "B": bandwidth_bytes_per_s, "eta": efficiency}
    return leaf(name, "bytes / (B * eta)", inputs, column=column)


def flop_time(name: str, work: Term, peak_flop_per_s: Quantity, efficiency: Quantity, *, column: str = "") -> Term:
    """Return the time [s] of `work` [FLOP] at a share of a peak rate [FLOP/s]."""
    inputs = {"flop": work, "F": peak_flop_per_s, "eta": efficiency}
    return leaf(name, "flop / (F * eta)", inputs, column=column)
