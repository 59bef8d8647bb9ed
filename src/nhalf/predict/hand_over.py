"""Hand-overs: what a pipeline stage sends to the next one, and what a step gathers at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.breakdown import Input, Term, leaf, product, total
from nhalf.laws.selection import kernel_base
from nhalf.predict import layer

if TYPE_CHECKING:
    from nhalf.link import Link
    from nhalf.scenario import Scenario


def hand_overs(scenario: Scenario) -> list[Term]:
    """Return the time [s] of the stage boundaries that a token crosses: those inside a node, and those between nodes.

    Each hands over the activation of one micro-batch, and pays the fixed time of a send inside a model.
    """
    layout, fabric = scenario.layout, scenario.system.fabric
    if layout.pipeline_parallel == 1:
        return []
    across = layout.crossing_boundaries(fabric)
    inside = layout.pipeline_parallel - 1 - across
    kinds = (("inside a node", inside, fabric.intra_node), ("between nodes", across, fabric.inter_node))
    return [_boundary(scenario, name, count, link) for name, count, link in kinds if count]


def _boundary(scenario: Scenario, name: str, count: int, link: Link) -> Term:
    """Return the time [s] of `count` boundaries over a link."""
    stack = scenario.stack
    inputs: dict[str, Input] = {
        "t": layer.tokens(scenario),
        "d": float(scenario.transformer.hidden_size),
        "a": scenario.workload.activation_bytes,
        "alpha": link.latency_s,
        "beta": link.bandwidth_bytes_per_s,
        "base": kernel_base(stack.library),
        "software": stack.software_factor,
        "dl": stack.collective_excess_s,
    }
    one = total(
        f"hand-over {name}",
        leaf("fixed", "alpha + base * software + dl", inputs, column="hand_over"),
        leaf("transfer", "t * d * a / beta", inputs, column="hand_over"),
    )
    return product(f"boundaries {name}", leaf("boundaries", "count", {"count": float(count)}, unit="1"), one)
