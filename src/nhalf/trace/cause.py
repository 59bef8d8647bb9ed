"""The cause of a rank's lateness: a slow device, extra work, a gap of the host, a late launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from nhalf import units
from nhalf.trace.budget import Cover

if TYPE_CHECKING:
    from nhalf.trace.record import RankTrace
    from nhalf.trace.timeline import Timeline

Cause: TypeAlias = Literal["uniformly slow device", "extra work", "host gap", "late launch", "unknown"]
_MOSTLY = 0.6
_UNIFORM = 0.8  # share of the compute time whose kernels must all be slower
_SLOWER, _OFTENER = 1.02, 1.05
_PROMPT_S = 30e-6  # a kernel that starts this soon after its launch was waited for by the device


def cause_of(timeline: Timeline, row: int) -> tuple[Cause, str]:
    """Return the likely cause of a rank's lateness and the figures behind it."""
    busy, idle = _own_time(timeline, row)
    traces = timeline.traces
    # The median of the others stays with the quick ones as long as those are the majority.
    rest = [i for i in range(len(traces)) if i != row]
    usual_busy = np.median([_own_time(timeline, i)[0] for i in rest])
    usual_idle = np.median([_own_time(timeline, i)[1] for i in rest])
    more_busy, more_idle = busy - usual_busy, idle - usual_idle
    if max(more_busy, more_idle) <= 0:
        return "unknown", "neither its kernels nor its gaps are longer than on the other ranks"
    if more_idle > _MOSTLY * (max(more_busy, 0.0) + more_idle):
        prompt = _prompt(timeline, row)
        figures = f"its device idles {units.format_time(more_idle)} a step more than on the other ranks before calls"
        if prompt is not None and prompt > _MOSTLY:
            return "late launch", f"{figures}, and its calls start as soon as the host launches them"
        return "host gap", figures
    return _of_kernels(traces[row], [traces[i] for i in rest])


def _own_time(timeline: Timeline, row: int) -> tuple[float, float]:
    """Return the busy and idle time [s] per step between a rank's calls, on its own clock."""
    trace, windows = timeline.traces[row], timeline.windows_s[row]
    parts = timeline.parts[row]
    comm = float(np.mean(parts.overlapped_s + parts.exposed_transfer_s + parts.exposed_wait_s))
    busy = float(np.mean(Cover(trace.busy_s).within(windows[:, 0], windows[:, 1])))
    overlapped = float(np.mean(parts.overlapped_s))
    return busy - overlapped, float(np.mean(parts.step_s)) - comm - (busy - overlapped)


def _prompt(timeline: Timeline, row: int) -> float | None:
    """Return the share of calls that start right after their launch, None when launches are not recorded."""
    calls = timeline.traces[row].calls
    delay = calls.start_s - calls.launch_s
    known = ~np.isnan(delay)
    return float(np.mean(delay[known] < _PROMPT_S)) if np.any(known) else None


def _of_kernels(trace: RankTrace, others: list[RankTrace]) -> tuple[Cause, str]:
    """Return whether longer compute is the device's or the work's."""
    total = sum(work.total_s for work in trace.works.values())
    calls = len(trace.calls)
    slower = 0.0
    ratios: list[float] = []
    extra: list[str] = []
    for name, work in sorted(trace.works.items(), key=lambda item: -item[1].total_s):
        peers = [other.works[name] for other in others if name in other.works]
        # By calls, because captures may differ by a step.
        often = [other.works[name].count / max(1, len(other.calls)) for other in others if name in other.works]
        if not peers:
            extra.append(name)
            continue
        ratio = (work.total_s / work.count) / float(np.median([peer.total_s / peer.count for peer in peers]))
        if work.count / max(1, calls) > _OFTENER * float(np.median(often)):
            extra.append(name)
        elif ratio > _SLOWER:
            slower += work.total_s
            ratios.append(ratio)
    if slower >= _UNIFORM * total and ratios:
        return "uniformly slow device", f"its kernels run {np.median(ratios):.3g} times as long as on the other ranks"
    if extra:
        return "extra work", f"it runs {extra[0][:60]} more often than the other ranks"
    if ratios:
        return "extra work", "some of its kernels run longer, and most do not"
    return "unknown", "its compute is longer, and no kernel explains it"
