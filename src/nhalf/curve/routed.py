"""A measured way of tokens to experts and back, against the tokens of one rank."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from nhalf.curve.knots import FAR, CurveAt
from nhalf.curve.points import check_points

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.collective import Routed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoutedCurve:
    """The measured time of an all-to-all of experts against the tokens of one rank, each sent to `chosen` experts.

    A token is `hidden` elements in `dtype`. `ranks` hold a part of `experts` each, `ranks_per_node` of them in a node.
    `log_sd` is the noise of one point as the standard deviation of ln t.

    Raises InputError when tokens and times do not pair, tokens do not rise, or a time is not positive.
    """

    system: str
    library: str
    version: str
    kernel: str
    way: Routed
    dtype: str
    ranks: int
    ranks_per_node: int
    hidden: int
    chosen: int
    experts: int
    tokens: Array
    times_s: Array
    log_sd: float
    source: str
    locator: str
    date: str
    note: str = ""
    at: CurveAt = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse points that make no curve, and keep the line through them."""
        label = f"{self.system}/{self.library} {self.version}/{self.kernel}/{self.way}/{self.dtype} x{self.ranks}, "
        label += f"d {self.hidden}, {self.chosen} of {self.experts}"
        check_points(label, self.tokens, self.times_s)
        xs, ys = np.log2(self.tokens).tolist(), np.log2(self.times_s).tolist()
        knots = ((*xs, FAR), (*ys, ys[-1] + FAR - xs[-1]))
        object.__setattr__(self, "at", CurveAt(label, *knots))

    def distance(self, hidden: int, chosen: int, experts: int) -> float:
        """Return how unlike a model of other dimensions is, as the sum of logarithms; experts hardly matter."""
        return (
            abs(math.log(hidden / self.hidden))
            + abs(math.log(chosen / self.chosen))
            + 0.01 * abs(math.log(experts / self.experts))
        )
