"""Memory: what one device must hold, whether it fits, and how many sequences do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from nhalf.breakdown import Input, Quantity, Term, leaf, total
from nhalf.scenario import shared

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nhalf.scenario import Scenario
    from nhalf.transformer import CachePart
    from nhalf.transformer.weights import WeightGroup

Fit: TypeAlias = Literal["yes", "marginal", "no"]
FITS: Final[tuple[Fit, ...]] = ("no", "marginal", "yes")
"""The words for whether something fits, in the order of their codes."""
USABLE_SHARE = 0.9
"""Share of the memory that an engine takes (vLLM's --gpu-memory-utilization default)."""
RESERVE_BYTES = 3e9
"""Activations, workspaces and graphs [bytes] (the house's decode-step note, term 8)."""
_ENDS = ("output head", "embeddings")
"""Groups of the first and of the last pipeline stage, which have fewer layers where that matters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What the fullest device holds [bytes], what an engine may take of it, and how many sequences fit beside."""

    weights_bytes: float
    cache_bytes: float
    workspace_bytes: float
    usable_bytes: float
    largest_batch: float

    @property
    def needed_bytes(self) -> float:
        """Return all of it together."""
        return self.weights_bytes + self.cache_bytes + self.workspace_bytes


def memory(scenario: Scenario) -> Memory:
    """Return what a device holds in a scenario."""
    return Memory(
        weights_bytes=float(held_weights(scenario).value),
        cache_bytes=float(held_cache(scenario).value),
        workspace_bytes=RESERVE_BYTES,
        usable_bytes=USABLE_SHARE * float(np.mean(scenario.system.device.memory_bytes)),
        largest_batch=float(np.floor(largest_batch(scenario).value)),
    )


def needed(scenario: Scenario, batch: Quantity | None = None) -> Term:
    """Return the bytes that the fullest device holds: weights, cache of all sequences, and the engine's reserve.

    Every sequence is counted at its full length: prompt and output where the workload has them, else the context.
    `batch` is how many there are, where that is not the workload's.
    """
    return total("memory", held_weights(scenario), held_cache(scenario, batch), _reserve())


def _reserve() -> Term:
    """Return what an engine keeps besides weights and cache [bytes]."""
    return leaf("reserve", "reserve", {"reserve": RESERVE_BYTES}, unit="bytes")


@shared
def held_weights(scenario: Scenario) -> Term:
    """Return the bytes of weights on the fullest device: its stage's layers, and of the ends the larger one."""
    groups = scenario.weight_groups
    parts = [_held(scenario, group) for group in groups if group.name not in _ENDS]
    ends = [_held(scenario, group) for group in groups if group.name in _ENDS]
    if scenario.layout.pipeline_parallel > 1 and len(ends) > 1:
        ends = [max(ends, key=lambda term: float(term.value))]
    return total("weights", *parts, *ends)


def _held(scenario: Scenario, group: WeightGroup) -> Term:
    """Return the bytes of one group on one device."""
    layout = scenario.layout
    ranks = layout.expert_devices if group.split == "expert" else layout.tensor_parallel
    inputs: dict[str, Input] = {
        "P": group.parameters,
        "w": group.bytes_per_parameter,
        "share": group.share(ranks),
        "stage": 1.0 if group.name in _ENDS else stage_share(scenario),
    }
    return leaf(f"{group.name} ({group.dtype})", "P * w * share * stage", inputs, unit="bytes")


def stage_share(scenario: Scenario) -> float:
    """Return the part of the layers [1] that the fullest pipeline stage holds."""
    layers = scenario.transformer.layer_count
    return -(-layers // scenario.layout.pipeline_parallel) / layers


def held_cache(scenario: Scenario, batch: Quantity | None = None) -> Term:
    """Return the bytes of the cache and of the states of every sequence that a device serves."""
    inputs: dict[str, Input] = {
        "b": scenario.workload.batch if batch is None else batch,
        "dp": float(scenario.layout.attention_dp),
    }
    held = leaf("sequences", "maximum(b / dp, 1)", inputs, unit="1")
    return total("kv", *(_kept(scenario, part, held) for part in scenario.transformer.cache_parts()))


def _kept(scenario: Scenario, part: CachePart, sequences: Quantity | Term) -> Term:
    """Return the bytes that one kind of attention keeps for some sequences."""
    attention, workload = part.attention, scenario.workload
    ranks = scenario.layout.tensor_parallel
    inputs: dict[str, Input] = {
        "b": sequences,
        "c": _length(scenario),
        "limit": float(attention.kept_limit or 0),
        "e": attention.kv_elements(ranks),
        "w": workload.kv_bytes,
        "recent": float(attention.recent_elements),
        "index": attention.index_bytes,
        "state": attention.state_bytes(ranks),
        "L": float(part.layer_count),
        "cp": float(scenario.layout.context_parallel),
        "stage": stage_share(scenario),
    }
    seen = "minimum(c, limit)" if attention.kept_limit else "c"
    recent = " + recent * w" if attention.recent_elements else ""
    return leaf(part.name, f"b * ({seen} * (e * w + index) / cp{recent} + state) * L * stage", inputs, unit="bytes")


def _length(scenario: Scenario) -> Quantity:
    """Return the tokens that a sequence has when it is longest: one at least, as it decodes."""
    workload = scenario.workload
    longest = np.where(
        np.greater(workload.output_tokens, 0), workload.prompt_tokens + workload.output_tokens, workload.context_tokens
    )
    longest = np.maximum(longest, 1.0)
    return float(longest) if longest.ndim == 0 else longest


@shared
def one_sequence(scenario: Scenario) -> Term:
    """Return the bytes of the cache and of the states of one sequence on a device, at its full length."""
    return total("one sequence", *(_kept(scenario, part, 1.0) for part in scenario.transformer.cache_parts()))


@shared
def largest_batch(scenario: Scenario) -> Term:
    """Return how many sequences of the workload's length fit on the devices of the layout, at least 0.

    References
    ----------
    The house's decode-step note, term 8.
    """
    inputs: dict[str, Input] = {
        "usable": USABLE_SHARE * scenario.system.device.memory_bytes,
        "weights": held_weights(scenario),
        "reserve": RESERVE_BYTES,
        "each": one_sequence(scenario),
        "dp": float(scenario.layout.attention_dp),
    }
    return leaf("largest batch", "maximum(usable - weights - reserve, 0) / each * dp", inputs, unit="1")


def usable_bytes(scenario: Scenario) -> tuple[Quantity, Quantity]:
    """Return the bytes that an engine takes of a device, by the least and the most that its driver may report."""
    capacity = scenario.system.device.memory_bytes
    origin = scenario.origins.get("system.device.memory_bytes")
    if origin is None or np.any(capacity != origin.value):
        return USABLE_SHARE * capacity, USABLE_SHARE * capacity
    low = capacity if origin.low is None else origin.low
    high = capacity if origin.high is None else origin.high
    return USABLE_SHARE * low, USABLE_SHARE * high


def fit_codes(scenario: Scenario, need: Quantity | None = None) -> NDArray[np.int64]:
    """Return the index in `FITS` of whether the scenario fits, element by element.

    `need` [bytes] is what the fullest device must hold, where that is not all. It is `marginal` where it depends on how
    much memory the driver really reports.
    """
    need = np.asarray(needed(scenario).value if need is None else need)
    low, high = usable_bytes(scenario)
    return np.add(need <= low, need <= high, dtype=np.int64)


def fits(scenario: Scenario) -> Fit:
    """Return whether a scenario of one point fits."""
    return FITS[int(fit_codes(scenario))]
