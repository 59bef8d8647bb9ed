"""Memory: what one device must hold, and whether it fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from nhalf.breakdown import Input, Term, leaf, total

if TYPE_CHECKING:
    from nhalf.scenario import Scenario

Fit: TypeAlias = Literal["yes", "marginal", "no"]
USABLE_SHARE = 0.9
"""Share of the memory that an engine takes (vLLM's --gpu-memory-utilization default)."""
RESERVE_BYTES = 3e9
"""Activations, workspaces and graphs [bytes] (the house's decode-step note, term 8)."""


def needed(scenario: Scenario) -> Term:
    """Return the bytes that one device holds: weights, key-value cache and the engine's reserve [bytes].

    Every sequence is counted at its full length: prompt and output where the workload has them, else the context.
    """
    transformer, workload = scenario.transformer, scenario.workload
    k = float(scenario.layout.tensor_parallel)
    weights: dict[str, Input] = {
        "P": float(transformer.layer_parameters),
        "w": workload.weight_bytes,
        "P_io": float(transformer.head_parameters + transformer.embedding_parameters),
        "P_norm": float(transformer.norm_parameters),
        "w_io": workload.activation_bytes,
        "k": k,
    }
    length = np.where(
        np.greater(workload.output_tokens, 0), workload.prompt_tokens + workload.output_tokens, workload.context_tokens
    )
    cache: dict[str, Input] = {
        "b": workload.batch,
        "c": float(length) if length.ndim == 0 else length,
        "e": transformer.kv_elements(scenario.layout.tensor_parallel),
        "w": workload.kv_bytes,
    }
    return total(
        "memory",
        leaf("weights", "(P * w + P_io * w_io) / k + P_norm * w_io", weights, unit="bytes"),
        leaf("kv", "b * c * e * w", cache, unit="bytes"),
        leaf("reserve", "reserve", {"reserve": RESERVE_BYTES}, unit="bytes"),
    )


def usable_bytes(scenario: Scenario) -> tuple[float, float]:
    """Return the bytes that an engine takes of a device, by the least and the most that its driver may report."""
    capacity = float(np.mean(scenario.system.device.memory_bytes))
    origin = scenario.origins.get("system.device.memory_bytes")
    if origin is None or origin.value != capacity:
        return USABLE_SHARE * capacity, USABLE_SHARE * capacity
    low = capacity if origin.low is None else origin.low
    high = capacity if origin.high is None else origin.high
    return USABLE_SHARE * low, USABLE_SHARE * high


def fits(scenario: Scenario) -> Fit:
    """Return whether the scenario fits: `marginal` where it depends on how much memory the driver really reports."""
    need = float(needed(scenario).value)
    low, high = usable_bytes(scenario)
    if need <= low:
        return "yes"
    return "marginal" if need <= high else "no"
