"""The constants of one stack: refitted around those of all stacks, on the runs that were measured on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.calibrate.derive import Constant, bootstrap, constants_of, half_widths, median_error
from nhalf.calibrate.fit import WITHIN

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.calibrate.evidence import Evidence
    from nhalf.calibrate.prior import Prior

NARROWEST: Final = 0.09
"""A quarter of repeated runs differ by more than 9 %: no band is narrower than 80 % of them, 1.28 x 0.078."""
_FOLDS: Final = 5
_FEW: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StackFit:
    """A refit of one stack: its constants, its errors on runs held out, and the half-widths of its band.

    `held_out_error` is the median of |predicted / measured - 1| over runs that the constants had not seen,
    `median_error` over those that they had. `before_error` is what the constants of all stacks give. Of one run none
    can be held out: the error is NaN, and there are no half-widths.
    """

    constants: tuple[Constant, ...]
    rows: int
    clusters: int
    median_error: float
    held_out_error: float
    before_error: float
    half_widths: tuple[float, float] | None
    notes: tuple[tuple[str, str], ...]

    @property
    def worse(self) -> bool:
        """Tell whether the constants of all stacks predict runs that were held out better than the refit does."""
        return self.held_out_error > self.before_error

    @property
    def values(self) -> dict[str, float]:
        """Return the refitted constants by name."""
        return {each.name: each.value for each in self.constants}


def refit(measured: Evidence, prior: Prior) -> StackFit:
    """Return the constants of a stack from its runs; `prior` is centred on the constants of all stacks."""
    fitted = measured.fit(prior, correlation=WITHIN)
    clusters = len(np.unique(measured.cluster))
    spread = {} if clusters < _FEW else bootstrap(measured, prior, fitted.constants, correlation=WITHIN)
    constants = constants_of(prior, fitted.constants, fitted.log_sd, spread)
    if len(measured) == 1:
        # What one run moves, nothing checks: several constants could have made its time.
        constants = tuple(replace(each, identified=False) for each in constants)
    unseen = _held_out(measured, prior)
    return StackFit(
        constants=constants,
        rows=len(measured),
        clusters=clusters,
        median_error=median_error(measured.log_errors(fitted.constants)),
        held_out_error=median_error(unseen) if len(measured) > 1 else float("nan"),
        before_error=median_error(measured.log_errors(prior.centre)),
        half_widths=_band(unseen) if len(measured) > 1 else None,
        notes=tuple(_notes(constants, measured, clusters)),
    )


def _band(unseen: Array) -> tuple[float, float]:
    """Return the half-widths that hold runs that were held out, none narrower than a repeat."""
    low, high = half_widths(unseen, np.ones(len(unseen)))
    return max(low, NARROWEST), max(high, NARROWEST)


def _runs(count: int) -> str:
    return "1 run identifies" if count == 1 else f"{count} runs identify"


def _held_out(measured: Evidence, prior: Prior) -> Array:
    """Return ln(measured / predicted) of every run by constants that were fitted without its fold."""
    count = len(measured)
    folds = np.arange(count) % min(_FOLDS, count)
    errors = np.empty(count)
    for fold in np.unique(folds):
        inside = folds == fold
        rest = measured.take(~inside)
        constants = prior.centre if not len(rest) else rest.fit(prior, correlation=WITHIN).constants
        errors[inside] = measured.take(inside).log_errors(constants)
    return errors


def _notes(constants: tuple[Constant, ...], measured: Evidence, clusters: int) -> list[tuple[str, str]]:
    """Return what a reader of the constants should know, each with a code."""
    known = [each.name for each in constants if each.identified]
    open_ = [each.name for each in constants if not each.identified]
    found = []
    if not known:
        found.append(("nothing-identified", f"{_runs(len(measured))} no constant: all stay near what they were"))
    elif len(measured) <= len(known):
        found.append(("no-freedom", f"{len(measured)} runs for {len(known)} constants: the fit cannot be checked"))
    if len(measured) == 1:
        found.append(("nothing-held-out", "one run cannot be held out: nothing says how far off these constants are"))
    if open_:
        text = (
            f"these times cannot tell {len(open_)} of {len(constants)} constants, which stay near those of all stacks"
        )
        found.append(("not-identifiable", text))
    if clusters > 1:
        text = f"{clusters} stacks and models are fitted together: one file for each predicts better"
        found.append(("several-stacks", text))
    if len(np.unique(measured.devices)) == 1:
        found.append(("one-device-count", "all runs are of one device count: what grows with it was not seen"))
    return found
