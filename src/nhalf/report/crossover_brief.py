"""The first screen of `nhalf crossover`: the batch from which bytes outweigh latency, and the floor of a token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.report.crossover import leading
from nhalf.report.view import Bars, Brief, whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.crossovers import Turn

_WHERE: Final = {"intra_node": "inside the node", "inter_node": "across nodes", "inter_rack": "across racks"}
_MOST: Final = 8


def brief(turns: Sequence[Turn], model: str, *, calls: int, next_command: str) -> Brief:
    """Return the first screen; `calls` are the all-reduces of a token."""
    lead = leading(turns)
    found = lead.crossover
    same = [turn for turn in turns if turn.crossover.collective == found.collective and turn.system == lead.system]
    reached = sorted(turn.crossover.batch_at_double_floor for turn in same)
    spread = f" Across libraries: batch {reached[0]:.0f} to {reached[-1]:.0f}." if len(reached) > 1 else ""
    rows = [
        turn for turn in turns if turn.library == lead.library and turn.crossover.collective.startswith("all-reduce")
    ][:_MOST]
    size = _size(found.double_floor_size_bytes)
    batch = found.batch_at_double_floor
    from_batch = f"From batch {batch:.0f} on, bytes" if batch < float("inf") else "At no batch bytes"
    return Brief(
        verdict=[f"{from_batch} outweigh latency in the TP{found.ranks} all-reduce ({size})."],
        number=f"Below it a wider link saves almost nothing.{spread}",
        title=f"{model} on {lead.system}, {lead.library}; a message is batch x "
        f"{_size(found.message_bytes_per_sequence)}",
        bars=Bars(
            heads=["<group", "<where", "latency", "size", "batch"],
            rows=[_row(turn) for turn in rows],
            names=["crossover batch"],
            parts=[[min(turn.crossover.batch_at_double_floor, 1e6)] for turn in rows],
            remarks=["modelled" if turn.crossover.kind != "measured" else "" for turn in rows],
            tones=["good" if turn is lead else "plain" for turn in rows],
        ),
        closing=[*floor(found.ranks, calls, found.floor_s), _line(found.batch_at_half_size)],
        assumed="bf16 activations, CUDA graphs",
        next_command=next_command,
        next_why="what is the rest of a token?",
    )


def floor(ranks: int, calls: int, each_s: float) -> list[str]:
    """Return the floor of a token: what its all-reduces take whatever the links carry."""
    whole = calls * each_s
    if not whole:
        return []
    rate = whole_number(float(f"{1 / whole:.3g}"))
    each = units.format_time(each_s)
    return [
        f"Floor at TP{ranks}: {calls} all-reduces x {each} = {1e3 * whole:.2f} ms per token.",
        f"At most {rate} tokens/s per user, whatever the links carry.",
    ]


def _line(batch: float) -> str:
    """Return what the line through the whole curve would say."""
    return f"alpha x beta of one straight line says batch {batch:.0f}: libraries change algorithm with size."


def _row(turn: Turn) -> list[str]:
    """Return the cells of one group."""
    found = turn.crossover
    batch = found.batch_at_double_floor
    return [
        f"TP{found.ranks}", _WHERE[found.tier], units.format_time(found.floor_s), _size(found.double_floor_size_bytes),
        f"{batch:.0f}" if batch < float("inf") else "never",
    ]  # fmt: skip


def _size(size_bytes: float) -> str:
    return units.format_size(size_bytes, binary=True) if size_bytes < float("inf") else "never"
