"""One intake: every format in every wrapping is read, and of a log that is cut whatever stands before the cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.logs.intake import CUTS, SHAPES, Shape, cut, times, wrapped

from nhalf.errors import InputError
from nhalf.evidence.readers.reading import _read_one
from nhalf.evidence.readers.source import Source

if TYPE_CHECKING:
    from nhalf.evidence.table import Table


def read(content: bytes) -> list[Table]:
    return [table for table in _read_one(Source(name="log", content=content), None, in_folder=False) if table.points]


def check(tables: list[Table], shape: Shape, *, whole: bool, ranks: bool = True) -> int:
    """Hold what was read against the one truth; return the number of points."""
    truth = {float(size): time * 1e-6 for size, time in times()}
    points = [point for table in tables for point in table.points]
    for table in tables:
        assert str(table.op) == shape.op or not whole
        if ranks:
            assert table.ranks == shape.ranks
    for point in points:
        assert point.seconds == pytest.approx(truth[point.size_bytes], rel=shape.tolerance)
    if whole:
        assert {point.size_bytes for point in points} == set(truth)
    return len(points)


SOME = {"mpirun", "docker", "kubectl time", "colour", "utf-16", "wrapped at 80", "json message", "chatter", "fence"}
"""The wrappings in which a log is cut at every place; the others are cut at one."""
CASES = [(name, how, content) for name, shape in SHAPES.items() for how, content in wrapped(shape).items()]


@pytest.mark.parametrize(("name", "how", "content"), CASES, ids=[f"{name}-{how}" for name, how, _ in CASES])
def test_every_wrapping_of_every_format_is_read(name: str, how: str, content: bytes) -> None:
    del how
    check(read(content), SHAPES[name], whole=True)


@pytest.mark.parametrize("part", CUTS)
@pytest.mark.parametrize("name", SHAPES)
def test_a_log_that_is_cut_gives_what_stands_before_the_cut(name: str, part: float) -> None:
    shape = SHAPES[name]
    for how, content in wrapped(cut(shape, part)).items():
        if how not in SOME and part != CUTS[-2]:
            continue
        try:
            found = read(content)
        except InputError:
            found = []
        if "csv-no-unit" not in name:  # a few rows may not tell the unit
            assert check(found, shape, whole=False, ranks=False) >= (8 if part > 0.9 else 1 if part > 0.5 else 0), how
