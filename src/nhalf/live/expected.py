"""Expected: the step that a scenario predicts at the batch and context of a window."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from nhalf.points import points
from nhalf.predict import exchange
from nhalf.predict.layer import tokens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.live.window import Window
    from nhalf.points import Point
    from nhalf.scenario import Scenario

_ASSUMED_CONTEXT: Final = 1024.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A predicted decode step [s] with its 80 % band, the columns that add up to it, and its collectives.

    `low_s` and `high_s` hold what is not known of batch and context, too.
    """

    step_s: float
    low_s: float
    high_s: float
    columns: Mapping[str, float]

    @property
    def communication_s(self) -> float:
        """Return what collectives and hand-overs take [s]."""
        return sum(self.columns[name] for name in ("collective_fixed", "collective_transfer", "hand_over"))

    @property
    def floor_s(self) -> float:
        """Return what they take at any bandwidth [s]."""
        return self.columns["collective_fixed"]


@dataclass(frozen=True, kw_only=True)
class Expected:
    """A scenario whose load comes from windows."""

    scenario: Scenario

    def at(self, window: Window) -> Prediction:
        """Return the decode step at a window's batch and context."""
        ranks = self.scenario.layout.attention_dp
        running, fewest, most = (ranks * each for each in window.running)
        context, shortest, longest = window.context
        if math.isnan(context):
            context, shortest, longest = _ASSUMED_CONTEXT, _ASSUMED_CONTEXT / 4, _ASSUMED_CONTEXT * 4
        point = self._point(running, context)
        least, largest = self._point(fewest, shortest).step_s, self._point(most, longest).step_s
        return Prediction(
            step_s=point.step_s,
            low_s=point.step_s * math.exp(-math.hypot(math.log(point.step_s / point.low_s), _log(point.step_s, least))),
            high_s=point.step_s
            * math.exp(math.hypot(math.log(point.high_s / point.step_s), _log(largest, point.step_s))),
            columns=dict(point.columns),
        )

    def step_s(self, running: float, context: float) -> float:
        """Return the decode step [s] at a batch and a context."""
        ranks = self.scenario.layout.attention_dp
        return self._point(ranks * running, _ASSUMED_CONTEXT if math.isnan(context) else context).step_s

    def _point(self, running: float, context: float) -> Point:
        load = {"workload.batch": max(running, 1.0), "workload.context_tokens": max(context, 1.0)}
        return points(self._decodes, load).at(0)

    @cached_property
    def _decodes(self) -> Scenario:
        """Return the scenario without prefills: what they take is measured, not predicted."""
        return replace(self.scenario, workload=replace(self.scenario.workload, prompt_tokens=0.0, output_tokens=0.0))

    def collectives(self, running: float) -> list[tuple[str, float, float, float]]:
        """Return the collectives of a step: operation, size [bytes], how many, and the predicted time of one [s]."""
        scenario = self.scenario.moved({"workload.batch": max(running, 1.0) * self.scenario.layout.attention_dp})
        found = []
        for each in exchange.exchanges(scenario, tokens(scenario)):
            time, count = exchange.time(scenario, each.name, [each]), float(each.count.value)
            if time is not None and count > 0:
                found.append((str(each.op), float(each.size.value), count, float(time.value) / count))
        return found


def _log(longer: float, shorter: float) -> float:
    return max(math.log(longer / shorter), 0.0)
