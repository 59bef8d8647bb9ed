"""Checks of measured runs: what looks wrong in a table, by line, before anything is fitted to it or judged by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.errors import InputError
from nhalf.evidence.waiting import sentence
from nhalf.loading.measured import LONGEST_S
from nhalf.loading.waiting import columns, of_group
from nhalf.predict.response import CONSTANTS, response

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nhalf.breakdown import Array
    from nhalf.loading.case_table import Table
    from nhalf.loading.cases import Cases, Group
    from nhalf.loading.waiting import Waiting

REPEAT: Final = 0.18
"""A repeated run differs by more than 18 % once in ten times (the house's decode-step note): beyond it is no noise."""
_MANY: Final = 10.0
_UNITS: Final = {"ms": 1e3, "us": 1e6}
_NAMES: Final = ("id", "curve", "source", "file")
"""Columns that name a measurement: one that was written down twice may have two names."""
_ABOUT: Final = 3.0
"""The 1,167 measured steps that ship are 0.63 to 3.8 times their prediction: a wrong unit is as near to its factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One doubtful row: its index, its file and line, where that is in words, a code, and the sentence."""

    row: int
    file: str
    line: int
    place: str
    code: str
    text: str


def findings(cases: Cases, measured_s: Array) -> list[Finding]:
    """Return what looks wrong with the measured times [s] of a table, in the order of its lines.

    Raises
    ------
    InputError
        The times are in another unit: nothing that is fitted to them or judged by them would hold.
    """
    table = cases.table
    said = columns(table)
    found = list(_duplicates(table, measured_s))
    predicted_s = np.full(len(measured_s), np.nan)
    for group in cases.groups:
        narrow = group.scenario.having({"workload.kv_bytes": min(group.other_kv_bytes, _kv_bytes(group))})
        steps, kept = response(narrow, len(group.rows)), group.scenario.workload.accepted_tokens
        stack = group.scenario.stack
        predicted_s[group.rows] = steps.step_s({name: getattr(stack, name) for name in CONSTANTS}) / kept
        found += _below_bound(table, group, measured_s, steps.bound_s / kept)
        found += _falling(table, group, measured_s)
        found += _waiting(table, of_group(group, steps, measured_s, said))
    _require_seconds(table, measured_s, predicted_s)
    found += _units(table, measured_s, predicted_s)
    return sorted(found, key=lambda finding: (finding.row, finding.code))


def _finding(table: Table, row: int, code: str, text: str) -> Finding:
    return Finding(row=row, file=table.file(row), line=table.line(row), place=table.named(row), code=code, text=text)


def _require_seconds(table: Table, measured_s: Array, predicted_s: Array) -> None:
    """Refuse a column whose times are about a thousand, or a million, times what is predicted.

    Raises
    ------
    InputError
        Most of them are.
    """
    with np.errstate(over="ignore"):  # a time that no run takes is far off, whatever the unit
        ratio = measured_s / predicted_s
    ratio = ratio[np.isfinite(ratio)]
    if not len(ratio):
        return
    for unit, factor in _UNITS.items():
        like = (ratio > factor / _ABOUT) & (ratio < factor * _ABOUT)
        if np.mean(like) > 0.5:  # noqa: PLR2004  most
            raise InputError(
                f"tpot_s looks as if it were in {unit}: the median is {np.nanmedian(measured_s):.4g} s per token, "
                f"{np.nanmedian(predicted_s):.3g} s is predicted, about {factor:,.0f} times off in "
                f"{np.sum(like)} of {len(ratio)} runs",
                where=table.path, allowed="seconds per output token", do=f"divide the column by {factor:,.0f}",
            )  # fmt: skip


def _waiting(table: Table, waits: Sequence[Waiting]) -> Iterator[Finding]:
    """Yield rows whose all-reduces mostly wait for another rank, as their columns or their times say."""
    for each in waits:
        if each.mostly:
            said = sentence(each.rest_s, each.waited_s, calls=each.calls)
            asked = "" if each.told else "; the columns calls, call_us, pure_us and skew_us would tell"
            yield _finding(table, each.row, "waiting", said + asked)


def _duplicates(table: Table, measured_s: Array) -> Iterator[Finding]:
    """Yield rows that repeat an earlier one to the last digit, name apart: one measurement counted twice."""
    first: dict[tuple[str, ...], int] = {}
    kept = [index for index, name in enumerate(table.header) if name not in _NAMES]
    for row, cells in enumerate(table.rows):
        if not np.isfinite(measured_s[row]):
            continue
        key = tuple(cells[index] for index in kept)
        earlier = first.setdefault(key, row)
        if earlier != row:
            yield _finding(table, row, "duplicate", f"the same as {table.named(earlier)}")


def _units(table: Table, measured_s: Array, predicted_s: Array) -> Iterator[Finding]:
    """Yield rows whose time can hardly be in seconds; slow devices that are predicted to be slow are none."""
    for row in np.flatnonzero((measured_s > LONGEST_S) & ~(measured_s < _MANY * predicted_s)).tolist():
        text = f"{measured_s[row]:g} s per token: tpot_s is in seconds; is this in ms?"
        yield _finding(table, row, "unit", text)


def _below_bound(table: Table, group: Group, measured_s: Array, bound_s: Array) -> Iterator[Finding]:
    """Yield rows that are faster than the memory and the arithmetic of their device allow: `bound_s` [s] of each."""
    times = measured_s[group.rows]
    for index in np.flatnonzero(times < bound_s).tolist():
        row = int(group.rows[index])
        text = f"{1e3 * times[index]:.3g} ms is below the datasheet's bound of {1e3 * bound_s[index]:.3g} ms"
        yield _finding(table, row, "below-bound", text)


def _kv_bytes(group: Group) -> float:
    return float(np.mean(group.scenario.workload.kv_bytes))


def _falling(table: Table, group: Group, measured_s: Array) -> Iterator[Finding]:
    """Yield rows with a larger batch than another of their curve and a smaller step, beyond the noise of a repeat."""
    names = ("isl", "osl", "context", "engine_version", "library", "mode")
    told = [table.column(name) for name in names]
    curves: dict[tuple[str, ...], list[int]] = {}
    for index, row in enumerate(group.rows.tolist()):
        curves.setdefault(tuple(texts[row] for texts in told), []).append(index)
    batch = np.broadcast_to(np.asarray(group.scenario.workload.batch), len(group.rows))
    for members in curves.values():
        slowest: tuple[float, float, int] | None = None
        for index in sorted(members, key=lambda each: (batch[each], group.rows[each])):
            row, time = int(group.rows[index]), measured_s[group.rows[index]]
            if not np.isfinite(time):
                continue
            if slowest and batch[index] > slowest[1] and time < slowest[0] * (1 - REPEAT):
                text = (
                    f"batch {batch[index]:g} takes {1e3 * time:.3g} ms, less than {1e3 * slowest[0]:.3g} ms of batch "
                    f"{slowest[1]:g} in {table.named(slowest[2])}"
                )
                yield _finding(table, row, "falling", text)
            if slowest is None or time > slowest[0]:
                slowest = (float(time), float(batch[index]), row)
