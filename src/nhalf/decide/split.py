"""The split: what it costs a step that TP goes over the end of a node, as against the devices of one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nhalf.collective import Op
from nhalf.layout import Group
from nhalf.predict.communication import collective
from nhalf.predict.exchange import exchanges
from nhalf.predict.layer import tokens

if TYPE_CHECKING:
    from nhalf.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One all-reduce of a step [s] over several nodes and on the devices of one, and how many a step pays for."""

    nodes: int
    across_s: float
    inside_s: float
    count: float

    @property
    def cost_s(self) -> float:
        """Return what the nodes add to a step [s], before anything hides it."""
        return self.count * (self.across_s - self.inside_s)


def split(scenario: Scenario) -> Split:
    """Return what the all-reduces of a step take over the nodes of its TP group, and would on one full node."""
    fabric, found = scenario.system.fabric, exchanges(scenario, tokens(scenario))[0]
    node = replace(found, group=Group(ranks=fabric.devices_per_node))
    times = [float(np.mean(collective(scenario, Op.ALL_REDUCE, each.group, each.size).value)) for each in (found, node)]
    count = float(np.mean(found.count.value))
    return Split(nodes=found.group.span(fabric).nodes, across_s=times[0], inside_s=times[1], count=count)
