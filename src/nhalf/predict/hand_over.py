"""Hand-overs: what a pipeline stage sends to the next one, and what a step gathers at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf.breakdown import Input, Term, leaf, product, total
from nhalf.laws.selection import kernel_base
from nhalf.predict.communication import links

if TYPE_CHECKING:
    from nhalf.link import Link
    from nhalf.scenario import Scenario


BETWEEN_NODES: Final = "between nodes"


def hand_overs(scenario: Scenario, through: Term) -> list[Term]:
    """Return the time [s] of the stage boundaries that a token crosses: those inside a node, and those between nodes.

    A message between nodes of a known fabric takes one of its hops. Each hands over the activation of the
    `through` tokens of one micro-batch, and pays the fixed time of a send inside
    a model.
    """
    layout, fabric = scenario.layout, links(scenario)
    if layout.pipeline_parallel == 1:
        return []
    across = layout.crossing_boundaries(fabric)
    inside = layout.pipeline_parallel - 1 - across
    kinds = (("inside a node", inside, fabric.intra_node), (BETWEEN_NODES, across, fabric.inter_node))
    return [product(f"boundaries {name}", _count(count), _boundary(scenario, name, through, link))
            for name, count, link in kinds if count]  # fmt: skip


def _count(boundaries: int) -> Term:
    """Return a number of boundaries."""
    return leaf("boundaries", "count", {"count": float(boundaries)}, unit="1")


def _boundary(scenario: Scenario, name: str, through: Term, link: Link) -> Term:
    """Return the time [s] of one boundary over a link."""
    stack = scenario.stack
    inputs: dict[str, Input] = {
        "t": through,
        "d": float(scenario.transformer.hidden_size),
        "a": scenario.workload.activation_bytes,
        "alpha": link.latency_s,
        "beta": link.bandwidth_bytes_per_s,
        "base": kernel_base(stack.library),
        "software": stack.software_factor,
        "dl": stack.collective_excess_s,
    }
    transport, known = scenario.system.transport, scenario.system.measured_fabric.inter_node.latency_s
    if transport is not None and name == BETWEEN_NODES:
        inputs["alpha"] = leaf("message", "maximum(hop + alpha - known, 0)", {
            "hop": transport.hop_s, "alpha": link.latency_s, "known": known,
        })  # fmt: skip
    return total(
        f"hand-over {name}",
        leaf("fixed", "alpha + base * software + dl", inputs, column="hand_over"),
        leaf("transfer", "t * d * a / beta", inputs, column="hand_over"),
    )
