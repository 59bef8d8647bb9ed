"""Emitted functions: the numbers of a scenario as one straight-line function of some of its inputs.

The tree of a scenario is built once on traced arrays (`nhalf.tape`), from the very formulas that it shows; what was
computed is written down as Python. The function serves plain numbers and arrays, and is right to the last digit for as
long as it answers the code's questions as the recorded inputs did. The tree is for looking at.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf.breakdown import Term, columns, is_array
from nhalf.errors import InputError, did_you_mean
from nhalf.predict import layer
from nhalf.predict.memory import needed
from nhalf.predict.prefill import predicted
from nhalf.predict.step import COLUMNS
from nhalf.tape import LeftError, Tape, UntraceableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nhalf.breakdown import Quantity
    from nhalf.scenario import Scenario

STEP: Final = "step_s"
RUNNING: Final = "running"
MEMORY: Final = "memory_bytes"
LEAST: Final = "least_bytes"
TOLERANCE: Final = 1e-12
"""By how much an emitted function may leave the tree [1] before it is not used."""


def running(scenario: Scenario) -> Quantity:
    """Return the sequences that run at once: fewer than the batch where the cache has no room for all."""
    found = layer.running(scenario)
    return found.value if isinstance(found, Term) else found


def least(scenario: Scenario) -> Quantity:
    """Return the sequences that must fit: all, or where they queue for room one on each attention rank."""
    run, batch = running(scenario), scenario.workload.batch
    return batch if run is batch else np.where(np.less(run, batch), float(scenario.layout.attention_dp), batch)


def numbers(scenario: Scenario) -> dict[str, Quantity]:
    """Return what the points of a scenario are made of: step [s], its columns [s], sequences, and bytes held."""
    step = predicted(scenario)
    owed = columns(step)
    return {
        STEP: step.value,
        **{name: owed.get(name, 0.0) for name in COLUMNS},
        RUNNING: running(scenario),
        MEMORY: needed(scenario, running(scenario)).value,
        LEAST: needed(scenario, least(scenario)).value,
    }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Emitted:
    """The numbers of a scenario as a function of its inputs at `paths`; `source` is the function as text.

    >>> import nhalf
    >>> scenario = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8, weights="fp8")
    >>> step = nhalf.emit(scenario, "workload.batch")
    >>> step(16.0)["step_s"] == nhalf.decode(scenario.having({"workload.batch": 16.0})).value
    True
    """

    scenario: Scenario
    paths: tuple[str, ...]
    source: str
    _names: tuple[str, ...]
    _of_numbers: Callable[..., tuple[Any, ...]]
    _of_arrays: Callable[..., tuple[Any, ...]]

    def __call__(self, *values: Quantity) -> dict[str, Quantity]:
        """Return the numbers for values of the paths, in their order: floats of floats, arrays of arrays.

        Inputs that answer a question of the model otherwise than the recorded ones get what the tree says.
        """
        try:
            if any(map(is_array, values)):
                return dict(zip(self._names, self._of_arrays(*values), strict=True))
            return dict(zip(self._names, self._of_numbers(*values), strict=True))
        except (LeftError, ArithmeticError, ValueError):
            return numbers(self.scenario.moved(dict(zip(self.paths, values, strict=True))))

    def __repr__(self) -> str:
        """Return of what it is a function, and how long it is."""
        lines = self.source.count("\n") - 2
        return f"<Emitted: {self.scenario.transformer.name} by {', '.join(self.paths)}, {lines} lines>"

    def audit(self, tries: int = 20, seed: int = 1) -> float:
        """Return the largest relative distance from the tree [1] over random inputs within a factor of 4."""
        draw = np.random.default_rng(seed)
        inputs = [np.asarray(self.scenario.value(path), dtype=np.float64) for path in self.paths]
        worst = 0.0
        for _ in range(tries):
            values = [float(np.mean(each)) * float(np.exp2(draw.uniform(-2, 2))) for each in inputs]
            tree = numbers(self.scenario.moved(dict(zip(self.paths, values, strict=True))))
            worst = max(worst, _apart(self(*values), tree))
        return worst


_WARM: Final = 12.0
"""How often a tree is built for some inputs before its function is emitted, which costs as much as several trees."""
_MANY: Final = 2048
"""Points whose arithmetic takes as long as a tree of one point: an array of so many counts twice."""


@dataclass(slots=True, eq=False)
class _History:
    """How often a scenario was evaluated by some of its inputs, and the function of them."""

    asked: float = 0.0
    function: Emitted | None = None


@lru_cache(maxsize=64)
def _history(scenario: Scenario, paths: tuple[str, ...]) -> _History:
    """Return the history of a scenario, which is kept while it is among those that were asked for last."""
    del scenario, paths
    return _History()


def known(scenario: Scenario, changes: Mapping[str, Quantity]) -> dict[str, Quantity] | None:
    """Return the numbers of a scenario with some inputs replaced, by its emitted function; None before it pays."""
    history = _history(scenario, tuple(changes))
    if history.asked < _WARM:
        history.asked += 1 + max(np.size(value) for value in changes.values()) / _MANY
        if history.asked >= _WARM:
            history.function = emitted(scenario, changes)
    return history.function(*changes.values()) if history.function else None


def _arguments(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return a name for each path: as many of its last words as it takes to tell it from the others."""

    def name(path: str) -> str:
        words = path.split(".")
        for count in range(1, len(words) + 1):
            end = ".".join(words[-count:])
            if sum(other.endswith(end) for other in paths) == 1:
                break
        return end.replace(".", "_")

    return tuple(map(name, paths))


def _apart(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> float:
    """Return the largest relative distance between numbers [1]."""
    pairs = [np.broadcast_arrays(np.asarray(one[name], np.float64), np.asarray(other[name])) for name in other]
    tiny = np.finfo(float).tiny
    return max(float(np.max(np.abs(a - b) / np.maximum(np.abs(b), tiny), initial=0.0)) for a, b in pairs)


def emit(scenario: Scenario, *paths: str) -> Emitted:
    """Return the numbers of a scenario as one function of its inputs at some paths.

    Raises
    ------
    InputError
        A path that is no input, or a model that cannot be written down as one function.
    """
    known = dict(scenario.inputs())
    for path in paths or ("",):
        if path not in known:
            what = f"there is no input {path!r}" if path else "no input is named"
            raise InputError(what, where="nhalf.emit", allowed="a path that scenario.inputs() yields",
                             do=did_you_mean(path, known) or 'such as "workload.batch"')  # fmt: skip
    values = {path: np.atleast_1d(np.asarray(known[path], dtype=np.float64)) for path in paths}
    made = emitted(scenario, values)
    if made is None:
        raise InputError("the numbers of this scenario are no straight line of these inputs", where="nhalf.emit",
                         do="evaluate it by nhalf.decode, with arrays for many points")  # fmt: skip
    return made


def emitted(scenario: Scenario, values: Mapping[str, Quantity]) -> Emitted | None:
    """Return the function of a scenario by some inputs as it stands at their values; None where there is none.

    It is compared with the tree at these values before anybody uses it.
    """
    tape = Tape()
    traced = {path: tape.input(np.atleast_1d(np.asarray(value, dtype=np.float64))) for path, value in values.items()}
    try:
        made = numbers(scenario.moved(traced))
        source = tape.source(_arguments(tuple(values)), made)
    except UntraceableError:
        return None
    function = Emitted(
        scenario=scenario, paths=tuple(values), source=source, _names=tuple(made),
        _of_numbers=tape.function(source, plain=True), _of_arrays=tape.function(source, plain=False),
    )  # fmt: skip
    return function if _apart(function(*values.values()), numbers(scenario.moved(values))) <= TOLERANCE else None
