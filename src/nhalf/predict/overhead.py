"""What a pass costs beyond the reads and the arithmetic that ranks share out: the undivided part, and fixed time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.breakdown import Input, Quantity, Term, leaf, some, total
from nhalf.device import FOUR_BITS, generation
from nhalf.predict.exchange import all_reduces
from nhalf.predict.memory import stage_share

if TYPE_CHECKING:
    from nhalf.scenario import Scenario


def unsharded(scenario: Scenario, work: list[Term]) -> list[Term]:
    """Return the time [s] of the reads and the arithmetic that TP leaves undivided, or nothing where it divides all.

    `work` are the times of a rank's share of both. What one rank does for all (its norms, scores and sampling, and what
    an engine leaves with the root) takes the share s of the whole and is not 1 / K of it: K ranks take
    T (s + (1 - s) / K) = T / K (1 + s (K - 1)).

    References
    ----------
    G. M. Amdahl, "Validity of the single processor approach", AFIPS 30 (1967); the house's decode-step note finds 5 to
    31 % on clusters of CPUs and boards.
    """
    share, ranks = scenario.stack.unsharded_share, scenario.layout.tensor_parallel
    if ranks == 1 or not some(share > 0):
        return []
    inputs: dict[str, Input] = {"s": share, "K": float(ranks), "shared": total("shared out", *work)}
    return [leaf("not shared out", "s * (K - 1) * shared", inputs, column="compute")]


def layer_time(scenario: Scenario) -> Term:
    """Return the time [s] per layer that is neither bytes nor arithmetic: small kernels and the gaps between them.

    References
    ----------
    The house's decode-step note, term 4. A norm that runs in the kernel of its all-reduce saves one of the layer's
    kernels (TensorRT-LLM and FlashInfer, all-reduce fusion with residual and RMS norm).
    """
    transformer, stack = scenario.transformer, scenario.stack
    inputs: dict[str, Input] = {
        "tl": stack.layer_time_s,
        "L": float(transformer.layer_count),
        "stage": stage_share(scenario),
    }
    quantised = quantised_inputs(scenario)
    kinds: list[tuple[str, int, Quantity]] = [
        ("moe", transformer.moe_layer_count, _moe_factor(scenario)),
        ("mla", transformer.mla_layer_count, stack.latent_layer_factor),
        ("linear", transformer.linear_layer_count, stack.linear_layer_factor),
        ("sparse", transformer.sparse_layer_count, stack.sparse_layer_factor),
        ("quantised", quantised, stack.quantised_input_layer_factor),
    ]
    formula = "L"
    for name, count, factor in kinds:
        if count:
            inputs |= {f"L_{name}": float(count), f"a_{name}": factor}
            formula += f" + a_{name} * L_{name}"
    if some(stack.remedies.fused_norms > 0):
        inputs |= fused_kernels(scenario)
        formula += " - f * N / (fuse * kernels)"
    return leaf("layers", f"tl * ({formula}) * stage", inputs, column="launch")


def quantised_inputs(scenario: Scenario) -> int:
    """Return the activations of a pass that kernels bring to the narrower dtype that products run in.

    Those that read weights of a dtype the device computes in; elsewhere the weights are widened instead. What the
    routed experts read is part of what experts add to a layer.

    References
    ----------
    P. Micikevicius et al., "FP8 formats for deep learning", arXiv:2209.05433: both operands of a product are fp8, and
    activations are scaled when the pass comes to them.
    """
    native = scenario.system.device.computes_in
    return sum(group.inputs for group in scenario.weight_groups if group.read == "step" and group.dtype in native)


def fused_kernels(scenario: Scenario) -> dict[str, Input]:
    """Return what the kernels that a fused norm saves are made of: one of a layer's for each all-reduce."""
    stack = scenario.stack
    return {
        "f": stack.remedies.fused_norms,
        "N": float(all_reduces(scenario)),
        "fuse": stack.remedies.fused_collectives,
        "kernels": stack.kernels_per_layer,
    }


def _moe_factor(scenario: Scenario) -> Quantity:
    """Return what an expert layer adds to a layer's fixed time, in layers [1]: less where FP4 runs natively."""
    stack, blackwell = scenario.stack, generation(scenario.system.device.architecture) == "blackwell"
    native = scenario.expert_dtype in FOUR_BITS and blackwell
    return stack.fp4_expert_layer_factor if native else stack.expert_layer_factor
