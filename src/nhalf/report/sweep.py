"""The answer of `nhalf sweep`: the columns of its table, and what the table says as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf import units
from nhalf.decide.grid import NUMBERS
from nhalf.decide.grid_slices import idle, names
from nhalf.loading.axes import WORKLOAD
from nhalf.loading.changes import unit_of
from nhalf.predict.exchange import kind
from nhalf.predict.memory import FITS
from nhalf.predict.step import BINDING, COLUMNS
from nhalf.report.document import envelope, taken
from nhalf.report.fields import count
from nhalf.report.sweep_file import Coded, encoded, stacked
from nhalf.report.words import joined, most

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.breakdown import Array
    from nhalf.decide.grid import Grid, Numbers, Spot, Tally, Task
    from nhalf.decide.workers import Answered
    from nhalf.loading import Default
    from nhalf.report.canvas import Canvas
    from nhalf.scenario import Scenario

_UNKNOWN: Final = float("nan")
_SHOWN: Final = 16
_WORDS: Final = tuple(BINDING[name] for name in COLUMNS)


def columns(grid: Grid, task: Task, answers: Numbers | None) -> dict[str, Array | Coded]:
    """Return the columns of a task's points: the axes, those of `nhalf decode`, and why a point is not legal."""
    count, cell = task.points, grid.cells[task.cell]
    same = np.zeros(count, dtype=np.int64)
    found: dict[str, Array | Coded] = {
        name: Coded(words=(label,), codes=same) for name, label in zip(grid.outer, cell.labels, strict=True)
    }
    inner = grid.values(task)
    found |= {name: values.astype(np.int64) if name in WORKLOAD else values for name, values in inner.items()}
    blank = Coded(words=("",), codes=same)
    if answers is None or cell.scenario is None:
        nothing = Coded(words=(None,), codes=same, whole=True)
        found |= {name: blank if name in _WORDS_OF else nothing for name in _SHAPE if name not in found}
        found |= dict.fromkeys(_NUMBERS, np.full(count, _UNKNOWN))
        return found | {"binding": blank, "fits_memory": blank, "reason": Coded(words=(cell.reason,), codes=same)}
    told = _told(cell.scenario)
    found |= {
        name: Coded(words=(told[name],), codes=same, whole=name not in _WORDS_OF)
        for name in _SHAPE
        if name not in found
    }
    found |= {name: answers[name] for name in _NUMBERS}
    found |= {
        "binding": Coded(words=_WORDS, codes=answers["binding"].astype(np.int64)),
        "fits_memory": Coded(words=FITS, codes=answers["fits_memory"].astype(np.int64)),
        "reason": blank,
    }
    return found


def rows(suffix: str, grid: Grid, answered: Sequence[Answered]) -> list[bytes]:
    """Return the rows of some tasks as the file with an ending takes them."""
    return encoded(stacked([columns(grid, task, answers) for task, answers in answered]), suffix)


_NUMBERS: Final = tuple(name for name in NUMBERS if name not in ("binding", "fits_memory"))


_SHAPE: Final = ("system", "tp", "pp", "ep", "attention_dp", "cp", "moe_tp", "nodes", "kind")
_WORDS_OF: Final = ("system", "kind")


def _told(scenario: Scenario) -> dict[str, str | int | None]:
    """Return what a cell is, where no axis says so."""
    layout = scenario.layout
    return {
        "system": scenario.system.name,
        "tp": layout.tensor_parallel,
        "pp": layout.pipeline_parallel,
        "ep": layout.expert_parallel,
        "attention_dp": layout.attention_dp,
        "cp": layout.context_parallel,
        "moe_tp": layout.moe_tensor_parallel if scenario.transformer.mixture else None,
        "nodes": layout.nodes(scenario.system.fabric),
        "kind": kind(scenario),
    }


def write(grid: Grid, tally: Tally, defaults: Sequence[Default], canvas: Canvas, *, next_command: str) -> None:
    """Write what a sweep says as a whole."""
    canvas.paragraph(verdict(grid, tally), bold=True)
    if tally.best is not None:
        named = _axes(grid, tally.best)
        canvas.paragraph(f"{units.format_time(tally.best.numbers['step_s'])} per step{f' ({named})' if named else ''}")
    if len({point.step_s for point in tally.best_by.values()}) > 1:
        first = names(grid)[0]
        canvas.heading(f"The fastest that fits, by {first}")
        rows = [_row(grid, first, value, point) for value, point in list(tally.best_by.items())[:_SHOWN]]
        heads = [first, "step", "tok/s", "<most time", *(["<with"] if any(row[-1] for row in rows) else [])]
        canvas.table(heads, [row[: len(heads)] for row in rows])
        if len(tally.best_by) > _SHOWN:
            canvas.paragraph(f"{len(tally.best_by) - _SHOWN} more in the table of every point.", indent="  ")
    reasons = sorted(tally.reasons.items(), key=lambda item: -item[1])[:_SHOWN]
    canvas.listed("Not legal", [f"{count} points: {reason}" for reason, count in reasons])
    canvas.listed("Defaults taken", [f"{each.flag} {each.value}: {each.reason}" for each in defaults])
    canvas.following(next_command)


def verdict(grid: Grid, tally: Tally) -> str:
    """Return the verdict: how many points, which is fastest, and which axes make no difference there."""
    text = "1 point" if tally.points == 1 else f"{tally.points} points"
    if tally.points > tally.legal:
        text += f", {tally.points - tally.legal} not legal"
    if tally.legal > tally.fitting:
        left = tally.legal - tally.fitting
        text += f", {left} {'does' if left == 1 else 'do'} not fit in memory"
    if tally.best is None:
        return f"{text}; none is left."
    still = idle(grid, tally.best.axes)
    named, binding = _axes(grid, tally.best), most(tally.best.binding)
    if not named:
        return f"{text}; {joined(still)} {_changes(still)} nothing at the fastest, where {binding} takes the most time."
    text += f"; the fastest is {named}, where {binding} takes the most time."
    return f"{text} There {joined(still)} {_changes(still)} nothing." if still else text


def _changes(axes: Sequence[str]) -> str:
    """Return the verb for so many axes."""
    return "changes" if len(axes) == 1 else "change"


def _axes(grid: Grid, point: Spot) -> str:
    """Return the axes of a point in words, without those that change nothing there."""
    still = idle(grid, point.axes)
    return ", ".join(f"{name}={shown(name, value)}" for name, value in point.axes.items() if name not in still)


def shown(name: str, value: str | float) -> str:
    """Return a value of an axis with its unit."""
    return value if isinstance(value, str) else units.format_value(float(value), unit_of(name)).replace(" ", "")


def _row(grid: Grid, first: str, value: str | float, point: Spot) -> list[str]:
    """Return the row of the fastest point of one value of the first axis."""
    still = idle(grid, point.axes)
    others = {name: other for name, other in point.axes.items() if name not in (first, *still)}
    rest = ", ".join(f"{name.rpartition('.')[2]}={shown(name, other)}" for name, other in others.items())
    return [
        shown(first, value),
        units.format_time(point.step_s),
        count(point.tokens_per_s_per_user),
        most(point.binding),
        rest,
    ]


def document(grid: Grid, tally: Tally, file: str, defaults: Sequence[Default] = ()) -> dict[str, Any]:
    """Return the document that sums up a sweep."""
    return envelope(
        "sweep",
        {
            "verdict": verdict(grid, tally),
            "file": file or None,
            "axes": names(grid),
            "points": tally.points,
            "legal": tally.legal,
            "fitting": tally.fitting,
            "reasons": [{"reason": reason, "points": count} for reason, count in tally.reasons.items()],
            "best": _point(grid, tally.best) if tally.best else None,
            "best_by_first_axis": [_point(grid, point) for point in tally.best_by.values()],
            "defaults": taken(defaults),
        },
    )


def _point(grid: Grid, point: Spot) -> dict[str, Any]:
    return {
        **point.axes, **{name: point.numbers[name] for name in _NUMBERS}, "binding": point.binding,
        "fits_memory": point.fits_memory, "axes_without_effect": idle(grid, point.axes),
    }  # fmt: skip
