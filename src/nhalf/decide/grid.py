"""Grids: every combination of some axes, cut into tasks that any process can evaluate, always in the same order.

Axes that choose other code (a layout, a system, an engine) make cells, which come first; those that are numbers run
inside a cell as arrays. A point that is not legal keeps its place, with the reason.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.breakdown import columns
from nhalf.decide.regime import BINDING
from nhalf.decide.sweep import CHUNK
from nhalf.predict.memory import USABLE_SHARE, needed, usable_bytes
from nhalf.predict.step import COLUMNS, decode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nhalf.breakdown import Array, Quantity
    from nhalf.scenario import Scenario

TASK_POINTS: Final = 32 * CHUNK
"""Points of one task: 262144, so that its numbers take 25 MB and its words on the wire a small part of its time."""
ROWS: Final = ("step", *COLUMNS, "memory", "fits")
"""What is evaluated of a point, in this order: times [s], bytes, and whether it fits (0 no, 1 marginal, 2 yes)."""
FITS: Final = ("no", "marginal", "yes")
_MEMORY: Final = "system.device.memory_bytes"
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

    def payload(self, task: Task) -> bytes:
        """Return what a process needs to know of a task's cell besides the task."""
        paths = tuple((axis.path, axis.values) for axis in self.inner)
        return pickle.dumps((self.cells[task.cell].scenario, paths), protocol=pickle.HIGHEST_PROTOCOL)

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


def evaluate(payload: bytes, task: Task) -> Array:
    """Return the numbers of a task's points, a row for each of `ROWS`."""
    scenario, axes = _unpacked(payload)
    answers = np.empty((len(ROWS), task.points))
    lengths = [len(values) for _, values in axes]
    for start in range(task.start, task.stop, CHUNK):
        stop = min(start + CHUNK, task.stop)
        places = _places(start, stop, lengths)
        changes = {path: values[place] for (path, values), place in zip(axes, places, strict=True)}
        _fill(answers[:, start - task.start : stop - task.start], scenario, changes)
    return answers


@lru_cache(maxsize=4)
def _unpacked(payload: bytes) -> tuple[Scenario, tuple[tuple[str, Array], ...]]:
    """Return a payload as it was; the last few are kept, because tasks of a cell follow each other."""
    found: tuple[Scenario, tuple[tuple[str, Array], ...]] = pickle.loads(payload)  # noqa: S301  made by Grid.payload
    return found


def _fill(answers: Array, scenario: Scenario, changes: Mapping[str, Quantity]) -> None:
    """Write the numbers of some points into columns of the answers."""
    changed = dict(changes)
    if _PROMPT in changed or _OUTPUT in changed:
        prompt, output = (changed.get(path, scenario.value(path)) for path in (_PROMPT, _OUTPUT))
        changed.setdefault(_CONTEXT, prompt + output / 2)
    moved = scenario.having(changed)
    step = decode(moved)
    answers[0] = step.value
    owed = columns(step)
    for row, name in enumerate(COLUMNS, start=1):
        answers[row] = owed.get(name, 0.0)
    held = needed(moved).value
    low, high = usable_bytes(scenario)
    if _MEMORY in changed:
        low = high = USABLE_SHARE * changed[_MEMORY]  # type: ignore[assignment]
    answers[-2] = held
    answers[-1] = np.where(held <= low, 2.0, np.where(held <= high, 1.0, 0.0))


@dataclass(slots=True, kw_only=True)
class Tally:
    """What a sweep says as a whole, gathered task by task: how many points, why some are not legal, and the fastest.

    `best` is the fastest point that fits, with its axes; `best_by` the same for each value of the first axis.
    """

    points: int = 0
    legal: int = 0
    fitting: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    best: Point | None = None
    best_by: dict[str | int | float, Point] = field(default_factory=dict)

    def add(self, grid: Grid, task: Task, answers: Array | None) -> None:
        """Count a task's points, and keep the fastest of them."""
        self.points += task.points
        cell = grid.cells[task.cell]
        if answers is None:
            self.reasons[cell.reason] = self.reasons.get(cell.reason, 0) + task.points
            return
        self.legal += task.points
        fits = answers[-1] > 0
        self.fitting += int(np.count_nonzero(fits))
        steps = np.where(fits, answers[0], np.inf)
        point = _point(grid, task, answers, steps)
        if point and (self.best is None or point.step_s < self.best.step_s):
            self.best = point
        if grid.outer:
            self._first(cell.labels[0], point)
            return
        values = grid.values(task)[grid.inner[0].name]
        for value in np.unique(values).tolist():
            self._first(value, _point(grid, task, answers, np.where(values == value, steps, np.inf)))

    def _first(self, value: str | float, point: Point | None) -> None:
        """Keep a point when it is the fastest of a value of the first axis."""
        if point and (value not in self.best_by or point.step_s < self.best_by[value].step_s):
            self.best_by[value] = point


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point: its axes by name, its step [s], and what binds."""

    axes: dict[str, str | int | float]
    step_s: float
    binding: str


def _point(grid: Grid, task: Task, answers: Array, steps: Array) -> Point | None:
    """Return the fastest point of a task, or None where none fits."""
    place = int(np.argmin(steps))
    if not np.isfinite(steps[place]):
        return None
    one = Task(cell=task.cell, start=task.start + place, stop=task.start + place + 1)
    inner = {name: float(values[0]) for name, values in grid.values(one).items()}
    owed = answers[1 : 1 + len(COLUMNS), place]
    return Point(
        axes={**dict(zip(grid.outer, grid.cells[task.cell].labels, strict=True)), **inner},
        step_s=float(steps[place]),
        binding=BINDING[COLUMNS[int(np.argmax(owed))]],
    )
