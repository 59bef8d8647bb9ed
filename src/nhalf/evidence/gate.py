"""Gates: `latency>30us` trips when a fitted value is beyond a limit, so that a script can stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.errors import InputError, WeakEvidenceError

if TYPE_CHECKING:
    from nhalf.evidence.curvefit import CurveFit
    from nhalf.evidence.fit import Fit

_UNITS: Final = {
    "latency": "s",
    "bandwidth": "bytes/s",
    "floor": "s",
    "half-size": "bytes",
    "double-floor-size": "bytes",
    "misfit": "1",
    "time": "s",
}
_EXAMPLES: Final = "'latency>30us', 'bandwidth<200GB/s' or 'time(16KiB)>20us'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A limit on a value of every curve of a fit."""

    limit: units.Limit

    @property
    def text(self) -> str:
        """Return the limit as the user wrote it."""
        return self.limit.text

    def tripped(self, fit: Fit) -> list[str]:
        """Return a sentence for every curve whose value is beyond the limit.

        Raises WeakEvidenceError when no curve has the value at all.
        """
        key = self.limit.key
        values = [(curve, self._value(fit, curve)) for curve in fit.curves]
        known = [(curve, value) for curve, value in values if value is not None]
        if not known:
            raise WeakEvidenceError(
                f"no curve has a {key}, so the gate cannot be judged", where=f"--fail-if {self.text!r}",
                allowed="a value that the logs hold", do="measure more sizes",
            )  # fmt: skip
        return [
            f"{curve.series.key}: {key} {units.format_value(value, _UNITS[key])}"
            for curve, value in known
            if self.limit.holds(value)
        ]

    def _value(self, fit: Fit, curve: CurveFit) -> float | None:
        if self.limit.key == "time":
            return _time(fit, curve, self.limit.size_bytes or 0.0)
        if self.limit.key == "misfit":
            return curve.line.misfit_median if curve.line else None
        if self.limit.key == "floor":
            return curve.floor_s
        if self.limit.key in ("latency", "bandwidth"):
            found = curve.latency if self.limit.key == "latency" else curve.bandwidth
            return found.value if found else None
        return curve.half_size_bytes if self.limit.key == "half-size" else curve.double_floor_size_bytes


def _time(fit: Fit, curve: CurveFit, size_bytes: float) -> float | None:
    try:
        return float(fit.only(curve).predict(size_bytes, curve.series.key.ranks or 0)[0])
    except (WeakEvidenceError, InputError):
        return None


def parse(text: str) -> Gate:
    """Parse a limit such as `latency>30us`.

    Raises InputError when it is no gate, or its value has the wrong unit.
    """
    return Gate(limit=units.parse_limit(text, _UNITS, sized=("time",), examples=_EXAMPLES))
