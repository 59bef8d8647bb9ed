"""Steps: where one iteration ends and the next begins, from markers, or from what repeats."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nhalf.errors import InputError
from nhalf.trace.record import Floats, Steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.trace.record import Ints

_PROFILER = re.compile(r"ProfilerStep#(\d+)$")
_KNOWN = re.compile(
    r"ProfilerStep#|decode_step|execute_(context|model|new)|step\[|forward_step|run_batch|iteration", re.IGNORECASE
)
_FEWEST = 2
_EVEN = 0.8  # share of the windows of a marker that must hold the same number of calls


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One named range of the program: name, start and end [s], and whether the device's time is meant."""

    name: str
    start_s: float
    end_s: float
    on_device: bool


def detect(marks: Sequence[Mark], calls_s: Floats, launches: Ints, pattern: str | None, end_s: float) -> Steps:
    """Return the steps of a rank, by the best marker it holds.

    `calls_s` [s] are the starts of its calls, `launches` the graph launch each belongs to (-1 for none), `pattern` the
    user's regex for marks, `end_s` the end of the window [s]. In order: the user's marks, ProfilerStep#N, other marks
    that each hold as many calls, graph launches, and the whole window as one step.

    Raises InputError when no mark fits the user's pattern.
    """
    named = _by_pattern(marks, pattern) if pattern else _profiler(marks)
    if named is not None:
        return named
    if pattern:
        raise _no_mark(marks, pattern)
    repeated = _repeated(marks, calls_s)
    if repeated is not None:
        return repeated
    replayed = _launches(calls_s, launches, end_s)
    if replayed is not None:
        return replayed
    if not len(calls_s):
        return Steps(labels=(), start_s=np.empty(0), end_s=np.empty(0), marker="none")
    start = np.array([float(calls_s[0])])
    return Steps(labels=("whole",), start_s=start, end_s=np.array([end_s]), marker="whole window")


def _no_mark(marks: Sequence[Mark], pattern: str) -> InputError:
    names = [name for name, _ in Counter(re.sub(r"\d+", "#", mark.name) for mark in marks).most_common(6)]
    return InputError(
        f"no mark fits {pattern!r}", where="--step", allowed=f"marks of the trace, such as {', '.join(names) or 'none'}"
    )


def _by_pattern(marks: Sequence[Mark], pattern: str) -> Steps | None:
    regex = re.compile(pattern)
    found = [mark for mark in marks if regex.search(mark.name)]
    device = [mark for mark in found if mark.on_device]
    return _ordered(device or found, f"marks that fit {pattern!r}")


def _profiler(marks: Sequence[Mark]) -> Steps | None:
    """Return the steps that the profiler's schedule marked; on the device if it marked them there."""
    found = [mark for mark in marks if _PROFILER.match(mark.name)]
    device = [mark for mark in found if mark.on_device]
    chosen = device if len(device) >= max(1, len(found) - len(device)) else [m for m in found if not m.on_device]
    if not chosen:
        return None
    first: dict[str, Mark] = {}
    for mark in chosen:
        seen = first.get(mark.name)
        first[mark.name] = mark if seen is None else Mark(
            name=mark.name, start_s=min(seen.start_s, mark.start_s), end_s=max(seen.end_s, mark.end_s),
            on_device=mark.on_device,
        )  # fmt: skip
    return _ordered(list(first.values()), "ProfilerStep", labels=True)


def _repeated(marks: Sequence[Mark], calls_s: Floats) -> Steps | None:
    """Return the longest-lasting marks that repeat, do not overlap, and each hold the same number of calls."""
    groups: dict[tuple[str, bool], list[Mark]] = defaultdict(list)
    for mark in marks:
        if not mark.name.startswith(("nccl:", "gloo:")):
            groups[re.sub(r"\d+", "#", mark.name), mark.on_device].append(mark)
    best: tuple[bool, float, Steps] | None = None
    for (name, _), group in groups.items():
        steps = _ordered(group, f"marks {name!r}") if len(group) >= _FEWEST else None
        if steps is None or np.any(steps.start_s[1:] < steps.end_s[:-1] - 1e-6):
            continue
        counts = np.bincount(steps.of(calls_s) + 1, minlength=len(steps) + 1)[1:]
        usual = int(np.median(counts))
        inside = counts.sum() / max(1, len(calls_s))
        if usual < 1 or np.mean(counts == usual) < _EVEN or inside < _EVEN:
            continue
        rank = (bool(_KNOWN.search(name)), float(np.median(steps.end_s - steps.start_s)), steps)
        if best is None or rank[:2] > best[:2]:
            best = rank
    return best[2] if best else None


def _launches(calls_s: Floats, launches: Ints, end_s: float) -> Steps | None:
    """Return the replays of a graph as steps: from the first call of one to the first of the next."""
    ids = [int(i) for i in dict.fromkeys(launches[launches >= 0].tolist())]
    if len(ids) < _FEWEST:
        return None
    starts = np.array([calls_s[launches == i][0] for i in ids]) if len(ids) < 10_000 else None  # noqa: PLR2004  n^2
    if starts is None:
        order = np.flatnonzero(launches >= 0)
        _, first = np.unique(launches[order], return_index=True)
        starts = np.sort(calls_s[order[first]])
    counts = np.unique(launches[launches >= 0], return_counts=True)[1]
    if np.median(counts) < _FEWEST:
        return None
    ends = np.append(starts[1:], end_s)
    labels = tuple(f"replay {i}" for i in range(len(starts)))
    return Steps(labels=labels, start_s=starts, end_s=ends, marker="graph replays")


def _ordered(marks: Sequence[Mark], marker: str, *, labels: bool = False) -> Steps | None:
    """Return marks as steps in the order of their starts; their labels are their names, or else their ordinals."""
    if not marks:
        return None
    ordered = sorted(marks, key=lambda mark: mark.start_s)
    names = tuple(mark.name for mark in ordered) if labels else tuple(f"step {i}" for i in range(len(ordered)))
    return Steps(
        labels=names,
        start_s=np.array([mark.start_s for mark in ordered]),
        end_s=np.array([mark.end_s for mark in ordered]),
        marker=marker,
    )
