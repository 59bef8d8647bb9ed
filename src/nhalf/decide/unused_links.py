"""Unused links: which options are about a tier that no layout of the question reaches, and the layouts that would."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nhalf.errors import InputError
from nhalf.layout import Layout, check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.option import Option
    from nhalf.fabric import Fabric
    from nhalf.scenario import Scenario

_TIERS = ("inter_node", "inter_rack")
_FURTHEST = 8
"""A layout is looked for up to so many times the devices that the tiers below hold."""


def unused(option: Option, before: Scenario) -> str:
    """Return the tier that an option is about and no layout reaches, empty where one does, or it is about no tier.

    `before` is a scenario without the option.
    """
    tier = _about(option, before)
    if not tier or any(_reaches(each.layout, each.system.fabric, tier) for each in option.layouts):
        return ""
    return tier


def _about(option: Option, before: Scenario) -> str:
    """Return the tier beyond a node that an option is about, empty where it moves anything else."""
    if option.another:
        return ""
    tiers = [
        next((tier for tier in _TIERS if move.path.startswith(f"system.fabric.{tier}.")), "") for move in option.moves
    ]
    if option.layouts[0].stack.remedies.kernel_bypass != before.stack.remedies.kernel_bypass:
        tiers.append(_TIERS[before.system.fabric.inter_rack is not None])
    return tiers[0] if tiers and all(tiers) else ""


def _reaches(layout: Layout, fabric: Fabric, tier: str) -> bool:
    """Tell whether a replica of a layout is spread over more than one node, or rack."""
    return layout.devices > _below(fabric, tier)


def _below(fabric: Fabric, tier: str) -> int:
    """Return how many devices need no link of a tier."""
    return fabric.devices_per_node * ((fabric.nodes_per_rack or 1) if tier == "inter_rack" else 1)


def reaching(scenario: Scenario, tier: str) -> list[Layout]:
    """Return the smallest legal layouts that reach a tier: by TP, by attention-DP and experts, or else by stages."""
    layout, fabric = scenario.layout, scenario.system.fabric
    below = _below(fabric, tier)
    counts = range(below + fabric.devices_per_node, _FURTHEST * below + 1, fabric.devices_per_node)
    wide = [Layout(tensor_parallel=count) for count in counts]
    shared = [Layout(attention_dp=count, expert_parallel=count) for count in counts]
    ways = [wide, *([shared] if scenario.transformer.mixture is not None else [])]
    found = [first for way in ways if (first := _legal(way, scenario)) is not None]
    if found:
        return found
    staged = _legal(
        [replace(layout, pipeline_parallel=-(-count // layout.stage_devices)) for count in counts], scenario
    )
    return [] if staged is None else [staged]


def _legal(layouts: Sequence[Layout], scenario: Scenario) -> Layout | None:
    """Return the first layout that the model and the machine allow, None where there is none."""
    for layout in layouts:
        try:
            check(layout, scenario.transformer, scenario.system.fabric)
        except InputError:
            continue
        return layout
    return None
