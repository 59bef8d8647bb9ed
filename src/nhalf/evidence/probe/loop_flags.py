"""The flags of `nhalf measure` beside --model: what a loop leaves no room for, and what only some backends can try."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nhalf.errors import InputError
from nhalf.evidence.probe.looping import GRAPH
from nhalf.evidence.probe.plan import SOCKETS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.evidence.probe.cell import Program


def ranks(loops: Sequence[Program]) -> int:
    """Return how many ranks loops need, 0 without any."""
    return 1 + max((rank for each in loops for step in each.steps for rank in step.ranks), default=-1)


def patience(loops: Sequence[Program]) -> float:
    """Return how many times longer than for messages a rank is waited for: a processor computes a block in seconds."""
    return 10.0 if any(all(each.work) for each in loops) else 1.0


def check(given: Mapping[str, object], loops: Sequence[Program], backend: str) -> None:
    """Refuse flags that contradict a model's own messages. Raises InputError."""
    for flag in ("--ops", "--sizes", "--pairs", "--timing"):
        if given[flag]:
            raise InputError("the model says what is sent, and how much", where=flag,
                             do=f"leave {flag} out, or leave --model out")  # fmt: skip
    if given["--launches"] != "1":
        raise InputError("a loop is measured among ranks of one start", where="--launches", allowed="1")
    if not given["--overlap"]:
        return
    if backend == SOCKETS:
        raise InputError("sockets send while their process does nothing else", where="--overlap",
                         allowed="mpi, gloo, nccl", do="add --backend mpi")  # fmt: skip
    if not any(all(each.work) for each in loops):
        raise InputError("there is nothing to hide a collective under", where="--overlap", do="add --compute")


def programs(loops: tuple[Program, ...], backend: str) -> tuple[Program, ...]:
    """Return the loops to play; on GPUs each plain one too as a CUDA graph."""
    if backend != "nccl":
        return loops
    return *loops, *(replace(each, variant=GRAPH) for each in loops if not each.variant)
