"""Quantiles are those of the tables, and are written down once."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import NormalDist

import pytest

import nhalf
from nhalf.quantiles import TO_SIGMA, Z80, Z95, normal_below, student

NORMAL = NormalDist()


def test_the_quantiles_of_the_normal_are_those_of_the_standard_library() -> None:
    assert pytest.approx([NORMAL.inv_cdf(part) for part in (0.9, 0.975, 0.75)], rel=1e-12) == [Z80, Z95, 1 / TO_SIGMA]
    for deviations in (-6.0, -1.0, 0.0, 0.3, Z95):
        assert normal_below(deviations) == pytest.approx(NORMAL.cdf(deviations), rel=1e-12)


@pytest.mark.parametrize(
    ("freedom", "level", "expected"), [(1, 0.95, 12.706), (2, 0.95, 4.303), (5, 0.8, 1.476), (10, 0.95, 2.228)]
)
def test_students_t_is_the_tabulated_one(freedom: int, level: float, expected: float) -> None:
    assert student(freedom, level) == pytest.approx(expected, abs=5e-4)


def test_students_t_tends_to_the_normal() -> None:
    assert student(10**7) == pytest.approx(Z95, rel=1e-6)


def test_no_other_module_writes_a_quantile_down() -> None:
    written = re.compile(
        r"\b(1\.96|1\.95996\d*|1\.28155?\d*|1\.2816|1\.4826\d*|0\.6745)\b|\bNormalDist\b|\bstdtrit\b|scipy\.stats"
    )
    root = Path(nhalf.__file__).parent
    found = {
        path.relative_to(root).as_posix(): match[0]
        for path in root.rglob("*.py")
        if path.name != "quantiles.py" and (match := written.search(path.read_text(encoding="utf-8")))
    }
    assert found == {}
