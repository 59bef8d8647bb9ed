"""pint is the oracle of the units table, wherever pint is right.

pint reads `Gb` as gilbert and `kb` as kilobarn, and does not know `KB`, `Kbit` or `GBps`. Those spellings are compared
through the one that pint reads as we mean it, and a test shows that each still needs that.
"""

from __future__ import annotations

import re
from typing import Any, Final

import pint
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nhalf import units
from nhalf.errors import InputError
from nhalf.units.scales import DIMENSIONS

REGISTRY: Final[Any] = pint.UnitRegistry()  # pint types a registry's quantities only in part
BASE: Final = {"time": "second", "size": "byte", "bandwidth": "byte/second"}
SPELLINGS: Final = [(dimension, unit) for dimension in BASE for unit in DIMENSIONS[dimension].units]


def for_pint(unit: str) -> str:
    """Return the spelling of `unit` that pint reads as bits and bytes: whole words for `b`, `B/s` for `Bps`."""
    unit = re.sub(r"(B|b)ps$", r"\1/s", unit)
    unit = re.sub(r"b(/s)?$", r"bit\1", unit)
    return re.sub(r"^K(B|bit)", r"k\1", unit)


def by_pint(text: str, base: str) -> float:
    return float(REGISTRY.Quantity(text).to(base).magnitude)


MISREAD: Final = [(dimension, unit) for dimension, unit in SPELLINGS if for_pint(unit) != unit and unit[1:] != "bps"]


@given(spelling=st.sampled_from(SPELLINGS), number=st.decimals(min_value="0.001", max_value=10**6, places=3))
def test_a_quantity_is_what_pint_says(spelling: tuple[str, str], number: object) -> None:
    dimension, unit = spelling
    ours = units.parse(f"{number} {unit}", dimension)
    assert ours == pytest.approx(by_pint(f"{number} {for_pint(unit)}", BASE[dimension]), rel=1e-12)


@pytest.mark.parametrize(("dimension", "unit"), SPELLINGS)
def test_every_spelling_is_what_pint_says(dimension: str, unit: str) -> None:
    assert units.parse(f"1{unit}", dimension) == pytest.approx(by_pint(f"1 {for_pint(unit)}", BASE[dimension]))


@pytest.mark.parametrize(("dimension", "unit"), [(d, u) for d, u in MISREAD if u not in {"bps", "Kbps"}])
def test_the_spellings_kept_from_pint_are_those_it_misreads(dimension: str, unit: str) -> None:
    with pytest.raises((pint.DimensionalityError, pint.UndefinedUnitError)):
        by_pint(f"1 {unit}", BASE[dimension])


@pytest.mark.parametrize("unit", ["m", "kelvin", "hour", "meter", "volt", "GHz", "lightyear"])
@pytest.mark.parametrize("dimension", BASE)
def test_a_unit_of_something_else_is_refused(dimension: str, unit: str) -> None:
    assert REGISTRY.Quantity(f"5 {unit}").magnitude == 5
    with pytest.raises(InputError):
        units.parse(f"5 {unit}", dimension)
