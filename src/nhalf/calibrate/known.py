"""Stacks that were measured with one model: constants of their own, where they predict runs that they have not seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.calibrate.derive import half_widths, median_error
from nhalf.calibrate.fit import WITHIN
from nhalf.calibrate.stack import NARROWEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nhalf.breakdown import Array
    from nhalf.calibrate.evidence import Evidence
    from nhalf.calibrate.fit import Fitted
    from nhalf.calibrate.prior import Prior

LEAST_RUNS: Final = 10
"""Fewer runs of one stack and model hold a handful of curves: too few to leave some out."""
GAIN: Final = 0.75
"""Constants of a stack's own must leave at most this share of the error: a smaller gain on tens of noisy runs may be
chance, and what holds for all stacks is safer beyond the loads that were measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A stack that was measured with one model: `cluster` names both.

    `held_out_error` and `before_error` are medians of |predicted / measured - 1| over runs of curves that were left
    out: by constants refitted on the other curves, and by those of all stacks. `half_widths` are of the former.
    """

    cluster: str
    rows: int
    fitted: Fitted
    held_out_error: float
    before_error: float
    half_widths: tuple[float, float]


def known_stacks(measured: Evidence, prior: Prior, curves: Array) -> Iterator[Known]:
    """Yield the stacks whose own constants predict curves that were left out better than those of all stacks.

    `prior` is centred on the constants of all stacks, `curves` names the curve of each step: a layout and the lengths
    of prompts and outputs. Better is less of |ln(measured / predicted)|, in the mean by `GAIN` and in the median: what
    a stack cannot show on its own runs, such as a mixture of layouts that its constants do not tell apart, is left out.
    """
    for name in np.unique(measured.cluster).tolist():
        inside = measured.cluster == name
        if np.sum(inside) < LEAST_RUNS or len(np.unique(curves[inside])) == 1:
            continue
        runs = measured.take(inside)
        unseen = _left_out(runs, prior, curves[inside])
        after, before = np.abs(unseen), np.abs(runs.log_errors(prior.centre))
        if np.mean(after) <= GAIN * np.mean(before) and np.median(after) < np.median(before):
            low, high = half_widths(unseen, np.ones(len(runs)))
            yield Known(
                cluster=name,
                rows=len(runs),
                fitted=runs.fit(prior, correlation=WITHIN),
                held_out_error=median_error(unseen),
                before_error=median_error(runs.log_errors(prior.centre)),
                half_widths=(max(low, NARROWEST), max(high, NARROWEST)),
            )


def _left_out(runs: Evidence, prior: Prior, curves: Array) -> Array:
    """Return ln(measured / predicted) of every run by constants that were fitted without its curve."""
    errors = np.empty(len(runs))
    for curve in np.unique(curves):
        out = curves == curve
        constants: Mapping[str, float] = runs.take(~out).fit(prior, correlation=WITHIN).constants
        errors[out] = runs.take(out).log_errors(constants)
    return errors
