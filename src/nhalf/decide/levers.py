"""Levers: what a change that one can buy or program would do to a step, and by how much each input moves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nhalf.predict.prefill import predicted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.breakdown import Quantity
    from nhalf.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """One change and the part of the step [1] that it saves; `path` and `factor` say what was multiplied by what."""

    name: str
    path: str
    factor: float
    gain: float


_WORDS = {
    "intra_node": "in-node link",
    "inter_node": "NIC",
    "inter_rack": "NIC between racks",
}


def _tiers(scenario: Scenario) -> list[str]:
    """Return the tiers that groups and stage boundaries of a layout cross, the slowest first."""
    layout, fabric = scenario.layout, scenario.system.fabric
    span, across = fabric.span(layout.stage_devices), layout.crossing_boundaries(fabric)
    found = set()
    if layout.stage_devices > 1:
        found.add(span.tier)
        if span.racks > 1:
            found.add("inter_node")
        if fabric.devices_per_node > 1:
            found.add("intra_node")
    if across:
        found.add("inter_node")
    if layout.pipeline_parallel - 1 > across:
        found.add("intra_node")
    return [tier for tier in reversed(_WORDS) if tier in found]


def levers(scenario: Scenario) -> list[Lever]:
    """Return the levers of a scenario, first those on the links of every tier that its step depends on."""
    tiers = [link_changes(tier) for tier in _tiers(scenario)]
    changes = [change for pair in tiers for change in pair]
    if scenario.layout.devices > 1:
        changes += [
            ("half the kernel software", "stack.software_factor", 0.5),
            ("half the in-model waiting", "stack.collective_excess_s", 0.5),
        ]
    changes += [
        ("2x HBM bandwidth", "system.device.memory_bandwidth_bytes_per_s", 2.0),
        ("half the per-layer overhead", "stack.layer_time_s", 0.5),
        ("half the per-step overhead", "stack.step_time_s", 0.5),
        ("2x arithmetic", "system.device.bf16_flop_per_s", 2.0),
    ]
    found = [
        Lever(name=name, path=path, factor=factor, gain=gain)
        for (name, path, factor), gain in zip(changes, _gains(scenario, changes), strict=True)
    ]
    links, others = found[: 2 * len(tiers)], found[2 * len(tiers) :]
    pairs = list(zip(links[::2], links[1::2], strict=True))
    # A group that crosses nodes may leave the links inside them out, as one ring over all NICs does.
    used = [pair for pair in pairs if any(lever.gain for lever in pair)] or pairs[:1]
    return [*(lever for pair in used for lever in pair), *others]


def link_changes(tier: str) -> tuple[tuple[str, str, float], tuple[str, str, float]]:
    """Return the name, the path and the factor of twice the bandwidth and of half the latency of a tier's links."""
    stem, where = f"system.fabric.{tier}.", _WORDS[tier]
    return (
        (f"2x {where} bandwidth", f"{stem}bandwidth_bytes_per_s", 2.0),
        (f"half the {where} latency", f"{stem}latency_s", 0.5),
    )


def of_links(found: Sequence[Lever]) -> list[tuple[Lever, Lever]]:
    """Return a wider and a quicker link of each tier among levers, the tier that gains most first."""
    links = [lever for lever in found if lever.path.startswith("system.fabric")]
    pairs = list(zip(links[::2], links[1::2], strict=True))
    return sorted(pairs, key=lambda pair: -max(lever.gain for lever in pair))


def _gains(scenario: Scenario, changes: Sequence[tuple[str, str, float]]) -> list[float]:
    """Return what each change saves of the step [1], all of them evaluated together: a row as it is, then one each."""
    moved = {}
    for place, (_, path, factor) in enumerate(changes, 1):
        values = np.repeat(np.atleast_2d(scenario.value(path)).astype(float), len(changes) + 1, axis=0)
        values[place] *= factor
        moved[path] = values
    times = np.atleast_2d(predicted(scenario.moved(moved)).value)
    steps = np.mean(np.broadcast_to(times, (len(changes) + 1, times.shape[-1])), axis=-1).tolist()
    return [1 - step / steps[0] for step in steps[1:]]


STEP = 1e-4
"""Log step of the central difference; terms are smooth but for kinks where two of them cross."""
_TABLES = ("stack.library.", "system.curve_factor", "stack.first_token")
"""A tuner's constants and the doubt about measurements are no levers: `stack.software_factor` stands for them."""


def _is_lever(path: str, value: Quantity) -> bool:
    """Tell whether an input is a number that a small change makes sense of."""
    return not path.startswith(_TABLES) and not isinstance(value, int) and bool(np.all(value))


def elasticities(scenario: Scenario) -> dict[str, float]:
    """Return d ln(step) / d ln(x) [1] for every input of the scenario that is not zero, by path.

    A rate has a negative elasticity. Over all latencies, fixed times and `stack.software_factor`, less those of all
    rates, they add up to 1: the step is what its inputs make it (Euler's theorem on a function of degree 1).
    """
    inputs = {path: float(np.mean(value)) for path, value in scenario.inputs() if _is_lever(path, value)}
    paths = list(inputs)
    count = len(paths)
    changes = {}
    for index, path in enumerate(paths):
        column = np.full(2 * count, inputs[path])
        column[index] *= np.exp(STEP)
        column[count + index] *= np.exp(-STEP)
        changes[path] = column
    times = np.log(np.broadcast_to(predicted(scenario.having(changes)).value, 2 * count))
    return {path: float((times[i] - times[count + i]) / (2 * STEP)) for i, path in enumerate(paths)}
