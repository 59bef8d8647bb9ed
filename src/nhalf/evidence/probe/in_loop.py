"""Loops in the document of a run: what was played, what each visit read, and each collective as a curve of its own."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from nhalf.collective import Op
from nhalf.evidence.probe.cell import LADDER
from nhalf.evidence.probe.statistics import median

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nhalf.evidence.probe.cell import Cell

    Played: TypeAlias = tuple[Cell, bool, Sequence[dict[str, Any]]]
    """A loop, whether its results were right, and what each visit to it read."""

IN_A_LOOP: Final = "in a loop"
"""The label of curves whose points are the collectives of a model's tokens, not isolated ones."""


def described(cell: Cell, loops: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a loop, and what each visit to it read, as the document holds it."""
    program = cell.program
    if program is None:
        return {}
    counts: Counter[tuple[str, str, int, int]] = Counter()
    for step in program.steps:
        counts[step.name, str(step.op), step.size_bytes, len(step.ranks)] += 1
    share = {step.name: step.share for step in program.steps}
    return {
        **{name: getattr(program, name) for name in ("tp", "pp", "ep", "batch", "variant")},
        "ranks": len(cell.ranks),
        "computes": all(program.work),
        "number": cell.number,
        "messages": [
            {"name": name, "op": op, "size_bytes": size, "ranks": ranks, "count_per_token": round(share[name] * count)}
            for (name, op, size, ranks), count in counts.items()
        ],
        "rounds": [{**each, "late": {str(rank): ns for rank, ns in each["late"].items()}} for each in loops],
    }


def curves(played: Iterable[Played], nodes: Mapping[int, int]) -> list[dict[str, Any]]:
    """Return the collectives of the loops as curves: one after another, as a model has them."""
    found: dict[tuple[Op, tuple[int, ...], str], dict[int, dict[str, Any]]] = {}
    for cell, right, loops in played:
        program = cell.program
        if program is None or program.variant not in ("", LADDER) or not program.batch:
            continue
        for step in {step.name: step for step in program.steps}.values():
            times = [[each["calls"][step.name]] for each in loops if step.name in each["calls"]]
            if step.op is not Op.SEND_RECV and times:
                points = found.setdefault((step.op, step.ranks, str(cell.mode or "")), {})
                point = points.setdefault(step.size_bytes, {"size_bytes": step.size_bytes, "right": right})
                point["rounds_ns"] = [*point.get("rounds_ns", []), *times]
                point["median_s"] = median([time for (time,) in point["rounds_ns"]]) * 1e-9
    return [
        {
            "op": str(op), "test": "", "channel": "", "label": IN_A_LOOP, "ranks": len(ranks), "of_ranks": None,
            "nodes": len({nodes.get(rank, 0) for rank in ranks}), "mode": mode or None, "quantity": "back_to_back",
            "count": 1, "size_is": "total", "streamed": False, "sync": IN_A_LOOP,
            "points": [points[size] for size in sorted(points)],
        }
        for (op, ranks, mode), points in found.items()
    ]  # fmt: skip
