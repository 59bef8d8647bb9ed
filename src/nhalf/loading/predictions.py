"""Predictions: every row of a case table answered, or refused with a reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nhalf.catalog import calibration
from nhalf.decide.regime import BINDING
from nhalf.errors import InputError
from nhalf.predict.answer import answer
from nhalf.predict.step import COLUMNS

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.loading.cases import Cases
    from nhalf.predict.residual import Bands
    from nhalf.predict.response import Indices

_WORDS = np.array([BINDING[name] for name in COLUMNS], dtype=object)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predictions:
    """One entry for each row of a table; times [s] are NaN where the row is refused.

    `binding` holds the word for the largest column. `group` is the index of the row's group in the cases, -1 where it
    is refused.
    """

    cases: Cases
    tpot_s: Array
    low_s: Array
    high_s: Array
    ttft_low_s: Array
    ttft_high_s: Array
    binding: list[str]
    group: Indices
    refused: list[str]


def predictions(cases: Cases, bands: Bands | None = None) -> Predictions:
    """Return the prediction of every row that has a scenario."""
    chosen = bands or calibration.bands()
    count = len(cases.table.rows)
    times = np.full((5, count), np.nan)
    words = np.full(count, "", dtype=object)
    member = np.full(count, -1)
    refused = list(cases.refused)
    for index, group in enumerate(cases.groups):
        rows = group.rows
        try:
            found = answer(group.scenario, len(rows), other_kv_bytes=group.other_kv_bytes)
        except InputError as error:
            for row in rows:
                refused[row] = str(error)
            continue
        low, high = chosen.around(found, group.scenario)
        times[:, rows] = found.tpot_s, low, high, found.first_low_s, found.first_high_s
        words[rows] = _WORDS[found.column]
        member[rows] = index
    return Predictions(
        cases=cases,
        tpot_s=times[0],
        low_s=times[1],
        high_s=times[2],
        ttft_low_s=times[3],
        ttft_high_s=times[4],
        binding=words.tolist(),
        group=member,
        refused=refused,
    )
