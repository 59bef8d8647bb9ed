"""What kernels run on: the agenda in arrays, room that grows, rounds as a graph, and a cache that is not stale."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nhalf.link import Link
from nhalf.simulate import binary_heap, compiled, event_queue, flows, kernels, network, sharing, tables
from nhalf.simulate.engine import Conditions, run
from nhalf.simulate.program import unrolled
from nhalf.simulate.programs import build
from nhalf.simulate.programs.shape import Shape
from nhalf.simulate.round import Round

LINK = Link(5e-6, 50e9)


@given(moves=st.lists(st.one_of(st.none(), st.tuples(st.integers(0, 5), st.integers(0, 40))), max_size=60))
def test_both_agendas_give_events_in_one_order(moves: list[tuple[int, int] | None]) -> None:
    plain, arrays = event_queue.empty(64), binary_heap.empty(64)
    for move in moves:
        if move is not None:
            event_queue.put(plain, *move)
            binary_heap.put(arrays, *move)
        due = event_queue.next_time(plain)
        assert binary_heap.next_time(arrays) == due
        if move is None and due < event_queue.NEVER:
            assert binary_heap.take(arrays) == event_queue.take(plain)


def test_an_agenda_in_arrays_says_when_it_is_full() -> None:
    full = binary_heap.empty(4)
    for time in (9.0, 8.0, 7.0, 6.0, 5.0):  # the first one waits in the line, the others in the heap
        binary_heap.put(full, time, 0)
    with pytest.raises(OverflowError):
        binary_heap.put(full, 4.0, 0)


@pytest.mark.parametrize("engine", ["events", "compiled events"])
@pytest.mark.parametrize("ports", ["fifo", "fair", "blocking"])
def test_a_run_starts_anew_where_there_was_too_little_room(
    ports: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine == "compiled events":
        pytest.importorskip("numba")
    program, net = build("all-reduce", "two-shot", Shape(ranks=8, size_bytes=1e6)), network.switch(8, LINK)
    conditions = Conditions(ports=ports, starts_s=np.random.default_rng(3).exponential(3e-6, 8))
    whole = run(program, net, conditions, engine=engine).finished_s
    monkeypatch.setattr(tables, "room_at_first", lambda _: 2)
    assert run(program, net, conditions, engine=engine).finished_s.tolist() == whole.tolist()


def test_rounds_share_what_is_the_same_of_them() -> None:
    def one(*targets: int, times: int = 1) -> Round:
        source = np.arange(len(targets))[::-1]
        return Round(source=source, target=np.array(targets), size_bytes=8.0, blocks=lambda _: source, times=times)

    graph = unrolled(3, [one(1, 2, 0, times=2), one(2, 0, 1), one(1, 2, 0)])
    assert graph.pairs is not None
    assert len(graph.pairs.source) == 6
    assert graph.pairs.of.tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 5, 0, 1, 2]
    assert graph.source_step.tolist() == list(range(12))
    assert graph.source.tolist() == graph.pairs.source[graph.pairs.of].tolist()
    assert graph.target.tolist() == graph.pairs.target[graph.pairs.of].tolist()
    start, messages = graph.receives()
    received = np.empty(12, dtype=np.int64)
    for step in range(12):
        received[messages[start[step] : start[step + 1]]] = step
    assert received.tolist() == graph.target_step.tolist()


@pytest.mark.parametrize("module", [event_queue, binary_heap, flows, sharing, kernels])
def test_compiled_kernels_are_called_after_every_source(
    module: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = compiled._sources()
    changed = tmp_path / "changed.py"
    changed.write_bytes(Path(str(vars(module)["__file__"])).read_bytes() + b"\n# changed\n")
    monkeypatch.setattr(module, "__file__", str(changed))
    assert compiled._sources() != before


def test_kernels_compile_where_nothing_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    numba = pytest.importorskip("numba")
    real = numba.njit

    def unwritable(*, cache: bool = False, **options: object) -> object:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    monkeypatch.setattr(numba, "njit", unwritable)
    assert compiled._compiled(lambda number: number + 1)(2) == 3


def test_the_sources_of_compiled_kernels_are_all_that_they_import() -> None:
    known = {event_queue, binary_heap, flows, sharing, kernels}
    for module in known:
        for value in vars(module).values():
            home = getattr(value, "__module__", "")
            assert not home.startswith("nhalf.") or home in {each.__name__ for each in known}
