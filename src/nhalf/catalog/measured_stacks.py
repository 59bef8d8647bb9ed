"""Stacks that were measured with one model: the constants that hold for both, instead of those of all stacks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from nhalf.catalog import calibration, files
from nhalf.catalog.calibration import HalfWidths  # noqa: TC001  msgspec reads the annotations when it runs
from nhalf.catalog.naming import base_of
from nhalf.catalog.overlay import remembered
from nhalf.catalog.reading import convert
from nhalf.catalog.schema import SomeConstants, data
from nhalf.catalog.values import Table
from nhalf.collective import Mode
from nhalf.predict.residual import NEAR
from nhalf.stack import releases_apart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.citation import Datum
    from nhalf.scenario import Scenario

STACKS: Final = "calibration/stacks.toml"
"""The file of the stacks that were measured with one model."""


class StackEntry(Table, frozen=True, kw_only=True):
    """One stack and model: what it is of, the runs, how far off curves are that were left out, and its constants."""

    model: str
    weight_dtype: str
    system: str
    engine: str
    rows: int
    versions: tuple[str, ...]
    held_out_error: float
    before_error: float
    band: HalfWidths
    constants: dict[str, Any]


class StacksFile(Table, frozen=True, kw_only=True):
    """The whole file, by the name of stack and model."""

    stacks: dict[str, StackEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStack:
    """The constants of one stack and model by the name of their field, and the half-widths of its band."""

    constants: Mapping[str, Datum]
    half_widths: tuple[float, float]
    versions: tuple[str, ...]

    def holds_for(self, version: str) -> bool:
        """Tell whether its constants are taken for a version: one near those that its runs had.

        Runs that do not say their version may have had any.
        """
        if not version or "" in self.versions:
            return True
        return any(releases_apart(version, each) <= NEAR for each in self.versions)


@remembered
def entries() -> dict[tuple[str, str, str, str], StackEntry]:
    """Return the stacks by model, dtype of the weights, system and engine.

    Raises InputError when the file departs from its form.
    """
    file = convert(files.own_tables(STACKS), StacksFile, where=files.place(STACKS))
    return {(each.model, each.weight_dtype, each.system, each.engine): each for each in file.stacks.values()}


@remembered
def measured_stack(model: str, weight_dtype: str, system: str, engine: str) -> MeasuredStack | None:
    """Return the constants of one stack and model, None where it was not measured."""
    entry = entries().get((base_of(model), weight_dtype, system, engine))
    if entry is None:
        return None
    where = f"{files.place(STACKS)} [{model} {weight_dtype} on {system}, {engine}]"
    low, high = entry.band.low.datum(where).value, entry.band.high.datum(where).value
    constants = convert(entry.constants, SomeConstants, where=where)
    return MeasuredStack(
        constants=dict(data(constants, where=where)),
        half_widths=(-math.log(low), math.log(high)),
        versions=entry.versions,
    )


def of_its_own(scenario: Scenario) -> Scenario:
    """Return a scenario with the constants that were measured on its stack with its model; unchanged where none were.

    They take the place of fitted constants only: one that the user's own catalogue states stays the user's. They hold
    in CUDA graphs and with the engine's own library, as the runs were.
    """
    stack = scenario.stack
    if stack.mode != Mode.GRAPH or stack.library.name != stack.engine:
        return scenario
    found = measured_stack(
        scenario.transformer.name,
        scenario.workload.weight_dtype,
        scenario.system.like or scenario.system.name,
        stack.engine,
    )
    key = (stack.library.name, stack.mode)
    newest = next((c.key.version for c in scenario.system.curves if (c.key.library, c.key.mode) == key), "")
    if found is None or not found.holds_for(stack.version or newest):
        return scenario
    origins = scenario.origins
    own = {
        name: datum
        for name, datum in found.constants.items()
        if f"stack.{name}" in origins and origins[f"stack.{name}"].kind == "fitted"
    }
    return replace(
        scenario,
        stack=replace(stack, **{name: datum.value for name, datum in own.items()}),  # type: ignore[arg-type]
        origins={**origins, **{f"stack.{name}": datum for name, datum in own.items()}},
        residual=found.half_widths,
    )


def of_its_family(scenario: Scenario) -> Scenario:
    """Return a scenario with the routing concentration of its model's family, where runs told it.

    One that the user's own catalogue states stays the user's.
    """
    path = "stack.routing_concentration"
    found = calibration.concentration(scenario.transformer.name)
    if found is None or path not in scenario.origins or scenario.origins[path].kind != "fitted":
        return scenario
    stack = replace(scenario.stack, routing_concentration=found.value)
    return replace(scenario, stack=stack, origins={**scenario.origins, path: found})
