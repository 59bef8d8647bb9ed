"""Numbers as tools print them, and what their rounding allows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nhalf.collective import Op
from nhalf.evidence.readers.inference import PARTS, implied_op, ranks_for, ratio
from nhalf.evidence.readers.numerals import half_step, integer, real, size


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("1.86", 1.86), ("1,86", 1.86), ("12063", 12063.0), ("2e+04", 2e4), ("1,234.5", 1234.5), ("1.234,5", 1234.5)),
        *(("1,048,576", 1048576.0), ("1.048.576", 1048576.0), ("-0.5", -0.5), (".5", 0.5)),
        *(("N/A", None), ("nan", None), ("inf", None), ("", None), ("1e999", None), ("12.", None), ("12,", None)),
        *(("0x1b", None), ("1_000", None), ("--", None), ("1.2.3", None)),
    ],
)
def test_real(text: str, value: float | None) -> None:
    assert real(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("4096", 4096), ("1,048,576", 1048576), ("1.048.576", 1048576), ("4096.5", None), ("1,04", None), ("-1", None)],
)
def test_integer(text: str, value: int | None) -> None:
    assert integer(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("5.90", 0.005), ("1,9", 0.05), ("12063", 0.5), ("2e+04", 5e3), ("1.5e-3", 5e-5), ("25.842442", 0.0)],
)
def test_half_step(text: str, value: float) -> None:
    assert half_step(text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "binary", "value"),
    [
        *(("16KiB", False, 16384.0), ("1.5 MiB", False, 1572864.0), ("2 MB", False, 2e6), ("2 MB", True, 2097152.0)),
        *(
            ("24.0kB", True, 24576.0),
            ("4096", False, 4096.0),
            ("4096 bytes", False, 4096.0),
            ("4G", True, 4294967296.0),
        ),
        *(("MB", False, None), ("12 us", False, None), ("-4B", False, None)),
    ],
)
def test_size(text: str, value: float | None, *, binary: bool) -> None:
    assert size(text, binary=binary) == value


@given(st.floats(min_value=0.001, max_value=1e6), st.integers(0, 6))
def test_a_printed_number_is_within_its_own_rounding(value: float, places: int) -> None:
    text = f"{value:.{places}f}"
    shown, half = real(text), half_step(text)
    assert shown is not None
    assert abs(shown - value) <= half * (1.0 + 1e-9) + (1e-6 * value if half == 0.0 else 0.0)


@given(ranks=st.integers(2, 64), op=st.sampled_from([Op.ALL_REDUCE, *PARTS]))
def test_ranks_follow_from_bandwidths(ranks: int, op: Op) -> None:
    factor = (2.0 if op is Op.ALL_REDUCE else 1.0) * (ranks - 1) / ranks
    pairs = [(f"{rate:.2f}", f"{rate * factor:.2f}") for rate in (0.0, 0.01, 20.0, 150.0, 301.3)]
    found = ratio(pairs)
    assert found is not None
    assert found.low <= factor * (1.0 + 1e-6)
    assert ranks_for(op, found) == ranks
    if op is Op.ALL_REDUCE and ranks > 2:
        assert implied_op(found) is Op.ALL_REDUCE


def test_ranks_that_rounding_leaves_open_stay_open() -> None:
    found = ratio([("0.24", "0.42")])
    assert found is not None
    assert ranks_for(Op.ALL_REDUCE, found) is None


def test_contradicting_rows_imply_nothing() -> None:
    assert ratio([("100.00", "175.00"), ("100.00", "150.00")]) is None
