"""Crossovers of a model on a system: where the collectives of each library and group turn from latency to bandwidth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.collective import Mode, Op
from nhalf.decide.regime import Crossover, crossover

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.curve import MeasuredCurve
    from nhalf.link import Link
    from nhalf.scenario import Scenario
    from nhalf.transformer import Transformer

SPLIT: Final = (Op.ALL_GATHER, Op.REDUCE_SCATTER)
"""What sequence parallelism puts in the place of an all-reduce; the total of each is the same activation."""

ACTIVATION_BYTES: Final = 2.0
"""Activations are summed in 16 bits by every engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One crossover, and whose it is: the library, its version where it was measured, and how it was launched."""

    system: str
    library: str
    version: str
    mode: Mode
    crossover: Crossover

    @property
    def ratio(self) -> float:
        """Return how many times n_1/2 lies above the size that takes twice the floor."""
        return self.crossover.half_size_bytes / self.crossover.double_floor_size_bytes


def turns(scenarios: Sequence[Scenario]) -> list[Turn]:
    """Return the crossover of each scenario's all-reduce, and those of the split collectives measured beside it."""
    found = []
    for scenario in scenarios:
        if scenario.layout.tensor_parallel < 2:  # noqa: PLR2004  one device has no collective
            continue
        curves = [curve for curve in scenario.system.curves if _is_of(curve, scenario)]
        version = next((curve.key.version for curve in curves if curve.key.op == Op.ALL_REDUCE), "")
        found.append(_turn(scenario, crossover(scenario), version))
        for op in SPLIT:
            found += [_turn(scenario, _split(scenario, curve), curve.key.version) for curve in curves
                      if curve.key.op == op]  # fmt: skip
    return found


def _turn(scenario: Scenario, found: Crossover, version: str) -> Turn:
    """Return a crossover with what it belongs to."""
    return Turn(
        system=scenario.system.name,
        library=scenario.stack.library.name,
        version=version if found.kind == "measured" else "",
        mode=scenario.stack.mode,
        crossover=found,
    )


def _is_of(curve: MeasuredCurve, scenario: Scenario) -> bool:
    """Tell whether a curve is of the scenario's library, mode and number of ranks."""
    ranks = scenario.layout.tensor_parallel
    same = (curve.key.library, curve.key.mode) == (scenario.stack.library.name, scenario.stack.mode)
    return same and curve.is_measured(ranks) and ranks <= scenario.system.fabric.devices_per_node


def _split(scenario: Scenario, curve: MeasuredCurve) -> Crossover:
    """Return the crossover of a measured curve, for messages of one activation."""
    ranks = scenario.layout.tensor_parallel
    line = curve.line(ranks)
    return Crossover(
        system=scenario.system.name,
        collective=f"{curve.key.op} x{ranks}",
        tier=scenario.system.fabric.span(ranks).tier,
        ranks=ranks,
        latency_s=line.latency_s,
        bandwidth_bytes_per_s=line.bandwidth_bytes_per_s,
        half_size_bytes=line.half_size_bytes,
        double_floor_size_bytes=curve.double_floor_size_bytes(ranks),
        message_bytes_per_sequence=scenario.transformer.hidden_size
        * float(np.mean(scenario.workload.activation_bytes)),
        floor_s=curve.floor_s(ranks),
        kind="measured",
    )


def of_link(transformer: Transformer, link: Link, name: str) -> Crossover:
    """Return where messages of a model's activations in 16 bits turn on a bare link: by both measures at n_1/2."""
    half = float(link.half_size_bytes)
    return Crossover(
        system=name, collective="one message", tier="intra_node", ranks=2,
        latency_s=float(link.latency_s), bandwidth_bytes_per_s=float(link.bandwidth_bytes_per_s),
        half_size_bytes=half, double_floor_size_bytes=half,
        message_bytes_per_sequence=transformer.hidden_size * ACTIVATION_BYTES, floor_s=float(link.latency_s),
        kind="given",
    )  # fmt: skip
