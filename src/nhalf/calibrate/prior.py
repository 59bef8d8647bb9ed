"""Priors: where each constant of a stack lies before anything was measured, and how far it may be from there."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from nhalf.catalog import store
from nhalf.predict.response import CONSTANTS
from nhalf.quantiles import Z95

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNKNOWN_LOG_SD: Final = 0.5
EFFICIENCY: Final = "_efficiency"
"""Constants that end so are shares of a datasheet rate: at most 1."""
NEVER_FROM_STEPS: Final = ("collective_excess_s",)
"""What a time per token says nothing of: a collective's excess comes from pairs of runs with and without it.

Reference: the house's decode-step note: Llama-3-70B on H100 at batch 1, with and without communication."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """The centre of each constant, and the standard deviation of its logarithm."""

    centre: Mapping[str, float]
    log_sd: Mapping[str, float]

    @property
    def free(self) -> tuple[str, ...]:
        """Return the names of the constants that a fit moves; one that is 0, what the stack does without, stays so."""
        return tuple(name for name in CONSTANTS if name not in NEVER_FROM_STEPS and self.centre[name] > 0)

    def around(self, centre: Mapping[str, float]) -> Prior:
        """Return the prior around other centres: constants of one stack scatter around those of all."""
        return replace(self, centre={**self.centre, **centre})


def prior(*, calibrated: bool = False, engine: str = "") -> Prior:
    """Return the prior of the catalogue: around what is assumed, or around what was calibrated on all stacks.

    With an engine, the constants that are its own are among the centres: one that does without an undivided share keeps
    doing so, and that of an engine on processors may move.
    The spread is that of the assumed constants either way: it says how far one stack may be from another.
    """
    assumed = store.constant_data(calibrated=False)
    centres = store.constant_data(calibrated=calibrated, engine=engine)
    spreads = {}
    for name in CONSTANTS:
        datum = assumed[name]
        known = datum.low is not None and datum.low > 0
        spreads[name] = math.log(datum.value / datum.low) / Z95 if known and datum.low else _UNKNOWN_LOG_SD
    return Prior(
        centre={name: centres[name].value for name in CONSTANTS},
        log_sd=spreads,
    )
