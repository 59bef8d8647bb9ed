"""A stack: the serving engine, its communication library, and the times of the step that no datasheet tells."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity
    from nhalf.collective import Mode
    from nhalf.library import Library


_RELEASE: Final = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:\.?(?:rc|dev|a|b)(\d+))?")
SERIES: Final = 8.0
"""Pre-releases that a series counts where versions of two series are compared: TensorRT-LLM makes 5 to 20 of each."""
FAR: Final = 100.0
"""How many releases apart versions are of which one is of another generation, or cannot be read."""


def releases_apart(version: str, other: str) -> float:
    """Return about how many releases lie between two versions: 0.18.0 and 0.24.0 are 6 apart, rc2 and rc6 are 4."""
    one, two = (_RELEASE.match(text.strip().casefold()) for text in (version, other))
    if one is None or two is None:
        return 0.0 if version == other else FAR
    first, second = ([int(part or 0) for part in found.groups()] for found in (one, two))
    if first[0] != second[0]:
        return FAR
    pre_released = one[4] is not None or two[4] is not None
    apart = [abs(a - b) for a, b in zip(first[1:], second[1:], strict=True)]
    if apart[0]:
        return apart[0] * (SERIES if pre_released else 1.0)
    if apart[1]:
        return float(apart[1])
    return (
        float(apart[2]) if one[4] is not None and two[4] is not None else SERIES / 2 * pre_released * (version != other)
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Remedies:
    """What a user switches on against the cost of communication; each default does nothing.

    `fused_collectives` collectives run as one, with a message as much larger; `message_factor` is the size of an
    all-reduce's message over what its activation dtype makes it. `fused_norms` is the share of all-reduces whose kernel
    does the addition and norm that follow, and `overlap_share` the share of communication that may run under a pass's
    reads and arithmetic. With `two_batches` a batch passes as two halves, one computing while the other communicates.
    Another kernel takes `all_reduce_factor` of an all-reduce's isolated time, `all_reduce_saved_s` [s] less of it, or
    `all_reduce_s` [s] for the message of one sequence, 0 where it is as it is; never less than what its bytes take.
    `kernel_bypass` says whether messages between nodes avoid the kernel's network stack ("" as the link is known);
    `bypassed_s` and `through_kernel_s` [s] are what that adds to the latency of the link (less than 0 for a saving).
    """

    fused_collectives: Quantity = 1.0
    message_factor: Quantity = 1.0
    fused_norms: Quantity = 0.0
    overlap_share: Quantity = 0.0
    two_batches: bool = False
    all_reduce_factor: Quantity = 1.0
    all_reduce_saved_s: Quantity = 0.0
    all_reduce_s: Quantity = 0.0
    kernel_bypass: Literal["", "on", "off"] = ""
    bypassed_s: Quantity = 0.0
    through_kernel_s: Quantity = 0.0

    @property
    def network_stack_s(self) -> Quantity:
        """Return what the network stack adds to the latency of the link between nodes [s]."""
        if not self.kernel_bypass:
            return 0.0
        return self.bypassed_s if self.kernel_bypass == "on" else self.through_kernel_s


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stack:
    """An engine and the constants of its decode step; efficiencies are shares of a datasheet rate.

    `layer_time_s` [s] is paid per layer, `step_time_s` [s] per step, `sequence_time_s` [s] per sequence of a model of
    60 layers, `collective_excess_s` [s] per collective beyond its isolated time. In eager mode the host launches
    `kernels_per_layer` kernels a layer at `host_launch_s` [s] each. `software_factor` multiplies what a collective
    costs beyond the law of its links (kernel, launch, synchronisation): 1, or less in a what-if. The `*_layer_factor`
    say what a kind of block, or each activation that is quantised, adds to the fixed time of a layer, in layers.
    `routing_concentration` is the variance of how popular a layer's experts are, over the
    squared mean: 0 where all are alike.
    `unsharded_share` is the part of a whole step's reads and arithmetic that TP does not divide; `host_sharing` is 1
    where one host process launches for all TP ranks, 0 where each rank has its own. A first token comes
    `first_token_wait_s` [s] and `first_token_steps` steps later than the server's steps say: front end and scheduler.
    `gathers_at_root` tells that the nodes send to one root over TCP sockets; `version` is the
    engine's, where it was asked for.
    """

    engine: str
    library: Library
    mode: Mode
    memory_efficiency: Quantity
    kv_efficiency: Quantity
    flop_efficiency: Quantity
    prefill_efficiency: Quantity
    fp8_exponent: Quantity
    layer_time_s: Quantity
    step_time_s: Quantity
    sequence_time_s: Quantity
    collective_excess_s: Quantity
    host_launch_s: Quantity
    kernels_per_layer: Quantity
    expert_efficiency: Quantity
    expert_prefill_efficiency: Quantity
    expert_layer_factor: Quantity
    fp4_expert_layer_factor: Quantity
    latent_layer_factor: Quantity
    linear_layer_factor: Quantity
    sparse_layer_factor: Quantity
    quantised_input_layer_factor: Quantity
    routing_concentration: Quantity = 0.0
    software_factor: Quantity = 1.0
    unsharded_share: Quantity = 0.0
    host_sharing: Quantity = 0.0
    first_token_wait_s: Quantity = 0.0
    first_token_steps: Quantity = 0.0
    gathers_at_root: bool = False
    version: str = ""
    remedies: Remedies = field(default_factory=Remedies)
