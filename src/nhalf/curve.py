"""A measured curve: the time of one collective on one system, library and mode, against size and ranks.

The points are kept as they were measured. Between them a straight line in log-log is as good as anything (a held-out
point of a grid of doublings is missed by about 2 %); below them the floor holds, above them the bandwidth of the last
point; nothing forces the time to rise, because it does fall where a library switches its algorithm.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.errors import InputError

if TYPE_CHECKING:
    from nhalf.breakdown import Array, Quantity
    from nhalf.collective import Mode, Op, Routed

FLOOR_SIZE_BYTES: Final = 2048.0
"""The floor is the median time of the messages up to this size [bytes], where none is long enough to cost bandwidth."""

_FAR = 1000.0  # log2 of a size [bytes] that nobody asks for: the end of the bandwidth ceiling


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

    def __str__(self) -> str:
        """Return `h100-sxm/vllm 0.24.0/graph/all-reduce/bfloat16`."""
        return f"{self.system}/{self.library} {self.version}/{self.mode}/{self.op}/{self.dtype}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The line t(n) = alpha + n / beta nearest to a curve, and how far from the curve it stays.

    `latency_s` (alpha) [s] is the fixed time of the whole collective, not of one message; `bandwidth_bytes_per_s`
    (beta) [bytes/s] is infinite when the times do not grow with size. `misfit_median` and `misfit_max` are
    |line / measured - 1|, the median and the largest over the points.
    """

    latency_s: float
    bandwidth_bytes_per_s: float
    misfit_median: float
    misfit_max: float

    @property
    def half_size_bytes(self) -> float:
        """Return n_1/2 = alpha x beta [bytes] of the line."""
        return self.latency_s * self.bandwidth_bytes_per_s


def fit_line(sizes_bytes: Array, times_s: Array) -> Line:
    """Return the line alpha + n / beta with the least squared relative error, alpha and 1 / beta not negative.

    The error is relative because the times span five or six decades: with plain least squares the largest message
    alone decides, and alpha comes out as noise, often negative. Each point is divided by its time and the two normal
    equations are solved directly; when one unknown comes out negative it is zero and the other is solved alone, which
    for two unknowns is the exact non-negative solution.

    Raises InputError when there are no points, sizes and times do not pair, or a time is not positive.

    Reference: R. W. Hockney, "The communication challenge for MPP: Intel Paragon and Meiko CS-2", Parallel Computing 20
    (1994), for the line; C. L. Lawson and R. J. Hanson, "Solving Least Squares Problems" (1974), for the constraint.
    """
    if len(sizes_bytes) == 0 or sizes_bytes.shape != times_s.shape or not np.all(times_s > 0):
        raise InputError(
            f"{len(sizes_bytes)} sizes and {len(times_s)} times give no line",
            where="fit of a line",
            allowed="one positive time for every size, at least one",
        )
    # In units of the largest size, so that both columns are of like magnitude.
    scale = max(float(np.max(sizes_bytes)), 1.0)
    fixed, moved = 1.0 / times_s, sizes_bytes / scale / times_s
    ff, fm, mm = float(fixed @ fixed), float(fixed @ moved), float(moved @ moved)
    f1, m1 = float(fixed.sum()), float(moved.sum())
    determinant = ff * mm - fm * fm
    # Below this the points are one size, or indistinguishable from it: all of the time is called fixed.
    if determinant <= 1e-12 * ff * mm:
        alpha, inverse = f1 / ff, 0.0
    else:
        alpha, inverse = (f1 * mm - m1 * fm) / determinant, (m1 * ff - f1 * fm) / determinant
        if alpha < 0:
            alpha, inverse = 0.0, m1 / mm
        elif inverse < 0:
            alpha, inverse = f1 / ff, 0.0
    misfit = np.abs(alpha * fixed + inverse * moved - 1.0)
    return Line(
        latency_s=alpha,
        bandwidth_bytes_per_s=scale / inverse if inverse > 0 else math.inf,
        misfit_median=float(np.median(misfit)),
        misfit_max=float(np.max(misfit)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class CurveAt:
    """A measured curve at one number of ranks: call it with a size [bytes] for the time [s].

    `log2_sizes` and `log2_times` are its knots; the first holds the floor, and a last one far out continues the
    bandwidth of the largest measured size. Both are empty for one rank, which waits for nobody.
    """

    label: str
    log2_sizes: tuple[float, ...]
    log2_times: tuple[float, ...]
    _x: Array = field(init=False, repr=False)
    _y: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Keep the knots as arrays too: scalars search the tuples, arrays the arrays."""
        object.__setattr__(self, "_x", np.array(self.log2_sizes))
        object.__setattr__(self, "_y", np.array(self.log2_times))

    def __call__(self, size_bytes: Quantity) -> Quantity:
        """Return the time [s] of a message of `size_bytes` [bytes]: a float for a float, an array for an array."""
        if isinstance(size_bytes, np.ndarray):
            return self._of_array(size_bytes)
        xs, ys = self.log2_sizes, self.log2_times
        if not xs:
            return 0.0
        x = math.log2(size_bytes) if size_bytes > 0 else -math.inf
        if x <= xs[0]:
            return math.exp2(ys[0])
        i = min(bisect_right(xs, x), len(xs) - 1)
        return math.exp2(ys[i - 1] + (ys[i] - ys[i - 1]) * ((x - xs[i - 1]) / (xs[i] - xs[i - 1])))

    def _of_array(self, sizes_bytes: Array) -> Array:
        if not self.log2_sizes:
            return np.zeros_like(sizes_bytes, dtype=np.float64)
        positive = np.maximum(sizes_bytes, math.exp2(self.log2_sizes[0]), dtype=np.float64)
        times: Array = np.exp2(np.interp(np.log2(positive), self._x, self._y))
        return times

    @property
    def floor_s(self) -> float:
        """Return the time [s] of the smallest messages, and of any smaller one."""
        return math.exp2(self.log2_times[0]) if self.log2_times else 0.0

    def __str__(self) -> str:
        """Return the key of the curve and the ranks: `h100-sxm/vllm 0.24.0/graph/all-reduce/bfloat16 x8`."""
        return self.label


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredCurve:
    """The measured times of one collective on one system, library, version and mode.

    `ranks` rise, and each has its own rising `sizes_bytes` [bytes] (as nccl-tests counts them) and `times_s` [s], the
    medians of the repeats. `log_sd` is the noise of one point as the standard deviation of ln t. `flag` is not empty
    when the measurement is known to be unlike the system (the catalogue then passes it over unless its version is
    named); `note` says what a reader should know.

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
    _at: dict[int, CurveAt] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse points that make no curve."""
        if not self.ranks or not len(self.ranks) == len(self.sizes_bytes) == len(self.times_s):
            raise _bad_curve(self.key, "there is not one array of sizes and one of times for every number of ranks")
        if self.ranks[0] < 2 or any(b <= a for a, b in zip(self.ranks, self.ranks[1:], strict=False)):  # noqa: PLR2004
            raise _bad_curve(self.key, f"the ranks {self.ranks} do not rise from 2 or more")
        if not (math.isfinite(self.log_sd) and self.log_sd >= 0):
            raise _bad_curve(self.key, f"the noise {self.log_sd!r} is not a standard deviation")
        for ranks, sizes, times in zip(self.ranks, self.sizes_bytes, self.times_s, strict=True):
            _check_points(f"{self.key} x{ranks}", sizes, times)

    def time_s(self, size_bytes: Quantity, ranks: int) -> Quantity:
        """Return the time [s] of the collective at a size [bytes] on a number of ranks.

        Between measured sizes, and between measured numbers of ranks, the time follows the straight line in log-log.
        At and below the smallest size it is the floor; above the largest it grows with the size, at the bandwidth of
        the last point. One rank takes 0.

        Raises InputError when the ranks lie outside the measured ones.
        """
        return self.at(ranks)(size_bytes)

    def is_measured(self, ranks: int) -> bool:
        """Return whether this number of ranks was measured, rather than lying between two that were."""
        return ranks in self.ranks

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
        """Return the alpha-beta line nearest to the measured points; between measured ranks, to the knots in between.

        Raises InputError when the ranks lie outside the measured ones or are 1.
        """
        if ranks in self.ranks:
            index = self.ranks.index(ranks)
            return fit_line(self.sizes_bytes[index], self.times_s[index])
        at = self._of_several(ranks)
        return fit_line(np.exp2(at.log2_sizes[:-1]), np.exp2(at.log2_times[:-1]))

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

    def _knots(self, ranks: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return log2 of the sizes and times at a number of ranks."""
        if ranks == 1:
            return (), ()
        if ranks in self.ranks:
            index = self.ranks.index(ranks)
            return _knots_of_points(self.sizes_bytes[index], self.times_s[index])
        above = bisect_right(self.ranks, ranks)
        if above in (0, len(self.ranks)):
            measured = ", ".join(map(str, self.ranks))
            raise InputError(
                f"{ranks} ranks lie outside what was measured ({measured})",
                where=str(self.key),
                allowed=f"1, or {self.ranks[0]} to {self.ranks[-1]} ranks",
                do="take a law for other ranks: another number may run another kernel, so a curve is not extended",
            )
        low, high = self.ranks[above - 1], self.ranks[above]
        return _between(self.at(low), self.at(high), math.log(ranks / low) / math.log(high / low))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoutedCurve:
    """The measured time of an all-to-all of experts against the tokens of one rank, each sent to `chosen` experts.

    A token is `hidden` elements in `dtype`. `ranks` hold a part of `experts` each, `ranks_per_node` of them in a node.
    `log_sd` is the noise of one point as the standard deviation of ln t.

    Raises InputError when tokens and times do not pair, tokens do not rise, or a time is not positive.
    """

    system: str
    library: str
    version: str
    kernel: str
    way: Routed
    dtype: str
    ranks: int
    ranks_per_node: int
    hidden: int
    chosen: int
    experts: int
    tokens: Array
    times_s: Array
    log_sd: float
    source: str
    locator: str
    date: str
    note: str = ""
    at: CurveAt = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse points that make no curve, and keep the line through them."""
        label = f"{self.system}/{self.library} {self.version}/{self.kernel}/{self.way}/{self.dtype} x{self.ranks}, "
        label += f"d {self.hidden}, {self.chosen} of {self.experts}"
        _check_points(label, self.tokens, self.times_s)
        xs, ys = np.log2(self.tokens).tolist(), np.log2(self.times_s).tolist()
        knots = ((*xs, _FAR), (*ys, ys[-1] + _FAR - xs[-1]))
        object.__setattr__(self, "at", CurveAt(label, *knots))

    def distance(self, hidden: int, chosen: int, experts: int) -> float:
        """Return how unlike a model of other dimensions is, as the sum of logarithms; experts hardly matter."""
        return (
            abs(math.log(hidden / self.hidden))
            + abs(math.log(chosen / self.chosen))
            + 0.01 * abs(math.log(experts / self.experts))
        )


def _knots_of_points(sizes_bytes: Array, times_s: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return log2 of sizes and times: the first time is the floor, and a last knot far out holds the bandwidth."""
    small = times_s[sizes_bytes <= FLOOR_SIZE_BYTES]
    floor_s = float(np.median(small)) if len(small) else float(times_s[0])
    xs = np.log2(sizes_bytes).tolist()
    ys = [math.log2(floor_s), *np.log2(times_s[1:]).tolist()]
    return (*xs, _FAR), (*ys, ys[-1] + _FAR - xs[-1])


def _between(low: CurveAt, high: CurveAt, share: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the knots of the log-log line in the ranks; `share` of the way from `low` to `high`."""
    xs = np.union1d(low.log2_sizes, high.log2_sizes)
    below, above = (np.interp(xs, at.log2_sizes, at.log2_times) for at in (low, high))
    return tuple(xs.tolist()), tuple(((1.0 - share) * below + share * above).tolist())


def _check_points(where: str, sizes: Array, times: Array) -> None:
    """Refuse sizes and times that make no curve."""
    if sizes.ndim != 1 or sizes.shape != times.shape or not len(sizes):
        raise _bad_curve(where, f"{sizes.size} sizes and {times.size} times do not pair")
    if not (sizes[0] > 0 and np.all(np.diff(sizes) > 0) and math.isfinite(sizes[-1])):
        raise _bad_curve(where, "the sizes do not rise from above 0")
    if not (np.all(np.isfinite(times)) and np.all(times > 0)):
        raise _bad_curve(where, "a time is not positive and finite")


def _bad_curve(where: object, what: str) -> InputError:
    return InputError(
        what,
        where=str(where),
        allowed="for every number of ranks, rising sizes above 0 and as many positive times; a noise of 0 or more",
    )
