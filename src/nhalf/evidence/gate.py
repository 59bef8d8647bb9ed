"""Gates: `latency>30us` trips when a fitted value crosses a threshold, so that a script can stop."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.errors import InputError, WeakEvidenceError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.evidence.curvefit import CurveFit
    from nhalf.evidence.fit import Fit

_PATTERN: Final = re.compile(r"\s*([A-Za-z][\w /-]*?)\s*(?:\(([^)]*)\))?\s*(>=|<=|>|<)\s*(.+?)\s*")
_TESTS: Final[dict[str, Callable[[float, float], bool]]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip
_UNITS: Final = {
    "latency": "s",
    "bandwidth": "bytes/s",
    "floor": "s",
    "half-size": "bytes",
    "double-floor-size": "bytes",
    "misfit": "1",
    "time": "s",
}
_ALLOWED: Final = (
    "latency, bandwidth, floor, half-size, double-floor-size, misfit (the median) or time(SIZE), then >, >=, < or <=, "
    "then a value with its unit, such as 'latency>30us', 'bandwidth<200GB/s' or 'time(16KiB)>20us'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A threshold: it trips when `quantity` (of a message of `size_bytes` [bytes], for a time) `test` `threshold`."""

    text: str
    quantity: str
    size_bytes: float | None
    test: str
    threshold: float

    def tripped(self, fit: Fit) -> list[str]:
        """Return a sentence for every curve that trips it.

        Raises WeakEvidenceError when no curve has the value at all.
        """
        values = [(curve, self._value(fit, curve)) for curve in fit.curves]
        known = [(curve, value) for curve, value in values if value is not None]
        if not known:
            raise WeakEvidenceError(
                f"no curve has a {self.quantity}, so the gate cannot be judged", where=f"--fail-if {self.text!r}",
                allowed="a value that the logs hold", do="measure more sizes",
            )  # fmt: skip
        unit = _UNITS[self.quantity]
        return [
            f"{curve.series.key}: {self.quantity} {units.format_value(value, unit)}"
            for curve, value in known
            if _TESTS[self.test](value, self.threshold)
        ]

    def _value(self, fit: Fit, curve: CurveFit) -> float | None:
        if self.quantity == "time":
            return _time(fit, curve, self.size_bytes or 0.0)
        if self.quantity == "misfit":
            return curve.line.misfit_median if curve.line else None
        if self.quantity == "floor":
            return curve.floor_s
        if self.quantity in ("latency", "bandwidth"):
            found = curve.latency if self.quantity == "latency" else curve.bandwidth
            return found.value if found else None
        return curve.half_size_bytes if self.quantity == "half-size" else curve.double_floor_size_bytes


def _time(fit: Fit, curve: CurveFit, size_bytes: float) -> float | None:
    try:
        return float(fit.only(curve).predict(size_bytes, curve.series.key.ranks or 0)[0])
    except (WeakEvidenceError, InputError):
        return None


def parse(text: str) -> Gate:
    """Return the gate that a text means.

    Raises InputError when it is no gate, or its value has the wrong unit.
    """
    where = "--fail-if"
    found = _PATTERN.fullmatch(text)
    if found is None:
        raise InputError(f"{text!r} is not a gate", where=where, allowed=_ALLOWED)
    name, size, test, value = found.groups()
    quantity = re.sub(r"[ _]+", "-", name.strip().casefold())
    if quantity not in _UNITS:
        raise InputError(
            f"{name!r} is not a fitted value", where=where, allowed=_ALLOWED, do=did_you_mean(name, _UNITS)
        )
    if (size is not None) != (quantity == "time"):
        raise InputError(f"{text!r}: only a time has a size, and it needs one", where=where, allowed=_ALLOWED)
    return Gate(
        text=text,
        quantity=quantity,
        size_bytes=units.parse(size, "size", where=where) if size is not None else None,
        test=test,
        threshold=units.parse_for_unit(value, _UNITS[quantity], where=where),
    )
