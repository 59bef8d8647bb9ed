"""A loop on one rank: its part of a model's tokens, step by step, with the times at which each began and ended."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from nhalf.evidence.probe.messages import Visit

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.evidence.probe.backend import Action, Backend
    from nhalf.evidence.probe.cell import Cell, Program, Step
    from nhalf.evidence.probe.messages import Result

_now = time.perf_counter_ns
_FIRST: Final = 1  # token that counts, after one that does not
OVERLAP: Final = "overlap"
GRAPH: Final = "graph"


class LoopTask:
    """The program of a cell on this rank: made once, played many times."""

    def __init__(self, cell: Cell, program: Program, backend: Backend, rank: int) -> None:
        """Make the buffers of each kind of step that this rank takes part in."""
        self.cell = cell
        self._program, self._backend, self._rank = program, backend, rank
        made: dict[object, tuple[Callable[[], None], Action | None]] = {}
        self._calls: list[tuple[Callable[[], None], Action | None]] = []
        self._steps = [step for step in program.steps if rank in step.ranks]
        for step in self._steps:
            key = (step.op, step.size_bytes, step.ranks)
            if key not in made:
                made[key] = self._made(step)
            self._calls.append(made[key])
        self._work = backend.product(*program.work) if all(program.work) else None
        self._replay: Callable[[], None] | None = None

    def _made(self, step: Step) -> tuple[Callable[[], None], Action | None]:
        like = replace(self.cell, op=step.op, size_bytes=step.size_bytes, ranks=step.ranks, program=None)
        if not like.is_pair:
            action = self._backend.action(like)
            return action.run, action
        peer = next(each for each in step.ranks if each != self._rank)
        messenger = self._backend.messenger(self.cell.channel, peer, step.size_bytes)
        return messenger.send if step.ranks[0] == self._rank else messenger.receive, None

    def prepare(self) -> Result:
        """Check the result of each kind of step, play a few tokens, and return about how long one takes [ns]."""
        right = True
        for call, action in dict.fromkeys(self._calls):  # ranks come to each kind of step in the same order
            if action is None:
                call()
            else:
                right &= action.check()
        if self._program.variant == GRAPH:
            self._replay = self._backend.graphed(lambda: self._token([]), 1)
        tokens = sorted(self.visit(Visit(id=0, repetitions=_FIRST))["tokens"])  # type: ignore[arg-type]
        return {"right": right, "about_ns": float(tokens[len(tokens) // 2])}

    def visit(self, order: Visit) -> Result:
        """Play tokens: one to warm up, then as many as an order says; marks are in turn of a start and an end."""
        tokens: list[int] = []
        marks: list[Any] = []
        self._backend.barrier(self.cell.ranks)
        for _ in range(order.repetitions + 1):
            begun = _now()
            if self._replay is not None:
                self._replay()
            else:
                self._token(marks)
                self._backend.settle()
            tokens.append(_now() - begun)
        each = len(marks) // (order.repetitions + 1)
        return {
            "tokens": tokens[1:],
            "marks": list(self._backend.read(marks[each:])),
            "own": self._backend.device_clock,
        }

    def _token(self, marks: list[Any]) -> None:
        stamp, work = self._backend.stamp, self._work
        if self._program.variant == OVERLAP:
            self._beside(work)
            return
        for call, _ in self._calls:
            if work is not None:
                work()
            marks.append(stamp())
            call()
            marks.append(stamp())

    def _beside(self, work: Callable[[], None] | None) -> None:
        """Let each collective go on while the work that follows it is done, as if that did not need its result."""
        for call, action in self._calls:
            if action is None:
                call()
                continue
            action.post()
            if work is not None:
                work()
            action.finish()
