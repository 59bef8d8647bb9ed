"""Two fits side by side: which latency, bandwidth or floor moved, by how much, and whether outside the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nhalf.quantiles import Z95

if TYPE_CHECKING:
    from nhalf.evidence.curvefit import CurveFit
    from nhalf.evidence.fit import Fit
    from nhalf.evidence.intervals import Estimate
    from nhalf.evidence.series import SeriesKey

LAUNCH_NOISE: Final = 0.03
"""Relative standard deviation of a fitted value from one launch to the next, which one log cannot show: two runs of one
point differ by 0.8 % in the median and 5.1 % at the 90 % quantile (collectives of aiconfigurator-core 0.12.0)."""
_LISTED: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One value in two fits. `ratio` is this over the other, with its 95 % interval `low` to `high`.

    `moved` says whether 1 lies outside the interval; it is None where one of the two has no interval.
    """

    curve: str
    name: str
    unit: str
    other: float
    this: float
    ratio: float
    low: float | None
    high: float | None
    moved: bool | None

    @property
    def text(self) -> str:
        """Return in words how the value changed."""
        if self.low is None or self.high is None:
            return f"{self.name} {self.ratio:.3g}x, without an interval"
        if not self.moved:
            return f"{self.name} unchanged ({self.low:.2g} to {self.high:.2g}x)"
        return f"{self.name} {self.ratio:.2g}x ({self.low:.2g} to {self.high:.2g})"

    def to_dict(self) -> dict[str, Any]:
        """Return the change with SI units in its keys."""
        suffix = {"s": "s", "bytes/s": "bytes_per_s"}[self.unit]
        return {
            "curve": self.curve,
            "name": self.name,
            f"other_{suffix}": self.other,
            f"this_{suffix}": self.this,
            "ratio": self.ratio,
            "low": self.low,
            "high": self.high,
            "moved": self.moved,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The changes of every pair of curves, and why a curve has no partner or is unlike its partner."""

    changes: tuple[Change, ...]
    doubts: tuple[str, ...]

    def to_dict(self) -> dict[str, Any] | None:
        """Return the ratios of the first pair of curves, None where no value is in both."""
        if not self.changes:
            return None
        first = {each.name: each for each in self.changes if each.curve == self.changes[0].curve}
        found: dict[str, Any] = {"curve": self.changes[0].curve}
        for name in ("latency", "bandwidth"):
            change = first.get(name)
            found[f"{name}_ratio"] = change.ratio if change else None
            found[f"{name}_ratio_low"] = change.low if change else None
            found[f"{name}_ratio_high"] = change.high if change else None
        return found

    def sentences(self) -> list[str]:
        """Return for each pair of curves what changed: `latency unchanged, bandwidth 3.1x (2.6 to 3.7)`."""
        by_curve: dict[str, list[str]] = {}
        for change in self.changes:
            by_curve.setdefault(change.curve, []).append(change.text)
        return [f"{curve}: {', '.join(texts)}" for curve, texts in by_curve.items()]


def compare(this: Fit, other: Fit) -> Comparison:
    """Return what changed from the other fit to this one, curve by curve; only like is compared with like."""
    changes: list[Change] = []
    doubts: list[str] = []
    left = list(other.curves)
    for curve in this.curves:
        partner = _partner(curve, left)
        if partner is None:
            others = "; ".join(str(each.series.key) for each in other.curves[:_LISTED])
            doubts.append(f"{curve.series.key} has no partner of its operation and ranks: the other log holds {others}")
            continue
        left.remove(partner)
        unlike = _unlike(curve.series.key, partner.series.key)
        if unlike:
            doubts.append(f"{curve.series.key}: {unlike} differ, so the two are not alike")
        changes += _changes(curve, partner)
    return Comparison(changes=tuple(changes), doubts=tuple(doubts))


def _partner(curve: CurveFit, others: list[CurveFit]) -> CurveFit | None:
    """Return the curve of the same operation and ranks that is most alike, the first of equals."""
    key = curve.series.key
    same = [o for o in others if o.series.key.name == key.name and o.series.key.ranks == key.ranks]
    return max(same, key=lambda o: _alikeness(key, o.series.key)) if same else None


_COMPARED: Final = ("quantity", "mode", "nodes", "dtype", "label")


def _alikeness(one: SeriesKey, other: SeriesKey) -> int:
    return sum(getattr(one, name) == getattr(other, name) for name in _COMPARED)


def _unlike(one: SeriesKey, other: SeriesKey) -> str:
    differ = [
        f"{name} ({getattr(other, name) or 'unknown'} and {getattr(one, name) or 'unknown'})"
        for name in ("quantity", "mode", "nodes", "dtype")
        if getattr(one, name) != getattr(other, name)
    ]
    return ", ".join(differ)


def _changes(curve: CurveFit, partner: CurveFit) -> list[Change]:
    name = str(curve.series.key)
    found = []
    for quantity, unit in (("latency", "s"), ("bandwidth", "bytes/s")):
        this, other = getattr(curve, quantity), getattr(partner, quantity)
        if this is not None and other is not None:
            found.append(_change(name, quantity, unit, (this, other)))
    if curve.floor_s is not None and partner.floor_s is not None and curve.latency is None:
        found.append(_of_floors(name, curve.floor_s, partner.floor_s))
    return found


def _of_floors(curve: str, this: float, other: float) -> Change:
    """Return how a floor changed, of curves too short to say how sure that is."""
    return Change(
        curve=curve, name="floor", unit="s", other=other, this=this, ratio=this / other, low=None, high=None, moved=None
    )


def _change(curve: str, name: str, unit: str, pair: tuple[Estimate, Estimate]) -> Change:
    this, other = pair
    ratio = this.value / other.value
    low = high = None
    if math.isfinite(this.noise) and math.isfinite(other.noise):
        width = math.hypot(this.noise, other.noise, Z95 * math.sqrt(2.0) * LAUNCH_NOISE)
        low, high = ratio * math.exp(-width), ratio * math.exp(width)
    return Change(
        curve=curve, name=name, unit=unit, other=other.value, this=this.value, ratio=ratio, low=low, high=high,
        moved=None if low is None or high is None else not low <= 1.0 <= high,
    )  # fmt: skip
