"""Options: what one could buy or change, as moves of inputs of the scenarios it may run in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from nhalf.decide.regime import TIE
from nhalf.errors import InputError
from nhalf.layout import Layout, check
from nhalf.points import Points
from nhalf.predict.band import draws

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.breakdown import Array, Quantity
    from nhalf.fabric import Fabric
    from nhalf.scenario import Scenario


SAME_STACK: Final = TIE
"""A gain below 5 % on one machine and engine is noise: a repeated run differs by 9 % in a quarter of cases, and the
ratios of device counts are predicted within 4 to 6 % (the house's decode-step note)."""
ANOTHER_STACK: Final = 0.15
"""The median error of a prediction whose constants were not fitted (the house's decode-step note): two machines,
engines or libraries do not share what is uncertain about them."""

MoveKind = Literal["value", "delta", "factor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What an option does to one input: a new value, something added to it, or a factor; times end at 0."""

    path: str
    kind: MoveKind
    amount: float

    def of(self, before: Quantity) -> Quantity:
        """Return the input after the move."""
        if self.kind == "value":
            return self.amount
        if self.kind == "factor":
            return before * self.amount
        after = np.maximum(np.asarray(before) + self.amount, 0.0)
        return float(after) if after.ndim == 0 else after


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Option:
    """One thing on the list: scenarios of every layout it may run in, and inputs that it moves.

    `price_per_gpu` [$] is None where none was given; `another` tells whether machine, engine, library or number format
    is another one, so that the model's errors before and after are not the same error.
    """

    name: str
    layouts: tuple[Scenario, ...]
    moves: tuple[Move, ...] = ()
    price_per_gpu: float | None = None
    another: bool = False

    @property
    def error(self) -> float:
        """Return the gain [1] below which the model cannot tell."""
        return ANOTHER_STACK if self.another else SAME_STACK

    def scenario(self, layout: int, batch: Quantity) -> Scenario:
        """Return the scenario of one of the layouts at a batch, with the moves made."""
        base = self.layouts[layout]
        changes = {move.path: move.of(base.value(move.path)) for move in self.moves}
        return base.having({**changes, "workload.batch": batch})

    def points(self, layout: int, batches: Array) -> Points:
        """Return the points of one of the layouts at several batches, with the moves made."""
        return Points(scenario=self.scenario(layout, batches), count=len(batches))

    def drawn(self, layout: int, batch: float) -> Scenario:
        """Return the scenario with every uncertain input drawn; a moved one is drawn, then moved."""
        base = self.layouts[layout].having({"workload.batch": batch})
        changes: dict[str, Quantity] = dict(draws(base))
        for move in self.moves:
            changes[move.path] = move.of(changes.get(move.path, base.value(move.path)))
        return base.having(changes)


_TIERS = ("inter_node", "inter_rack")
_FURTHEST = 8
"""A layout is looked for up to so many times the devices that the tiers below hold."""


def unused(option: Option, before: Scenario) -> str:
    """Return the tier that an option is about and no layout reaches, empty where one does, or it is about no tier.

    `before` is a scenario without the option.
    """
    tier = _about(option, before)
    if not tier or any((each.layout.devices > _below(each.system.fabric, tier)) for each in option.layouts):
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
