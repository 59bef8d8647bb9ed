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
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from nhalf.collective import Mode
from nhalf.stack import releases_apart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.scenario import Scenario


DENSE: Final = "dense"
EXPERTS: Final = "experts"
SEEN: Final = "seen"
NEAR: Final = 1.0
"""Releases within which a version is as one that was seen."""
BEYOND: Final = 4.0
"""Releases beyond which a version is as doubtful as those that were left out: they were 2 to 9 from the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Novelty:
    """What of a case the calibration has never seen; `launched` are engines that launch kernels one by one.

    `experts` says whether the model has any: what it says is of which kind the bands are, and not that it is new.
    `version` is how far the engine's version is from all that were seen, 1 for as far as those that were left out.
    """

    experts: bool = False
    model: bool = False
    system: bool = False
    engine: bool = False
    launched: bool = False
    version: float = 0.0

    @property
    def shares(self) -> dict[str, float]:
        """Return what is new, with the share of its doubt that it brings."""
        told = {"model": self.model, "system": self.system, "engine": self.engine, "class": self.launched}
        return {name: 1.0 for name, new in told.items() if new} | ({"version": self.version} if self.version else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bands:
    """Half-widths of 80 % bands as logarithms, below and above the prediction.

    `widths` has them by kind of model (`dense`, `experts`) and by what is new: `seen` holds for models, systems and
    engines that the constants were fitted on, the others for one thing that is new (`class`: engines that launch
    kernels one by one).
    `models`, `systems` and `engines` are what was seen, `versions` those of each engine.
    """

    widths: Mapping[str, Mapping[str, tuple[float, float]]]
    models: frozenset[str]
    systems: frozenset[str]
    engines: frozenset[str]
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

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
            version=self._version(stack.engine, stack.version),
        )

    def _version(self, engine: str, version: str) -> float:
        """Return how far a version is from all that were seen of its engine; 0 where none is asked for or none was."""
        seen = self.versions.get(engine, ())
        if not version or not seen:
            return 0.0
        apart = min(releases_apart(version, each) for each in seen)
        return min(max(apart - NEAR, 0.0) / BEYOND, 1.0)

    def measured(self, widths: tuple[float, float]) -> Bands:
        """Return bands whose half-widths for what was seen are those that were measured on one stack."""
        return replace(self, widths={kind: {**each, SEEN: widths} for kind, each in self.widths.items()})

    def half_widths(self, novelty: Novelty) -> tuple[float, float]:
        """Return the half-widths for a case: what each new thing adds to the seen ones, as independent doubts."""
        widths = self.widths[EXPERTS if novelty.experts else DENSE]
        seen = widths[SEEN]
        below, above = (
            math.sqrt(
                seen[side] ** 2
                + sum(
                    share * max(widths[name][side] ** 2 - seen[side] ** 2, 0.0)
                    for name, share in novelty.shares.items()
                )
            )
            for side in (0, 1)
        )
        return below, above
