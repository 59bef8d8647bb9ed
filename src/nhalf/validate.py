"""Validation: predictions against measurements, by system, engine and model, with limits that can fail."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.device import generation
from nhalf.errors import NoAnswerError, WeakEvidenceError
from nhalf.loading.case_columns import DEGREES
from nhalf.units import parse_limit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nhalf.breakdown import Array
    from nhalf.loading.predictions import Predictions
    from nhalf.predict.response import Indices, Mask
    from nhalf.units import Limit

_WORST: Final = 5
_GATES: Final = {
    "median": "median_error",
    "p90": "p90_error",
    "bias": "bias",
    "coverage": "coverage",
    "refused": "refused_share",
}
_SAME: Final = (
    "model", "system", "engine", "engine_version", "weight_dtype", "moe_dtype", "kv_dtype", "mode", "library", "isl",
    "osl", "context", "concurrency", "batch",
)  # fmt: skip
NO_NUMBER: Final = float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How predictions did on some rows: shares, NaN where no row could be scored.

    `median_error` and `p90_error` are of |predicted / measured - 1|, `bias` is the median of predicted / measured - 1,
    `coverage` the share of measured times inside their band.
    """

    system: str
    engine: str
    model: str
    rows: int
    refused: int
    median_error: float
    p90_error: float
    bias: float
    coverage: float

    @property
    def refused_share(self) -> float:
        """Return the share of the rows that were refused."""
        return self.refused / max(self.rows, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """One of the rows that are furthest off: its file and line, where that is in words, what it is, both times [s]."""

    file: str
    line: int
    place: str
    name: str
    measured_s: float
    predicted_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """What twice the devices make of a step, measured and predicted: `pairs` loads that differ in nothing else.

    The ratio shows communication where the time itself does not; errors are of predicted / measured ratio - 1.
    """

    fewer: int
    more: int
    pairs: int
    measured: float
    predicted: float
    median_error: float
    bias: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """What another library, launch mode, or fabric around the same device makes of a step: `after` over `before`.

    `pairs` runs differ in nothing else; `median_error` is of |predicted / measured ratio - 1|.
    """

    column: str
    before: str
    after: str
    pairs: int
    measured: float
    predicted: float
    median_error: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Validation:
    """Every group's score, that of all rows, and the rows that are furthest off."""

    groups: tuple[Score, ...]
    overall: Score
    worst: tuple[Miss, ...]
    ratios: tuple[Ratio, ...]
    switches: tuple[Switch, ...]
    reasons: tuple[tuple[str, int], ...]


def validate(found: Predictions, measured_s: Array, scored: Mask | None = None) -> Validation:
    """Return how predictions compare with measured times per token [s].

    `scored` is a mask of the rows to look at; without it, every row with a measured time counts.
    """
    wanted = np.isfinite(measured_s) if scored is None else np.isfinite(measured_s) & scored
    keys = _keys(found)
    groups: dict[tuple[str, str, str], list[int]] = {}
    for row in np.flatnonzero(wanted).tolist():
        groups.setdefault(keys[row], []).append(row)
    error = found.tpot_s / measured_s - 1
    inside = (measured_s >= found.low_s) & (measured_s <= found.high_s)
    answered = np.flatnonzero(wanted & np.isfinite(error))
    with np.errstate(divide="ignore"):  # a time so long that the prediction is nothing of it
        distance = np.abs(np.log1p(error[answered]))
    far = answered[np.argsort(-distance, kind="stable")][:_WORST]
    reasons: dict[str, int] = {}
    for row in np.flatnonzero(wanted).tolist():
        if found.refused[row]:
            reasons[found.refused[row]] = reasons.get(found.refused[row], 0) + 1
    return Validation(
        groups=tuple(_score(key, np.array(rows), error, inside) for key, rows in sorted(groups.items())),
        overall=_score(("", "", ""), np.flatnonzero(wanted), error, inside),
        worst=tuple(_miss(found, int(row), measured_s) for row in far),
        ratios=tuple(_ratios(found, measured_s, answered)),
        switches=tuple(_switches(found, measured_s, answered)),
        reasons=tuple(sorted(reasons.items(), key=lambda item: -item[1])),
    )


def _keys(found: Predictions) -> list[tuple[str, str, str]]:
    """Return system, engine and model of every row: ids where it was answered, else what the table says."""
    table, groups = found.cases.table, found.cases.groups
    ids = [(group.system, group.engine, group.model) for group in groups]
    told = list(zip(*(table.column(name) for name in ("system", "engine", "model")), strict=True))
    return [ids[index] if index >= 0 else told[row] for row, index in enumerate(found.group.tolist())]


def _score(key: tuple[str, str, str], rows: Indices, error: Array, inside: Mask) -> Score:
    """Return the score of some rows."""
    answered = rows[np.isfinite(error[rows])]
    size = np.abs(error[answered])
    some = len(answered) > 0
    return Score(
        system=key[0],
        engine=key[1],
        model=key[2],
        rows=len(rows),
        refused=len(rows) - len(answered),
        median_error=float(np.median(size)) if some else NO_NUMBER,
        p90_error=float(np.quantile(size, 0.9)) if some else NO_NUMBER,
        bias=float(np.median(error[answered])) if some else NO_NUMBER,
        coverage=float(np.mean(inside[answered])) if some else NO_NUMBER,
    )


def _ratios(found: Predictions, measured_s: Array, rows: Indices) -> Iterator[Ratio]:
    """Yield what doubling the TP degree makes of loads that were measured on both, plain tensor parallelism only."""
    table = found.cases.table
    same = [table.column(name) for name in _SAME]
    loads: dict[tuple[str, ...], dict[int, int]] = {}
    for row in rows.tolist():
        layout = found.cases.groups[found.group[row]].scenario.layout
        if layout.devices == layout.tensor_parallel and layout.expert_parallel == 1:
            loads.setdefault(tuple(texts[row] for texts in same), {})[layout.tensor_parallel] = row
    degrees = sorted({degree for degrees in loads.values() for degree in degrees})
    for fewer in degrees:
        pairs = [
            (degrees[fewer], degrees[2 * fewer]) for degrees in loads.values() if {fewer, 2 * fewer} <= set(degrees)
        ]
        if not pairs:
            continue
        few, many = np.array(pairs).T
        measured, predicted = (times[many] / times[few] for times in (measured_s, found.tpot_s))
        error = predicted / measured - 1
        yield Ratio(
            fewer=fewer,
            more=2 * fewer,
            pairs=len(pairs),
            measured=float(np.median(measured)),
            predicted=float(np.median(predicted)),
            median_error=float(np.median(np.abs(error))),
            bias=float(np.median(error)),
        )


def _switches(found: Predictions, measured_s: Array, rows: Indices) -> Iterator[Switch]:
    """Yield what libraries, modes and fabrics make of runs that differ in nothing else."""
    told = {name: found.cases.table.column(name) for name in (*_SAME, *DEGREES)}
    for switch in ("library", "mode", "system"):
        same = [texts for name, texts in told.items() if name != switch]
        loads: dict[tuple[str, ...], dict[str, int]] = {}
        for row in rows.tolist():
            scenario = found.cases.groups[found.group[row]].scenario
            device, stack = scenario.system.device, scenario.stack
            of = {"library": stack.library.name, "mode": str(stack.mode), "system": scenario.system.name}
            chip = (str(device.memory_bandwidth_bytes_per_s), generation(device.architecture))
            key = (*(texts[row] for texts in same), *chip)
            loads.setdefault(key, {})[of[switch]] = row
        pairs: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for values in loads.values():
            for before, after in combinations(sorted(values), 2):
                pairs.setdefault((before, after), []).append((values[before], values[after]))
        for (before, after), runs in sorted(pairs.items()):
            one, other = np.array(runs).T
            measured, predicted = (times[other] / times[one] for times in (measured_s, found.tpot_s))
            yield Switch(
                column=switch,
                before=before,
                after=after,
                pairs=len(runs),
                measured=float(np.median(measured)),
                predicted=float(np.median(predicted)),
                median_error=float(np.median(np.abs(predicted / measured - 1))),
            )


def _miss(found: Predictions, row: int, measured_s: Array) -> Miss:
    """Return a row that is far off, with what it is in short."""
    table = found.cases.table
    group = found.cases.groups[found.group[row]]
    cells = {name: table.column(name)[row] for name in ("concurrency", "batch", "isl", "osl", "context")}
    length = f"{cells['isl']}+{cells['osl']}" if cells["isl"] and cells["osl"] else f"{cells['context']} of context"
    load = f"{cells['concurrency'] or cells['batch']} x {length}"
    return Miss(
        file=table.file(row),
        line=table.line(row),
        place=table.named(row),
        name=f"{group.model} on {group.system}, {group.engine}, {group.scenario.layout.name}, {load}",
        measured_s=float(measured_s[row]),
        predicted_s=float(found.tpot_s[row]),
    )


def gate(text: str) -> Limit:
    """Return the limit that a text means: `median>10%`, `coverage<75%`.

    Raises
    ------
    InputError
        The text is no limit.
    """
    return parse_limit(text, dict.fromkeys(_GATES, "1"), examples="'median>10%' or 'coverage<75%'")


def _tripped(limit: Limit, score: Score) -> str:
    """Return what is beyond a limit, or an empty string; a score without rows is beyond every one."""
    found = getattr(score, _GATES[limit.key])
    size = abs(found) if limit.key == "bias" else found
    if np.isnan(size):
        return f"{limit.key} is unknown: no row could be scored"
    return f"{limit.key} is {100 * found:.1f} %" if limit.holds(size) else ""


def require_scored(found: Validation, *, where: str) -> None:
    """Fail when nothing could be compared.

    Raises
    ------
    WeakEvidenceError
        Every row was refused, or none has a measured time.
    """
    score = found.overall
    if score.rows > score.refused:
        return
    if not score.rows:
        raise WeakEvidenceError("no row has a measured time that counts", where=where)
    reason, rows = found.reasons[0] if found.reasons else ("no time could be predicted", score.rows)
    raise WeakEvidenceError(f"every row is refused, {rows} of {score.rows} because: {reason}", where=where)


def require(gates: Sequence[Limit], score: Score) -> None:
    """Fail when a gate is tripped.

    Raises
    ------
    NoAnswerError
        One is.
    """
    tripped = [f"{each.text}: {why}" for each in gates if (why := _tripped(each, score))]
    if tripped:
        raise NoAnswerError("; ".join(tripped), where="--fail-if", allowed="a score within the limits")
