"""Grids: every combination of some axes, cut into tasks that any process can evaluate, always in the same order.

Axes that choose other code (a layout, a system, an engine) make cells, which come first; those that are numbers run
inside a cell as arrays. A point that is not legal keeps its place, with the reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from nhalf.points import Points, points
from nhalf.predict.memory import FITS
from nhalf.predict.step import BINDING, COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nhalf.breakdown import Array, Quantity
    from nhalf.scenario import Scenario

CHUNK: Final = 8192
"""Points evaluated at once: an array of them is 64 KiB, so a formula's operands stay in a core's second cache."""
TASK_POINTS: Final = 4 * CHUNK
"""Points of one task: 32768, so that its numbers take 5 MB, its rows as text 10 to 25 MB."""
NUMBERS: Final = (
    "step_s", "tpot_s", *(f"{name}_s" for name in COLUMNS), "running", "tokens_per_s_per_user", "tokens_per_s_per_gpu",
    "memory_bytes", "binding", "fits_memory",
)  # fmt: skip
"""What is evaluated of a point, by its key; `binding` is an index in `COLUMNS`, `fits_memory` one in `FITS`."""
Numbers: TypeAlias = "dict[str, Array]"
Workload: TypeAlias = "tuple[Scenario, tuple[tuple[str, Array], ...]]"
"""What is needed to evaluate a cell: its scenario, and the paths and values of the inner axes."""
_PROMPT, _OUTPUT, _CONTEXT = "workload.prompt_tokens", "workload.output_tokens", "workload.context_tokens"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cell:
    """Points that share a scenario but for its inner axes: the values of the outer ones, or why they are not legal."""

    labels: tuple[str | int, ...]
    scenario: Scenario | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Inner:
    """An axis of numbers: the name that it has in the table, the path of the input, and its values."""

    name: str
    path: str
    values: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """All points: cells, and inside each the combinations of the inner axes, of which the last changes first."""

    outer: tuple[str, ...]
    cells: tuple[Cell, ...]
    inner: tuple[Inner, ...]

    @property
    def points_per_cell(self) -> int:
        """Return how many points each cell has."""
        return int(np.prod([len(axis.values) for axis in self.inner], dtype=np.int64)) if self.inner else 1

    @property
    def points(self) -> int:
        """Return how many points there are."""
        return len(self.cells) * self.points_per_cell

    def tasks(self, points: int = TASK_POINTS) -> Iterator[Task]:
        """Yield the tasks in the order of the table, each of at most so many points of one cell."""
        count = self.points_per_cell
        for cell in range(len(self.cells)):
            for start in range(0, count, points):
                yield Task(cell=cell, start=start, stop=min(start + points, count))

    def workload(self, task: Task) -> Workload | None:
        """Return what is needed to evaluate a task's cell; None where that is not legal."""
        scenario = self.cells[task.cell].scenario
        return None if scenario is None else (scenario, tuple((axis.path, axis.values) for axis in self.inner))

    def values(self, task: Task) -> dict[str, Array]:
        """Return the values of the inner axes at a task's points, by name."""
        places = _places(task.start, task.stop, [len(axis.values) for axis in self.inner])
        return {axis.name: axis.values[place] for axis, place in zip(self.inner, places, strict=True)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The points `start` to `stop` of a cell."""

    cell: int
    start: int
    stop: int

    @property
    def points(self) -> int:
        """Return how many points it has."""
        return self.stop - self.start


def _places(start: int, stop: int, lengths: list[int]) -> list[Array]:
    """Return the place on each axis of the points `start` to `stop`; the last axis changes first."""
    index = np.arange(start, stop)
    found = []
    for length in reversed(lengths):
        index, place = np.divmod(index, length)
        found.append(place)
    return found[::-1]


def evaluate(cell: Workload, task: Task) -> Numbers:
    """Return the numbers of a task's points, arrays of one entry a point by the keys of `NUMBERS`."""
    scenario, axes = cell
    answers: Numbers = {name: np.empty(task.points) for name in NUMBERS}
    lengths = [len(values) for _, values in axes]
    for start in range(task.start, task.stop, CHUNK):
        stop = min(start + CHUNK, task.stop)
        places = _places(start, stop, lengths)
        changes: dict[str, Quantity] = {path: values[place] for (path, values), place in zip(axes, places, strict=True)}
        found = _points(scenario, changes, stop - start)
        here = slice(start - task.start, stop - task.start)
        for name, values in numbers_of(found).items():
            answers[name][here] = values
    return answers


def _points(scenario: Scenario, changes: dict[str, Quantity], count: int) -> Points:
    """Return the points of a cell; a context that no axis states follows the prompts."""
    if _PROMPT in changes or _OUTPUT in changes:
        prompt, output = (changes.get(path, scenario.value(path)) for path in (_PROMPT, _OUTPUT))
        changes.setdefault(_CONTEXT, prompt + output / 2)
    return points(scenario, changes) if changes else Points(scenario=scenario, count=count)


def numbers_of(found: Points) -> Numbers:
    """Return what a table says of points, by the keys of `NUMBERS`."""
    return {
        "step_s": found.step_s,
        "tpot_s": found.tpot_s,
        **{f"{name}_s": owed for name, owed in found.columns.items()},
        "running": found.running,
        "tokens_per_s_per_user": found.tokens_per_s_per_user,
        "tokens_per_s_per_gpu": found.tokens_per_s_per_gpu,
        "memory_bytes": found.memory_bytes,
        "binding": found.binds.astype(np.float64),
        "fits_memory": found.fit_codes.astype(np.float64),
    }


@dataclass(slots=True, kw_only=True)
class Tally:
    """What a sweep says as a whole, gathered task by task: how many points, why some are not legal, and the fastest.

    `best` is the fastest point that fits, with its axes; `best_by` the same for each value of the first axis.
    """

    points: int = 0
    legal: int = 0
    fitting: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    best: Spot | None = None
    best_by: dict[str | int | float, Spot] = field(default_factory=dict)

    def add(self, grid: Grid, task: Task, answers: Numbers | None) -> None:
        """Count a task's points, and keep the fastest of them."""
        self.points += task.points
        cell = grid.cells[task.cell]
        if answers is None:
            self.reasons[cell.reason] = self.reasons.get(cell.reason, 0) + task.points
            return
        self.legal += task.points
        fits = answers["fits_memory"] > 0
        self.fitting += int(np.count_nonzero(fits))
        times = np.where(fits, answers["tpot_s"], np.inf)
        spot = _fastest(grid, task, answers, times)
        if spot and (self.best is None or spot.tpot_s < self.best.tpot_s):
            self.best = spot
        if grid.outer:
            self._first(cell.labels[0], spot)
            return
        values = grid.values(task)[grid.inner[0].name]
        for value in np.unique(values).tolist():
            self._first(value, _fastest(grid, task, answers, np.where(values == value, times, np.inf)))

    def join(self, other: Tally) -> None:
        """Count the points that follow in another tally."""
        self.points, self.legal = self.points + other.points, self.legal + other.legal
        self.fitting += other.fitting
        for reason, count in other.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + count
        if other.best and (self.best is None or other.best.tpot_s < self.best.tpot_s):
            self.best = other.best
        for value, spot in other.best_by.items():
            self._first(value, spot)

    def _first(self, value: str | float, spot: Spot | None) -> None:
        """Keep a point when it is the fastest of a value of the first axis."""
        if spot and (value not in self.best_by or spot.tpot_s < self.best_by[value].tpot_s):
            self.best_by[value] = spot


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """One point of a grid: its axes by name and its numbers by key; without numbers it is not legal, for a reason."""

    axes: dict[str, str | int | float]
    numbers: dict[str, float] = field(default_factory=dict)
    reason: str = ""

    @property
    def step_s(self) -> float:
        """Return its step [s]; NaN where it is not legal."""
        return self.numbers.get("step_s", math.nan)

    @property
    def tpot_s(self) -> float:
        """Return its time per token [s]; NaN where it is not legal."""
        return self.numbers.get("tpot_s", math.nan)

    @property
    def tokens_per_s_per_user(self) -> float:
        """Return the tokens/s of a sequence; NaN where it is not legal."""
        return self.numbers.get("tokens_per_s_per_user", math.nan)

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """Return the tokens/s of a device; NaN where it is not legal."""
        return self.numbers.get("tokens_per_s_per_gpu", math.nan)

    @property
    def columns(self) -> dict[str, float]:
        """Return the columns of its step [s], by the names of `COLUMNS`."""
        return {name: self.numbers[f"{name}_s"] for name in COLUMNS} if self.numbers else {}

    @property
    def binding(self) -> str:
        """Return the word for the largest column."""
        return BINDING[COLUMNS[int(self.numbers["binding"])]] if self.numbers else ""

    @property
    def fits_memory(self) -> str:
        """Return whether it fits in memory."""
        return FITS[int(self.numbers["fits_memory"])] if self.numbers else "no"


def spots(grid: Grid, task: Task, answers: Numbers | None) -> Iterator[Spot]:
    """Yield the points of a task."""
    cell, inner = grid.cells[task.cell], grid.values(task)
    labels = dict(zip(grid.outer, cell.labels, strict=True))
    for place in range(task.points):
        axes = {**labels, **{name: float(values[place]) for name, values in inner.items()}}
        if answers is None:
            yield Spot(axes=axes, reason=cell.reason)
        else:
            yield Spot(axes=axes, numbers={name: float(values[place]) for name, values in answers.items()})


def _fastest(grid: Grid, task: Task, answers: Numbers, times: Array) -> Spot | None:
    """Return the fastest point of a task, or None where none fits."""
    place = int(np.argmin(times))
    if not np.isfinite(times[place]):
        return None
    one = Task(cell=task.cell, start=task.start + place, stop=task.start + place + 1)
    return next(spots(grid, one, {name: values[place : place + 1] for name, values in answers.items()}))
