"""What the layers of a dense transformer cost on one device: bytes read, arithmetic, and time that is neither."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.breakdown import Input, Term, excess, leaf, total
from nhalf.laws.roofline import byte_time, flop_time

if TYPE_CHECKING:
    from nhalf.scenario import Scenario


def weights(scenario: Scenario) -> Term:
    """Return the time [s] to read the rank's weights: the layers' as quantised, the output projection as it is.

    References
    ----------
    The house's decode-step note, term 1 (dense part).
    """
    transformer, workload = scenario.transformer, scenario.workload
    inputs: dict[str, Input] = {
        "P": float(transformer.layer_parameters),
        "w": workload.weight_bytes,
        "P_head": float(transformer.head_parameters),
        "w_head": workload.activation_bytes,
        "k": float(scenario.layout.tensor_parallel),
    }
    read = leaf("weight bytes", "(P * w + P_head * w_head) / k", inputs, unit="bytes")
    device, stack = scenario.system.device, scenario.stack
    return byte_time("weights", read, device.memory_bandwidth_bytes_per_s, stack.memory_efficiency, column="weights")


def key_values(scenario: Scenario) -> Term:
    """Return the time [s] to read the rank's key-value cache; heads are copied where TP outnumbers them.

    References
    ----------
    The house's decode-step note, term 3.
    """
    inputs: dict[str, Input] = {
        "b": scenario.workload.batch,
        "c": scenario.workload.context_tokens,
        "e": scenario.transformer.kv_elements(scenario.layout.tensor_parallel),
        "w": scenario.workload.kv_bytes,
    }
    read = leaf("cache bytes", "b * c * e * w", inputs, unit="bytes")
    device, stack = scenario.system.device, scenario.stack
    return byte_time("kv", read, device.memory_bandwidth_bytes_per_s, stack.kv_efficiency, column="kv")


def compute(scenario: Scenario, weights_read: Term, kv_read: Term) -> Term:
    """Return by how much [s] the arithmetic outlasts the reads it overlaps with, for the weights and for the cache.

    References
    ----------
    The house's decode-step note, terms 1 and 3; S. Williams, A. Waterman and D. Patterson, "Roofline", CACM 52 (2009).
    """
    transformer, device, stack = scenario.transformer, scenario.system.device, scenario.stack
    common: dict[str, Input] = {
        "b": scenario.workload.batch,
        "k": float(scenario.layout.tensor_parallel),
    }
    projections: dict[str, Input] = {
        "P": float(transformer.layer_parameters),
        "P_head": float(transformer.head_parameters),
        "s": speedup(scenario),
    }
    matmul = leaf("projections FLOP", "2 * b * (P / s + P_head) / k", {**common, **projections}, unit="FLOP")
    scores: dict[str, Input] = {"c": scenario.workload.context_tokens, "width": float(transformer.attention_width)}
    attend = leaf("attention FLOP", "4 * b * c * width / k", {**common, **scores}, unit="FLOP")
    rate = (device.bf16_flop_per_s, stack.flop_efficiency)
    return total(
        "compute",
        excess("beyond the weights", flop_time("projections", matmul, *rate), weights_read, column="compute"),
        excess("beyond the cache", flop_time("attention", attend, *rate), kv_read, column="compute"),
    )


def speedup(scenario: Scenario) -> Term:
    """Return how many times faster than bf16 the weights' dtype computes: (peak ratio)^exponent.

    References
    ----------
    The house's decode-step note: s = 2^fq for FP8, 4^fq for FP4 on Blackwell.
    """
    device = scenario.system.device
    peaks = {"fp8": device.fp8_flop_per_s, "nvfp4": device.fp4_flop_per_s, "mxfp4": device.fp4_flop_per_s}
    peak = peaks.get(scenario.workload.weight_dtype, device.bf16_flop_per_s)
    inputs: dict[str, Input] = {"F_q": peak, "F": device.bf16_flop_per_s, "fq": scenario.stack.fp8_exponent}
    return leaf("speed-up", "(F_q / F) ** fq", inputs, unit="1")


def launch(scenario: Scenario) -> Term:
    """Return the time [s] that grows with layers, steps and sequences rather than with bytes.

    References
    ----------
    The house's decode-step note, terms 4 and 5.
    """
    stack = scenario.stack
    inputs: dict[str, Input] = {
        "L": float(scenario.transformer.layer_count),
        "b": scenario.workload.batch,
        "tl": stack.layer_time_s,
        "ts": stack.step_time_s,
        "tq": stack.sequence_time_s,
    }
    return total(
        "launch",
        leaf("layers", "tl * L", inputs, column="launch"),
        leaf("step", "ts", inputs, column="launch"),
        leaf("sequences", "tq * b * L / 60", inputs, column="launch"),
    )
