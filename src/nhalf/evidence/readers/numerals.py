"""Numbers as logs print them: decimal commas, thousands marks, and the interval that a rounded number stands for."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Final

from nhalf.errors import InputError
from nhalf.units import parse

MICROSECOND: Final = parse("1us", "time")  # [s]
MILLISECOND: Final = parse("1ms", "time")  # [s]
GIGABYTE_PER_S: Final = parse("1GB/s", "bandwidth")  # [bytes/s]
MEGABYTE_PER_S: Final = parse("1MB/s", "bandwidth")  # [bytes/s]
MEBIBYTE_PER_S: Final = parse("1MiB/s", "bandwidth")  # [bytes/s]
GIGABIT_PER_S: Final = parse("1Gb/s", "bandwidth")  # [bytes/s]
BIT_PER_S: Final = parse("1bit/s", "bandwidth")  # [bytes/s]

TIME_UNITS: Final = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), MILLISECOND),
    **dict.fromkeys(("us", "usec", "usecs", "\u03bcs", "\u00b5s", "microsecond", "microseconds"), MICROSECOND),
    **dict.fromkeys(("ns", "nsec", "nsecs", "nanosecond", "nanoseconds"), parse("1ns", "time")),
}
"""Seconds in one of each unit of time that tools print [s]."""

# Anything a tool prints as a number: 1,86 and 1.86, 1,048,576, 1.048.576,5, 2e+04, -0.5.
NUMBER: Final = r"[-+]?\d[\d.,]*(?:[eE][-+]?\d+)?"
_THOUSANDS = re.compile(r"\d{1,3}(?:([.,'_])\d{3})(?:\1\d{3})*")
_REAL = re.compile(
    r"[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
)  # no tool ends a number with a point: that is a cut
_SIZE = re.compile(rf"({NUMBER})\s*([kKMGTPE]?)(i?)(?:[Bb](?:ytes?)?)?")
_REMEMBERED = 1 << 15  # numbers; a log repeats many, and reading one costs more than looking it up
_HALVES: Final = tuple(0.5 * math.pow(10.0, -places) for places in range(400))
_MOST_DIGITS: Final = 40  # of a whole number, thousands marks included
LARGEST: Final = 1e30  # of any unit that tools print
_LARGEST_POWER: Final = 300  # of ten, beyond which a number is no measurement
_DIGITS_TO_SPARE = 7  # significant digits; rounding is then far below any noise


def integer(token: str) -> int | None:
    """Return a whole number, thousands marks allowed ("1,048,576"), or None."""
    if token.isascii() and token.isdigit():
        return int(token) if len(token) <= _MOST_DIGITS else None
    if len(token) <= _MOST_DIGITS and _THOUSANDS.fullmatch(token):
        return int(re.sub(r"\D", "", token))
    return None


@lru_cache(maxsize=_REMEMBERED)
def real(token: str) -> float | None:
    """Return a number with a decimal point or comma, or None: "1.86", "1,86", "1,234.5", "1.234,5", "2e+04"."""
    if _REAL.fullmatch(token):  # nearly all
        value = float(token)
    else:
        text = _plain(token)
        if text == token or not _REAL.fullmatch(text):
            return None
        value = float(text)
    return value if abs(value) <= LARGEST else None


def microseconds(token: str | None) -> float | None:
    """Return a time [s] that stands in microseconds, or None where it is absent, zero or no number."""
    value = real(token) if token else None
    return value * MICROSECOND if value else None


@lru_cache(maxsize=_REMEMBERED)
def half_step(token: str) -> float:
    """Return half of one unit of the last digit that a printed number shows: 0.005 for "5.90", 0 with many digits."""
    mantissa, _, exponent = _plain(token).lower().partition("e")
    if len(mantissa) > _DIGITS_TO_SPARE and len(mantissa.replace(".", "").lstrip("-+0")) >= _DIGITS_TO_SPARE:
        return 0.0
    point = mantissa.find(".")
    places = len(mantissa) - point - 1 if point >= 0 else 0
    if not exponent:
        return _HALVES[places]
    power = int(exponent) - places if len(exponent) < len("-1000") else 0
    return 0.5 * math.pow(10.0, power) if -_LARGEST_POWER < power < _LARGEST_POWER else 0.0


def decimals(token: str) -> int:
    """Return the number of digits behind the decimal point or comma."""
    return len(_plain(token).partition(".")[2])


def size(text: str, *, binary: bool = False) -> float | None:
    """Return a size [bytes] from "16KiB", "1.0 MB", "4096" or "24.0kB", or None.

    `binary`: the tool means 1024 when it prints KB, MB or GB.
    """
    found = _SIZE.fullmatch(text.strip())
    if not found:
        return None
    number, prefix, mark = found.groups()
    value = real(number)
    if value is None or value < 0:
        return None
    if not prefix:
        return value
    unit = f"{prefix.upper()}iB" if mark or binary else f"{prefix}B"
    try:
        bytes_ = value * parse(f"1{unit}", "size")
    except InputError:
        return None
    return bytes_ if math.isfinite(bytes_) else None


def _plain(token: str) -> str:
    """Return a number with a decimal point and no thousands marks."""
    if "," not in token and "." in token and token.count(".") == 1:
        return token
    if "," not in token:
        return token.replace(".", "") if token.count(".") > 1 and _THOUSANDS.fullmatch(token) else token
    comma, point = token.rfind(","), token.rfind(".")
    if point > comma:  # 1,234.5
        return token.replace(",", "")
    if point >= 0 or token.count(",") == 1:  # 1.234,5 and 1,86
        return token.replace(".", "").replace(",", ".")
    return token.replace(",", "")  # 1,048,576
