"""What measured points must be to make a curve."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from nhalf.errors import InputError

if TYPE_CHECKING:
    from nhalf.breakdown import Array


def check_points(where: str, sizes: Array, times: Array) -> None:
    """Refuse sizes and times that make no curve."""
    if sizes.ndim != 1 or sizes.shape != times.shape or not len(sizes):
        raise bad_curve(where, f"{sizes.size} sizes and {times.size} times do not pair")
    if not (sizes[0] > 0 and np.all(np.diff(sizes) > 0) and math.isfinite(sizes[-1])):
        raise bad_curve(where, "the sizes do not rise from above 0")
    if not (np.all(np.isfinite(times)) and np.all(times > 0)):
        raise bad_curve(where, "a time is not positive and finite")


def bad_curve(where: object, what: str) -> InputError:
    """Return the error that says what is wrong with the points of a curve."""
    return InputError(
        what,
        where=str(where),
        allowed="for every number of ranks, rising sizes above 0 and as many positive times; a noise of 0 or more",
    )
