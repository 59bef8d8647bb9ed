"""The engine: runs a program on a network, by arrays where no messages meet and event by event where they may."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nhalf.errors import InputError
from nhalf.simulate.compiled import WORTH_COMPILING, is_installed
from nhalf.simulate.network import must_hold
from nhalf.simulate.program import check_messages
from nhalf.simulate.rounds import Player, can_play
from nhalf.simulate.routes import paths_of
from nhalf.simulate.tables import Conditions, Record, Tables, adding

__all__ = ["Conditions", "Record", "Run", "run"]

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nhalf.breakdown import Array
    from nhalf.simulate.graph import Graph
    from nhalf.simulate.network import Network
    from nhalf.simulate.program import Program

WORTH_ARRAYS = 50_000
"""Messages from which a program whose ranks send to many runs as arrays, without a record."""
LONGEST_RECORD = 1_000_000
"""Messages up to which a run keeps when each one was posted and ended."""
_MOST_STEPS = 10 * LONGEST_RECORD


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """What a run gave: when each rank was finished [s], shape (ranks,) or (ranks, draws), and its record if kept.

    `engine` is `arrays`, `events` or `compiled events`.
    """

    program: Program
    network: Network
    conditions: Conditions
    finished_s: Array
    engine: str
    messages: int
    record: Record | None = None

    @property
    def time_s(self) -> float | Array:
        """Return when the last rank was finished [s], counted from time 0; one per draw where there are draws."""
        last = self.finished_s.max(axis=0)
        return last if isinstance(last, np.ndarray) and last.ndim else float(last)


def run(
    program: Program,
    network: Network,
    conditions: Conditions | None = None,
    *,
    progress: Callable[[int], None] | None = None,
    engine: str = "",
    record: bool = True,
) -> Run:
    """Return how a program runs on a network.

    `engine` forces `arrays`, `events` or `compiled events`; the fastest that fits is chosen otherwise. A `record` is
    kept of up to 10^6 messages of one draw, unless it is not wanted.

    Raises
    ------
    InputError
        More ranks than the network has, a malformed schedule.
    NoAnswerError
        A schedule that deadlocks; the rank and the message that wait are named.
    """
    conditions = conditions or Conditions()
    if program.ranks > network.ranks:
        raise InputError(
            f"{program.ranks} ranks do not fit a network of {network.ranks}",
            where="--ranks",
            allowed=f"2 to {network.ranks}",
        )
    if conditions.port_slowness is not None:
        network = network.slowed(conditions.port_slowness)
    fits = engine in ("", "arrays") and can_play(program, network, conditions.ports, conditions.protocol)
    if engine == "arrays" and not fits:
        raise InputError("messages may meet in this program, so arrays cannot hold it", where="engine")
    if fits and engine == "" and not program.is_paired():
        # Arrays keep no record of rounds in which a rank sends to many; a small run is worth its critical path.
        draws = 1 if conditions.starts_s is None else int(np.asarray(conditions.starts_s).size / program.ranks)
        fits = program.messages * draws > WORTH_ARRAYS or draws > 1
    if fits:
        return _by_arrays(program, network, conditions, progress, record=record)
    return _by_events(program, network, conditions, engine, progress=progress, record=record)


def _starts(program: Program, conditions: Conditions) -> Array:
    """Return when each rank begins [s]."""
    if conditions.starts_s is None:
        return np.zeros(program.ranks)
    starts = np.asarray(conditions.starts_s, dtype=np.float64)
    if len(starts) != program.ranks:
        raise InputError(
            f"{len(starts)} start times for {program.ranks} ranks", where="start times", allowed="one per rank"
        )
    return starts


def _by_arrays(
    program: Program, network: Network, conditions: Conditions, progress: Callable[[int], None] | None, *, record: bool
) -> Run:
    """Return a run by max-plus arrays."""
    starts = _starts(program, conditions)
    messages = program.messages
    kept = record and starts.ndim == 1 and messages <= LONGEST_RECORD and program.is_paired()
    # A round in which few ranks take part is a step of all of them in a record.
    kept = kept and program.step_count <= _MOST_STEPS
    player = Player(
        network=network,
        ready=starts.copy(),
        adding_s_per_byte=adding(program, conditions),
        rows=[] if kept else None,
        progress=progress,
    )
    player.play(program)
    found = None
    if player.rows is not None:
        graph = program.graph()
        ways = paths_of(network, graph)
        opened, closed = np.concatenate(player.rows[:-1]), np.concatenate(player.rows[1:])
        posted = np.maximum(opened[graph.source_step], opened[graph.target_step])
        ended = posted + (ways.latency_s[ways.of] + graph.size_bytes / ways.rate_bytes_per_s[ways.of])
        found = Record(graph=graph, paths=ways, opened_s=opened, closed_s=closed, posted_s=posted, ended_s=ended)
    return Run(
        program=program,
        network=network,
        conditions=conditions,
        finished_s=player.ready,
        engine="arrays",
        messages=messages,
        record=found,
    )


def _by_events(
    program: Program,
    network: Network,
    conditions: Conditions,
    engine: str,
    *,
    progress: Callable[[int], None] | None,
    record: bool,
) -> Run:
    """Return a run by the event engine; draws are run one after the other."""
    check_messages(program.algorithm, program.ranks, max(program.messages, program.step_count))
    must_hold(f"a {network.kind}", network.ranks, len(network.capacity_bytes_per_s))
    graph = program.graph()
    ways = paths_of(network, graph)
    starts = _starts(program, conditions)
    draws = starts[:, None] if starts.ndim == 1 else starts
    draws = np.pad(
        draws, ((0, graph.ranks - program.ranks), (0, 0))
    )  # a switch that takes part is there from the start
    worth = graph.messages * draws.shape[1] >= WORTH_COMPILING and is_installed()
    compiled = engine == "compiled events" or (engine == "" and worth and not os.environ.get("NUMBA_DISABLE_JIT"))
    tables = Tables(program=program, graph=graph, paths=ways, network=network, conditions=conditions)
    finished = np.empty_like(draws)
    last = None
    for draw in range(draws.shape[1]):
        last = tables.play(draws[:, draw], compiled=compiled)
        finished[:, draw] = draws[:, draw]
        _settle(finished[:, draw], graph, last.closed)
        if progress is not None:
            progress(graph.messages)
    return Run(
        program=program,
        network=network,
        conditions=conditions,
        finished_s=finished[: program.ranks].reshape(starts.shape),
        engine="compiled events" if compiled else "events",
        messages=graph.messages,
        record=tables.record(last)
        if record and last is not None and starts.ndim == 1 and graph.messages <= LONGEST_RECORD
        else None,
    )


def _settle(finished: Array, graph: Graph, closed: Sequence[float]) -> None:
    """Raise each rank's end [s], in place, to the end of its last step."""
    ends = np.asarray(closed)
    if graph.stride == graph.ranks:
        # The steps of a rank follow each other, so its last one closes last.
        np.maximum(finished, ends[-graph.ranks :], out=finished)
        return
    np.maximum.at(finished, graph.step_ranks(), ends)
