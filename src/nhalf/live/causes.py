"""Causes: what changed on a server, since when, and why, as far as its metrics can tell.

A token takes longer for a reason that the load shows (requests, their length, prefills, tokens kept of a step), or for
one that it does not: then something was added to the step. Each reason's share is what the token would have changed by
if it alone had changed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.live.window import pooled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.live.drift import Shift
    from nhalf.live.split import Communication
    from nhalf.live.watch import Seen, Watch
    from nhalf.live.window import Window

CONSTANT, LINK, RANK, FASTER = "constant-added", "slower-link", "slow-rank", "faster"
PROMPTS, BATCH, SPECULATION, CACHE = "longer-prompts", "fuller-batch", "speculation", "kv-pressure"
RESTARTED, QUEUEING, EAGER, SILENT = "restarted", "queueing", "no-graphs", "no-answer"
ABOVE, BELOW, WITHIN = "above-prediction", "below-prediction", "as-predicted"
_LOOK_BACK: Final = 360
"""Windows that what happens now is compared with, at most."""
_RECENT: Final = 18
_MATTERS: Final = 0.05
"""A token that takes this share longer is worth a word where the load explains it."""
_PREEMPTED: Final = 0.02
"""Preemptions for each request from which on the cache is short [1]."""
_FULL: Final = 0.95
"""A cache is full from this share on: engines admit nothing that would fill the rest."""
_LEAST_WINDOWS: Final = 3
_SETTLES: Final = 18
"""What changes within so many windows of a restart is put down to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a token takes now against before [s], by reason, since a time [s since 1970]."""

    since: float
    before: Window
    after: Window
    reasons: Mapping[str, float]

    @property
    def change_s(self) -> float:
        """Return by how much longer a token takes now."""
        return self.after.tpot_s - self.before.tpot_s

    @property
    def cause(self) -> str:
        """Return the reason that most of the change is of."""
        return max(self.reasons, key=lambda name: self.reasons[name])


def changed(watch: Watch) -> Change | None:
    """Return what changed between the windows of now and those before, None where nothing that matters did."""
    rows = watch.newest(_LOOK_BACK)
    shift = standing(watch)
    since = shift.since if shift is not None else _turn(rows)
    if since is None:
        return None
    before = [each.window for each in rows if each.window.start < since]
    after = [each.window for each in rows if each.window.start >= since]
    if len(before) < _LEAST_WINDOWS or len(after) < _LEAST_WINDOWS:
        return None
    found = Change(since=since, before=pooled(before), after=pooled(after), reasons={})
    if shift is None and found.change_s < _MATTERS * found.before.tpot_s:
        return None
    added = shift.excess_s if shift is not None else 0.0
    return Change(since=since, before=found.before, after=found.after, reasons=_reasons(watch, found, added))


def standing(watch: Watch) -> Shift | None:
    """Return the change of the step that still stands: what later changes took back is over."""
    left: list[Shift] = []
    for shift in watch.drift.shifts if watch.drift is not None else []:
        if shift.excess_s > 0:
            left.append(shift)
        elif left and -shift.excess_s > 0.5 * left[-1].excess_s:
            left.pop()
    return left[-1] if left else None


def _turn(rows: Sequence[Seen]) -> float | None:
    """Return when the time of a token changed: the cut that leaves least within its two sides; None for too few."""
    times = np.array([each.window.tpot_s for each in rows])
    if len(times) < _RECENT + _LEAST_WINDOWS:
        return None
    cuts = np.arange(_LEAST_WINDOWS, len(times) - _LEAST_WINDOWS + 1)
    sums = np.cumsum(times)
    left, right = sums[cuts - 1] / cuts, (sums[-1] - sums[cuts - 1]) / (len(times) - cuts)
    between = cuts * (len(times) - cuts) * (right - left) ** 2
    return rows[int(cuts[int(np.argmax(between))])].window.start


def _reasons(watch: Watch, found: Change, added_s: float) -> dict[str, float]:
    """Return what each reason adds to a token [s]: one after another, from the load before to the load after.

    Requests pile up where tokens take longer, whatever the reason: of what more requests cost, the load is the reason
    only as far as more tokens are asked for (Little's law), and prompts as far as they are longer.
    """
    before, after = found.before, found.after
    loads = [_load(before), (_load(after)[0], *_load(before)[1:]), (*_load(after)[:2], _load(before)[2]), _load(after)]
    steps = [watch.explained_s(*load) for load in loads]
    requests, tokens, prefill = (later - earlier for earlier, later in pairwise(steps))
    asked = _share(_asked(after) / _asked(before), after.running[0] / before.running[0])
    if not math.isnan(before.prompt_length) and not math.isnan(after.prompt_length):
        longer = after.prompt_length / before.prompt_length
    else:
        longer = after.context[0] / before.context[0]
    by_length = _share(longer, after.prompt_tokens / max(before.prompt_tokens, 1e-9))
    kept = before.kept
    return {
        CONSTANT: added_s / kept,
        PROMPTS: (tokens + by_length * prefill) / kept,
        BATCH: (asked * requests + (1.0 - by_length) * prefill * (asked > 0)) / kept,
        SPECULATION: after.step_s * (1.0 / after.kept - 1.0 / before.kept),
    }


def _load(found: Window) -> tuple[float, float, float]:
    context = found.context[0] if not math.isnan(found.context[0]) else 1.0
    return found.running[0], context, found.prompt_tokens if math.isnan(found.decode_s) else 0.0


def _asked(found: Window) -> float:
    """Return the tokens a second that are decoded."""
    return found.running[0] / found.tpot_s


def _share(part: float, whole: float) -> float:
    """Return which share of a ratio another ratio makes up, between none and all."""
    if part <= 0 or whole <= 0 or abs(math.log(whole)) < 1e-3:  # noqa: PLR2004  nothing to share
        return 0.0
    return min(max(math.log(part) / math.log(whole), 0.0), 1.0)


def cause(watch: Watch, found: Change, timed: Communication | None) -> str:
    """Return the code of the cause of a change; what a restart or a full cache brings along is of these."""
    if any(-_SETTLES * watch.every <= found.since - each <= _SETTLES * watch.every for each in watch.restarts):
        return RESTARTED
    pressed = found.after.preempted
    if found.after.kv_share > _FULL and found.after.waiting >= 1:
        return CACHE
    if pressed > _PREEMPTED and pressed > 3 * (0.0 if math.isnan(found.before.preempted) else found.before.preempted):
        return CACHE
    if found.cause != CONSTANT or timed is None or timed.straggler_s is None:
        return found.cause
    excess = found.reasons[CONSTANT]
    if max(timed.beyond_s, timed.straggler_s) < excess / 2:
        return CONSTANT
    return RANK if timed.straggler_s > timed.beyond_s else LINK
