"""Words that several answers use: a count with its noun, what a link is called, the doubt that incast leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf import units
from nhalf.fabric import Topology
from nhalf.loading.defaults import MEASURED
from nhalf.predict.incast import COLLAPSE, WAIT_S
from nhalf.report.view import whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.loading import Default
    from nhalf.points import Point
    from nhalf.scenario import Scenario
    from nhalf.system import System


INCAST: Final = (
    "so many nodes answer one root at once over TCP. Where that overruns a port of the switch (incast), a lost reply "
    f"waits Linux's least retransmission time, {1e3 * WAIT_S:.0f} ms, and up to {100 * (1 - 1 / COLLAPSE):.0f} % of "
    "the throughput is lost (CMU-PDL-09-101). Llama-2-7B on 8 Raspberry Pi 4 took 290 ms of transfer a token for 51 ms "
    "on the wire, on 4 it took 34 (distributed-llama). No wait is in the time; the high end of the band allows for "
    f"{COLLAPSE:.0f} times the communication"
)
"""The doubt that incast leaves, as a sentence without its subject and its point."""


def counted(count: int, noun: str = "row") -> str:
    """Return a number of rows, or of another noun, in words."""
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"


def joined(names: Sequence[str]) -> str:
    """Return names as a list in words: a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def unit(row: Point) -> str:
    """Return what the time of a row is for: a token, a step that may keep several, or the prompts of a prefill."""
    if not row.prefills:
        return "token" if row.accepted_tokens == 1 else "step"
    return "prompt" if row.batch == 1 else f"{row.batch:g} prompts"


def whole(row: Point) -> str:
    """Return what the columns of a row add up to."""
    return "prefill" if row.prefills else "step"


COSTS: Final = {
    "weights": "reading weights", "experts": "reading expert weights", "kv": "reading the KV cache",
    "compute": "arithmetic", "launch": "per-layer overhead", "collective_fixed": "collective latency",
    "collective_transfer": "collective bytes", "hand_over": "pipeline transfer", "prefill": "prefill",
}  # fmt: skip
"""What a step is spent on, by column."""


PARTS: Final = {"host launch": "kernel launch (host)", "device launch": "kernel launch (GPU)"}
"""Parts of a collective's latency that screens call otherwise."""


def most(binding: str) -> str:
    """Return what takes the most time of a step, in the words of the columns."""
    return {"launch": "per-layer overhead", "kv": "KV cache"}.get(binding, binding)


def link_name(system: System, tier: str) -> str:
    """Return what the links of a tier are called on an invoice."""
    if tier != "intra_node":
        return {"inter_node": "NIC", "inter_rack": "rack link"}[tier]
    topology, made = system.fabric.topology, system.device.architecture
    if topology == Topology.HOST:
        return "PCIe"
    known = (name for (shape, prefixes), name in _IN_NODE.items() if shape == topology and made.startswith(prefixes))
    return next(known, "in-node link")


_IN_NODE: Final = {
    (Topology.SWITCH, ("volta", "ampere", "hopper", "blackwell")): "NVLink",
    (Topology.MESH, ("cdna",)): "xGMI",
    (Topology.TORUS, ("tpu",)): "ICI",
}  # fmt: skip
"""What links inside a node are called, by how they hang together and by the architectures of the devices."""


INPUTS: Final = {
    "memory_bandwidth_bytes_per_s": "HBM bandwidth", "memory_efficiency": "share of HBM speed",
    "streaming_efficiency": "share of HBM speed in a copy", "kv_efficiency": "KV read efficiency",
    "expert_efficiency": "share of HBM speed, experts", "layer_time_s": "per-layer overhead",
    "step_time_s": "per-step overhead", "sequence_time_s": "per-sequence overhead",
    "quantised_input_layer_factor": "overhead of quantised layers", "expert_layer_factor": "overhead of expert layers",
    "latent_layer_factor": "overhead of latent attention", "linear_layer_factor": "overhead of linear attention",
    "sparse_layer_factor": "overhead of sparse attention", "flop_efficiency": "share of peak arithmetic",
    "prefill_efficiency": "share in prefill", "expert_prefill_efficiency": "share in prefill, experts",
    "fp8_exponent": "what fp8 gains in arithmetic", "software_factor": "kernel software of collectives",
    "collective_excess_s": "waiting in the model, each collective", "routing_concentration": "how uneven routing is",
    "unsharded_share": "work that TP leaves whole", "curve_factor": "doubt about measured curves",
    "tuner_factor": "doubt about the library's times", "kv_bytes": "bytes of a number in the KV cache",
    "bf16_flop_per_s": "bf16 arithmetic", "fp8_flop_per_s": "fp8 arithmetic", "fp4_flop_per_s": "fp4 arithmetic",
    "host_launch_s": "kernel launch (host)", "memory_bytes": "memory of a GPU", "context_tokens": "context",
}  # fmt: skip
"""Inputs in words, by the last part of their paths."""
_TIERS: Final = {"intra_node": "inside the node", "inter_node": "across nodes", "inter_rack": "across racks"}


def input_name(path: str) -> str:
    """Return an input in words; of a library's many constants, its own name."""
    *above, last = path.split(".")
    plain = last.removesuffix("_bytes_per_s").removesuffix("_s").replace("_", " ")
    if above and above[-1] in _TIERS:
        return f"{plain} {_TIERS[above[-1]]}"
    if last in INPUTS:
        return INPUTS[last]
    return " ".join([*(each.replace("_", " ") for each in above[2:] or above[1:]), plain])


def load_of(scenario: Scenario, batches: Sequence[float] = ()) -> str:
    """Return in a line what runs: batches, lengths, dtypes and the engine."""
    workload, stack = scenario.workload, scenario.stack
    told = [f"batch {joined([f'{each:g}' for each in batches])}"] if batches else []
    prompts, answers = (float(np.mean(each)) for each in (workload.prompt_tokens, workload.output_tokens))
    lengths = f"prompts of {whole_number(prompts)}" + (f", answers of {whole_number(answers)}" if answers else "")
    told.append(f"{lengths} tokens" if prompts else f"context {whole_number(float(np.mean(workload.context_tokens)))}")
    told += [f"{workload.weight_dtype} weights", f"{workload.kv_dtype} KV cache", stack.engine]
    return ", ".join([*told, "CUDA graphs" if stack.mode == "graph" else f"{stack.mode} mode"])


def mostly(binding: str) -> str:
    """Return what most of a step goes to, by the word for what binds it."""
    column = {"latency": "collective_fixed", "bandwidth": "collective_transfer", "hand-over": "hand_over"}
    return f"most of it {COSTS[column.get(binding, binding)]}"


def span(low_s: float, high_s: float) -> str:
    """Return a range of times with its unit once, where both ends have the same."""
    low, high = units.format_time(low_s), units.format_time(high_s)
    return f"{low.split()[0]} to {high}" if low.split()[1:] == high.split()[1:] else f"{low} to {high}"


def assumed(row: Point, defaults: Sequence[Default], *, batch: bool = True) -> str:
    """Return in one line what nobody stated."""
    workload = row.scenario.workload
    words = {
        "--batch": "batch 1" if batch else "",
        "--context": f"context {whole_number(float(np.mean(workload.context_tokens)))}",
        "--kv": f"{workload.kv_dtype} KV cache",
        "--weights": f"{workload.weight_dtype} weights",
        "--engine": row.engine,
        "--mode": "CUDA graphs" if row.scenario.stack.mode == "graph" else f"{row.scenario.stack.mode} mode",
    }
    told = [words[default.flag] for default in defaults if words.get(default.flag)]
    return "; ".join([", ".join(told), *brought(defaults)])


def brought(defaults: Sequence[Default]) -> list[str]:
    """Return what cluster files and measured numbers brought, in short."""
    return [
        f"{default.flag.replace('--on', 'from').removeprefix('--')}: {default.value}"
        for default in defaults
        if default.flag.startswith(MEASURED)
    ]
