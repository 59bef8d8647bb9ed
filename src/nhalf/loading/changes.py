"""Changes: the inputs that a user sets by path, with their units, and what looks wrong but is possible."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nhalf import units
from nhalf.citation import Datum
from nhalf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.breakdown import Quantity
    from nhalf.scenario import Scenario

BIDIRECTIONAL = 1.3
"""A bandwidth this many times the known one-way rate is most likely the sum of both directions."""
_SUFFIXES = {"_bytes_per_s": "bytes/s", "_flop_per_s": "FLOP/s", "_bytes": "bytes", "_s": "s"}


def apply(scenario: Scenario, changes: Mapping[str, str]) -> tuple[Scenario, list[str]]:
    """Return the scenario with the texts of `--set` applied as given values, and warnings about them.

    Raises
    ------
    InputError
        A path that is no input, a value without its unit, or one that is impossible.
    """
    values: dict[str, Quantity] = {}
    origins = dict(scenario.origins)
    warnings: list[str] = []
    for path, text in changes.items():
        where = f"--set {path}"
        before = scenario.value(path)
        unit = unit_of(path)
        count = isinstance(before, int)
        value = units.parse_count(text, where=where) if count else units.parse_for_unit(text, unit, where=where)
        if path.endswith("_efficiency") and not 0 < value <= 1:
            raise InputError(f"{text!r} is no share of a datasheet rate", where=where, allowed="more than 0, at most 1")
        values[path] = value
        origins[path] = Datum(value=value, unit=unit, source="--set", locator=path, kind="given", date="")
        if path.endswith("bandwidth_bytes_per_s") and path.startswith("system.fabric"):
            warnings += bidirectional(value, float(before), where)
    return replace(scenario.having(values), origins=origins), warnings


def unit_of(path: str) -> str:
    """Return the unit that the suffix of a path states; "1" where it states none."""
    return next((unit for suffix, unit in _SUFFIXES.items() if path.endswith(suffix)), "1")


def bidirectional(value: float, known_one_way: float, where: str) -> list[str]:
    """Return a warning when a bandwidth [bytes/s] is well above the known one-way rate, else nothing."""
    if value < BIDIRECTIONAL * known_one_way:
        return []
    half = units.format_bandwidth(value / 2)
    given, known, half = (units.format_bandwidth(rate) for rate in (value, known_one_way, value / 2))
    doubt = f"{given} looks bidirectional: the known rate is {known} one way"
    return [f"{where}: {doubt}; did you mean {half}?"]
