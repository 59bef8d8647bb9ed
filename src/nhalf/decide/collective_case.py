"""A question: one collective on one group of ranks, the library that runs it there, and what is known about both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.collective import Mode, Op
from nhalf.laws.collective.table import candidates

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity, Term
    from nhalf.curve import MeasuredCurve
    from nhalf.fabric import Span
    from nhalf.laws.across_nodes import Place
    from nhalf.laws.collective.table import Law
    from nhalf.library import Library, Rule, SymmetricKernels
    from nhalf.system import System

TIE: Final = 1e-9
"""Two laws that differ by less are the same: rings one way and both ways through one port."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """One collective on one group of ranks, the library that runs it, and what is known about both.

    `has` is what the machine has beyond links: `peer memory`, `nvls`, `sharp`, `torus`; `nics` tells whether its nodes
    are joined by NICs, rather than by the switches that devices share. `rule` is the library's own, None where its
    tuner decides alone; `curve` what was measured of it there; `symmetric` what NCCL expects of its kernels on
    registered buffers, None where it would not run them. `reduce_s_per_byte` [s/byte] is the time
    to reduce a byte where that is not hidden behind the transfer. `doubt` are the factors between which a plan of its
    tuner may be off. `place` is where it runs across nodes whose fabric has a price, and `doubtful` the same with draws
    of the fabric's constants. `domain` is the system where the group crosses trays of a rack on which NCCL was
    measured.
    """

    op: Op
    span: Span
    has: frozenset[str]
    library: Library | None = None
    rule: Rule | None = None
    curve: MeasuredCurve | None = None
    mode: Mode = Mode.GRAPH
    reduce_s_per_byte: float = 0.0
    nics: bool = True
    symmetric: SymmetricKernels | None = None
    doubt: tuple[float, float] = (1.0, 1.0)
    place: Place | None = None
    doubtful: Place | None = None
    domain: System | None = None

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return self.span.ranks

    @cached_property
    def laws(self) -> dict[str, Law]:
        """Return every law that applies to the span, whether the machine has what it needs or not."""
        return candidates(self.op, self.span)

    @cached_property
    def available(self) -> tuple[str, ...]:
        """Return the algorithms for which the machine has all that they need.

        On a torus those that speak to neighbours alone, where there are any: the laws of the others know no detours.
        """
        has = {name: law for name, law in self.laws.items() if not law.needs or law.needs in self.has}
        near = tuple(name for name, law in has.items() if law.neighbours)
        return near if near and "torus" in self.has and self.span.nodes == 1 else tuple(has or self.laws)

    def term(self, algorithm: str, size_bytes: Quantity) -> Term:
        """Return what the law says of an algorithm: its time [s] with its parts."""
        law = self.laws[algorithm].on(self.span)
        if law is None:  # candidates() keeps only laws that are defined on the span
            raise KeyError(algorithm)
        return law(size_bytes, self.span, self.reduce_s_per_byte)

    def time_s(self, algorithm: str, size_bytes: Quantity) -> Quantity:
        """Return the time [s] of an algorithm by its law."""
        return self.term(algorithm, size_bytes).value

    def fastest(self, size_bytes: float) -> str:
        """Return the algorithm that the machine runs fastest by the laws; the first of several that are the same."""
        times = [float(np.mean(self.time_s(name, size_bytes))) for name in self.available]
        least = min(times)
        return next(name for name, time in zip(self.available, times, strict=True) if time <= least * (1 + TIE))
