"""Predictions of runs that the calibration was derived from, each by constants that saw no run of its family."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nhalf.calibrate.evidence import evidence
from nhalf.calibrate.fit import ONE_EACH
from nhalf.calibrate.prior import NEVER_FROM_STEPS, prior
from nhalf.calibrate.routing import shipped as shipped_routing
from nhalf.catalog import calibration
from nhalf.citation import Datum
from nhalf.loading.cases import Options, cases
from nhalf.loading.measured import measured_s
from nhalf.loading.predictions import Predictions, predictions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from nhalf.loading.case_table import Table
    from nhalf.predict.response import Indices


Numbers = TypeVar("Numbers", bound="NDArray[Any]")


def unseen(table: Table) -> Predictions:
    """Return the predictions of a table's rows, each by constants of the other families of models.

    So that a table of the calibration's own runs judges it as a new model would.
    """
    loaded = cases(table)
    runs = shipped_routing(evidence(loaded, measured_s(table)))
    shipped = prior(calibrated=True)
    start = prior(calibrated=False).around({name: shipped.centre[name] for name in NEVER_FROM_STEPS})
    known = calibration.families()
    family = np.array([known.get(model, model) for model in runs.model.tolist()])
    of_group = [known.get(group.model, group.model) for group in loaded.groups]
    bands = replace(calibration.bands(), models=frozenset())
    whole: Predictions | None = None
    for name in sorted(set(of_group)):
        others = runs.take(family != name)
        constants = others.fit(start, correlation=ONE_EACH).constants if len(others) else start.centre
        found = predictions(cases(table, Options(constants=_data(constants), bands=bands)))
        rows = np.concatenate([group.rows for group, of in zip(loaded.groups, of_group, strict=True) if of == name])
        whole = found if whole is None else _with(whole, found, rows)
    return whole or predictions(cases(table, Options(bands=bands)))


def _data(constants: Mapping[str, float]) -> dict[str, Datum]:
    """Return constants as data; they live only as long as one table is judged."""
    return {
        name: Datum(
            value=value, unit="s" if name.endswith("_s") else "1", source="nhalf", locator="leave-one-family-out",
            kind="fitted", date="",
        )
        for name, value in constants.items()
    }  # fmt: skip


def _with(whole: Predictions, other: Predictions, rows: Indices) -> Predictions:
    """Return predictions in which some rows are replaced."""
    numbers = {name: _replaced(values, other.numbers[name], rows) for name, values in whole.numbers.items()}
    binding, fits = list(whole.binding), list(whole.fits_memory)
    for row in rows.tolist():
        binding[row], fits[row] = other.binding[row], other.fits_memory[row]
    group = _replaced(whole.group, other.group, rows)
    return replace(whole, numbers=numbers, group=group, binding=binding, fits_memory=fits)


def _replaced(whole: Numbers, other: Numbers, rows: Indices) -> Numbers:
    """Return an array in which some entries are replaced."""
    merged = whole.copy()
    merged[rows] = other[rows]
    return merged
