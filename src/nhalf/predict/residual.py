"""Residuals: how far predictions fell from measurements that the constants had not seen, and the bands that gives.

References
----------
V. Vovk, A. Gammerman and G. Shafer, "Algorithmic Learning in a Random World" (2005): conformal prediction; here the
residuals are those of groups left out one at a time (a family of models, a system, an engine), each group counting
alike. Models with experts are less well predicted than dense ones, so each kind has bands of its own (the taxonomy of
Mondrian conformal prediction, there section 4.5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from nhalf.collective import Mode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.scenario import Scenario


DENSE: Final = "dense"
EXPERTS: Final = "experts"
SEEN: Final = "seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Novelty:
    """What of a case the calibration has never seen; `launched` are engines that launch kernels one by one.

    `experts` says whether the model has any: what it says is of which kind the bands are, and not that it is new.
    """

    experts: bool = False
    model: bool = False
    system: bool = False
    engine: bool = False
    launched: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of what is new."""
        told = {"model": self.model, "system": self.system, "engine": self.engine, "class": self.launched}
        return tuple(name for name, new in told.items() if new)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bands:
    """Half-widths of 80 % bands as logarithms, below and above the prediction.

    `widths` has them by kind of model (`dense`, `experts`) and by what is new: `seen` holds for models, systems and
    engines that the constants were fitted on, the others for one thing that is new (`class`: engines that launch
    kernels one by one).
    `models`, `systems` and `engines` are what was seen.
    """

    widths: Mapping[str, Mapping[str, tuple[float, float]]]
    models: frozenset[str]
    systems: frozenset[str]
    engines: frozenset[str]

    def novelty(self, scenario: Scenario) -> Novelty:
        """Return what of a scenario is new."""
        transformer, stack = scenario.transformer, scenario.stack
        model, system, engine = transformer.name, scenario.system.like or scenario.system.name, stack.engine
        return Novelty(
            experts=transformer.mixture is not None,
            model=model not in self.models,
            system=system not in self.systems,
            engine=engine not in self.engines,
            launched=stack.mode != Mode.GRAPH,
        )

    def measured(self, widths: tuple[float, float]) -> Bands:
        """Return bands whose half-widths for what was seen are those that were measured on one stack."""
        return replace(self, widths={kind: {**each, SEEN: widths} for kind, each in self.widths.items()})

    def half_widths(self, novelty: Novelty) -> tuple[float, float]:
        """Return the half-widths for a case: what each new thing adds to the seen ones, as independent doubts."""
        widths = self.widths[EXPERTS if novelty.experts else DENSE]
        seen = widths[SEEN]
        below, above = (
            math.sqrt(
                seen[side] ** 2 + sum(max(widths[name][side] ** 2 - seen[side] ** 2, 0.0) for name in novelty.names)
            )
            for side in (0, 1)
        )
        return below, above
