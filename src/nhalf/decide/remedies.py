"""Remedies: what each switch against the cost of communication saves, computed again without it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nhalf.breakdown import columns
from nhalf.collective import Mode
from nhalf.laws.overlap import fused_fixed_time
from nhalf.predict.prefill import predicted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nhalf.scenario import Scenario
    from nhalf.stack import Remedies


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One remedy, the time per token (or prompt) without and with it [s], and what limits it, in words."""

    name: str
    flag: str
    without_s: float
    with_s: float
    limit: str

    @property
    def gain(self) -> float:
        """Return the part [1] of the time without it that it saves; below 0 where it costs."""
        return 1.0 - self.with_s / self.without_s


def remedies(scenario: Scenario, *, launched: bool = False) -> list[Remedy]:
    """Return what each remedy that is on saves, against the same scenario without that one.

    `launched` asks for graphs against eager launches even where nothing else is on.
    """
    found = [
        Remedy(name=name, flag=flag, without_s=_time_s(without), with_s=_time_s(scenario), limit=limit)
        for name, flag, without, limit in _switched(scenario)
    ]
    if scenario.stack.mode == Mode.GRAPH and (found or launched):
        eager = replace(scenario, stack=replace(scenario.stack, mode=Mode.EAGER))
        name, limit = "CUDA graphs against eager launches", "the host's launches and the eager collective; no more"
        found.append(
            Remedy(name=name, flag="--mode graph", without_s=_time_s(eager), with_s=_time_s(scenario), limit=limit)
        )
    return found


def _time_s(scenario: Scenario) -> float:
    """Return the time [s] per kept token and sequence, or per prefill."""
    return float(np.mean(predicted(scenario).value / scenario.workload.accepted_tokens))


def _switched(scenario: Scenario) -> Iterator[tuple[str, str, Scenario, str]]:
    """Yield the name, the flag, the scenario without it, and the limit of every remedy that is on."""
    on = scenario.stack.remedies
    if on.fused_norms:
        limit = "one kernel of a layer for each all-reduce, as much as any other of the layer's"
        yield "norm in the all-reduce's kernel", "--fuse-norm", _without(scenario, replace(on, fused_norms=0.0)), limit
    if on.fused_collectives != 1:
        plain = _without(scenario, replace(on, fused_collectives=1.0))
        fixed = columns(predicted(plain)).get("collective_fixed", 0.0)
        saved = float(np.mean(fused_fixed_time(fixed, on.fused_collectives).value))
        limit = f"(1 - 1/m) of the fixed time of collectives, {1e3 * saved:.3g} ms; the model must allow it"
        yield f"{on.fused_collectives:g} collectives as one", f"--fuse {on.fused_collectives:g}", plain, limit
    if on.overlap_share:
        limit = "this share of the collectives, and at most the reads and arithmetic there are to hide under"
        flag = f"--overlap {on.overlap_share:g}"
        yield "overlap with compute", flag, _without(scenario, replace(on, overlap_share=0.0)), limit
    if on.two_batches:
        limit = "the shorter of work and communication; weights are read twice; needs 2 sequences a rank"
        yield "two-batch overlap", "--two-batch-overlap", _without(scenario, replace(on, two_batches=False)), limit
    if on.message_factor != 1:
        limit = "half of the bytes of all-reduces: nothing of their fixed time"
        yield (
            "all-reduce in fp8",
            "--quantised-all-reduce fp8",
            _without(scenario, replace(on, message_factor=1.0)),
            limit,
        )
    if on.kernel_bypass:
        yield _bypass(scenario, on)
    workload = scenario.workload
    if np.any(np.greater(workload.tokens_per_step, 1)):
        plain = replace(scenario, workload=replace(workload, tokens_per_step=1.0, accepted_tokens=1.0))
        drafted = float(np.mean(workload.tokens_per_step)) - 1
        limit = f"{float(np.mean(workload.accepted_tokens)):.3g} tokens a step; the time to draft them is not counted"
        yield f"{drafted:g} drafted tokens", f"--draft-tokens {drafted:g}", plain, limit


def _without(scenario: Scenario, remedies: Remedies) -> Scenario:
    return replace(scenario, stack=replace(scenario.stack, remedies=remedies))


def _bypass(scenario: Scenario, on: Remedies) -> tuple[str, str, Scenario, str]:
    """Return kernel bypass against the kernel's network stack; switched off, what it costs to do without."""
    other = replace(on, kernel_bypass="off" if on.kernel_bypass == "on" else "on")
    through, past = float(np.mean(on.through_kernel_s)), float(np.mean(on.bypassed_s))
    apart = f"{1e6 * (through - past):.3g} us of the latency of each message between nodes"
    layout, fabric = scenario.layout, scenario.system.fabric
    inside = layout.nodes(fabric) == 1
    limit = "nothing crosses a node here" if inside else apart
    return f"kernel bypass {on.kernel_bypass}", f"--kernel-bypass {on.kernel_bypass}", _without(scenario, other), limit
