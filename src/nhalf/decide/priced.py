"""What a fabric's constants say of one collective across nodes, with the band that their intervals make."""

from __future__ import annotations

import math
import zlib
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.breakdown import weighted_parts
from nhalf.laws.across_nodes import across_nodes
from nhalf.predict.band import DRAWS, LEVEL, SEED
from nhalf.quantiles import Z95

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.breakdown import Array, Term
    from nhalf.citation import Datum
    from nhalf.collective import Op
    from nhalf.laws.across_nodes import Place
    from nhalf.library import Library
    from nhalf.transport import Transport

PATH: Final = "system.transport."
"""Where the constants of a transport stand among the inputs of a scenario."""


def drawn(transport: Transport, origins: Mapping[str, Datum]) -> Transport:
    """Return a transport whose constants are draws of shape (draws, 1) from their intervals, as those of a step are."""
    changed: dict[str, Array] = {}
    for item in fields(transport):
        path = f"{PATH}{item.name}"
        origin = origins.get(path)
        if origin is None or origin.low is None or origin.high is None or origin.low <= 0:
            continue
        normal = np.random.default_rng([SEED, zlib.crc32(path.encode())]).standard_normal(DRAWS)
        below, above = math.log(origin.value / origin.low) / Z95, math.log(origin.high / origin.value) / Z95
        changed[item.name] = (origin.value * np.exp(normal * np.where(normal < 0, below, above)))[:, None]
    return replace(transport, **changed)  # type: ignore[arg-type]


def path_of(term: Term) -> Term:
    """Return the path that a price is of, for one size."""
    if term.rule != "chosen":
        return term
    return next(part for part, weight in weighted_parts(term) if float(np.mean(weight)) > 0)


def ends(op: Op, size_bytes: float, place: Place, library: Library) -> tuple[float, float]:
    """Return the ends [s] of the 80 % band of a price, on a place whose transport is drawn."""
    times = across_nodes(op, np.array([size_bytes]), place, library).value
    low, high = np.quantile(np.asarray(times), ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(low), float(high)
