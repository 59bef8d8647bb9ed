"""Regimes: what binds a step, where each collective turns from latency to bandwidth, and which layout is fastest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.collective import Mode, Op
from nhalf.curve import fit_line
from nhalf.predict.communication import collective, is_measured, measured_curve
from nhalf.predict.exchange import message_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.breakdown import Array
    from nhalf.curve import MeasuredCurve
    from nhalf.link import Link
    from nhalf.scenario import Scenario
    from nhalf.transformer import Transformer


TIE = 0.05
"""Layouts within 5 % of the fastest are one answer: a repeated run differs by 2 % median, 9 % in a quarter of cases."""


def best(steps_s: Sequence[float | None]) -> list[int]:
    """Return the indices of all steps [s] within the tie of the fastest; None marks one that cannot run."""
    running = [step for step in steps_s if step is not None]
    if not running:
        return []
    limit = min(running) * (1 + TIE)
    return [index for index, step in enumerate(steps_s) if step is not None and step <= limit]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """Where one collective turns from latency to bandwidth, by two measures that differ by 2 to 10 times.

    `half_size_bytes` is n_1/2 = alpha x beta of the line through the whole curve; `double_floor_size_bytes` the size at
    which the time has doubled its floor, which needs no line. Batches are sizes over `message_bytes_per_sequence`, and
    `floor_s` [s] is what the message of one sequence takes.
    """

    system: str
    collective: str
    tier: str
    ranks: int
    latency_s: float
    bandwidth_bytes_per_s: float
    half_size_bytes: float
    double_floor_size_bytes: float
    message_bytes_per_sequence: float
    floor_s: float
    kind: str

    @property
    def batch_at_half_size(self) -> float:
        """Return the batch whose message is n_1/2."""
        return self.half_size_bytes / self.message_bytes_per_sequence

    @property
    def batch_at_double_floor(self) -> float:
        """Return the batch whose message takes twice the floor."""
        return self.double_floor_size_bytes / self.message_bytes_per_sequence


SIZES_BYTES: Array = 2.0 ** np.arange(9, 30.01, 0.25)
"""The sizes [bytes] at which a modelled collective is looked at: 512 B to 1 GiB."""


def crossover(scenario: Scenario) -> Crossover:
    """Return where the all-reduce of the scenario's TP group turns from latency to bandwidth."""
    group = scenario.layout.tensor_group
    ranks = group.ranks
    measured = is_measured(scenario, Op.ALL_REDUCE, group)
    curve = measured_curve(scenario, Op.ALL_REDUCE, group)
    if measured and curve is not None:
        line, double_floor = curve.line(ranks), curve.double_floor_size_bytes(ranks)
    else:
        times = np.asarray(collective(scenario, Op.ALL_REDUCE, group, SIZES_BYTES).value)
        line, double_floor = fit_line(SIZES_BYTES, times), _double_floor(times)
    message = float(np.mean(message_bytes(scenario)))
    return Crossover(
        system=scenario.system.name,
        collective=f"all-reduce x{ranks}",
        tier=scenario.system.fabric.span(ranks).tier,
        ranks=ranks,
        latency_s=line.latency_s,
        bandwidth_bytes_per_s=line.bandwidth_bytes_per_s,
        half_size_bytes=line.half_size_bytes,
        double_floor_size_bytes=double_floor,
        message_bytes_per_sequence=message,
        floor_s=float(np.mean(collective(scenario, Op.ALL_REDUCE, group, message).value)),
        kind="measured" if measured else "modelled",
    )


def _double_floor(times_s: Array) -> float:
    """Return the size [bytes] from which the times over `SIZES_BYTES` stay above twice the smallest message's."""
    logs, target = np.log(times_s), float(np.log(2 * times_s[0]))
    last = int(np.flatnonzero(logs <= target)[-1])
    if last + 1 == len(logs):
        return float("inf")
    share = (target - logs[last]) / (logs[last + 1] - logs[last])
    return float(SIZES_BYTES[last] * (SIZES_BYTES[last + 1] / SIZES_BYTES[last]) ** share)


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
