"""A sweep over sizes as its rows come: points, what was skipped, and the bandwidth pairs that ranks follow from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final

from nhalf.evidence.readers.columns import Event, skip, timed, why_cut
from nhalf.evidence.readers.inference import Ratio, ratio, settled
from nhalf.evidence.readers.numerals import half_step, integer, real, size
from nhalf.evidence.table import Skipped

if TYPE_CHECKING:
    from nhalf.collective import Op
    from nhalf.evidence.table import Note, Point

_SLACK: Final = 0.1  # relative; a mangled row misses by far more
_FEW: Final = 0.2  # of the rows


@dataclass(slots=True)
class Sweep:
    """The rows of one table of a tool that prints a size, a time, and maybe algbw and busbw.

    `moved` bounds, for each point with a bandwidth, the printed bandwidth times its time over its size: a unit, so the
    same for all.
    """

    source: str
    points: list[Point] = field(default_factory=list)
    pairs: list[tuple[str, str]] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    moved: dict[Point, tuple[float, float]] = field(default_factory=dict)

    def add(self, event: Event, *, time: str, unit: float, least: str = "", most: str = "") -> None:
        """Take a row: its `size`, the column `time` in `unit` [s], the extremes of it, `algbw`, `busbw` and `check`."""
        values, line = event.values, event.line
        bytes_ = integer(values["size"]) or size(values["size"])
        if not bytes_:
            why = "the size is 0" if bytes_ == 0 else f"{values['size']!r} is not a size"
            self.skipped.append(skip(line, self.source, why))
            return
        low, high = _seconds(values.get(least), unit), _seconds(values.get(most), unit)
        wrong = values.get("check", "").casefold().startswith("fail")
        point = timed(line, float(bytes_), values[time], unit, min_s=low, max_s=high, wrong=wrong)
        if point is None:
            self.skipped.append(skip(line, self.source, f"{values[time]!r} is not a time above 0"))
            return
        self.points.append(point)
        rate = values.get("algbw") or values.get("bandwidth") or ""
        value = real(rate)
        if value is not None and value > (half := half_step(rate)):
            least_s, most_s = point.low_s or point.seconds, point.high_s or point.seconds
            self.moved[point] = (value - half) * least_s / bytes_, (value + half) * most_s / bytes_
        if "algbw" in values and "busbw" in values:
            self.pairs.append((values["algbw"], values["busbw"]))

    def cut(self, event: Event) -> None:
        """Take a row that does not fit its header."""
        self.skipped.append(skip(event.line, self.source, why_cut(event)))

    def trusted(self) -> tuple[Point, ...]:
        """Return the points without those whose bandwidth contradicts size and time, where it agrees for most."""
        if not self.moved:
            return tuple(self.points)
        middle = median(math.sqrt(low * high) for low, high in self.moved.values())
        odd = {
            point for point, (low, high) in self.moved.items()
            if low > (1.0 + _SLACK) * middle or high < (1.0 - _SLACK) * middle
        }  # fmt: skip
        if len(odd) > _FEW * len(self.moved):
            return tuple(self.points)
        why = "its size, time and bandwidth contradict each other: the row is damaged"
        self.skipped += [Skipped(file=self.source, line=point.line, why=why) for point in odd]
        return tuple(point for point in self.points if point not in odd)

    @property
    def ratio(self) -> Ratio | None:
        """Return the busbw/algbw that the rows have in common."""
        return ratio(self.pairs)

    def ranks(self, op: Op | None, *stated: int | None) -> tuple[int | None, tuple[Note, ...]]:
        """Return the ranks that the rows and what the log states have in common, and notes on them."""
        return settled(op, self.ratio, *stated)

    def __bool__(self) -> bool:
        """Return whether a row came at all."""
        return bool(self.points or self.skipped)


def _seconds(token: str | None, unit: float) -> float | None:
    value = real(token) if token else None
    return value * unit if value is not None and value > 0.0 else None
