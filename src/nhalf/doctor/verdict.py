"""The verdict in words: whether it is normal, the likeliest cause, and the two numbers beside those of like systems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.doctor.advice import ADVICE

if TYPE_CHECKING:
    from nhalf.doctor.examination import Examination, Reading

_WHOLE, _MULTIPLE = 0.995, 10.0
LIKELY: Final = 0.3
"""A cause less probable than this is no explanation."""


def headline(found: Examination) -> str:
    """Return whether it is normal, and what is most likely wrong."""
    best = next((cause for cause in found.named if cause.code != "normal"), None)
    if found.normal is True:
        return "This is normal."
    if best is None:
        return _silent(found)
    if found.normal is None and found.normal_odds is None:
        return f"No time to compare; the logs say that {ADVICE[best.code].says}."
    if found.normal is False and best.probability < LIKELY:
        return f"Not normal, and no named cause stands out; perhaps {ADVICE[best.code].says}."
    most = f"{ADVICE[best.code].says} ({100 * best.probability:.0f} %)"
    if found.normal is None:
        return f"It may be normal ({100 * (found.normal_odds or 0.0):.0f} %); else {most}."
    return f"Not normal: most likely {most}."


def _silent(found: Examination) -> str:
    """Return why no cause is named."""
    if found.normal_odds is not None:
        return "Not normal, and no named cause fits."
    if found.readings:
        return "Nobody measured this operation on like systems, so only the ceiling says how fast it is."
    return "No time to compare, and nothing in the text of the logs looks wrong."


def numbers(reading: Reading) -> str:
    """Return the bus bandwidth and the floor of a curve as shares of the ceiling and of like systems."""
    parts = []
    if reading.busbw_bytes_per_s is not None:
        shares = [
            _of(reading.busbw_bytes_per_s, other, whose)
            for other, whose in ((reading.ceiling_bytes_per_s, "links'"), (reading.expected_bytes_per_s, "usual"))
            if other
        ]
        parts.append(f"{rate(reading.busbw_bytes_per_s)} of bus bandwidth{' is ' * bool(shares)}{', '.join(shares)}")
    if reading.floor_s is not None:
        text = f"floor {units.format_time(reading.floor_s)}"
        known = reading.expected_floor_s
        parts.append(text + (f", where {units.format_time(known)} is usual" if known else ""))
    return "; ".join(parts)


def sentence(found: Examination) -> str:
    """Return the verdict in one line, for commands beside the doctor; empty where nothing is known to compare with."""
    if found.worst is None:
        return ""
    return f"{headline(found).removesuffix('.')}: {numbers(found.worst)}."


def _of(value: float, other: float, whose: str) -> str:
    """Return a bandwidth as a share of another one, or as a multiple where it is one."""
    share = value / other
    if share > _MULTIPLE:
        return f"{share:.3g} times the {whose} {rate(other)}"
    return f"{100 * share:.{2 if share < _WHOLE else 3}g} % of the {whose} {rate(other)}"


def rate(value: float) -> str:
    """Return a bandwidth [bytes/s] of three digits."""
    return units.format_bandwidth(float(f"{value:.3g}"))
