"""Every border value can be traced, and contradictions are refused."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

from nhalf.citation import KINDS, Datum, Source
from nhalf.errors import InputError

ALPHA = Datum(
    value=5e-6,
    unit="s",
    source="nccl-tuning",
    locator="row 3",
    kind="assumed",
    date="2026-02",
    low=3e-6,
    high=9e-6,
)


def test_a_datum_keeps_what_it_was_given() -> None:
    assert (ALPHA.value, ALPHA.unit, ALPHA.low, ALPHA.high, ALPHA.note) == (5e-6, "s", 3e-6, 9e-6, "")


def test_a_datum_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        ALPHA.value = 1.0  # type: ignore[misc]


def test_kinds_are_those_of_the_design() -> None:
    assert KINDS == ("datasheet", "measured", "fitted", "derived", "assumed", "given")


@pytest.mark.parametrize("field", ["source", "unit", "locator"])
@pytest.mark.parametrize("blank", ["", "  ", "\t", None])
def test_a_blank_field_is_refused_by_name(field: str, blank: str | None) -> None:
    with pytest.raises(InputError, match=f"{field} is blank"):
        replace(ALPHA, **{field: blank})  # type: ignore[arg-type]


def test_an_unknown_kind_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(InputError, match="kind 'measurd' is unknown") as caught:
        replace(ALPHA, kind="measurd")  # type: ignore[arg-type]
    assert "Did you mean 'measured'?" in str(caught.value)
    assert all(kind in caught.value.allowed for kind in KINDS)


@pytest.mark.parametrize("field", ["value", "low", "high"])
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, True, "5us", "5e-6", [1.0, 2.0], 10**400])
def test_what_is_not_a_finite_number_is_refused(field: str, number: object) -> None:
    wrong: dict[str, Any] = {field: number}
    with pytest.raises(InputError, match=f"{field} .* is not a finite number"):
        replace(ALPHA, **wrong)


def test_a_missing_value_is_refused_and_missing_bounds_are_not() -> None:
    wrong: dict[str, Any] = {"value": None}
    with pytest.raises(InputError, match="value None is not a finite number"):
        replace(ALPHA, **wrong)
    unbounded = replace(ALPHA, low=None, high=None)
    assert unbounded.low is None
    assert unbounded.high is None


@pytest.mark.parametrize(
    "bounds",
    [{"low": 6e-6}, {"high": 4e-6}, {"low": 9e-6, "high": 3e-6}, {"low": 6e-6, "high": None}, {"low": None, "high": 0}],
)
def test_a_value_outside_its_bounds_is_refused(bounds: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"is outside low .* and high"):
        replace(ALPHA, **bounds)


def test_bounds_may_touch_the_value() -> None:
    assert replace(ALPHA, low=5e-6, high=5e-6).low == 5e-6


def test_numbers_become_plain_floats() -> None:
    numbers: dict[str, Any] = {"value": np.float64(5e-6), "low": 0, "high": np.int64(1)}
    made = replace(ALPHA, **numbers)
    assert [type(number) for number in (made.value, made.low, made.high)] == [float, float, float]


@pytest.mark.parametrize("date", ["", "2026", "2026-02", "2026-02-28"])
def test_an_iso_date_or_none_is_accepted(date: str) -> None:
    assert replace(ALPHA, date=date).date == date
    assert Source(key="a", title="b", date=date).date == date


@pytest.mark.parametrize("date", ["28.02.2026", "2026-13", "2026-02-32", "Feb 2026", "2026-2", " 2026"])
def test_another_date_is_refused(date: str) -> None:
    with pytest.raises(InputError, match="is not an ISO date"):
        replace(ALPHA, date=date)
    with pytest.raises(InputError, match="is not an ISO date"):
        Source(key="a", title="b", date=date)


def test_an_error_says_which_value_it_is_about() -> None:
    with pytest.raises(InputError) as caught:
        replace(ALPHA, low=6e-6)
    assert caught.value.where == "value from 'nccl-tuning', 'row 3'"


@pytest.mark.parametrize("field", ["key", "title"])
def test_a_source_without_a_key_or_a_title_is_refused(field: str) -> None:
    with pytest.raises(InputError, match=f"{field} is blank"):
        Source(**{"key": "a", "title": "b", field: " "})
