"""Read and print quantities: the only file that knows a prefix, 1024, or a factor of eight.

Inside nhalf every number is an SI float: seconds, bytes, bytes per second, FLOP per second. Text becomes such a float
in `parse` and goes back to text in `format_value`. Case decides: `b` is a bit and `B` is a byte, `M` is always mega.
A text that can be read in two ways (`400G`, or `400gb/s`, which did not mind case) is refused with both readings.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from nhalf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class _Scale(NamedTuple):
    """A multiplier: a power of ten, which text can carry exactly (`5us` is float("5e-6")), times a factor."""

    power: int = 0
    factor: float = 1.0


# The prefix table, and the only one. Decimal: BIPM, "The International System of Units", 9th ed. (2019), table 7, those
# in use here; `K` is an everyday spelling of `k`, `u` of micro, and the micro sign has two code points. Binary: IEC
# 80000-13.
_NONE: Final = {"": _Scale()}
_SMALL: Final = {"n": _Scale(-9), "u": _Scale(-6), "\u00b5": _Scale(-6), "\u03bc": _Scale(-6), "m": _Scale(-3)}
_LARGE: Final = {"k": _Scale(3), "K": _Scale(3)} | {p: _Scale(3 * n) for n, p in enumerate("MGTPE", start=2)}
_BINARY: Final = {p + "i": _Scale(0, 1024.0**n) for n, p in enumerate("KMGTPE", start=1)}
_BIT: Final = 1.0 / 8.0  # [bytes]
_MINUTE: Final = 60.0  # [s]


def _spell(prefixes: Mapping[str, _Scale], *names: str, factor: float = 1.0) -> dict[str, _Scale]:
    """Return every prefix with every name, one multiplier each."""
    return {p + name: _Scale(s.power, s.factor * factor) for p, s in prefixes.items() for name in names}


_SIZES: Final = {
    **_spell(_NONE | _LARGE | _BINARY, "B"),
    **_spell(_NONE, "byte", "bytes"),
    **_spell(_NONE | _LARGE, "bit", factor=_BIT),
    **_spell(_NONE, "bits", factor=_BIT),
    **_spell(_LARGE, "b", factor=_BIT),  # not a lone `b`: in a size it is a slip for `B`, or it means a billion
}
_BANDWIDTHS: Final = {
    **{f"{name}/s": scale for name, scale in _SIZES.items()},
    **_spell(_NONE | _LARGE | _BINARY, "Bps"),
    **_spell(_NONE | _LARGE, "b/s", "bps", factor=_BIT),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dimension:
    """What one kind of quantity accepts; `endings` are those tried on a text that stops short of a unit."""

    noun: str
    unit: str
    units: Mapping[str, _Scale]
    allowed: str
    example: str
    endings: tuple[str, ...] = ()
    zero: bool = True


_DIMENSIONS: Final = {
    "time": _Dimension(
        noun="a time",
        unit="s",
        units={**_spell(_NONE | _SMALL, "s"), "min": _Scale(0, _MINUTE)},
        allowed="a time of 0 or more in ns, us, ms, s or min, such as 5us or 1.2 ms",
        example="{}us",
        endings=("s", "in"),
    ),
    "size": _Dimension(
        noun="a size",
        unit="bytes",
        units=_SIZES,
        allowed="a size of 0 or more in B, kB, MB, GB (of 1000), in KiB, MiB, GiB (of 1024), or in bits (Mb, Mbit), "
        "such as 16KiB or 2 MB",
        example="{}B",
        endings=("B", "iB"),
    ),
    "bandwidth": _Dimension(
        noun="a rate",
        unit="bytes/s",
        units=_BANDWIDTHS,
        allowed="a rate above 0 in bytes (GB/s, GBps, GiB/s, TB/s) or in bits (Gb/s, Gbps, Gbit/s), such as 400GB/s, "
        "or 400Gb/s for 50 GB/s",
        example="{0}GB/s or {0}Gb/s",
        endings=("b/s", "B/s", "/s"),
        zero=False,
    ),
    "flop_rate": _Dimension(
        noun="a FLOP rate",
        unit="FLOP/s",
        units=_spell(_NONE | _LARGE, "FLOP/s", "FLOPS", "FLOPs"),
        allowed="a rate above 0 in GFLOP/s, TFLOP/s (or TFLOPS) or PFLOP/s, such as 989TFLOP/s",
        example="{}TFLOP/s",
        endings=("FLOP/s", "/s"),
        zero=False,
    ),
    "ratio": _Dimension(
        noun="a plain number",
        unit="1",
        units={**_NONE, "%": _Scale(-2)},
        allowed="a number of 0 or more, or a percentage, such as 0.72 or 72%",
        example="{}",
    ),
    "money": _Dimension(
        noun="an amount of money",
        unit="$",
        units={"$": _Scale(), "k$": _Scale(3), "K$": _Scale(3), "M$": _Scale(6)},
        allowed="an amount of 0 or more in dollars, such as $3, 1200$ or $1.2k",
        example="${}",
        endings=("$",),
    ),
}
_COUNTS: Final = "whole numbers of 1 or more in digits only, such as 8"
_LISTS: Final = "whole numbers such as 1,2,4 and ranges such as 1:8, 2:16:2 or 1:512:x2"
_LONGEST_LIST: Final = 100_000

_NUMBER = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,9}))?\s*(.*)", re.DOTALL)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity|\u221e)([^a-z].*)?", re.IGNORECASE | re.DOTALL)
_DOLLAR_FIRST = re.compile(r"([+-]?)\s*\$\s*(.*)", re.DOTALL)
_WHOLE = re.compile(r"[0-9]{1,15}")
_MARKED: Final = re.compile(r"[0-9]{1,3}([,_ ])[0-9]{3}(?:\1[0-9]{3})*")
"""A whole number with marks between its thousands."""
_RANGE = re.compile(r"([^:]+):([^:]+)(?::(x?)([^:]+))?")


# --- reading ----------------------------------------------------------------------------------------------------------


def parse(text: str, dimension: str, *, where: str = "") -> float:
    """Return the quantity in `text` as an SI float: [s], [bytes], [bytes/s], [FLOP/s], [1] or [$].

    `dimension` is "time", "size", "bandwidth", "flop_rate", "count", "ratio" or "money"; `where` is the flag or
    the field that a message names. The result is the float nearest to what is written, so `5us` is exactly 5e-6.

    Raises InputError when the text has no unit, another dimension's unit, two readings, or an impossible value.
    """
    if dimension == "count":
        return float(parse_count(text, where=where))
    want = _DIMENSIONS.get(dimension)
    if want is None:
        raise InputError(f"dimension {dimension!r} is unknown", where=where, allowed=", ".join([*_DIMENSIONS, "count"]))
    sign, mantissa, exponent, unit = _split(text, want, where)
    scale = want.units.get(unit)
    if scale is None and not unit and sign == "-" and float(mantissa) > 0.0:
        raise _refusal(f"{_shown(text)} is negative, and has no unit", want, where)
    if scale is None:
        raise _unit_error(text, (mantissa, exponent, unit), want, where)
    value = _scaled(mantissa, exponent, scale)
    if not math.isfinite(value):
        raise _refusal(f"{_shown(text)} is too large", want, where)
    if sign == "-" and value > 0.0:
        raise _refusal(f"{_shown(text)} is negative", want, where)
    if value == 0.0 and not want.zero:
        raise _refusal(f"{_shown(text)} is zero", want, where)
    return value


def parse_for_unit(text: str, unit: str, *, where: str = "") -> float:
    """Return `text` as a float in `unit`: "s", "bytes", "bytes/s", "FLOP/s", "1" (a number or a percentage) or "$".

    Raises InputError as `parse` does, and for another `unit`.
    """
    for dimension, known in _DIMENSIONS.items():
        if known.unit == unit:
            return parse(text, dimension, where=where)
    allowed = ", ".join(known.unit for known in _DIMENSIONS.values())
    raise InputError(f"unit {unit!r} is unknown", where=where, allowed=allowed)


def parse_count(text: str, *, where: str = "") -> int:
    """Return a whole number of at least 1, written in digits only.

    Raises InputError for anything else: `0`, `-1`, `2.5`, `1,024`, `8k`.
    """
    text = text.strip()
    if _WHOLE.fullmatch(text) and int(text) > 0:
        return int(text)
    do = ""
    plain = re.sub(r"[,_ ]", "", text)
    if _MARKED.fullmatch(text):
        do = f"write {plain} for one number"
    elif plain != text and _WHOLE.fullmatch(plain):
        do = f"one number is asked for, such as {re.split('[,_ ]+', text.strip(',_ '))[0]}"
    elif re.fullmatch(r"[0-9]{1,9} *[kK]", text):
        thousands = int(text[:-1])
        do = f"write {thousands * 1000} or {thousands * 1024}: {text} is read both ways"
    what = f"{_shown(text)} is not a whole number of 1 or more" if text else "the number is missing: the text is empty"
    raise InputError(what, where=where, allowed=_COUNTS, do=do)


def parse_int_list(text: str, *, where: str = "") -> tuple[int, ...]:
    """Return the whole numbers of a comma-separated list, in the order written.

    An item is a number, or a range: `1:8` has both ends and step 1, `2:16:2` has step 2, `1:512:x2` doubles. A range
    ends with its last value that is not above its end.

    Raises InputError for an empty item, a number below 1, a backward or endless range, or a number given twice.
    """
    values: list[int] = []
    for item in text.split(","):
        if not item.strip():
            what = f"the list {_shown(text)} has an empty item" if text.strip() else "the list is empty"
            raise InputError(what, where=where, allowed=_LISTS, do="write a number on both sides of each comma")
        values.extend(_expand(item.strip(), where))
    seen: set[int] = set()
    for value in values:
        if value in seen:
            raise InputError(f"the list {_shown(text)} has {value} twice", where=where, do=f"write {value} once")
        seen.add(value)
    return tuple(values)


def _expand(item: str, where: str) -> range | list[int]:
    if ":" not in item:
        return [parse_count(item, where=where)]
    item = re.sub(r"\s*:\s*", ":", item)
    found = _RANGE.fullmatch(item)
    if not found:
        raise InputError(f"{_shown(item)} is not a range", where=where, allowed=_LISTS)
    first, last = parse_count(found[1], where=where), parse_count(found[2], where=where)
    by = parse_count(found[4], where=where) if found[4] else 1
    if last < first:
        raise InputError(f"the range {item} runs backwards", where=where, allowed=_LISTS, do=f"write {last}:{first}")
    if not found[3]:
        if (last - first) // by >= _LONGEST_LIST:
            do = f"double instead: {first}:{last}:x2"
            raise InputError(f"the range {item} has over {_LONGEST_LIST} values", where=where, allowed=_LISTS, do=do)
        return range(first, last + 1, by)
    if by == 1:
        raise InputError(f"the range {item} never grows", where=where, allowed=_LISTS, do=f"write {first}:{last}:x2")
    values = [first]
    while values[-1] * by <= last:
        values.append(values[-1] * by)
    return values


def _split(text: str, want: _Dimension, where: str) -> tuple[str, str, str, str]:
    """Return sign, mantissa, exponent ("0" when there is none) and unit, without spaces around a slash."""
    stripped = text.strip()
    if not stripped:
        raise _refusal(f"{want.noun} is missing: the text is empty", want, where)
    if want.unit == "$" and (dollars := _DOLLAR_FIRST.fullmatch(stripped)):
        stripped = f"{dollars[1]}{dollars[2]}$"
    if _NOT_FINITE.fullmatch(stripped):
        raise _refusal(f"{_shown(text)} is not a finite number", want, where)
    if "," in stripped:
        both = "which is a decimal point to some and a thousands mark to others"
        raise _refusal(f"{_shown(text)} has a comma, {both}", want, where, do="write a point, or no mark")
    found = _NUMBER.fullmatch(stripped)
    if not found:
        raise _refusal(f"{_shown(text)} does not start with a number", want, where)
    sign, mantissa, exponent, unit = found.groups()
    return sign, mantissa, exponent or "0", re.sub(r"\s*/\s*", "/", unit)


def _scaled(mantissa: str, exponent: str, scale: _Scale) -> float:
    # Powers of ten go through text, because 5 * 1e-6 is not the float nearest to 5e-6.
    return float(f"{mantissa}e{int(exponent) + scale.power}") * scale.factor


def _unit_error(text: str, parts: tuple[str, str, str], want: _Dimension, where: str) -> InputError:
    """Return the most helpful refusal of a unit that `want` does not know."""
    mantissa, exponent, unit = parts
    number = mantissa if exponent == "0" else f"{mantissa}e{exponent}"
    if not unit:
        do = f"write {want.example.format(number)}, if that is what is meant"
        return _refusal(f"{_shown(text)} has no unit", want, where, do=do)
    others = [other.noun for other in _DIMENSIONS.values() if unit in other.units]
    if others:
        do = f"write {number}{unit}/s" if f"{unit}/s" in want.units else ""
        return _refusal(f"{_shown(text)} is {others[0]}, not {want.noun}", want, where, do=do)
    readings = _readings(unit, want)
    if not readings:
        return _refusal(f"{_shown(text)} has an unknown unit", want, where)
    if len(readings) == 1:
        return _refusal(f"{_shown(text)} has an unknown unit", want, where, do=f"Did you mean '{number}{readings[0]}'?")
    shown = []
    for spelling in readings:
        written = f"{number} {spelling}"
        printed = format_value(_scaled(mantissa, exponent, want.units[spelling]), want.unit)
        shown.append(written if printed == written else f"{written} = {printed}")
    what = f"{_shown(text)} can be read as {', or as '.join(shown)}"
    return _refusal(what, want, where, do=f"write {' or '.join(number + spelling for spelling in readings)}")


def _readings(unit: str, want: _Dimension) -> list[str]:
    """Return the units that `unit` may stand for, one for each meaning, once case and a missing ending are forgiven."""
    meant = unit.casefold()
    stems = (meant, meant.removesuffix("/s"))
    meanings: dict[_Scale, str] = {}
    for spelling, scale in want.units.items():
        begun = any(e in spelling and spelling.removesuffix(e).casefold() in stems for e in want.endings)
        if begun or spelling.casefold() == meant:
            meanings.setdefault(scale, spelling)
    return sorted(meanings.values(), key=lambda spelling: _scaled("1", "0", want.units[spelling]))


def _refusal(what: str, want: _Dimension, where: str, *, do: str = "") -> InputError:
    return InputError(what, where=where, allowed=want.allowed, do=do)


def _shown(text: str) -> str:
    longest = 60
    return repr(text if len(text) <= longest else f"{text[:longest]}...")


# --- printing ---------------------------------------------------------------------------------------------------------


def _steps(*prefixes: Mapping[str, _Scale]) -> tuple[tuple[str, float], ...]:
    """Return prefixes and multipliers from large to small, the first of each multiplier."""
    by_scale: dict[float, str] = {}
    for table in prefixes:
        for prefix, scale in table.items():
            by_scale.setdefault(_scaled("1", "0", scale), prefix)
    return tuple((by_scale[scale], scale) for scale in sorted(by_scale, reverse=True))


_TIME_STEPS: Final = _steps({p: s for p, s in _SMALL.items() if p.isascii()}, _NONE)
_DECIMAL_STEPS: Final = _steps(_LARGE, _NONE)
_BINARY_STEPS: Final = _steps(_BINARY, _NONE)
_ROUNDING: Final = 1e-12  # 5e-6 * 400e9 falls short of 2e6 by 1e-16 of it, and is 2 MB all the same
_MONEY_STEPS: Final = _steps({p: _LARGE[p] for p in "kM"}, _NONE)


def format_time(seconds: float) -> str:
    """Return a time [s] with three digits: "7.26 ms", "5 us", "0 s"."""
    return _with_prefix(seconds, _TIME_STEPS, "s")


def format_size(size_bytes: float, *, binary: bool | None = None) -> str:
    """Return a size [bytes] with three digits: "2 MB", or "1.91 MiB" when `binary`.

    When `binary` is not given, the prefix that needs no rounding is taken: "2 MB" and "16 KiB"; SI when both or none.
    """
    if binary is None:
        binary = not _is_exact(size_bytes, _DECIMAL_STEPS) and _is_exact(size_bytes, _BINARY_STEPS)
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
