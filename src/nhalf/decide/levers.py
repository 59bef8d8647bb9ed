"""Levers: what a change that one can buy or program would do to a step, computed and not extrapolated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nhalf.predict.prefill import predicted

if TYPE_CHECKING:
    from nhalf.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """One change and the part of the step [1] that it saves; `path` and `factor` say what was multiplied by what."""

    name: str
    path: str
    factor: float
    gain: float


_WORDS = {
    "intra_node": "link inside the node",
    "inter_node": "link between nodes",
    "inter_rack": "link between racks",
}


def _slowest_tier(scenario: Scenario) -> str:
    """Return the slowest tier that any group or stage boundary of the layout crosses."""
    layout, fabric = scenario.layout, scenario.system.fabric
    tier = fabric.span(layout.stage_devices).tier
    return "inter_node" if tier == "intra_node" and layout.crossing_boundaries(fabric) else tier


def levers(scenario: Scenario) -> list[Lever]:
    """Return the levers of a scenario, those on the links of the group's slowest tier first."""
    tier = _slowest_tier(scenario)
    where = _WORDS[tier]
    changes = []
    if scenario.layout.devices > 1:
        changes = [
            (f"a {where} twice as wide", f"system.fabric.{tier}.bandwidth_bytes_per_s", 2.0),
            (f"half the latency of a {where}", f"system.fabric.{tier}.latency_s", 0.5),
            ("half the software time of a collective", "stack.software_factor", 0.5),
            ("half the in-model excess of a collective", "stack.collective_excess_s", 0.5),
        ]
    changes += [
        ("twice the memory bandwidth", "system.device.memory_bandwidth_bytes_per_s", 2.0),
        ("half the fixed time of a layer", "stack.layer_time_s", 0.5),
        ("half the fixed time of a step", "stack.step_time_s", 0.5),
        ("twice the arithmetic", "system.device.bf16_flop_per_s", 2.0),
    ]
    now = float(np.mean(predicted(scenario).value))
    return [
        Lever(name=name, path=path, factor=factor, gain=1 - _step_s(scenario, path, factor) / now)
        for name, path, factor in changes
    ]


def _step_s(scenario: Scenario, path: str, factor: float) -> float:
    """Return the step [s] with one input multiplied."""
    return float(np.mean(predicted(scenario.having({path: scenario.value(path) * factor})).value))
