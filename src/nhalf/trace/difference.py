"""Differences between two runs: which collective's time moved, and by more than its spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from nhalf.collective import Op
    from nhalf.trace.fixed_time import Row
    from nhalf.trace.record import Floats
    from nhalf.trace.study import Study

_DRAWS, _SEED = 500, 20240917


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One collective before and after: transfer per call [s], its change with a 95 % interval, and per step.

    `moved` says that the interval excludes zero. The change of a call's transfer at the same size is a change of
    fixed time, unless bandwidth moved too; two sizes would tell.
    """

    op: Op
    size_bytes: float | None
    ranks: int | None
    names: tuple[str, str]
    before_s: float
    after_s: float
    change_s: float
    low_s: float
    high_s: float
    count_per_step: float
    moved: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Two studies, and their collectives paired: those that moved a step most first; and what has no partner."""

    before: Study
    after: Study
    changes: tuple[Change, ...]
    unpaired: tuple[str, ...]


def difference(before: Study, after: Study) -> Difference:
    """Return how the collectives of two runs differ.

    Collectives are paired by operation, size, group size and place among their like; the kernel may differ, because
    that is often what was changed.
    """
    left, right = _keyed(before.rows), _keyed(after.rows)
    changes = [_change(left[key], right[key]) for key in left if key in right]
    changes.sort(key=lambda one: -abs(one.change_s * one.count_per_step))
    alone = [f"before only: {key[0]} {_bytes(left[key])}" for key in left if key not in right]
    alone += [f"after only: {key[0]} {_bytes(right[key])}" for key in right if key not in left]
    return Difference(before=before, after=after, changes=tuple(changes), unpaired=tuple(alone))


def _bytes(row: Row) -> str:
    return "of unknown size" if row.kind.size_bytes is None else f"of {row.kind.size_bytes:.0f} bytes"


def _keyed(rows: tuple[Row, ...]) -> dict[tuple[object, ...], Row]:
    found: dict[tuple[object, ...], Row] = {}
    for row in sorted(rows, key=lambda one: -one.count_per_step):
        kind = row.kind
        like = sum(1 for key in found if key[:3] == (kind.op, kind.size_bytes, kind.ranks))
        found[kind.op, kind.size_bytes, kind.ranks, like] = row
    return found


def _change(before: Row, after: Row) -> Change:
    a, b = before.transfers_s, after.transfers_s
    low, high = _interval(a, b)
    return Change(
        op=before.kind.op,
        size_bytes=before.kind.size_bytes,
        ranks=before.kind.ranks,
        names=(before.kind.name, after.kind.name),
        before_s=float(np.median(a)),
        after_s=float(np.median(b)),
        change_s=float(np.median(b) - np.median(a)),
        low_s=low,
        high_s=high,
        count_per_step=after.count_per_step,
        moved=low > 0 or high < 0,
    )


def _interval(a: Floats, b: Floats) -> tuple[float, float]:
    """Return the 95 % interval of the difference of the medians, by bootstrap with a fixed seed."""
    random = np.random.default_rng(_SEED)
    most = 2000  # more calls than this narrow nothing that matters
    a, b = (some if len(some) <= most else some[:: len(some) // most] for some in (a, b))
    draws = [np.median(some[random.integers(0, len(some), (_DRAWS, len(some)))], axis=1) for some in (a, b)]
    low, high = np.percentile(draws[1] - draws[0], [2.5, 97.5])
    return float(low), float(high)
