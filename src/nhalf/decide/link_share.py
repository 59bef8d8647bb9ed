"""Exchanged: which part of the collectives' time the links move, and what prefills inside a step exchange."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.breakdown import weighted_parts
from nhalf.predict.communication import COLLECTIVES, LINK_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nhalf.breakdown import Quantity, Term

_PREFILL: Final = "prefill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanged:
    """Times [s] of one step: `link_bytes_s` is what its links take for bytes, which a wider link shortens.

    `prefill_s` is what the collectives of arriving requests take, which the column of prefills holds.
    """

    link_bytes_s: float
    prefill_s: float


def exchanged(step: Term) -> Exchanged:
    """Return what a step exchanges over its links, and what the prefills in it exchange."""
    leaves = list(_leaves(step, 1.0, inside=False))
    return Exchanged(
        link_bytes_s=sum(_s(leaf, weight) for leaf, weight, inside in leaves if not inside and leaf.name == LINK_BYTES),
        prefill_s=sum(_s(leaf, weight) for leaf, weight, inside in leaves if inside),
    )


def _s(leaf: Term, weight: Quantity) -> float:
    """Return what a leaf adds to its step [s]."""
    return float(np.mean(weight * leaf.value))


def _leaves(term: Term, weight: Quantity, *, inside: bool) -> Iterator[tuple[Term, Quantity, bool]]:
    """Yield the terms of collectives with the weights by which they enter, and whether they are part of a prefill."""
    if term.column in COLLECTIVES:
        yield term, weight, inside
    elif not term.column or term.column == _PREFILL:
        for part, share in weighted_parts(term):
            yield from _leaves(part, weight * share, inside=inside or term.column == _PREFILL)
