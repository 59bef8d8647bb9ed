"""What to measure next: the sizes that would settle what a sweep could not, and the command that runs them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nhalf.collective import Op
from nhalf.evidence.commands import LARGEST, SMALLEST, command, of_own_test
from nhalf.evidence.identify import ENOUGH, ON_CEILING, largest

if TYPE_CHECKING:
    from nhalf.evidence.curvefit import CurveFit
    from nhalf.evidence.intervals import Estimate

_ON_FLOOR: Final = (SMALLEST, 64.0, 512.0, 4096.0)  # [bytes]
_VAGUE: Final = 2.0
"""Ends of an interval so many times apart are worth another run."""
_STEP: Final = 2.0  # doublings between two sizes that fill a gap
_MOST: Final = 2.0**34  # [bytes] no GPU test goes further


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Sizes [bytes] to add to a sweep, why, and the command that measures all of it."""

    sizes_bytes: tuple[float, ...]
    why: str
    command: str


def advise(fit: CurveFit) -> Advice | None:
    """Return what would settle the open questions of a curve, or None when there are none."""
    if fit.series.key.op is Op.BARRIER:
        return None  # a barrier has no size to sweep
    open_latency = _is_vague(fit.latency, fit.latency_refusal) and not fit.series.streamed
    open_bandwidth = _is_vague(fit.bandwidth, fit.bandwidth_refusal)
    gap = _gap(fit)
    if not open_latency and not open_bandwidth and not gap:
        return None
    if fit.series.key.ranks == 1:
        why = "the ranks never met: build the test with MPI=1, or start one process with -g N"
        return Advice(sizes_bytes=(), why=why, command=command(fit.series, SMALLEST, LARGEST, ranks=8))
    sizes, _ = fit.fitted_points
    if not len(sizes) and of_own_test(fit.series.key):
        return Advice(
            sizes_bytes=(),
            why="no size is printed: sweep the message and say its bytes, in a CSV of op, ranks, size_bytes, seconds",
            command=f"# the same benchmark ({fit.series.tool}) at several sizes",
        )
    smallest = float(sizes[0]) if len(sizes) else LARGEST
    end = float(sizes[-1]) if len(sizes) else SMALLEST
    wanted: list[float] = []
    missing = []
    if open_latency:
        missing.append("the latency needs 3 sizes on the floor")
        wanted += [size for size in _ON_FLOOR if size not in sizes and size <= max(smallest, _ON_FLOOR[-1])]
    if open_bandwidth:
        missing.append("the bandwidth needs 3 sizes on the ceiling")
        wanted += _larger(fit, end)
    if gap:
        missing.append("the size that doubles the floor needs sizes in the gap")
        wanted = sorted({*wanted, *gap})
    top = max([end, LARGEST if open_bandwidth else end, *wanted])
    return Advice(
        sizes_bytes=tuple(wanted), why=" and ".join(missing), command=command(fit.series, SMALLEST, min(top, _MOST))
    )


def _is_vague(found: Estimate | None, refusal: str) -> bool:
    """Tell whether more sizes would settle a value: none is known, or it was carried on beyond what was run."""
    return bool(refusal) or (
        found is not None and bool(found.high) and (found.high or 0.0) > _VAGUE * (found.low or 0.0)
    )


def _gap(fit: CurveFit) -> list[float]:
    """Return doublings that fill the gap in which the time doubles its floor, the fewest that make it narrow."""
    between = fit.double_floor_between_bytes
    if between is None or fit.double_floor_size_bytes is not None:
        return []
    low, high = (math.log2(size) for size in between)
    steps = math.ceil((high - low) / _STEP)
    return [2.0 ** round(low + (high - low) * step / steps) for step in range(1, steps)]


def _larger(fit: CurveFit, so_far: float) -> list[float]:
    """Return three sizes, doublings, that lie on the ceiling as far as the last segment can tell."""
    start = max(2.0 * so_far, largest(fit.series))
    if fit.segments and math.isfinite(fit.segments[-1].bandwidth_bytes_per_s):
        half = fit.segments[-1].latency_s * fit.segments[-1].bandwidth_bytes_per_s
        start = max(start, 2.0 ** math.ceil(math.log2(max(ON_CEILING * half, 1.0))))
    return [start * 2.0**step for step in range(ENOUGH) if start * 2.0**step <= _MOST]
