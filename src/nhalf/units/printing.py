"""Print quantities: an SI float becomes text with three digits and the prefix that suits it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from nhalf.units.scales import BINARY, LARGE, NONE, SMALL, Scale, scaled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def _steps(*prefixes: Mapping[str, Scale]) -> tuple[tuple[str, float], ...]:
    """Return prefixes and multipliers from large to small, the first of each multiplier."""
    by_scale: dict[float, str] = {}
    for table in prefixes:
        for prefix, scale in table.items():
            by_scale.setdefault(scaled("1", "0", scale), prefix)
    return tuple((by_scale[scale], scale) for scale in sorted(by_scale, reverse=True))


_TIME_STEPS: Final = _steps({p: s for p, s in SMALL.items() if p.isascii()}, NONE)
_DECIMAL_STEPS: Final = _steps(LARGE, NONE)
_BINARY_STEPS: Final = _steps(BINARY, NONE)
_ROUNDING: Final = 1e-12  # 5e-6 * 400e9 falls short of 2e6 by 1e-16 of it, and is 2 MB all the same
_MONEY_STEPS: Final = _steps({p: LARGE[p] for p in "kM"}, NONE)


def format_time(seconds: float) -> str:
    """Return a time [s] with three digits: "7.26 ms", "5 us", "0 s"."""
    return _with_prefix(seconds, _TIME_STEPS, "s")


def format_size(size_bytes: float, *, binary: bool | None = None) -> str:
    """Return a size [bytes] with three digits: "2 MB", or "1.91 MiB" when `binary`.

    When `binary` is not given, a size that needs no rounding in SI is written so ("2 MB"), and every other one in
    binary units ("16 KiB", "65.2 KiB"), in which benchmarks count the sizes of messages.
    """
    if binary is None:
        binary = not _is_exact(size_bytes, _DECIMAL_STEPS)
    return _with_prefix(size_bytes, _BINARY_STEPS if binary else _DECIMAL_STEPS, "B")


def format_bandwidth(bytes_per_s: float) -> str:
    """Return a rate [bytes/s] with three digits: "400 GB/s", "3.35 TB/s"."""
    return _with_prefix(bytes_per_s, _DECIMAL_STEPS, "B/s")


def format_flop_rate(flop_per_s: float) -> str:
    """Return a FLOP rate [FLOP/s] with three digits: "989 TFLOP/s"."""
    return _with_prefix(flop_per_s, _DECIMAL_STEPS, "FLOP/s")


def format_number(value: float) -> str:
    """Return a plain number: a whole one with all its digits ("1024"), another with three ("0.72")."""
    exact_below = 1e15  # every whole number below it is a float of its own
    if abs(value) < exact_below and math.isclose(value, round(value), rel_tol=_ROUNDING):
        return str(round(value))
    return _three_digits(value)


def format_money(dollars: float) -> str:
    """Return an amount [$] with three digits: "$0.431", "$3", "$1.2k"."""
    digits, prefix, _ = _pick(abs(dollars), _MONEY_STEPS)
    return f"{'-' if dollars < 0.0 else ''}${digits}{prefix}"


def format_value(value: float, unit: str) -> str:
    """Return a value with its unit, as the printer of that unit writes it; an unknown unit is printed as it is."""
    printer = _PRINTERS.get(unit)
    return printer(value) if printer else f"{_three_digits(value)} {unit}"


_PRINTERS: Final[Mapping[str, Callable[[float], str]]] = {
    "s": format_time,
    "bytes": format_size,
    "bytes/s": format_bandwidth,
    "FLOP/s": format_flop_rate,
    "1": format_number,
    "$": format_money,
}


def _with_prefix(value: float, steps: tuple[tuple[str, float], ...], unit: str) -> str:
    digits, prefix, _ = _pick(value, steps)
    return f"{digits} {prefix}{unit}"


def _pick(value: float, steps: tuple[tuple[str, float], ...]) -> tuple[str, str, float]:
    """Return digits, prefix and multiplier, for the largest prefix that leaves 1 or more once rounded."""
    if value == 0.0 or not math.isfinite(value):
        return _three_digits(value), "", 1.0
    for prefix, scale in steps:
        digits = _three_digits(value / scale)
        if abs(float(digits)) >= 1.0:
            return digits, prefix, scale
    prefix, scale = steps[-1]
    return _three_digits(value / scale), prefix, scale


def _is_exact(value: float, steps: tuple[tuple[str, float], ...]) -> bool:
    digits, _, scale = _pick(value, steps)
    return math.isclose(float(digits) * scale, value, rel_tol=_ROUNDING)


def _three_digits(value: float) -> str:
    """Return three significant digits without trailing zeros, and without an exponent for 1e-6 to 1e15."""
    if value == 0.0:
        return "0"
    if not math.isfinite(value):
        return str(float(value))
    rounded = f"{value:.2e}"
    exponent = int(rounded.partition("e")[2])
    if not -6 <= exponent < 15:  # noqa: PLR2004 - the range the docstring states
        return f"{value:.3g}"
    fixed = f"{float(rounded):.{max(0, 2 - exponent)}f}"
    return fixed.rstrip("0").rstrip(".") if "." in fixed else fixed
