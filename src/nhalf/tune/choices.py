"""Choices: the path of each size of a model's messages over a range of batches, and what it wins for a token."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.collective import Op
from nhalf.laws.tuner import plan
from nhalf.predict import exchange
from nhalf.predict.layer import tokens
from nhalf.quantiles import Z80
from nhalf.tune.bins import bins
from nhalf.tune.paths import OPERATIONS, Path
from nhalf.tune.sweeps import NOISE, Curve, Key, Sweep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.breakdown import Array
    from nhalf.fabric import Span
    from nhalf.scenario import Scenario
    from nhalf.tune.bins import Bin

_GRID: Final = 8
"""Sizes for each octave at which laws are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The collectives of one kind in a step at one batch: `count` of `size_bytes` [bytes]."""

    key: Key
    batch: float
    size_bytes: float
    count: float
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is chosen for a range of sizes: kind `measured`, `law` or `leave`; the gain is for a token [s].

    The gain is the mean over the batches whose messages lie in the range, None where none does.
    """

    key: Key
    bin: Bin
    kind: str
    gain_s: float | None
    low_s: float | None
    high_s: float | None
    batches: tuple[float, ...]


def messages(scenario: Scenario, batches: Sequence[float]) -> list[Message]:
    """Return the collectives of a decode step at each batch that a tuner is asked about."""
    found = []
    for batch in batches:
        at = scenario.moved({"workload.batch": float(batch)})
        for each in exchange.exchanges(at, tokens(at)):
            span = each.group.span(at.system.fabric)
            if str(each.op) in OPERATIONS:
                key = Key(str(each.op), span.ranks, span.nodes)
                found.append(Message(key=key, batch=float(batch), size_bytes=float(each.size.value),
                                     count=float(each.count.value), span=span))  # fmt: skip
    return found


def by_law(scenario: Scenario, found: Sequence[Message]) -> list[Sweep]:
    """Return sweeps of what NCCL's own tuner expects, where nothing was measured: its choice is the best of them."""
    made = []
    for key in dict.fromkeys(each.key for each in found):
        ours = [each for each in found if each.key == key]
        low, high = min(each.size_bytes for each in ours), max(each.size_bytes for each in ours)
        count = 2 + int(_GRID * math.log2(max(high / low, 1.0)))
        sizes = np.unique(np.round(np.geomspace(low, max(high, low + 1), count)))
        curves = {path: Curve(size_bytes=sizes, time_s=time)
                  for path, time in _planned(key.op, sizes, ours[0].span, scenario)}  # fmt: skip
        made.append(Sweep(key=key, curves=curves, default=None, noise=NOISE, repeats=1.0, kind="law"))
    return made


def _planned(op: str, sizes: Array, span: Span, scenario: Scenario) -> list[tuple[Path, Array]]:
    """Return the times [s] that NCCL's tuner expects of each path."""
    return [
        (Path(path.family.replace("-", "_"), path.protocol.casefold()),
         np.broadcast_to(np.asarray(time.value, dtype=float), sizes.shape).copy())
        for path, time in plan(Op.parse(op), sizes, span, scenario.stack.library)
    ]  # fmt: skip


def default_of(sweep: Sweep, scenario: Scenario, span: Span) -> Curve | None:
    """Return the times of the library's own choice: measured, or those of the paths that its plan picks."""
    if sweep.default is not None:
        return sweep.default
    if not sweep.curves:
        return None
    sizes = np.unique(np.concatenate([each.size_bytes for each in sweep.curves.values()]))
    rows = _planned(sweep.key.op, sizes, span, scenario)
    if not rows:
        return None
    picked = np.argmin(np.stack([row[1] for row in rows]), axis=0)
    nothing = np.full(len(sizes), np.nan)
    times = [sweep.curves[row[0]].at(sizes) if row[0] in sweep.curves else nothing for row in rows]
    taken = np.array([times[pick][place] for place, pick in enumerate(picked.tolist())])
    known = np.isfinite(taken)
    return Curve(size_bytes=sizes[known], time_s=taken[known]) if np.any(known) else None


def choices(sweep: Sweep, default: Curve, found: Sequence[Message], *, whole: bool = False) -> list[Choice]:
    """Return the choice of each range of sizes between the smallest and the largest message of the model.

    With `whole` all measured sizes are looked at, whether or not the model sends them.
    """
    ours = [each for each in found if each.key == sweep.key]
    if not sweep.curves:
        return []
    measured = np.concatenate([each.size_bytes for each in sweep.curves.values()])
    low, high = float(measured.min()), float(measured.max())
    if not whole and ours:
        low, high = max(low, min(each.size_bytes for each in ours)), min(high, max(each.size_bytes for each in ours))
    if high < low:
        return []
    return [_choice(sweep, default, each, ours) for each in bins(sweep, default, low, high)]


def _choice(sweep: Sweep, default: Curve, one: Bin, ours: Sequence[Message]) -> Choice:
    """Return what a bin wins for a token, over the batches whose messages lie in it."""
    inside = [each for each in ours if one.start <= each.size_bytes <= one.end]
    batches = tuple(dict.fromkeys(each.batch for each in inside))
    if one.path is None:
        return Choice(key=sweep.key, bin=one, kind="leave", gain_s=0.0 if inside else None,
                      low_s=0.0 if inside else None, high_s=0.0 if inside else None, batches=batches)  # fmt: skip
    if not inside:
        return Choice(key=sweep.key, bin=one, kind=sweep.kind, gain_s=None, low_s=None, high_s=None, batches=())
    sizes: Array = np.array([each.size_bytes for each in inside])
    counts = np.array([each.count for each in inside])
    before, after = default.at(sizes), sweep.curves[one.path].at(sizes)
    gain = float(np.nansum(counts * (before - after))) / len(batches)
    # A mean over repeats errs by the noise over their root; neighbours on a line share what they err by.
    width = Z80 * sweep.noise / math.sqrt(max(sweep.repeats, 1.0))
    wide = width * float(np.nansum(counts * np.hypot(before, after))) / len(batches)
    return Choice(key=sweep.key, bin=one, kind=sweep.kind, gain_s=gain, low_s=gain - wide, high_s=gain + wide,
                  batches=batches)  # fmt: skip
