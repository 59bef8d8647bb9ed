"""Waiting in measured runs: what tables say of the time of their all-reduces, and steps that only waiting explains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.errors import InputError
from nhalf.evidence.waiting import SAID, is_mostly, waited_s
from nhalf.loading.case_columns import number_of
from nhalf.loading.measured import LONGEST_S
from nhalf.predict.response import CONSTANTS, response
from nhalf.units import format_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.breakdown import Array
    from nhalf.loading.case_table import Table
    from nhalf.loading.cases import Cases, Group
    from nhalf.predict.response import Response

COLUMNS: Final = ("calls", "call_us", "pure_us", "skew_us")
"""All-reduces in a step; one of them with its waiting; one when no rank is late; how far apart ranks come."""
_FAR: Final = 5.0
"""None of the 855 measured steps that ship is further than 2.7 times from its prediction; boards, whose share of work
stays undivided, are not among them. Up to here a slow stack may explain a step, as an anchor does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What one row waits: `calls` of `rest_s` without waiting and `waited_s` of it [s] each, in a step of `measured_s`.

    `told` is whether the row's own columns say so; else the step is so far over its prediction that all-reduces would
    have to take ten times what is modelled.
    """

    row: int
    calls: float
    rest_s: float
    waited_s: float
    told: bool
    measured_s: float

    @property
    def step_s(self) -> float:
        """Return the waiting of a whole step [s]."""
        return self.calls * self.waited_s

    @property
    def mostly(self) -> bool:
        """Tell whether nine tenths of a call or more are waiting."""
        return is_mostly(self.rest_s, self.waited_s)


def waiting(cases: Cases, times_s: Array) -> list[Waiting]:
    """Return the rows of a table that wait, with measured times per token [s], NaN where there is none.

    Raises
    ------
    InputError
        A cell of `calls`, `call_us`, `pure_us` or `skew_us` holds no positive number.
    """
    said = columns(cases.table)
    steps = ((group, response(group.scenario, len(group.rows))) for group in cases.groups)
    found = [each for group, step in steps for each in of_group(group, step, times_s, said)]
    return sorted(found, key=lambda each: each.row)


def without(times_s: Array, waits: Sequence[Waiting]) -> tuple[Array, list[str]]:
    """Return the times per token [s] without what rows say they wait, and in words what was done.

    A step so far over its prediction that waiting is likely, and that does not say, is left out: no constant is to
    swallow it.
    """
    times, texts = times_s.copy(), []
    told = [each for each in waits if each.told]
    for each in told:
        times[each.row] *= 1.0 - each.step_s / each.measured_s
    if told:
        middle = format_time(float(np.median([each.step_s for each in told])))
        texts.append(f"waiting of {middle} a step in the median is taken out of {len(told)} of the runs before the fit")
    rest = [each for each in waits if not each.told]
    times[[each.row for each in rest]] = np.nan
    if rest:
        texts.append(
            f"left out: {len(rest)} of the runs, {_FAR:g} times over their predictions or more; as it looks, {SAID}"
        )
    return times, texts


def columns(table: Table) -> dict[str, Array]:
    """Return what a table says of its all-reduces, NaN where it says nothing, times in [s].

    Raises
    ------
    InputError
        A cell holds no positive number.
    """
    return {name: _column(table, name) for name in COLUMNS}


def _column(table: Table, name: str) -> Array:
    found, unit = np.full(len(table.rows), np.nan), 1.0 if name == "calls" else 1e-6
    for row, text in enumerate(table.column(name)):
        if text.strip():
            found[row] = number_of(text) * unit
            if not 0.0 < found[row] < np.inf:
                what = f"{name} {text!r} is no number above 0"
                raise InputError(
                    what, where=table.place(row), allowed="such as 160" if unit == 1.0 else "such as 600 [us]"
                )
    return found


def of_group(group: Group, steps: Response, times_s: Array, said: Mapping[str, Array]) -> list[Waiting]:
    """Return what the rows of a group wait; `steps` is the response of its scenario, `said` what `columns` read."""
    scenario = group.scenario
    predicted = steps.step_s({name: getattr(scenario.stack, name) for name in CONSTANTS})
    measured = times_s[group.rows] * scenario.workload.accepted_tokens
    told = np.any([np.isfinite(said[name][group.rows]) for name in COLUMNS[1:]], axis=0)
    far = (measured > _FAR * predicted) & (measured < LONGEST_S) & (scenario.stack.unsharded_share == 0)
    asked = (steps.collectives > 0) & np.isfinite(measured) & (told | far)
    excess = float(np.mean(scenario.stack.collective_excess_s))
    found = []
    for place in np.flatnonzero(asked).tolist():
        row, count, step = int(group.rows[place]), float(steps.collectives[place]), float(measured[place])
        modelled = float(steps.communication_s[place]) / count + excess
        calls, call, pure, skew = (None if np.isnan(said[name][row]) else float(said[name][row]) for name in COLUMNS)
        over = (step - float(predicted[place])) / count
        parts = waited_s(call, pure, skew, modelled) if told[place] else (modelled, over)
        if parts is None or not (told[place] or is_mostly(*parts)):
            continue
        each = Waiting(
            row=row, calls=(calls if told[place] else None) or count, rest_s=parts[0], waited_s=parts[1],
            told=bool(told[place]), measured_s=step,
        )  # fmt: skip
        found += [each] if each.step_s < step else []
    return found
