"""The decode step: the time of one step of a scenario, as one tree of terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.breakdown import Input, Quantity, Term, excess, leaf, product, some, total
from nhalf.collective import Mode
from nhalf.laws.overlap import alternating_share, exposed_share
from nhalf.predict import exchange, layer, overhead
from nhalf.predict.hand_over import hand_overs
from nhalf.predict.prompt import interference

if TYPE_CHECKING:
    from nhalf.predict.exchange import Exchange
    from nhalf.scenario import Scenario

COLUMNS = (
    "weights", "experts", "kv", "compute", "launch", "collective_fixed", "collective_transfer", "hand_over", "prefill",
)  # fmt: skip
"""The columns that add up to a step, in the order of the contract."""
BINDING = {
    "weights": "weights", "experts": "experts", "kv": "kv", "compute": "compute", "launch": "launch",
    "collective_fixed": "latency", "collective_transfer": "bandwidth", "hand_over": "hand-over", "prefill": "prefill",
}  # fmt: skip
"""The word for a step that is bound by a column."""
HOST = "host"
"""The name of the term that holds what an eager engine's host takes beyond its device."""


def decode(scenario: Scenario) -> Term:
    """Return the time [s] of one decode step of the scenario: what each sequence waits for its next token.

    Step time = max(device time, host time); what the host takes beyond the device is launch time of its own. Any
    numeric input of the scenario may be an array; the terms then are arrays of the common shape.

    References
    ----------
    The house's decode-step note; DESIGN 5 for pipelines: max(stages, micro-batches) passes and the hand-overs.
    """
    through = layer.tokens(scenario)
    parts = _passes(scenario, one_pass(scenario, through))
    parts += [step_time(scenario), sequence_time(scenario), *hand_overs(scenario, through)]
    logits = exchange.time(scenario, "logits", exchange.gathered_logits(scenario, through))
    if logits is not None:
        parts.append(logits)
    if some(scenario.workload.output_tokens > 0):
        parts.append(interference(scenario))
    return with_host(scenario, parts)


def with_host(scenario: Scenario, parts: list[Term], *, passes: Quantity = 1.0) -> Term:
    """Return the step that the device's parts make, with what an eager engine's host takes beyond them.

    `passes` is how often the host launches every layer.
    """
    if scenario.stack.mode != Mode.EAGER:
        return total("step", *parts)
    device = total("device", *parts)
    return total("step", device, excess(HOST, _host(scenario, passes), device, column="launch"))


def one_pass(scenario: Scenario, through: Term) -> list[Term]:
    """Return the terms of one pass of `through` tokens per attention rank through the layers of the fullest stage."""
    if scenario.stack.remedies.two_batches:
        return _in_halves(scenario)
    reads = _reads(scenario, through)
    work = [*reads.values(), layer.compute(scenario, through, reads)]
    parts = [*work, *overhead.unsharded(scenario, work), overhead.layer_time(scenario)]
    return parts + exposed(scenario, exchange.exchanges(scenario, through), total("busy", *parts[:-1]))


def _reads(scenario: Scenario, through: Term) -> dict[str, Term]:
    """Return the times [s] of what a pass reads, by column."""
    reads = {"weights": layer.weights(scenario), "kv": layer.key_values(scenario)}
    routed = layer.experts(scenario, through)
    if routed is not None:
        reads["experts"] = routed
    return reads


def exposed(scenario: Scenario, found: list[Exchange], busy: Term) -> list[Term]:
    """Return the time [s] of some exchanges less what runs under the device's reads and arithmetic, or nothing."""
    collectives = exchange.time(scenario, "collectives", found)
    if collectives is None:
        return []
    share = scenario.stack.remedies.overlap_share
    if not some(share > 0):
        return [collectives]
    return [product("exposed collectives", exposed_share(collectives, busy, share), collectives)]


def _in_halves(scenario: Scenario) -> list[Term]:
    """Return the terms of a pass in two halves of the batch; a batch of one sequence has none to halve."""
    inputs: dict[str, Input] = {"b": layer.running(scenario), "dp": float(scenario.layout.attention_dp)}
    halves = leaf("micro-batches", "minimum(2, maximum(b / dp, 1))", inputs, unit="1")
    size = leaf("sequences of one", "b / h", {"b": layer.running(scenario), "h": halves}, unit="1")
    half = scenario.having({"workload.batch": size.value})
    through = layer.tokens(half)
    reads = _reads(half, through)
    work = [*reads.values(), layer.compute(half, through, reads)]
    parts = [*work, *overhead.unsharded(half, work), overhead.layer_time(half)]
    return alternating(halves, parts, half, exchange.exchanges(half, through))


def alternating(halves: Term, parts: list[Term], half: Scenario, found: list[Exchange]) -> list[Term]:
    """Return the time [s] of parts of a batch of which one works while the other communicates."""
    work, collectives = total("one micro-batch", *parts), exchange.time(half, "collectives", found)
    passes = [product("micro-batches of work", halves, work)]
    if collectives is None:
        return passes
    turns = leaf("turns", " + ".join(f"n_{index}" for index in range(len(found))),
                 {f"n_{index}": each.count for index, each in enumerate(found)}, unit="1")  # fmt: skip
    share = alternating_share(collectives, work, turns, halves)
    return [*passes, product("exposed collectives", share, product("micro-batches", halves, collectives))]


def _passes(scenario: Scenario, parts: list[Term]) -> list[Term]:
    """Return the terms of all passes of a step: one, or one for each slot of the pipeline."""
    if scenario.layout.pipeline_parallel == 1:
        return parts
    inputs: dict[str, Input] = {
        "p": float(scenario.layout.pipeline_parallel),
        "m": layer.micro_batches(scenario),
    }
    slots = leaf("pipeline slots", "maximum(p, m)", inputs, unit="1")
    return [product("pipeline", slots, total("stage", *parts))]


def step_time(scenario: Scenario) -> Term:
    """Return the time [s] that each step pays once: scheduler, graph launch, sampling set-up."""
    return leaf("step", "ts", {"ts": scenario.stack.step_time_s}, column="launch")


def sequence_time(scenario: Scenario) -> Term:
    """Return the time [s] that each sequence of a rank adds to a step, on a scale of 60 layers."""
    inputs: dict[str, Input] = {
        "tq": scenario.stack.sequence_time_s,
        "b": layer.running(scenario),
        "dp": float(scenario.layout.attention_dp),
        "L": float(scenario.transformer.layer_count),
    }
    return leaf("sequences", "tq * b / dp * L / 60", inputs, column="launch")


def _host(scenario: Scenario, passes: Quantity) -> Term:
    """Return the time [s] in which the host launches an eager step's kernels one by one."""
    inputs: dict[str, Input] = {
        "L": float(scenario.transformer.layer_count),
        "kernels": scenario.stack.kernels_per_layer,
        "launch": scenario.stack.host_launch_s,
    }
    formula = "L * kernels * launch"
    if some(passes > 1):
        inputs["passes"] = passes
        formula += " * passes"
    if some(scenario.stack.remedies.fused_norms > 0):
        inputs |= overhead.fused_kernels(scenario)
        formula = formula.replace("L * kernels", "(L * kernels - f * N / fuse)")
    if some(scenario.stack.host_sharing > 0):
        inputs |= {"h": scenario.stack.host_sharing, "K": float(scenario.layout.tensor_parallel)}
        formula += " * (1 + h * (K - 1))"
    return leaf("host", formula, inputs)
