"""What `nhalf measure --model` was asked: the tokens of a model as programs, and what the prediction says of them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.decide.decode_loop import program, work
from nhalf.errors import InputError
from nhalf.evidence.probe.cell import LADDER, Program
from nhalf.evidence.probe.looping import OVERLAP
from nhalf.loading.request import scenarios
from nhalf.points import points

if TYPE_CHECKING:
    from nhalf.loading.choices import Request
    from nhalf.scenario import Scenario

STAND_IN: Final = "h100-sxm"
"""The system whose layouts are legal where none is named: sizes and counts of messages are the same on every one."""
_RUNGS: Final = 2**15
"""The largest batch of the ladder."""
_FUSED: Final = "stack.remedies.fused_collectives"
_COLLECTIVES: Final = ("collective_fixed", "collective_transfer", "hand_over")


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """What `nhalf decode` says of a layout and batch: the communication of a token, and the rest of the step [s]."""

    communication_s: float
    rest_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Loops:
    """Tokens to play, the ladder to climb, and, where a system is named, what is predicted by (tp, pp, ep, batch)."""

    model: str
    system: str
    programs: tuple[Program, ...]
    ladder: tuple[Program, ...]
    predicted: dict[tuple[int, int, int, int], Predicted]

    @property
    def ranks(self) -> int:
        """Return how many ranks the largest layout has."""
        return 1 + max(rank for each in self.programs for step in each.steps for rank in step.ranks)


def loops(request: Request, *, on: bool, compute: bool, variants: tuple[str, ...]) -> Loops:
    """Return the loops of a request; `on` says whether its system was named, and is to be predicted.

    `variants` are what is tried beside the plain loop: "fuse 4", "overlap".

    Raises
    ------
    InputError
        An unknown model, an illegal layout, one rank, or weights that do not fit.
    """
    asked = scenarios(request).scenarios
    found = [each for each in asked if each.layout.devices > 1 or compute]
    if not any(each.layout.devices > 1 for each in found):
        raise InputError("one rank has nobody to send to", where="--tp", allowed="2 or more ranks",
                         do="add --tp 2")  # fmt: skip
    programs: dict[tuple[object, ...], Program] = {}
    for each in found:
        made = [program(each, floor=True), program(each), *(_variant(each, name) for name in variants)]
        for one in made if each.layout.devices > 1 else made[1:2]:
            full = replace(one, work=_fitting(each)) if compute and one.batch else one
            programs.setdefault((one.tp, one.pp, one.ep, one.batch, one.variant), full)
    predicted = {_key(each): _predicted(each) for each in asked} if on else {}
    layouts = {_key(each)[:3]: each for each in found if each.layout.devices > 1}
    ladder = _ladder(next(iter(layouts.values()))) if len(layouts) == 1 else ()
    name = found[0].transformer.name
    return Loops(model=name, system=found[0].system.name if on else "", programs=tuple(programs.values()),
                 ladder=ladder, predicted=predicted)  # fmt: skip


def _key(scenario: Scenario) -> tuple[int, int, int, int]:
    layout = scenario.layout
    return layout.tensor_parallel, layout.pipeline_parallel, layout.expert_parallel, round(float(
        scenario.workload.batch))  # fmt: skip


def _predicted(scenario: Scenario) -> Predicted:
    point = points(scenario)
    spent = sum(float(point.columns[name][0]) for name in _COLLECTIVES)
    return Predicted(communication_s=spent, rest_s=float(point.step_s[0]) - spent)


def _variant(scenario: Scenario, name: str) -> Program:
    if name == OVERLAP or not name.startswith("fuse "):
        return program(scenario, variant=name)
    remedies = replace(scenario.stack.remedies, fused_collectives=float(name.removeprefix("fuse ")))
    return program(replace(scenario, stack=replace(scenario.stack, remedies=remedies)), variant=name)


def _ladder(scenario: Scenario) -> tuple[Program, ...]:
    """Return the floor and the batches 1, 2, 4, ... of what the layers exchange."""

    def rung(batch: int) -> Scenario:
        return replace(scenario, workload=replace(scenario.workload, batch=float(batch)))

    least = max(scenario.layout.attention_dp * scenario.layout.pipeline_parallel, 1)
    batches = [least * 2**power for power in range(_RUNGS.bit_length()) if least * 2**power <= _RUNGS]
    floor = program(rung(least), variant=LADDER, head=False, floor=True)
    return floor, *(program(rung(batch), variant=LADDER, head=False) for batch in batches)


def _fitting(scenario: Scenario) -> tuple[int, int, int]:
    """Return the product of a block, whose weights are kept in memory once."""
    rows, inner, columns = work(scenario)
    need = 4.0 * inner * columns
    names = {"SC_AVPHYS_PAGES", "SC_PAGE_SIZE"} & set(getattr(os, "sysconf_names", ()))
    free = float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) if len(names) == len("12") else need
    if need > free:
        raise InputError(
            f"a rank's share of a block is {units.format_size(need)}, and {units.format_size(free)} are free",
            where="--compute", do="leave it out, take more --tp, or a smaller model",
        )  # fmt: skip
    return rows, inner, columns
