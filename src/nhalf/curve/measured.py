"""A measured curve: the time of one collective on one system, library and mode, against size and ranks.

The points are kept as they were measured; `nhalf.curve.knots` says what lies between and beyond them, and
`nhalf.curve.spread` how far that may be off.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.collective import Op
from nhalf.curve import knots, spread
from nhalf.curve.knots import CurveAt
from nhalf.curve.line import Line, fit_line
from nhalf.curve.points import bad_curve, check_points
from nhalf.curve.surface import SHARED, Surface
from nhalf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.breakdown import Array, Quantity
    from nhalf.collective import Mode

_OF_A_MEDIAN: Final = 0.5  # deviation of the median of several runs over that of one run: of five 1.25 / sqrt(5) = 0.56


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveKey:
    """What a curve belongs to; a measured time without all of it is not worth keeping.

    `kernel` is the name its source gives to the code that ran.
    """

    system: str
    library: str
    version: str
    mode: Mode
    op: Op
    dtype: str
    kernel: str = ""

    @property
    def whose(self) -> str:
        """Return the library, with its version where that is known: `vllm 0.24.0`."""
        return f"{self.library} {self.version}".strip()

    def __str__(self) -> str:
        """Return `h100-sxm/vllm 0.24.0/graph/all-reduce/bfloat16`."""
        return f"{self.system}/{self.whose}/{self.mode}/{self.op}/{self.dtype}".rstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredCurve:
    """The measured times of one collective on one system, library, version and mode.

    `ranks` rise, and each has its own rising `sizes_bytes` [bytes] (as nccl-tests counts them) and `times_s` [s], the
    medians of the repeats. `log_sd` is the noise of one point as the standard deviation of ln t. `flag` is not empty
    when the measurement is known to be unlike the system (the catalogue then passes it over unless its version is
    named); `note` says what a reader should know. `lent_to` names another system that a sibling's curve stands in for:
    there nothing counts as measured, and the band is wider. `even_only`: its kernel is built for even rank counts, and
    another one runs on odd ones.

    `own` names the cluster file, or the flag, that a curve of the user's comes from. Its ranks sit on `nodes` nodes;
    `taken_in` is the mode that it was measured in where it stands in for another, and in `one_process` all ranks were
    driven, so that launches may be its floor. `seen` are the sizes [bytes] that were measured on each number of ranks
    where the others were moved from elsewhere (`nhalf.curve.moved`), by which the band is `slack` times as wide as
    elsewhere; where it is empty all were.

    Raises InputError when arrays do not pair, sizes or ranks do not rise, or a time or the noise is impossible.
    """

    key: CurveKey
    ranks: tuple[int, ...]
    sizes_bytes: tuple[Array, ...]
    times_s: tuple[Array, ...]
    log_sd: float
    source: str
    locator: str
    date: str
    flag: str = ""
    note: str = ""
    lent_to: str = ""
    even_only: bool = False
    own: str = ""
    nodes: int = 1
    taken_in: Mode | None = None
    one_process: bool = False
    seen: tuple[Array, ...] = ()
    slack: float = 1.0
    _at: dict[int, CurveAt] = field(default_factory=dict, init=False, repr=False)
    _shared: list[Surface] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse points that make no curve."""
        if not self.ranks or not len(self.ranks) == len(self.sizes_bytes) == len(self.times_s):
            raise bad_curve(self.key, "there is not one array of sizes and one of times for every number of ranks")
        if self.ranks[0] < 2 or any(b <= a for a, b in zip(self.ranks, self.ranks[1:], strict=False)):  # noqa: PLR2004
            raise bad_curve(self.key, f"the ranks {self.ranks} do not rise from 2 or more")
        if not (math.isfinite(self.log_sd) and self.log_sd >= 0):
            raise bad_curve(self.key, f"the noise {self.log_sd!r} is not a standard deviation")
        for ranks, sizes, times in zip(self.ranks, self.sizes_bytes, self.times_s, strict=True):
            check_points(f"{self.key} x{ranks}", sizes, times)

    def time_s(self, size_bytes: Quantity, ranks: int) -> Quantity:
        """Return the time [s] of the collective at a size [bytes] on a number of ranks.

        Between measured sizes it follows the surface through them, at a number of ranks between measured ones the
        surface shared by all of them. At and below the smallest size it is the floor; above the largest it grows with
        the size, at the bandwidth of the last point. One rank takes 0.

        Raises InputError when the ranks lie outside the measured ones.
        """
        return self.at(ranks)(size_bytes)

    def half_width(self, sizes_bytes: Array, ranks: int) -> Array:
        """Return the half-width [ln] of the 80 % band around the time at each size [bytes]: time x exp(-+ half-width).

        It holds the noise of a point, how much the curve may bend between two, how far the size lies beyond them, and
        what the shared surface does not know of a number of ranks that was not measured.

        Raises InputError when the ranks lie outside the measured ones or are 1.
        """
        self._of_several(ranks)
        nearest = min(range(len(self.ranks)), key=lambda i: abs(math.log(self.ranks[i] / ranks)))
        known, times = self.sizes_bytes[nearest], self.times_s[nearest]
        asked = np.maximum(sizes_bytes, 1.0)
        half = np.full(len(asked), spread.noise(self.key.mode, _OF_A_MEDIAN * self.log_sd))
        if len(known) > 1:
            half += spread.bend(np.log(known), np.log(times), np.log(asked))
        outside = np.maximum(np.log2(known[0] / asked), np.log2(asked / known[-1]))
        half += np.where(outside > 0.0, spread.held(outside), 0.0)
        half += spread.SIBLING if self.lent_to else 0.0
        if self.seen and not self.is_measured(ranks):
            half += self.slack * self._of_moving(asked, ranks)
        return half if ranks in self.ranks else half + self._of_other_ranks(asked, ranks)

    def half_widths(self, sizes_bytes: Array, ranks: int) -> tuple[Array, Array]:
        """Return the half-widths [ln] of the 80 % band below and above the time at each size [bytes].

        Where one process drove all ranks, the time is an upper bound, and the band reaches down.

        Raises InputError when the ranks lie outside the measured ones or are 1.
        """
        half = self.half_width(sizes_bytes, ranks)
        return (half + spread.LAUNCHES if self.one_process else half), half

    def _of_moving(self, sizes_bytes: Array, ranks: int) -> Array:
        """Return what adds to the half-width [ln] that the points around were moved from other systems or ranks."""
        known = {each: sizes for each, sizes in zip(self.ranks, self.seen, strict=True) if len(sizes)}
        if not known:  # of another number of nodes
            return spread.moved(np.zeros(len(sizes_bytes)), 1.0)
        nearest = min(known, key=lambda each: abs(math.log2(each / ranks)))
        apart = np.min(np.abs(np.log2(sizes_bytes[:, None] / known[nearest][None])), axis=1)
        return spread.moved(apart, abs(math.log2(nearest / ranks)))

    def _of_other_ranks(self, sizes_bytes: Array, ranks: int) -> Array:
        """Return what a number of ranks that was not measured adds to the half-width [ln]."""
        surface = self._surface()
        inside = np.clip(sizes_bytes, surface.sizes_bytes.min(), surface.sizes_bytes.max())
        _, unknown = surface.log_time(inside, np.full(len(inside), float(ranks)))
        residuals = [surface.residual(inside, np.full(len(inside), float(each))) for each in self.ranks]
        above = bisect_right(self.ranks, ranks)
        low, high = (np.asarray(self.time_s(inside, self.ranks[place])) for place in (above - 1, above))
        return spread.other_ranks(unknown, np.max(np.abs(residuals), axis=0), np.abs(np.log(high / low)))

    def is_measured(self, ranks: int) -> bool:
        """Return whether this number of ranks was measured, rather than lying between two, or on a sibling alone."""
        if ranks not in self.ranks or self.lent_to:
            return False
        index = self.ranks.index(ranks)
        return not self.seen or len(self.seen[index]) == len(self.sizes_bytes[index])

    def is_moved(self, ranks: int) -> bool:
        """Return whether a curve of the user's was moved to this number of ranks, or some sizes of it."""
        return bool(self.own) and not self.is_measured(ranks)

    def covers(self, ranks: int) -> bool:
        """Return whether a number of ranks is 1, was measured, or lies between two that were and runs their kernel."""
        between = self.ranks[0] < ranks < self.ranks[-1] and not (self.even_only and ranks % 2)
        return ranks == 1 or ranks in self.ranks or between

    def floor_s(self, ranks: int) -> float:
        """Return the floor [s]: the median time up to 2 KiB, or the time of the smallest message when none is so small.

        Raises InputError when the ranks lie outside the measured ones.
        """
        return self.at(ranks).floor_s

    def at(self, ranks: int) -> CurveAt:
        """Return the curve at a number of ranks, to be called with a size: the input `curve` of a formula `curve(n)`.

        Raises InputError when the ranks lie outside the measured ones.
        """
        found = self._at.get(ranks)
        if found is None:
            found = self._at[ranks] = CurveAt(f"{self.key} x{ranks}", *self._knots(ranks))
        return found

    def line(self, ranks: int) -> Line:
        """Return the alpha-beta line nearest to the measured points; between measured ranks, to the curve at all sizes.

        Raises InputError when the ranks lie outside the measured ones or are 1.
        """
        if ranks in self.ranks:
            index = self.ranks.index(ranks)
            return fit_line(self.sizes_bytes[index], self.times_s[index])
        at = self._of_several(ranks)
        sizes = np.unique(np.concatenate(self.sizes_bytes))
        return fit_line(sizes, np.asarray(at(sizes)))

    def double_floor_size_bytes(self, ranks: int) -> float:
        """Return the size [bytes] above which the measured curve stays above twice its floor.

        It starts from the largest measured size that takes at most twice the floor and follows the log-log line to
        the size that takes exactly that. So a spike, or a stretch that a switch of algorithm lets fall back below,
        does not count as the crossover: only the last crossing does. When even the largest size is below, the
        bandwidth ceiling is followed beyond it.

        Raises InputError when the ranks lie outside the measured ones or are 1.
        """
        at = self._of_several(ranks)
        xs, ys = at.log2_sizes, at.log2_times
        target = ys[0] + 1.0
        last = max(i for i, y in enumerate(ys) if y <= target)
        share = (target - ys[last]) / (ys[last + 1] - ys[last])
        return math.exp2(xs[last] + share * (xs[last + 1] - xs[last]))

    def _of_several(self, ranks: int) -> CurveAt:
        """Return the curve at 2 or more ranks."""
        if ranks == 1:
            raise InputError("one rank waits for nobody and has no curve", where=str(self.key), allowed="2 or more")
        return self.at(ranks)

    def _knots(self, ranks: int) -> knots.Knots:
        """Return log2 of the sizes and times at a number of ranks."""
        if ranks == 1:
            return (), ()
        if ranks in self.ranks:
            index = self.ranks.index(ranks)
            return knots.through(self.sizes_bytes[index], self.times_s[index], self.log_sd)
        if not self.covers(ranks):
            measured = ", ".join(map(str, self.ranks))
            raise InputError(
                f"{ranks} ranks lie outside what was measured ({measured})",
                where=str(self.key),
                allowed=f"1, or {self.ranks[0]} to {self.ranks[-1]} ranks{', even ones' if self.even_only else ''}",
                do="take a law for other ranks: another number may run another kernel, so a curve is not extended",
            )
        return knots.between(self._surface(), ranks)

    def _surface(self) -> Surface:
        """Return the surface shared by all ranks, made when it is first asked for."""
        if not self._shared:
            counts = [len(sizes) for sizes in self.sizes_bytes]
            self._shared.append(
                Surface(
                    ranks=np.repeat(np.array(self.ranks, dtype=float), counts),
                    sizes_bytes=np.concatenate(self.sizes_bytes),
                    times_s=np.concatenate(self.times_s),
                    noise=np.full(sum(counts), self.log_sd),
                    doubled=self.key.op is Op.ALL_REDUCE,
                    form=SHARED,
                )
            )
        return self._shared[0]


def preferred(curves: Iterable[MeasuredCurve], ranks: int) -> MeasuredCurve | None:
    """Return the curve to take of some that are alike, on a number of ranks; None where none covers it.

    The user's own come first: of a process a rank, then what was measured on so many ranks; else the order stands.
    """
    known = [curve for curve in curves if curve.covers(ranks)]
    return min(
        known,
        key=lambda each: (not each.own, each.one_process, bool(each.own) and not each.is_measured(ranks)),
        default=None,
    )
