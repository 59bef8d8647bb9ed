"""Sweeps: millions of scenarios in one array evaluation, in chunks that stay in the cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nhalf.breakdown import columns
from nhalf.errors import InputError
from nhalf.layout import check
from nhalf.predict.step import COLUMNS, decode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.breakdown import Array
    from nhalf.scenario import Scenario

CHUNK = 8192
"""Scenarios evaluated at once: an array of them is 64 KiB, so a formula's operands stay in a core's second cache."""
TENSOR_PARALLEL = "layout.tensor_parallel"
"""The axis whose values choose other kernels and curves, and are therefore swept one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sweep:
    """The steps of a grid of scenarios: `step_s` and each of `columns` [s] have one dimension per axis, in order."""

    axes: Mapping[str, Array]
    step_s: Array
    columns: Mapping[str, Array]


def sweep(scenario: Scenario, axes: Mapping[str, Sequence[float] | Array], *, chunk: int = CHUNK) -> Sweep:
    """Return the decode steps of every combination of the axes' values, with all columns.

    An axis is `layout.tensor_parallel` or the path of any input; `chunk` is how many scenarios are evaluated at once.

    Raises
    ------
    InputError
        An axis that is no input or has no values, or a TP degree that is not legal.
    """
    for path, values in axes.items():
        if not len(values):
            raise InputError("the axis has no values", where=path, allowed="one or more numbers")
        if path != TENSOR_PARALLEL:
            scenario.value(path)
    grid = {path: np.asarray(values, dtype=np.float64) for path, values in axes.items()}
    degrees = [int(degree) for degree in grid.get(TENSOR_PARALLEL, [scenario.layout.tensor_parallel])]
    inner = {path: values for path, values in grid.items() if path != TENSOR_PARALLEL}
    shape = tuple(len(values) for values in inner.values())
    answers = np.zeros((len(degrees), 1 + len(COLUMNS), int(np.prod(shape))))
    for index, degree in enumerate(degrees):
        layout = replace(scenario.layout, tensor_parallel=degree)
        check(layout, scenario.transformer, scenario.system.fabric)
        _fill(answers[index], replace(scenario, layout=layout), inner, chunk)
    return _shaped(answers.reshape(len(degrees), 1 + len(COLUMNS), *shape), grid)


def _fill(answers: Array, scenario: Scenario, axes: Mapping[str, Array], chunk: int) -> None:
    """Write the step and its columns for every combination of the axes into the rows of `answers`."""
    count = answers.shape[1]
    for start in range(0, count, chunk):
        stop = min(start + chunk, count)
        index = np.arange(start, stop)
        changes = {}
        for path, values in reversed(list(axes.items())):
            outer = index // len(values)
            changes[path] = values[index - outer * len(values)]
            index = outer
        step = decode(scenario.moved(changes))
        answers[0, start:stop] = step.value
        for name, value in columns(step).items():
            answers[1 + COLUMNS.index(name), start:stop] = value


def _shaped(answers: Array, axes: Mapping[str, Array]) -> Sweep:
    """Return the answers with TP, which was evaluated outermost, in its place among the axes."""
    swept = TENSOR_PARALLEL in axes
    ordered = np.moveaxis(answers, 0, 1 + list(axes).index(TENSOR_PARALLEL)) if swept else answers[0]
    return Sweep(axes=axes, step_s=ordered[0], columns=dict(zip(COLUMNS, ordered[1:], strict=True)))
