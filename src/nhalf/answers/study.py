"""A study: every combination of some axes of a scenario, as columns and as a frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf.answers.answer import html_table
from nhalf.decide import workers
from nhalf.decide.grid import Tally
from nhalf.errors import InputError, in_python
from nhalf.loading import axes as loading
from nhalf.loading.request import keywords
from nhalf.report import sweep as report
from nhalf.report import sweep_file
from nhalf.report.fields import BY_KEY, PARTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.breakdown import Array
    from nhalf.report.sweep_file import Coded

_SHOWN: Final = ("tpot_s", "tokens_per_s_per_user", "tokens_per_s_per_gpu", "memory_bytes", "binding", "fits_memory")
"""What a notebook shows of a point besides its axes and the parts of its step."""
_MOST: Final = 100_000
"""Values of one axis at most."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Study:
    """The points of a study: `loaded` is what was asked, `tally` what they say as a whole, `held` their columns."""

    loaded: loading.Loaded
    tally: Tally
    held: Mapping[str, Array | Coded]

    @property
    def verdict(self) -> str:
        """Return how many points there are, which is fastest, and which axes make no difference there."""
        return report.verdict(self.loaded.grid, self.tally)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what looks wrong but is possible."""
        return self.loaded.warnings

    @cached_property
    def columns(self) -> dict[str, Array]:
        """Return the columns by name, each an array with a value for every point; unknown numbers are NaN."""
        return {
            name: column if isinstance(column, np.ndarray) else np.array(column.tolist())
            for name, column in self.held.items()
        }

    def table(self) -> list[dict[str, Any]]:
        """Return the rows that `nhalf sweep -o FILE` writes, each by its keys."""
        cells = [column.tolist() for column in self.held.values()]
        return [dict(zip(self.held, row, strict=True)) for row in zip(*cells, strict=True)]

    def frame(self) -> Any:  # noqa: ANN401  a polars.DataFrame, an optional dependency
        """Return the rows as a polars frame.

        Raises
        ------
        InputError
            Polars is not installed.
        """
        return sweep_file.frame(self.held)

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `nhalf sweep --json` prints: what the points say as a whole."""
        return report.document(self.loaded.grid, self.tally, "", self.loaded.defaults)

    def __len__(self) -> int:
        """Return how many points there are."""
        return self.loaded.grid.points

    def __repr__(self) -> str:
        """Return the verdict."""
        return f"<{type(self).__name__}: {self.verdict}>"

    def _repr_html_(self) -> str:
        """Return the verdict and the fastest point of each value of the first axis."""
        document = self.to_dict()
        axes, rows = document["axes"], document["best_by_first_axis"]
        names = [*axes, *(name for name in (*_SHOWN, *PARTS) if name not in axes and any(row[name] for row in rows))]
        heads = [BY_KEY[name].head if name in BY_KEY else name.rpartition(".")[2] for name in names]
        cells = [
            [escape(report.shown(name, row[name]) if name in axes else BY_KEY[name].show(row[name])) for name in names]
            for row in rows
        ]
        return f"<div><p><b>{escape(self.verdict)}</b></p>{html_table(heads, cells)}</div>"


@in_python()
def study(model: str, axes: Mapping[str, object], *, on: str | Sequence[str], **choices: Any) -> Study:  # noqa: ANN401
    """Return every combination of axes, by the names that `nhalf sweep --axis` has, or the path of any input.

    Values are a list, an array or a range of Python, or the text of the command: `"1:512:x2"`. `choices` are those of
    `nhalf.load`. A point that is not legal keeps its row, with the reason.

    >>> study("llama-3.1-70b", {"tp": [2, 4, 8], "batch": "1:64:x2"}, on="h100-sxm", weights="fp8").columns["tp"].shape
    (21,)

    Raises
    ------
    InputError
        An unknown axis or choice, an axis without a value, or too many points.
    """
    systems = [on] if isinstance(on, str) else list(on) if isinstance(on, list | tuple) else []
    if not systems or not all(isinstance(each, str) for each in systems):
        raise InputError("no system is named", where="on", allowed="a name or several")
    if not isinstance(axes, Mapping) or not axes:
        raise InputError("there is no axis", where="axes", do='give one: {"tp": [1, 2, 4, 8]}')
    given = dict(axes) if len(systems) == 1 or "system" in axes else {"system": systems, **axes}
    for name in given:
        if name in choices:
            raise InputError(f"{name} is an axis and a choice", where="axes", do="leave one of them out")
    texts = [f"{name}={_text(name, values)}" for name, values in given.items()]
    request = keywords(model, systems[0], choices, where="nhalf.study")
    loaded = loading.grid(request, texts)
    tally, pieces = Tally(), []
    for task, answers in workers.here(loaded.grid, loaded.grid.tasks()):
        tally.add(loaded.grid, task, answers)
        pieces.append(report.columns(loaded.grid, task, answers))
    return Study(loaded=loaded, tally=tally, held=sweep_file.stacked(pieces))


def _text(name: str, values: object) -> str:
    """Return the values of an axis as the command line has them.

    Raises
    ------
    InputError
        There are none, or more than an axis may have.
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        return str(values)
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    several = [
        str(int(each) if isinstance(each, float) and each.is_integer() else each) for each in islice(listed, _MOST + 1)
    ]
    if not 0 < len(several) <= _MOST:
        what = "has no values" if not several else f"has over {_MOST} values"
        raise InputError(f"{name} {what}", where="axes", allowed=f"1 to {_MOST} values of an axis")
    return ",".join(several)
