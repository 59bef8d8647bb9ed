"""The response: a step as a function of its stack's constants alone, for fits that ask for it thousands of times.

For a fixed model, system, layout and workload a decode step is a sum of few things: times that go as 1 / efficiency,
arithmetic that shows only where it outlasts a read, and fixed times in proportion to counts. `response` reads those
coefficients off the tree of `decode`, by evaluating it at probing constants; nothing of the model is written twice but
this form, and a test holds it against the tree at random constants.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nhalf.breakdown import columns
from nhalf.collective import Mode
from nhalf.predict.layer import expert_hits, tokens
from nhalf.predict.step import decode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.breakdown import Array
    from nhalf.scenario import Scenario

Indices: TypeAlias = NDArray[np.signedinteger[Any]]
Mask: TypeAlias = NDArray[np.bool_]

CONSTANTS: Final = (
    "memory_efficiency", "kv_efficiency", "expert_efficiency", "flop_efficiency", "prefill_efficiency",
    "expert_prefill_efficiency", "fp8_exponent", "layer_time_s", "step_time_s", "sequence_time_s",
    "collective_excess_s", "host_launch_s", "kernels_per_layer", "expert_layer_factor", "fp4_expert_layer_factor",
    "latent_layer_factor", "linear_layer_factor", "sparse_layer_factor", "quantised_input_layer_factor",
    "routing_concentration", "unsharded_share", "host_sharing",
)  # fmt: skip
"""The constants of a stack that a calibration may move, by the name of their field."""
FACTORS: Final = tuple(name for name in CONSTANTS if name.endswith("_layer_factor"))
"""What a kind of block adds to a layer's fixed time, in layers."""
_UNIT: Final = {
    name: 0.0 if name.endswith(("_s", "_factor", "_share", "_sharing", "_concentration")) else 1.0 for name in CONSTANTS
}
_BETWEEN: Final = ("collective_fixed", "collective_transfer", "hand_over", "prefill")
"""The columns of what devices tell each other; a prompt's exchanges are part of its column."""
_STREAMING: Final = "system.device.streaming_efficiency"
_NO_SCATTER: Final = 1e-6
_FAST, _SLOW = 1e30, 1e-30
"""Efficiencies that make a read take no time, and for ever."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Response:
    """The coefficients of `n` steps: arrays of shape (n,), or (n, 3) where the last axis is the number format.

    `ratios` are the peaks of bf16, fp8 and fp4 over that of bf16 on the step's device; arithmetic in a format counts as
    bf16 arithmetic over ratio^exponent. Times are in [s]; `fixed_layers` and `blocks` (n, factors) are in layers,
    `experts_s` is what reading all experts takes, `hits` (n, 3) how often an expert is hit in the mean, by the tokens
    of the step and with those of prompts, and the share of steps with prompts;
    `concentration` is that of a step's family of models where it is known, NaN where the constant holds.
    `launches` (of planned collectives) and `host_layers` are 0 but for eager engines; `others` are the ranks of a TP
    group but one, `streaming` is the efficiency that no read exceeds.
    """

    ratios: Array
    weights_s: Array
    kv_s: Array
    experts_s: Array
    hits: Array
    projections_s: Array
    attention_s: Array
    routed_s: Array
    prompt_s: Array
    prompt_experts_s: Array
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
    concentration: Array

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
            + np.maximum(self.experts_s * self._hit(np.zeros(1)), peak[1])
        )
        return bound

    def _hit(self, concentration: Array) -> Array:
        """Return the share of all experts that a step reads."""
        known = np.where(np.isnan(self.concentration), concentration, self.concentration)
        scatter = np.maximum(known, _NO_SCATTER)
        own, mixed = (1.0 - (1.0 + scatter * self.hits[:, each]) ** (-1.0 / scatter) for each in (0, 1))
        found: Array = own + self.hits[:, 2] * (mixed - own)
        return found

    def step_s(self, constants: Mapping[str, Array | float]) -> Array:
        """Return the time [s] of every step; constants of shape (m, 1) give times of shape (m, n)."""
        c = {name: np.asarray(value, dtype=np.float64) for name, value in constants.items()}
        slower = self.ratios ** -np.expand_dims(c["fp8_exponent"], -1)
        weights, kv, routed = (
            read_s / np.minimum(c[f"{name}_efficiency"], self.streaming)
            for name, read_s in (("memory", self.weights_s), ("kv", self.kv_s), ("expert", self.experts_s))
        )
        routed = routed * self._hit(c["routing_concentration"])
        # One pass over the formats each: a fit of thousands of steps spends most of its time here.
        products = (self.projections_s, self.routed_s, self.prompt_s, self.prompt_experts_s)
        projections, arithmetic, prompts, of_experts = (np.einsum("...nf,nf->...n", slower, each) for each in products)
        projections, arithmetic = projections / c["flop_efficiency"], arithmetic / c["flop_efficiency"]
        attention = self.attention_s / c["flop_efficiency"]
        read = np.maximum(weights, projections) + np.maximum(kv, attention) + np.maximum(routed, arithmetic)
        read = read * (1.0 + c["unsharded_share"] * self.others)
        prompts = prompts / c["prefill_efficiency"] + of_experts / c["expert_prefill_efficiency"]
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

    def prompts(name: str) -> Array:
        bare = column("prefill", "no prompt")
        return _by_format(ratios, [column("prefill", f"{name} {power}") - bare for power in range(3)])

    ratios = _ratios(scenario)
    layers = launch("layer")
    hits = _hits(scenario, count)
    found = Response(
        ratios=np.broadcast_to(ratios, (count, 3)),
        weights_s=column("weights", "plain"),
        kv_s=column("kv", "plain"),
        experts_s=np.ones(count),
        hits=hits,
        projections_s=_by_format(ratios, [column("compute", f"projections {power}") for power in range(3)]),
        attention_s=column("compute", "attention"),
        routed_s=_by_format(ratios, [column("compute", f"routed {power}") for power in range(3)]),
        prompt_s=prompts("prompt"),
        prompt_experts_s=prompts("prompt experts"),
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
        concentration=np.zeros(count),
    )
    read = column("experts", "plain")
    whole = read / np.where(read > 0, found._hit(np.zeros(1)), 1.0)  # noqa: SLF001
    return replace(found, experts_s=whole, concentration=np.full(count, np.nan))


def _hits(scenario: Scenario, count: int) -> Array:
    """Return how often an expert is hit, of shape (count, 3): see `Response`."""
    own, mixed, share = expert_hits(scenario, tokens(scenario))
    several = [own.value, mixed.value, 0.0 if share is None else share.value]
    return np.stack([np.broadcast_to(np.asarray(each, dtype=np.float64), (count,)) for each in several], axis=-1)


def joined(parts: Sequence[Response]) -> Response:
    """Return the responses one after the other."""
    names = [item.name for item in fields(Response)]
    return Response(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def _probes() -> dict[str, dict[str, float]]:
    """Return the constants at which the tree is read, over those in which fixed times are 0 and efficiencies 1."""
    still = {"memory_efficiency": _SLOW, "kv_efficiency": _SLOW, "expert_efficiency": _SLOW}
    quiet = {**still, "prefill_efficiency": _FAST, "expert_prefill_efficiency": _FAST}
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
        found[f"prompt {power}"] = {**asked, "expert_prefill_efficiency": _FAST}
        found[f"prompt experts {power}"] = {**asked, "prefill_efficiency": _FAST}
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
