"""NCCL across the trays of one NVLink domain: its line goes on, whatever tray a rank sits in.

The tray decides which kernel of an engine may run, not how fast a wire is: what has no kernel that crosses trays falls
back to NCCL, whose ring takes as many more steps as there are more ranks.

References
----------
The house's note on collectives across nodes (research/across-nodes.md), an NVL72 rack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nhalf.breakdown import Input, Quantity, Term, leaf
from nhalf.collective import Mode, Op

if TYPE_CHECKING:
    from nhalf.curve import MeasuredCurve
    from nhalf.system import System

_DOUBLING: Final = "6e-7"
"""What a multicast kernel takes more on twice the ranks [s]: TensorRT-LLM 1.3.0rc20 on 8 and 16 ranks of a GB300."""
MEASURED: Final = "NCCL, measured"
"""The name of a time that was measured on as many ranks, rather than carried on from fewer."""
_TURNS: Final = {Op.ALL_REDUCE: 2.0, Op.ALL_GATHER: 1.0, Op.REDUCE_SCATTER: 1.0}
"""How often a ring passes every rank; sends to all at once pass none."""
_STEPS: Final = "turns * (k - known) * step"
_MORE: Final = "(curve(n) - floor) * ((k - 1) / k / ((known - 1) / known) - 1)"


def in_domain(op: Op, size_bytes: Quantity, ranks: int, system: System, stack: Kernels) -> tuple[Term, Quantity] | None:
    """Return what a library takes on ranks of several trays where it was not measured, and its floor, both in s.

    A kernel that leaves its tray goes on as multicast does, nearly flat; without one it is NCCL's line. None where
    the group is inside a tray, or neither was measured.
    """
    tray = system.fabric.devices_per_tray
    if tray is None or not tray < ranks <= system.fabric.devices_per_node:
        return None
    if op == Op.ALL_REDUCE and ranks <= stack.tray_ranks:
        own = [curve for curve in system.curves if (curve.key.library, curve.key.mode, curve.key.op) ==
               (stack.library, stack.mode, op) and tray < curve.ranks[-1] < ranks]  # fmt: skip
        if own:
            return _multicast(size_bytes, ranks, max(own, key=lambda curve: curve.ranks[-1]))
    return nccl_in_domain(op, size_bytes, ranks, system)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """Whose kernels run: a library in a mode, and on how many ranks at most they leave a tray."""

    library: str
    mode: Mode
    tray_ranks: int


def _multicast(size_bytes: Quantity, ranks: int, curve: MeasuredCurve) -> tuple[Term, Quantity]:
    """Return a multicast kernel on more ranks than it was measured on: every doubling adds the same."""
    known = curve.ranks[-1]
    at = curve.at(known)
    inputs: dict[str, Input] = {"curve": at, "n": size_bytes, "k": float(ranks), "known": float(known)}
    term = leaf("multicast, its line", f"curve(n) + {_DOUBLING} * log2_ceil(k / known)", inputs)
    return term, at.floor_s


def nccl_in_domain(op: Op, size_bytes: Quantity, ranks: int, system: System) -> tuple[Term, Quantity] | None:
    """Return NCCL's time [s] on ranks of several trays and its floor [s], or None where it is no such group.

    It is NCCL's curve on so many ranks where that was measured, else the one on the most ranks, with the steps and the
    bytes of more.
    """
    tray = system.fabric.devices_per_tray
    if tray is None or not tray < ranks <= system.fabric.devices_per_node:
        return None
    curves = [each for each in system.curves if _is_nccl(each, op)]
    for curve in curves:
        if curve.covers(ranks):
            at = curve.at(ranks)
            return leaf(MEASURED, "curve(n)", {"curve": at, "n": size_bytes}), at.floor_s
    below = [curve for curve in curves if curve.ranks[-1] < ranks]
    if not below:
        return None
    nearest = max(below, key=lambda curve: curve.ranks[-1])
    known = nearest.ranks[-1]
    at = nearest.at(known)
    turns = _TURNS.get(op, 0.0)
    inputs: dict[str, Input] = {
        "curve": at, "n": size_bytes, "floor": at.floor_s, "k": float(ranks), "known": float(known),
        "turns": turns, "step": system.fabric.intra_node.latency_s,
    }  # fmt: skip
    term = leaf("NCCL, its line", f"curve(n) + {_STEPS} + {_MORE}", inputs)
    return term, at.floor_s + turns * (ranks - known) * system.fabric.intra_node.latency_s


def _is_nccl(curve: MeasuredCurve, op: Op) -> bool:
    """Tell whether a curve is NCCL's, by a process a rank on the host: what it takes in a graph, too."""
    return (curve.key.library, curve.key.mode, curve.key.op) == ("nccl", Mode.HOST, op)
