"""Predictions: every row of a case table answered, or refused with a reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.errors import InputError
from nhalf.points import Points
from nhalf.predict.memory import FITS
from nhalf.predict.step import BINDING, COLUMNS

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.loading.cases import Cases
    from nhalf.predict.response import Indices

NUMBERS: Final = (
    "step_s", "tpot_s", "tpot_low_s", "tpot_high_s", "ttft_low_s", "ttft_high_s", "running", "tokens_per_s_per_user",
    "tokens_per_s_per_gpu", "memory_bytes",
)  # fmt: skip
"""What is said of a row, by the names of the attributes of `Points`."""
_WORDS = np.array([BINDING[name] for name in COLUMNS], dtype=object)
_FITS = np.array(FITS, dtype=object)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predictions:
    """One entry for each row of a table; numbers are NaN where the row is refused.

    `numbers` has an array for each of `NUMBERS`; `binding` holds the word for the largest column, `fits_memory` whether
    it fits. `group` is the index of the row's group in the cases, -1 where it is refused.
    """

    cases: Cases
    numbers: dict[str, Array]
    binding: list[str]
    fits_memory: list[str]
    group: Indices
    refused: list[str]

    @property
    def tpot_s(self) -> Array:
        """Return the time per token [s]."""
        return self.numbers["tpot_s"]

    @property
    def low_s(self) -> Array:
        """Return the low ends [s] of the 80 % bands of the time per token."""
        return self.numbers["tpot_low_s"]

    @property
    def high_s(self) -> Array:
        """Return the high ends [s] of the 80 % bands of the time per token."""
        return self.numbers["tpot_high_s"]

    @property
    def ttft_low_s(self) -> Array:
        """Return the low ends [s] of the ranges of the time to the first token."""
        return self.numbers["ttft_low_s"]

    @property
    def ttft_high_s(self) -> Array:
        """Return the high ends [s] of the ranges of the time to the first token."""
        return self.numbers["ttft_high_s"]


def predictions(cases: Cases) -> Predictions:
    """Return the prediction of every row that has a scenario."""
    count = len(cases.table.rows)
    numbers = {name: np.full(count, np.nan) for name in NUMBERS}
    binding, fits = np.full(count, "", dtype=object), np.full(count, "", dtype=object)
    member = np.full(count, -1)
    refused = list(cases.refused)
    for index, group in enumerate(cases.groups):
        rows = group.rows
        found = Points(scenario=group.scenario, count=len(rows))
        try:
            answers = {name: getattr(found, name) for name in NUMBERS}
        except InputError as error:
            for row in rows:
                refused[row] = str(error)
            continue
        for name, values in answers.items():
            numbers[name][rows] = values
        binding[rows], fits[rows], member[rows] = _WORDS[found.binds], _FITS[found.fit_codes], index
    return Predictions(
        cases=cases, numbers=numbers, binding=binding.tolist(), fits_memory=fits.tolist(), group=member, refused=refused
    )
