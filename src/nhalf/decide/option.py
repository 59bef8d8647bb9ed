"""Options: what one could buy or change, as moves of inputs of the scenarios it may run in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from nhalf.decide.regime import TIE
from nhalf.points import Points
from nhalf.predict.band import draws

if TYPE_CHECKING:
    from nhalf.breakdown import Array, Quantity
    from nhalf.scenario import Scenario

SAME_STACK: Final = TIE
"""A gain below 5 % on one machine and engine is noise: a repeated run differs by 9 % in a quarter of cases, and the
ratios of device counts are predicted within 4 to 6 % (the house's decode-step note)."""
ANOTHER_STACK: Final = 0.15
"""The median error of a prediction whose constants were not fitted (the house's decode-step note): two machines,
engines or libraries do not share what is uncertain about them."""

MoveKind = Literal["value", "delta", "factor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What an option does to one input: a new value, something added to it, or a factor; times end at 0."""

    path: str
    kind: MoveKind
    amount: float

    def of(self, before: Quantity) -> Quantity:
        """Return the input after the move."""
        if self.kind == "value":
            return self.amount
        if self.kind == "factor":
            return before * self.amount
        after = np.maximum(np.asarray(before) + self.amount, 0.0)
        return float(after) if after.ndim == 0 else after


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Option:
    """One thing on the list: scenarios of every layout it may run in, and inputs that it moves.

    `price_per_gpu` [$] is None where none was given; `another` tells whether machine, engine, library or number format
    is another one, so that the model's errors before and after are not the same error.
    """

    name: str
    layouts: tuple[Scenario, ...]
    moves: tuple[Move, ...] = ()
    price_per_gpu: float | None = None
    another: bool = False

    @property
    def error(self) -> float:
        """Return the gain [1] below which the model cannot tell."""
        return ANOTHER_STACK if self.another else SAME_STACK

    def scenario(self, layout: int, batch: Quantity) -> Scenario:
        """Return the scenario of one of the layouts at a batch, with the moves made."""
        base = self.layouts[layout]
        changes = {move.path: move.of(base.value(move.path)) for move in self.moves}
        return base.having({**changes, "workload.batch": batch})

    def points(self, layout: int, batches: Array) -> Points:
        """Return the points of one of the layouts at several batches, with the moves made."""
        return Points(scenario=self.scenario(layout, batches), count=len(batches))

    def drawn(self, layout: int, batch: float) -> Scenario:
        """Return the scenario with every uncertain input drawn; a moved one is drawn, then moved."""
        base = self.layouts[layout].having({"workload.batch": batch})
        changes: dict[str, Quantity] = dict(draws(base))
        for move in self.moves:
            changes[move.path] = move.of(changes.get(move.path, base.value(move.path)))
        return base.having(changes)
