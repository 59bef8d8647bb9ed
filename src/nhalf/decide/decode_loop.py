"""The decode loop of a model as a program for ranks: its real collectives and hand-overs, in order, with real sizes.

Counts and sizes are those of the prediction, so that what is measured and what is predicted are of one step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nhalf.collective import Op
from nhalf.evidence.probe.cell import Program, Step
from nhalf.evidence.probe.plan import whole
from nhalf.predict import exchange, layer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nhalf.predict.exchange import Exchange
    from nhalf.scenario import Scenario

HAND_OVER, RETURN = "hand-over", "token back"
_TOKEN_BYTES = 8
"""The number of a token that the last stage gives back to the first, as an int64 of torch."""


class _Cut(NamedTuple):
    """A scenario whose batch is cut into passes; with `floor` every message is as small as it can be."""

    scenario: Scenario
    passes: int
    floor: bool


def program(scenario: Scenario, *, variant: str = "", head: bool = True, floor: bool = False) -> Program:
    """Return the communication of one token of a scenario; with `floor` every message is as small as it can be.

    `head` says whether the logits are gathered at the end.
    """
    layout, through = scenario.layout, layer.tokens(scenario)
    cut = _Cut(scenario, round(float(np.mean(layer.micro_batches(scenario)))), floor)
    layers = _interleaved(exchange.exchanges(scenario, through))
    logits = exchange.gathered_logits(scenario, through) if head else []
    width = scenario.transformer.hidden_size * scenario.workload.activation_bytes
    message = float(np.mean(through.value * width))
    last = layout.pipeline_parallel - 1
    steps: list[Step] = []
    for _ in range(cut.passes):
        for stage in range(layout.pipeline_parallel):
            if stage:
                steps += _hand_over(cut, (stage - 1, stage), HAND_OVER, message)
            for each in layers:
                steps += _step(cut, stage, each)
    for _ in range(cut.passes):
        for each in logits:
            steps += _step(cut, last, each)
        if last:
            steps += _hand_over(cut, (last, 0), RETURN, _TOKEN_BYTES)
    return Program(
        tp=layout.tensor_parallel,
        pp=layout.pipeline_parallel,
        ep=layout.expert_parallel,
        batch=0 if floor else round(float(np.mean(scenario.workload.batch))),
        steps=tuple(steps),
        passes=cut.passes,
        variant=variant,
    )


def work(scenario: Scenario) -> tuple[int, int, int]:
    """Return a rank's share of a block as a product of matrices: the tokens, the hidden size, and as many columns.

    The columns hold the parameters that a token multiplies with, of a block of the mean size.
    """
    transformer, layout = scenario.transformer, scenario.layout
    blocks = transformer.active_parameters - transformer.head_parameters - transformer.norm_parameters
    each = blocks / transformer.block_count / layout.tensor_parallel / transformer.hidden_size
    return round(float(np.mean(layer.tokens(scenario).value))), transformer.hidden_size, max(round(each), 1)


def _interleaved(found: list[Exchange]) -> list[Exchange]:
    """Return each exchange as often as it runs in a stage, evenly among the others."""
    places = [
        ((place + 0.5) / count, kind)
        for kind, each in enumerate(found)
        for count in [round(float(np.mean(each.count.value)))]
        for place in range(count)
    ]
    return [found[kind] for _, kind in sorted(places)]


def _step(cut: _Cut, stage: int, each: Exchange) -> Iterator[Step]:
    """Yield an exchange for every group of a stage."""
    width, group = cut.scenario.layout.stage_devices, each.group
    size = whole(each.op, 1 if cut.floor else round(float(np.mean(each.size.value))), group.ranks)
    share = 1 / cut.passes / max(width // group.ranks, 1)
    for start in range(0, width, group.ranks * group.stride):
        for lane in range(group.stride):
            first = stage * width + start + lane
            ranks = tuple(first + index * group.stride for index in range(group.ranks))
            yield Step(name=each.name, op=each.op, size_bytes=size, ranks=ranks, share=share)


def _hand_over(cut: _Cut, stages: tuple[int, int], name: str, size: float) -> Iterator[Step]:
    """Yield a message of every rank of a stage to its like in another."""
    width = cut.scenario.layout.stage_devices
    for rank in range(width):
        pair = (stages[0] * width + rank, stages[1] * width + rank)
        yield Step(name=name, op=Op.SEND_RECV, size_bytes=1 if cut.floor else round(size), ranks=pair,
                   share=1 / cut.passes / width)  # fmt: skip
