"""Degrees: the lists of parallel degrees that a request asks for, and the layouts that they make together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Final

from nhalf.errors import InputError
from nhalf.layout import Layout, check
from nhalf.loading.inputs import of_part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nhalf.fabric import Fabric
    from nhalf.transformer import Transformer


@dataclass(frozen=True, slots=True, kw_only=True)
class Degrees:
    """Degrees of tensor, pipeline, expert, attention-data and context parallelism, by the names of their flags."""

    tp: tuple[int, ...] = (1,)
    pp: tuple[int, ...] = (1,)
    ep: tuple[int, ...] = (1,)
    attention_dp: tuple[int, ...] = (1,)
    cp: tuple[int, ...] = (1,)

    def layouts(self) -> Iterator[Layout]:
        """Yield every combination of the degrees, TP changing first."""
        for dp, ep, cp, pp, tp in product(self.attention_dp, self.ep, self.cp, self.pp, self.tp):
            yield Layout(
                tensor_parallel=tp, pipeline_parallel=pp, context_parallel=cp, expert_parallel=ep, attention_dp=dp
            )

    def legal(self, transformer: Transformer, fabric: Fabric) -> list[Layout]:
        """Return the layouts that a model and a fabric allow; of several lists combined, the others are passed over.

        Raises
        ------
        InputError
            None is legal, or one of a plain list of TP degrees is not.
        """
        layouts = list(self.layouts())
        legal, refusals = [], []
        for layout in layouts:
            try:
                check(layout, transformer, fabric)
            except InputError as refusal:
                refusals.append(refusal)
            else:
                legal.append(layout)
        combined = len(layouts) > len(self.tp)
        if refusals and not (combined and legal):
            raise refusals[0]
        return legal


FIELDS: Final = {row.name: row.path.removeprefix("layout.") for row in of_part("degrees")}
"""The field of a layout that each degree is."""
FLAGS: Final = tuple(FIELDS)
"""The names of the degrees: flags of `nhalf decode`, keys of a scenario file, choices of `nhalf.load`."""


def as_flags(layout: Layout) -> str:
    """Return the flags that ask for the degrees of a layout: those that are more than 1."""
    degrees = {flag: getattr(layout, field) for flag, field in FIELDS.items()}
    return " ".join(f"--{flag.replace('_', '-')} {degree}" for flag, degree in degrees.items() if degree > 1)
