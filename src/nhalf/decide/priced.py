"""What a fabric's constants say of one collective across nodes, with the band that their intervals make."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np

from nhalf.breakdown import weighted_parts
from nhalf.laws.across_nodes import across_nodes
from nhalf.predict.band import LEVEL, TRANSPORT, drawn_factor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.breakdown import Array, Term
    from nhalf.citation import Datum
    from nhalf.collective import Op
    from nhalf.laws.across_nodes import Place
    from nhalf.library import Library
    from nhalf.transport import Transport


def drawn(transport: Transport, origins: Mapping[str, Datum]) -> Transport:
    """Return a transport whose constants are draws of shape (draws, 1) from their intervals, as those of a step are."""
    changed: dict[str, Array] = {}
    for item in fields(transport):
        path = f"{TRANSPORT}{item.name}"
        origin = origins.get(path)
        if origin is None or origin.low is None or origin.high is None or origin.low <= 0:
            continue
        changed[item.name] = (origin.value * drawn_factor(path, origin))[:, None]
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
