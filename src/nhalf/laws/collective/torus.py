"""All-reduce on a torus: rings along one dimension after the other (bucket algorithm)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nhalf.errors import InputError
from nhalf.laws.collective.base import flat, law

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity, Term
    from nhalf.link import Link

_DIMENSIONS = (2, 3)


def torus_all_reduce(
    size_bytes: Quantity,
    sides: tuple[int, ...],
    link: Link,
    *,
    colours: Quantity = 1.0,
    reduce_s_per_byte: Quantity = 0.0,
) -> Term:
    """Return the time [s] of an all-reduce on a torus of two or three `sides`; `link` is that to one neighbour.

    Reduce-scatter along each side, then all-gather back: 2 (x + y - 2) steps, and the bytes of a ring. With `colours`
    parts of the vector that start along different sides, links of several sides work at once. Exact for one colour,
    and for more on equal sides; on a 4 x 8 torus two colours collide, 30 % above the formula.

    Raises
    ------
    InputError
        Other than two or three sides, or a side below 1.

    References
    ----------
    N. Jain and Y. Sabharwal, "Optimal bucket algorithms for large MPI collectives on torus interconnects", ICS (2010).
    """
    if len(sides) not in _DIMENSIONS or min(sides) < 1:
        raise InputError(f"{sides} is no torus", where="sides of a torus", allowed="two or three sides of 1 or more")
    count = len(sides)
    names = ("x", "y", "z")[:count]
    terms = {
        **flat(size_bytes, float(math.prod(sides)), link, reduce_s_per_byte),
        **{name: float(side) for name, side in zip(names, sides, strict=True)},
        "colours": colours,
    }
    fixed = f"2 * ({' + '.join(names)} - {count}) * alpha"
    return law(f"torus-{count}d", fixed, "2 * (k - 1) / k * n / (colours * beta)", terms, "(k - 1) / k")


def squarest(ranks: int, dimensions: int) -> tuple[int, ...]:
    """Return the sides of the torus of `ranks` ranks with the fewest steps, the short sides first."""
    if dimensions == 1:
        return (ranks,)
    found = [(side, *squarest(ranks // side, dimensions - 1)) for side in range(1, ranks + 1) if ranks % side == 0]
    return min((tuple(sorted(sides)) for sides in found), key=sum)
