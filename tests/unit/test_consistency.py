"""Numbers of a log that cannot be are left out, with the line and the reason."""

from __future__ import annotations

import pytest

from nhalf.evidence.readers.consistency import checked
from nhalf.evidence.table import Figure, Point, Table


@pytest.mark.parametrize("of", ["latency", "bandwidth", "time"])
def test_a_figure_below_zero_is_left_out_and_zero_is_not(of: str) -> None:
    figures = tuple(Figure(of=of, value=value, line=line) for line, value in ((7, -5e-7), (8, 0.0), (9, 2e-6)))  # type: ignore[arg-type]
    found = checked(Table(file="a.log", tool="sockperf", figures=figures))
    assert [each.line for each in found.figures] == [8, 9]
    assert [(each.line, each.why) for each in found.skipped] == [(7, f"a {of} below zero cannot be: it is damaged")]


def test_points_stay_where_figures_go() -> None:
    points = tuple(Point(size_bytes=float(size), seconds=1e-5 + size / 1e9, line=size) for size in (8, 1024, 65536))
    figures = (Figure(of="latency", value=-1.0, line=3),)
    found = checked(Table(file="a.log", tool="osu", points=points, figures=figures))
    assert found.points == points
    assert found.figures == ()
