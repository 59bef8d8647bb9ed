"""Slices of a grid: the points along one or two of its axes through one point, evaluated as the sweep does.

A sweep may have 10^9 points, of which a picture shows a few hundred: those through its fastest point, or, where none
fits, through its first legal one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.decide.grid import Grid, Spot, spots
from nhalf.decide.workers import here

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nhalf.breakdown import Array
    from nhalf.decide.grid import Cell, Tally
    from nhalf.scenario import Scenario

Value = str | int | float
MOST: Final = 60
"""Values of one axis in a slice; of more, these are picked in equal steps, both ends among them."""
_ROUNDING: Final = 1e-12
"""How far apart sums of the same terms may be [relative]: thousands of roundings of a double."""


def names(grid: Grid) -> list[str]:
    """Return the names of all axes, in their order."""
    return [*grid.outer, *(axis.name for axis in grid.inner)]


def values(grid: Grid, name: str) -> list[Value]:
    """Return the values of an axis."""
    if name in grid.outer:
        place = grid.outer.index(name)
        return list(dict.fromkeys(cell.labels[place] for cell in grid.cells))
    found: list[Value] = next(axis.values.tolist() for axis in grid.inner if axis.name == name)
    return found


def centre(grid: Grid, tally: Tally) -> dict[str, Value]:
    """Return the axes of the fastest point that fits; where none does, of the first that is legal."""
    if tally.best is not None:
        return dict(tally.best.axes)
    legal = next((cell for cell in grid.cells if cell.scenario is not None), grid.cells[0])
    first = {axis.name: float(axis.values[0]) for axis in grid.inner}
    return {**dict(zip(grid.outer, legal.labels, strict=True)), **first}


def scenario(grid: Grid, at: Mapping[str, Value]) -> Scenario | None:
    """Return the scenario of a point, None where it is not legal."""
    cell = next(_cells(grid, at, ()))
    if cell.scenario is None:
        return None
    return cell.scenario.having({axis.path: float(at[axis.name]) for axis in grid.inner})


def cut(grid: Grid, at: Mapping[str, Value], along: Sequence[str], most: int = MOST) -> list[Spot]:
    """Return the points through `at` along some axes, in the order of the table; the other axes keep their values."""
    inner = tuple(
        replace(axis, values=_picked(axis.values, most) if axis.name in along else np.array([float(at[axis.name])]))
        for axis in grid.inner
    )
    small = Grid(outer=grid.outer, cells=tuple(_cells(grid, at, along)), inner=inner)
    return [spot for task, answers in here(small, small.tasks()) for spot in spots(small, task, answers)]


def idle(grid: Grid, at: Mapping[str, Value]) -> list[str]:
    """Return the axes that change nothing at a point: each of their values there takes the same step, and fits alike.

    An axis of one value is none of them, and neither is one of whose values some are not legal.
    """
    return [name for name in names(grid) if len(values(grid, name)) > 1 and _alike(cut(grid, at, [name]))]


def _alike(along: Sequence[Spot]) -> bool:
    """Return whether points are legal, fit alike, and take the same time but for rounding."""
    first = along[0]
    return all(
        spot.numbers
        and math.isclose(spot.tpot_s, first.tpot_s, rel_tol=_ROUNDING)
        and spot.fits_memory == first.fits_memory
        for spot in along
    )


def _cells(grid: Grid, at: Mapping[str, Value], along: Sequence[str]) -> Iterator[Cell]:
    """Yield the cells that lie along some axes through a point."""
    fixed = [(place, at[name]) for place, name in enumerate(grid.outer) if name not in along]
    for cell in grid.cells:
        if all(cell.labels[place] == label for place, label in fixed):
            yield cell


def _picked(given: Array, most: int) -> Array:
    """Return at most so many of the values, in equal steps, both ends among them."""
    if len(given) <= most:
        return given
    found: Array = given[np.unique(np.linspace(0, len(given) - 1, most).round().astype(int))]
    return found
