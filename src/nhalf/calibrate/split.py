"""The split c + W / K: what two or three runs that differ in their device count alone say about a step.

The time of a step against K devices is a constant plus a part that is shared out. Two runs settle both, three check
them once; the noise of a repeated run is known from elsewhere, so both unknowns have intervals either way.

References
----------
A. Gelman et al., "Bayesian Data Analysis" (2013), section 3.3: a noise known as well as some runs tell it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from nhalf.breakdown import columns
from nhalf.calibrate.fit import NOISE, TAIL
from nhalf.predict.communication import COLLECTIVES
from nhalf.predict.layer import weights
from nhalf.predict.step import decode
from nhalf.quantiles import student

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nhalf.breakdown import Array
    from nhalf.layout import Layout
    from nhalf.loading.cases import Cases
    from nhalf.scenario import Scenario

_LEVEL: Final = 0.95
_FREE: Final = 2
_SURE: Final = 3
"""Counts that hold two unknowns and a check, and no third unknown."""
_ABOVE: Final = 1.1
"""The noise of a run makes W read up to so many times the datasheet's bandwidth; more cannot be."""
_SHARED: Final = ("weights", "experts", "kv", "compute", "prefill")
"""The columns of a step that more devices share out."""
_LOAD: Final = ("model", "system", "engine", "weight_dtype", "moe_dtype", "kv_dtype", "mode", "library", "isl", "osl",
                "context", "concurrency", "batch", "pp", "attention_dp", "engine_version")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split:
    """c + W / K of one load: `constant_s` and `shared_s` (at one device) [s], each with its 95 % interval.

    `implied_bandwidth_bytes_per_s` is what reading the weights once would take W at; `per_collective_s` the constant
    over the collectives of a step. `link_s` is what the collectives take by the model, for comparison; `weights_share`
    is the part of what is shared out that reads weights, by the model: the rest reads the cache, computes and prefills.
    """

    name: str
    devices: tuple[int, ...]
    step_s: tuple[float, ...]
    constant_s: float
    shared_s: float
    constant_interval_s: tuple[float, float]
    shared_interval_s: tuple[float, float]
    degrees_of_freedom: int
    implied_bandwidth_bytes_per_s: float
    datasheet_bytes_per_s: float
    collectives: float
    per_collective_s: float
    link_s: float
    weights_share: float

    @property
    def impossible(self) -> str:
        """Return why the split cannot be what happened, or an empty text: nothing is claimed of such a constant."""
        if self.shared_s <= 0:
            return "the step grows with the devices, so no part of it is shared out (W is not above 0)"
        if self.constant_interval_s[1] <= 0:
            return "the step falls faster than the devices grow, which no sharing out does (c is below 0)"
        if self.read_share > _ABOVE:
            share = f"{100 * self.read_share:.0f} % of the datasheet's bandwidth"
            return f"W would read the weights at {share}, which is impossible"
        return ""

    @property
    def read_share(self) -> float:
        """Return the bandwidth at which W reads the weights over that of the datasheet."""
        return self.implied_bandwidth_bytes_per_s / self.datasheet_bytes_per_s

    @property
    def ceiling_tokens_per_s(self) -> tuple[float, float | None, float]:
        """Return the tokens/s of a user that no number of devices exceeds, 1 / c, and its 95 % interval.

        The upper end is None where c may be nothing.
        """
        low, high = self.constant_interval_s
        return 1.0 / self.constant_s, 1.0 / low if low > 0 else None, 1.0 / high

    @property
    def refused(self) -> str:
        """Return what the counts cannot hold: a third unknown, such as a part that grows with the devices."""
        if len(self.devices) > _SURE:
            return ""
        return (
            f"{len(self.devices)} device counts hold c and W; a part that grows with the devices needs a fourth count"
        )

    @property
    def verdict(self) -> str:
        """Return whether the link explains the constant."""
        if self.impossible:
            return f"the data cannot tell: {self.impossible}"
        if self.constant_s <= 0:
            return "no constant shows: the step is shared out entirely"
        if self.link_s < self.constant_s / 2:
            text = "most of the constant is not the link"
            low = self.constant_interval_s[0]
            return text if self.link_s < low / 2 else f"{text}, if c is near the middle of its wide interval"
        return "the link may explain most of the constant"


class _Run(NamedTuple):
    """A measured step [s], and the row of a group that it is."""

    step_s: float
    scenario: Scenario
    place: int

    @property
    def alone(self) -> Scenario:
        """Return the scenario of the row."""
        changes = {
            path: float(value[self.place])
            for path, value in self.scenario.inputs()
            if path.startswith("workload.") and isinstance(value, np.ndarray)
        }
        return self.scenario.having(changes)


def splits(cases: Cases, measured_s: Array) -> list[Split]:
    """Return the split of every load that was measured on several device counts: most counts, then least batch, first.

    At a small batch the constant stands out most, and what is shared out is mostly the weights.
    """
    table = cases.table
    told = [table.column(name) for name in _LOAD]
    loads: dict[tuple[str, ...], dict[int, list[_Run]]] = {}
    for group in cases.groups:
        for index, row in enumerate(group.rows.tolist()):
            if np.isfinite(measured_s[row]):
                key = (*(texts[row] for texts in told), _experts(group.scenario.layout))
                found = loads.setdefault(key, {}).setdefault(group.scenario.layout.tensor_parallel, [])
                found.append(_Run(float(measured_s[row]), group.scenario, index))
    several = [(key, runs) for key, runs in loads.items() if len(runs) > 1]
    return list(_splits(sorted(several, key=lambda item: (-len(item[1]), _batch(item[1])))))


def _experts(layout: Layout) -> str:
    """Return how a layout deals out experts, alike on any number of devices: whole, split, or so many groups."""
    if layout.expert_parallel in (1, layout.expert_devices):
        return "split" if layout.expert_parallel == 1 else "whole"
    return str(layout.expert_parallel)


def _batch(runs: Mapping[int, list[_Run]]) -> float:
    """Return the batch of a load, by which splits are sorted."""
    first = next(iter(runs.values()))[0]
    batch = first.scenario.workload.batch
    return float(batch[first.place] if isinstance(batch, np.ndarray) else batch)


def _splits(several: list[tuple[tuple[str, ...], dict[int, list[_Run]]]]) -> Iterator[Split]:
    """Yield the split of each load that was measured on enough device counts."""
    for key, runs in several:
        counts = sorted(runs)
        times = [float(np.median([run.step_s for run in runs[count]])) for count in counts]
        told = dict(zip(_LOAD, key, strict=False))
        scenario = runs[counts[-1]][0].alone
        length = f"{told['isl']}+{told['osl']}" if told["isl"] and told["osl"] else f"{told['context']} of context"
        name = (
            f"{scenario.transformer.name} on {scenario.system.name}, {scenario.stack.engine}, "
            f"{told['concurrency'] or told['batch']} x {length}"
        )
        yield _split(name, counts, times, scenario)


def _split(name: str, counts: list[int], times: list[float], widest: Scenario) -> Split:
    """Return the split of one load by least squares on relative errors."""
    scale = 1.0 / np.array(times)
    design = np.stack([np.ones(len(counts)), 1.0 / np.array(counts, dtype=np.float64)], axis=1) * scale[:, None]
    (constant, shared), *_ = np.linalg.lstsq(design, np.ones(len(counts)), rcond=None)
    freedom = len(counts) - _FREE
    intervals = _intervals(design, np.array([constant, shared]), freedom)
    if constant < 0 < intervals[0][1]:
        # No time is below zero: the best c is none at all, and W alone explains the step.
        constant, shared = 0.0, float(np.sum(design[:, 1]) / np.sum(design[:, 1] ** 2))
        intervals = ((0.0, intervals[0][1]), intervals[1])
    step = decode(widest)
    owed = {part: float(np.mean(time)) for part, time in columns(step).items()}
    shared_out = sum(owed.get(part, 0.0) for part in _SHARED)
    device = widest.system.device
    read = float(np.mean(weights(widest).value)) * float(np.mean(device.memory_bandwidth_bytes_per_s))
    efficiency = np.minimum(widest.stack.memory_efficiency, device.streaming_efficiency)
    whole = read * float(np.mean(efficiency)) * counts[-1]
    collectives = float(widest.transformer.block_count)
    return Split(
        name=name,
        devices=tuple(counts),
        step_s=tuple(times),
        constant_s=float(constant),
        shared_s=float(shared),
        constant_interval_s=intervals[0],
        shared_interval_s=intervals[1],
        degrees_of_freedom=freedom,
        implied_bandwidth_bytes_per_s=whole / float(shared) if shared > 0 else float("nan"),
        datasheet_bytes_per_s=float(np.mean(device.memory_bandwidth_bytes_per_s)),
        collectives=collectives,
        per_collective_s=float(constant) / collectives,
        link_s=sum(owed.get(part, 0.0) for part in COLLECTIVES),
        weights_share=owed.get("weights", 0.0) / shared_out if shared_out else float("nan"),
    )


def _intervals(design: Array, found: Array, freedom: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the 95 % intervals of both unknowns by Student's t.

    The variance is that of a repeated run, which the house knows as well as `TAIL` runs would tell it, and what is
    left of these runs.
    """
    residual = 1.0 - design @ found
    known = TAIL + freedom
    variance = (TAIL * NOISE**2 + float(residual @ residual)) / known
    deviation = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * variance)
    reach = student(int(known), _LEVEL) * deviation
    (c_low, w_low), (c_high, w_high) = (found - reach).tolist(), (found + reach).tolist()
    return (c_low, c_high), (w_low, w_high)
