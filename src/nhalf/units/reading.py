"""Read quantities: text becomes an SI float, or one error that says how it can be read."""

from __future__ import annotations

import re

from nhalf.errors import InputError, quoted
from nhalf.units.printing import format_value
from nhalf.units.scales import DIMENSIONS, Dimension, Scale, scaled
from nhalf.units.whole import parse_count

_NUMBER = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,9}))?\s*(.*)", re.DOTALL)
_LARGEST = 1e30
"""In SI units: nothing of a machine is larger, or smaller than one over it, and the products of two are finite."""
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity|\u221e)([^a-z].*)?", re.IGNORECASE | re.DOTALL)
_DOLLAR_FIRST = re.compile(r"([+-]?)\s*\$\s*(.*)", re.DOTALL)


def parse(text: str, dimension: str, *, where: str = "") -> float:
    """Return the quantity in `text` as an SI float: [s], [bytes], [bytes/s], [FLOP/s], [1] or [$].

    `dimension` is "time", "size", "bandwidth", "flop_rate", "count", "ratio" or "money"; `where` is the flag or
    the field that a message names. The result is the float nearest to what is written, so `5us` is exactly 5e-6.

    Raises InputError when the text has no unit, another dimension's unit, two readings, or an impossible value.
    """
    if dimension == "count":
        return float(parse_count(text, where=where))
    want = DIMENSIONS.get(dimension)
    if want is None:
        raise InputError(f"dimension {dimension!r} is unknown", where=where, allowed=", ".join([*DIMENSIONS, "count"]))
    sign, mantissa, exponent, unit = _split(text, want, where)
    scale = want.units.get(unit)
    if scale is None and not unit and sign == "-" and float(mantissa) > 0.0:
        raise _refusal(f"{quoted(text)} is negative, and has no unit", want, where)
    if scale is None:
        raise _unit_error(text, (mantissa, exponent, unit), want, where)
    value = scaled(mantissa, exponent, scale)
    if value > _LARGEST:
        raise _refusal(f"{quoted(text)} is too large", want, where)
    if 0.0 < value < 1.0 / _LARGEST or (value == 0.0 and float(mantissa) > 0.0):
        raise _refusal(f"{quoted(text)} is too small", want, where)
    if sign == "-" and value > 0.0:
        raise _refusal(f"{quoted(text)} is negative", want, where)
    if value == 0.0 and not want.zero:
        raise _refusal(f"{quoted(text)} is zero", want, where)
    return value


def parse_for_unit(text: str, unit: str, *, where: str = "") -> float:
    """Return `text` as a float in `unit`: "s", "bytes", "bytes/s", "FLOP/s", "1" (a number or a percentage) or "$".

    Raises InputError as `parse` does, and for another `unit`.
    """
    for dimension, known in DIMENSIONS.items():
        if known.unit == unit:
            return parse(text, dimension, where=where)
    allowed = ", ".join(known.unit for known in DIMENSIONS.values())
    raise InputError(f"unit {unit!r} is unknown", where=where, allowed=allowed)


def _split(text: str, want: Dimension, where: str) -> tuple[str, str, str, str]:
    """Return sign, mantissa, exponent ("0" when there is none) and unit, without spaces around a slash."""
    stripped = text.strip()
    if not stripped:
        raise _refusal(f"{want.noun} is missing: the text is empty", want, where)
    if want.unit == "$" and (dollars := _DOLLAR_FIRST.fullmatch(stripped)):
        stripped = f"{dollars[1]}{dollars[2]}$"
    if _NOT_FINITE.fullmatch(stripped):
        raise _refusal(f"{quoted(text)} is not a finite number", want, where)
    if "," in stripped:
        both = "which is a decimal point to some and a thousands mark to others"
        raise _refusal(f"{quoted(text)} has a comma, {both}", want, where, do="write a point, or no mark")
    found = _NUMBER.fullmatch(stripped)
    if not found:
        raise _refusal(f"{quoted(text)} does not start with a number", want, where)
    sign, mantissa, exponent, unit = found.groups()
    return sign, mantissa, exponent or "0", re.sub(r"\s*/\s*", "/", unit)


def _unit_error(text: str, parts: tuple[str, str, str], want: Dimension, where: str) -> InputError:
    """Return the most helpful refusal of a unit that `want` does not know."""
    mantissa, exponent, unit = parts
    number = mantissa if exponent == "0" else f"{mantissa}e{exponent}"
    if not unit:
        do = f"write {want.example.format(number)}, if that is what is meant"
        return _refusal(f"{quoted(text)} has no unit", want, where, do=do)
    others = [other.noun for other in DIMENSIONS.values() if unit in other.units]
    if others:
        do = f"write {number}{unit}/s" if f"{unit}/s" in want.units else ""
        return _refusal(f"{quoted(text)} is {others[0]}, not {want.noun}", want, where, do=do)
    readings = _readings(unit, want)
    if not readings:
        return _refusal(f"{quoted(text)} has an unknown unit", want, where)
    if len(readings) == 1:
        return _refusal(f"{quoted(text)} has an unknown unit", want, where, do=f"Did you mean '{number}{readings[0]}'?")
    shown = []
    for spelling in readings:
        written = f"{number} {spelling}"
        printed = format_value(scaled(mantissa, exponent, want.units[spelling]), want.unit)
        shown.append(written if printed == written else f"{written} = {printed}")
    what = f"{quoted(text)} can be read as {', or as '.join(shown)}"
    return _refusal(what, want, where, do=f"write {' or '.join(number + spelling for spelling in readings)}")


def _readings(unit: str, want: Dimension) -> list[str]:
    """Return the units that `unit` may stand for, one for each meaning, once case and a missing ending are forgiven."""
    meant = unit.casefold()
    stems = (meant, meant.removesuffix("/s"))
    meanings: dict[Scale, str] = {}
    for spelling, scale in want.units.items():
        begun = any(e in spelling and spelling.removesuffix(e).casefold() in stems for e in want.endings)
        if begun or spelling.casefold() == meant:
            meanings.setdefault(scale, spelling)
    return sorted(meanings.values(), key=lambda spelling: scaled("1", "0", want.units[spelling]))


def _refusal(what: str, want: Dimension, where: str, *, do: str = "") -> InputError:
    return InputError(what, where=where, allowed=want.allowed, do=do)
