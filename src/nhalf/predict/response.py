"""The response: a step as a function of its stack's constants alone, for fits that ask for it thousands of times.

For a fixed model, system, layout and workload a decode step is a sum of few things: times that go as 1 / efficiency,
arithmetic that shows only where it outlasts a read, and fixed times in proportion to counts. `response` reads those
coefficients off the tree of `decode`, by evaluating it at probing constants; nothing of the model is written twice but
this form, and a test holds it against the tree at random constants.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nhalf.breakdown import columns
from nhalf.collective import Mode
from nhalf.predict.step import decode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.breakdown import Array
    from nhalf.scenario import Scenario

Indices: TypeAlias = NDArray[np.signedinteger[Any]]
Mask: TypeAlias = NDArray[np.bool_]

CONSTANTS: Final = (
    "memory_efficiency", "kv_efficiency", "expert_efficiency", "flop_efficiency", "prefill_efficiency", "fp8_exponent",
    "layer_time_s", "step_time_s", "sequence_time_s", "collective_excess_s", "host_launch_s", "kernels_per_layer",
    "expert_layer_factor", "fp4_expert_layer_factor", "latent_layer_factor", "linear_layer_factor",
    "sparse_layer_factor", "quantised_input_layer_factor", "unsharded_share", "host_sharing",
)  # fmt: skip
"""The constants of a stack that a calibration may move, by the name of their field."""
FACTORS: Final = tuple(name for name in CONSTANTS if name.endswith("_layer_factor"))
"""What a kind of block adds to a layer's fixed time, in layers."""
_UNIT: Final = {name: 0.0 if name.endswith(("_s", "_factor", "_share", "_sharing")) else 1.0 for name in CONSTANTS}
_BETWEEN: Final = ("collective_fixed", "collective_transfer", "hand_over", "prefill")
"""The columns of what devices tell each other; a prompt's exchanges are part of its column."""
_STREAMING: Final = "system.device.streaming_efficiency"
_FAST, _SLOW = 1e30, 1e-30
"""Efficiencies that make a read take no time, and for ever."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Response:
    """The coefficients of `n` steps: arrays of shape (n,), or (n, 3) where the last axis is the number format.

    `ratios` are the peaks of bf16, fp8 and fp4 over that of bf16 on the step's device; arithmetic in a format counts as
    bf16 arithmetic over ratio^exponent. Times are in [s]; `fixed_layers` and `blocks` (n, factors) are in layers,
    `launches` (of planned collectives) and `host_layers` are 0 but for eager engines; `others` are the ranks of a TP
    group but one, `streaming` is the efficiency that no read exceeds.
    """

    ratios: Array
    weights_s: Array
    kv_s: Array
    experts_s: Array
    projections_s: Array
    attention_s: Array
    routed_s: Array
    prompt_s: Array
    fixed_layers: Array
    blocks: Array
    steps: Array
    sequences: Array
    collectives: Array
    communication_s: Array
    launches: Array
    host_layers: Array
    others: Array
    streaming: Array

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.weights_s)

    def take(self, rows: Indices) -> Response:
        """Return the response of some of the steps."""
        return Response(**{item.name: getattr(self, item.name)[rows] for item in fields(self)})

    @property
    def bound_s(self) -> Array:
        """Return what no step can be faster than [s]: its reads at the datasheet rate, its arithmetic at the peak."""
        peak = np.sum(self.projections_s / self.ratios, axis=-1), np.sum(self.routed_s / self.ratios, axis=-1)
        bound: Array = (
            np.maximum(self.weights_s, peak[0])
            + np.maximum(self.kv_s, self.attention_s)
            + np.maximum(self.experts_s, peak[1])
        )
        return bound

    def step_s(self, constants: Mapping[str, Array | float]) -> Array:
        """Return the time [s] of every step; constants of shape (m, 1) give times of shape (m, n)."""
        c = {name: np.asarray(value, dtype=np.float64) for name, value in constants.items()}
        exponent = np.expand_dims(c["fp8_exponent"], -1)
        scale = self.ratios ** (-exponent) / np.expand_dims(c["flop_efficiency"], -1)
        weights, kv, routed = (
            read_s / np.minimum(c[f"{name}_efficiency"], self.streaming)
            for name, read_s in (("memory", self.weights_s), ("kv", self.kv_s), ("expert", self.experts_s))
        )
        projections = np.sum(self.projections_s * scale, axis=-1)
        arithmetic = np.sum(self.routed_s * scale, axis=-1)
        attention = self.attention_s / c["flop_efficiency"]
        read = np.maximum(weights, projections) + np.maximum(kv, attention) + np.maximum(routed, arithmetic)
        read = read * (1.0 + c["unsharded_share"] * self.others)
        prompts = np.sum(self.prompt_s * self.ratios ** (-exponent), axis=-1) / c["prefill_efficiency"]
        layers = self.fixed_layers + sum(c[name] * self.blocks[:, index] for index, name in enumerate(FACTORS))
        fixed = c["layer_time_s"] * layers + c["step_time_s"] * self.steps + c["sequence_time_s"] * self.sequences
        between = c["collective_excess_s"] * self.collectives + self.communication_s
        between = between + c["host_launch_s"] * self.launches
        host = c["host_launch_s"] * c["kernels_per_layer"] * self.host_layers
        host = host * (1.0 + c["host_sharing"] * self.others)
        times: Array = np.maximum(read + prompts + fixed + between, host)
        return times


def response(scenario: Scenario, count: int) -> Response:
    """Return the response of a scenario whose workload holds arrays of `count` steps."""
    probes = _probes()
    values = {name: np.array([[{**_UNIT, **probe}[name]] for probe in probes.values()]) for name in CONSTANTS}
    # Without host launches, whatever the engine, device time is the whole step.
    constants = {f"stack.{name}": value for name, value in values.items()}
    # Without the bound, efficiencies of 1 give reads at the datasheet rate; it is put back where steps are evaluated.
    tree = decode(scenario.having({**constants, _STREAMING: 1.0}))
    shape = (len(probes), count)
    owed = {name: np.broadcast_to(value, shape) for name, value in columns(tree).items()}
    at = {name: index for index, name in enumerate(probes)}

    def column(name: str, probe: str) -> Array:
        found = owed.get(name)
        return np.zeros(count) if found is None else np.array(found[at[probe]])

    def between(probe: str) -> Array:
        found: Array = np.sum([column(name, probe) for name in _BETWEEN], axis=0)
        return found

    def launch(probe: str) -> Array:
        return column("launch", probe)

    ratios = _ratios(scenario)
    layers = launch("layer")
    return Response(
        ratios=np.broadcast_to(ratios, (count, 3)),
        weights_s=column("weights", "plain"),
        kv_s=column("kv", "plain"),
        experts_s=column("experts", "plain"),
        projections_s=_by_format(ratios, [column("compute", f"projections {power}") for power in range(3)]),
        attention_s=column("compute", "attention"),
        routed_s=_by_format(ratios, [column("compute", f"routed {power}") for power in range(3)]),
        prompt_s=_by_format(
            ratios, [column("prefill", f"prompt {power}") - column("prefill", "no prompt") for power in range(3)]
        ),
        fixed_layers=layers,
        blocks=np.stack([launch(name) - layers for name in FACTORS], axis=-1),
        steps=launch("step"),
        sequences=launch("sequence"),
        collectives=between("excess") - between("no prompt"),
        communication_s=between("no prompt"),
        launches=between("launch") - between("no prompt"),
        host_layers=np.full(count, float(scenario.transformer.layer_count) * (scenario.stack.mode == Mode.EAGER)),
        others=np.full(count, float(scenario.layout.tensor_parallel - 1)),
        streaming=np.full(count, _streaming(scenario)),
    )


def joined(parts: Sequence[Response]) -> Response:
    """Return the responses one after the other."""
    names = [item.name for item in fields(Response)]
    return Response(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def _probes() -> dict[str, dict[str, float]]:
    """Return the constants at which the tree is read, over those in which fixed times are 0 and efficiencies 1."""
    still = {"memory_efficiency": _SLOW, "kv_efficiency": _SLOW, "expert_efficiency": _SLOW}
    quiet = {**still, "prefill_efficiency": _FAST}
    found: dict[str, dict[str, float]] = {
        "plain": {},
        "no prompt": quiet,
        "excess": {**quiet, "collective_excess_s": 1.0},
        "launch": {**quiet, "host_launch_s": 1.0},
        "attention": {**still, "kv_efficiency": _FAST},
        "layer": {"layer_time_s": 1.0},
        "step": {"step_time_s": 1.0},
        "sequence": {"sequence_time_s": 1.0},
    }
    found |= {name: {"layer_time_s": 1.0, name: 1.0} for name in FACTORS}
    for power in range(3):
        asked = {"fp8_exponent": float(power)}
        found[f"projections {power}"] = {**still, "memory_efficiency": _FAST, **asked}
        found[f"routed {power}"] = {**still, "expert_efficiency": _FAST, **asked}
        found[f"prompt {power}"] = asked
    return found


def _streaming(scenario: Scenario) -> float:
    """Return the efficiency that no read exceeds: infinite where nobody measured what the memory sustains."""
    measured = float(np.mean(scenario.system.device.streaming_efficiency))
    return measured if measured < 1 else float("inf")


def _ratios(scenario: Scenario) -> Array:
    """Return the peaks of bf16, fp8 and fp4 over that of bf16."""
    device = scenario.system.device
    peaks = (device.bf16_flop_per_s, device.fp8_flop_per_s, device.fp4_flop_per_s)
    return np.array([float(np.mean(peak)) for peak in peaks]) / float(np.mean(device.bf16_flop_per_s))


def _by_format(ratios: Array, powers: Sequence[Array]) -> Array:
    """Return the bf16 time in each format from the sums at exponents 0, 1 and 2; formats of one peak share it."""
    matrix = np.stack([ratios ** (-float(power)) for power in range(3)])
    found: Array = np.asarray(np.linalg.lstsq(matrix, np.stack(powers), rcond=1e-9)[0].T, dtype=np.float64)
    # What is left of rounding is nothing.
    found[np.abs(found) < 1e-12 * np.max(np.abs(found), axis=-1, keepdims=True)] = 0.0
    return found
