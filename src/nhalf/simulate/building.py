"""Building: graphs of steps and messages, put together one by one or from other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nhalf.simulate.graph import Graph
from nhalf.simulate.program import Program

if TYPE_CHECKING:
    from collections.abc import Sequence


class Builder:
    """Collects the steps and messages of a graph one by one, as the pipelined programs and schedules make them."""

    def __init__(self, ranks: int) -> None:
        """Start with no step."""
        self.ranks = ranks
        self._rank: list[int] = []
        self._earliest: list[float] = []
        self._before: list[tuple[int, int]] = []
        self._messages: list[tuple[int, int, float, bool, int]] = []

    def step(self, rank: int, after: Sequence[int] = (), *, earliest_s: float = 0.0) -> int:
        """Add a step of a rank that opens after others have closed, and return its number."""
        number = len(self._rank)
        self._rank.append(rank)
        self._earliest.append(earliest_s)
        self._before.extend((earlier, number) for earlier in after)
        return number

    def wait(self, later: int, earlier: int) -> None:
        """Make one step wait for another."""
        self._before.append((earlier, later))

    def message(self, source: int, target: int, size_bytes: float, *, block: int = 0, reduces: bool = False) -> None:
        """Add a message between two steps that carries one block."""
        self._messages.append((source, target, size_bytes, reduces, block))

    def graph(self) -> Graph:
        """Return the graph."""
        source, target, size, reduces, block = (
            np.array(column) for column in (zip(*self._messages, strict=True) if self._messages else ([],) * 5)
        )
        order = np.argsort(source, kind="stable")
        return Graph(
            ranks=self.ranks,
            rank=np.array(self._rank, dtype=np.int32),
            edges=np.array(self._before, dtype=np.int32).reshape(-1, 2),
            source_step=source[order].astype(np.int32),
            target_step=target[order].astype(np.int32),
            size_bytes=size[order].astype(np.float64),
            reduces=reduces[order].astype(np.bool_),
            blocks=block[order].astype(np.int64)[:, None],
            earliest_s=np.array(self._earliest) if any(self._earliest) else None,
        )


def together(programs: Sequence[Program], places: Sequence[Sequence[int]], ranks: int) -> Program:
    """Return programs that run side by side: rank i of the p-th is rank `places[p][i]` of `ranks` in all.

    Their data are not checked: each is another group's.
    """
    graphs = [program.graph() for program in programs]
    shifts = np.cumsum([0, *(graph.steps for graph in graphs)]).astype(np.int32)
    mapped = [
        np.asarray(place, dtype=np.int32)[graph.step_ranks()] for graph, place in zip(graphs, places, strict=True)
    ]
    pairs = list(zip(graphs, shifts[:-1], strict=True))
    joined = Graph(
        ranks=ranks,
        rank=np.concatenate(mapped),
        edges=np.concatenate([graph.before + shift for graph, shift in pairs]),
        source_step=np.concatenate([graph.source_step + shift for graph, shift in pairs]),
        target_step=np.concatenate([graph.target_step + shift for graph, shift in pairs]),
        size_bytes=np.concatenate([graph.size_bytes for graph in graphs]),
        reduces=np.concatenate([graph.reduces for graph in graphs]),
    )
    return Program(
        op="together",
        algorithm=" and ".join(program.algorithm for program in programs),
        ranks=ranks,
        size_bytes=float(sum(program.size_bytes for program in programs)),
        steps=joined,
    )
