"""The first screen of `nhalf crossover`: from which batch on bytes outweigh latency, and the floor below any link."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf import units
from nhalf.decide.levers import link_changes
from nhalf.decide.regime import TIE
from nhalf.points import points
from nhalf.report.crossover import batch_of, leading, size_of
from nhalf.report.view import Bars, Brief, whole_number
from nhalf.report.words import brought, link_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.regime import Crossover, Turn
    from nhalf.loading import Default
    from nhalf.scenario import Scenario

_BATCHES: Final = np.array(sorted({*np.geomspace(1, 4096, 200).round()}))
"""Batches at which it is looked whether a wider link saves what the model can tell."""

_MOST_ROWS = 10
_WHERE = {"intra_node": "inside node", "inter_node": "across nodes", "inter_rack": "across racks"}


def brief(
    turns: Sequence[Turn], scenarios: Sequence[Scenario], told: Sequence[Default] = (), *, next_command: str
) -> Brief:
    """Return the first screen; `scenarios` are those whose crossovers are told, `told` what cluster files brought."""
    lead = leading(turns)
    found = lead.crossover
    own = next(each for each in scenarios if _is_of(each, lead))
    link = link_name(own.system, found.tier)
    rows = [turn for turn in turns if _told_with(turn, lead)][:_MOST_ROWS]
    apart = f"alpha x beta gives batch {batch_of(found.batch_at_half_size)}: libraries change their algorithm before."
    return Brief(
        verdict=[_verdict(found)],
        number=f"Below it a wider {link} saves almost nothing. {_span(turns, lead)}",
        title=f"{own.transformer.name}, {lead.library}; a message is batch x {_message(found)}",
        bars=_bars(rows, several=len({turn.system for turn in rows}) > 1),
        closing=[
            floor_line(own.transformer.block_count, found.floor_s),
            *([apart] if found.half_size_bytes > 2 * found.double_floor_size_bytes else []),
            f"Of the whole token, {pays_text(own)}.",
        ],
        assumed="; ".join([f"{own.workload.weight_dtype} weights, 16-bit activations, {own.stack.mode} mode",
                           *brought(told)]),
        next_command=next_command,
        next_why="the curve itself",
    )  # fmt: skip


def of_link(found: Crossover, model: str, blocks: int, *, next_command: str) -> Brief:
    """Return the first screen for a bare link: nothing but latency and bandwidth."""
    latency, bandwidth = units.format_time(found.latency_s), units.format_bandwidth(found.bandwidth_bytes_per_s)
    return Brief(
        verdict=[_verdict(found)],
        number="Below it a wider link saves almost nothing.",
        title=f"{model} over a link of {latency} and {bandwidth}; a message is batch x {_message(found)}",
        closing=[floor_line(blocks, found.floor_s), "A real all-reduce takes more than one message: add --on SYSTEM."],
        assumed="each all-reduce costs one latency, 16-bit activations",
        next_command=next_command,
        next_why="a real system",
    )


def _verdict(found: Crossover) -> str:
    """Return the batch from which on bytes outweigh latency."""
    if found.batch_at_double_floor == float("inf"):
        return f"At every batch latency outweighs bytes in the {found.collective}."
    size = size_of(found.double_floor_size_bytes)
    return (
        f"From batch {batch_of(found.batch_at_double_floor)} on, bytes outweigh latency ({found.collective}: {size})."
    )


def _message(found: Crossover) -> str:
    return units.format_size(found.message_bytes_per_sequence, binary=True)


def _is_of(scenario: Scenario, turn: Turn) -> bool:
    """Tell whether a crossover is that of a scenario."""
    mine = (scenario.system.name, scenario.stack.library.name, scenario.stack.mode, scenario.layout.tensor_parallel)
    return mine == (turn.system, turn.library, turn.mode, turn.crossover.ranks)


def _told_with(turn: Turn, lead: Turn) -> bool:
    """Tell whether a crossover is of the all-reduce of the leading library, on any system."""
    same = (turn.library, turn.mode) == (lead.library, lead.mode)
    return same and turn.crossover.collective.startswith("all-reduce")


def _span(turns: Sequence[Turn], lead: Turn) -> str:
    """Return between which batches the libraries of engines turn."""
    batches = [
        turn.crossover.batch_at_double_floor
        for turn in turns
        if (turn.system, turn.mode, turn.crossover.collective) == (lead.system, lead.mode, lead.crossover.collective)
    ]
    least, most = batch_of(min(batches)), batch_of(max(batches))
    if least != most:
        return f"Across libraries: batch {least} to {most}."
    modelled = not any(turn.crossover.kind == "measured" for turn in turns)
    return "No library is measured there: one model stands for all." if len(batches) > 1 and modelled else ""


def _bars(rows: Sequence[Turn], *, several: bool) -> Bars:
    """Return the batches of the groups."""
    found = [turn.crossover for turn in rows]
    return Bars(
        heads=[*(["<system"] if several else []), "<group", "<where", "latency", "size", "batch"],
        rows=[
            [
                *([turn.system] if several else []),
                f"TP{turn.crossover.ranks}",
                _WHERE[turn.crossover.tier],
                units.format_time(turn.crossover.floor_s),
                size_of(turn.crossover.double_floor_size_bytes),
                batch_of(turn.crossover.batch_at_double_floor),
            ]
            for turn in rows
        ],
        names=[],
        parts=[[each.batch_at_double_floor if each.batch_at_double_floor < float("inf") else 0.0] for each in found],
        remarks=["" if each.kind == "measured" else each.kind for each in found],
    )


def floor_line(count: int, each_s: float, kept: float = 1.0) -> str:
    """Return how long `count` all-reduces of a token take whatever the links carry, of which a step keeps `kept`."""
    rate = whole_number(float(f"{kept / (count * each_s):.3g}"))
    text = f"Floor: {count} all-reduces x {units.format_time(each_s)} = {1e3 * count * each_s:.2g} ms"
    return f"{text}: under {rate} tokens/s on any link."


def pays_text(scenario: Scenario) -> str:
    """Return the batch from which on twice the bandwidth of the layout's link saves what the model can tell."""
    span = scenario.system.fabric.span(scenario.layout.stage_devices)
    batch = pays_from(scenario)
    where = link_name(scenario.system, span.tier)
    if batch is None:
        return f"2x {where} never saves {100 * TIE:.0f} %"
    return f"2x {where} saves {100 * TIE:.0f} % from batch {batch:.0f}"


def pays_from(scenario: Scenario) -> float | None:
    """Return the batch from which on twice the bandwidth of the layout's link saves what the model can tell."""
    (_, path, factor), _ = link_changes(scenario.system.fabric.span(scenario.layout.stage_devices).tier)
    value = float(np.mean(scenario.value(path)))
    bandwidths = np.repeat([value, value * factor], len(_BATCHES))
    both = points(scenario, {"workload.batch": np.tile(_BATCHES, 2), path: bandwidths})
    before, after = both.tpot_s.reshape(2, -1)
    saves = np.flatnonzero(1 - after / before >= TIE)
    return float(_BATCHES[saves[0]]) if len(saves) else None
