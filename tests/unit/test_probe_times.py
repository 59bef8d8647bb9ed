"""How times are merged, ordered, bounded and summed up: statistics, schedule, clocks, record and reader."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from nhalf.collective import Op
from nhalf.errors import InputError
from nhalf.evidence.fit import fit
from nhalf.evidence.probe import clocks, environment, traffic
from nhalf.evidence.probe.cell import FUSE, Cell
from nhalf.evidence.probe.messages import Prepare
from nhalf.evidence.probe.record import Doubt, Entry, Record
from nhalf.evidence.probe.schedule import Schedule, Terms, after_barriers, by_clock
from nhalf.evidence.probe.statistics import half_width, interval, median
from nhalf.evidence.readers.nhalf_run import READER, tables_of
from nhalf.evidence.readers.protocol import Line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ALPHA_NS, BETA = 8000.0, 3.0  # ns, bytes a ns
SIZES = [2**power for power in range(3, 24)]


# ------------------------------------------------------------------------------------------------- statistics


def test_the_interval_of_a_median_is_made_of_order_statistics() -> None:
    assert interval([1.0, 2.0, 3.0, 4.0, 5.0]) is None
    assert interval([3.0, 1.0, 6.0, 2.0, 5.0, 4.0]) == (1.0, 6.0)
    assert interval([float(i) for i in range(1, 11)]) == (2.0, 9.0)
    assert median([4.0, 1.0, 3.0, 2.0]) == 2.5
    assert half_width([1.0]) == math.inf


def test_the_interval_covers_the_median_as_often_as_it_says() -> None:
    random = np.random.default_rng(3)
    for count in (8, 30, 600):
        ends = [interval(list(random.exponential(size=count))) for _ in range(400)]
        covered = np.mean([low <= math.log(2) <= high for low, high in filter(None, ends)])
        assert 0.93 <= covered <= 1.0


# ------------------------------------------------------------------------------------------------- merging


def test_the_slowest_rank_counts_and_the_skew_of_a_barrier_is_told() -> None:
    answers = {0: {"starts": [0, 100], "ends": [50, 160]}, 1: {"starts": [1020, 1110], "ends": [1100, 1150]}}
    times, skews = after_barriers(answers, {1: 1000})
    assert times == [80.0, 60.0]
    assert skews == [20.0, 10.0]


def test_what_one_rank_sends_to_all_counts_from_its_start() -> None:
    answers = {0: {"starts": [0], "ends": [5]}, 1: {"starts": [1090], "ends": [1100]}}
    assert after_barriers(answers, {1: 1000}, root=0)[0] == [100.0]
    assert after_barriers(answers, {1: 1000})[0] == [10.0]


def test_windows_count_from_the_appointment_and_drop_who_is_late() -> None:
    due = 50_000 + 10_000
    answers = {
        0: {"starts": [due, due + 10_000], "ends": [due + 3000, due + 13_000]},
        1: {"starts": [due + 7, due + 15_000 + 7], "ends": [due + 4007, due + 19_007]},
    }
    times, late = by_clock(answers, {1: 7}, 50_000, 10_000)
    assert (times, late) == ([4000.0], 1)


# ------------------------------------------------------------------------------------------------- schedule


class Machine:
    """A conductor whose ranks are a formula; every visit takes some of a clock that `monkeypatch` installs."""

    def __init__(self, noise: float = 0.0, slow_from: float = math.inf) -> None:
        self.cells: dict[int, Cell] = {}
        self.visits: list[int] = []
        self.now = 0.0
        self.noise = noise
        self.slow_from = slow_from
        self.random = np.random.default_rng(5)

    def time_ns(self, cell: Cell) -> float:
        slow = 1e6 if cell.size_bytes >= self.slow_from else 1.0
        return slow * (ALPHA_NS + cell.size_bytes / BETA) * math.exp(self.noise * self.random.standard_normal())

    def ask(self, messages: Mapping[int, Any], deadline_s: float) -> dict[int, Any]:
        del deadline_s
        (message,) = {id(each): each for each in messages.values()}.values()
        if isinstance(message, Prepare):
            self.cells[message.id] = message.cell
            about = self.time_ns(message.cell)
            self.now += 7e-9 * about
            return {rank: {"right": True, "about_ns": about if rank == 0 else 0.0} for rank in messages}
        cell = self.cells[message.id]
        self.visits.append(message.id)
        times = [self.time_ns(cell) for _ in range(message.repetitions)]
        self.now += 2e-9 * sum(times)
        return {rank: {"times": times} if rank == 0 else {} for rank in messages}


def run(machine: Machine, monkeypatch: pytest.MonkeyPatch, *, budget_s: float, target: float = 0.02) -> tuple[Any, int]:
    monkeypatch.setattr("nhalf.evidence.probe.schedule.time.monotonic", lambda: machine.now)
    record = Record(backend="sockets", command="nhalf measure", seed=1)
    record.ranks = {rank: {"host": "here", "environment": {"python": "3"}, "pid": rank, "cpus": [0]} for rank in (0, 1)}
    terms = Terms(budget_s=budget_s, deadline_s=1.0, target=target)
    schedule = Schedule(machine, record, terms, lambda *_: None)  # type: ignore[arg-type]
    planned = [Cell(channel="tcp", op=Op.SEND_RECV, size_bytes=size, ranks=(0, 1), label="tcp") for size in SIZES]
    rounds = schedule.rounds(schedule.prepare(planned))
    return (record, schedule), rounds


def test_a_quiet_machine_needs_the_fewest_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    (record, _), rounds = run(machine, monkeypatch, budget_s=60.0)
    assert rounds == 6
    assert all(entry.spread <= 0.02 for entry in record.entries)


def test_every_round_has_every_cell_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    run(machine, monkeypatch, budget_s=60.0)
    rounds = [machine.visits[start : start + len(SIZES)] for start in range(0, len(machine.visits), len(SIZES))]
    assert all(sorted(each) == list(range(len(SIZES))) for each in rounds)
    assert len({tuple(each) for each in rounds}) == len(rounds)


def test_a_noisy_machine_stops_at_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(noise=1.0)
    (record, _), rounds = run(machine, monkeypatch, budget_s=5.0)
    assert rounds > 6
    assert 5.0 <= machine.now < 6.0
    assert any(entry.spread > 0.02 for entry in record.entries)


def test_what_is_too_slow_for_the_budget_is_left_out_and_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(slow_from=2**16)
    (record, schedule), _ = run(machine, monkeypatch, budget_s=2.0)
    assert max(entry.cell.size_bytes for entry in record.entries) == 2**16
    assert {cell.size_bytes for cell in schedule.left_out} == {size for size in SIZES if size > 2**16}


class Busy(Machine):
    """Ranks that keep no appointment, but leave a barrier together."""

    def ask(self, messages: Mapping[int, Any], deadline_s: float) -> dict[int, Any]:
        message = messages[0]
        if isinstance(message, Prepare):
            return super().ask(messages, deadline_s)
        self.now += 0.01
        start, window = (message.start_ns, message.window_ns) if message.start_ns is not None else (0, 100_000)
        late = (message.start_ns is not None) * 40_000
        starts = [start + (index + 1) * window + late for index in range(message.repetitions)]
        return {rank: {"starts": starts, "ends": [each + 10_000 for each in starts]} for rank in messages}


def test_ranks_that_keep_no_appointment_are_timed_after_barriers(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Busy()
    monkeypatch.setattr("nhalf.evidence.probe.schedule.time.monotonic", lambda: machine.now)
    record = Record(backend="mpi", command="", seed=1)
    terms = Terms(budget_s=2.0, deadline_s=1.0, windows=True)
    schedule = Schedule(machine, record, terms, lambda *_: None)  # type: ignore[arg-type]
    fused = Cell(channel="mpi", op=Op.ALL_REDUCE, size_bytes=8, ranks=(0, 1), count=4, label=FUSE)
    plain = [Cell(channel="mpi", op=Op.ALL_REDUCE, size_bytes=size, ranks=(0, 1)) for size in SIZES[:5]]
    schedule.rounds(schedule.prepare([fused, *plain]))
    assert {entry.sync for entry in record.entries} == {"barrier"}
    assert {time for entry in record.entries for times in entry.rounds for time in times} == {10_000.0}


def test_what_was_asked_for_is_timed_even_without_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Busy()
    monkeypatch.setattr("nhalf.evidence.probe.schedule.time.monotonic", lambda: machine.now)
    record = Record(backend="mpi", command="", seed=1)
    schedule = Schedule(machine, record, Terms(budget_s=0.001, deadline_s=1.0, windows=True), lambda *_: None)  # type: ignore[arg-type]
    fused = [Cell(channel="mpi", op=Op.ALL_REDUCE, size_bytes=8, ranks=(0, 1), count=m, label=FUSE) for m in (1, 2, 4)]
    schedule.rounds(schedule.prepare(fused))
    assert all(entry.rounds for entry in record.entries)


# ------------------------------------------------------------------------------------------------- record and reader


def recorded(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Record:  # noqa: ANN401
    (record, _), _ = run(Machine(noise=0.01), monkeypatch, budget_s=60.0)
    for name, value in changes.items():
        setattr(record, name, value)
    assert isinstance(record, Record)
    return record


def tables(path: Path) -> Any:  # noqa: ANN401
    lines = [Line(number, text) for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)]
    return READER.read(lines, str(path))


def test_a_saved_run_is_fitted_as_it_was_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    record = recorded(monkeypatch, complete=True)
    path = tmp_path / "run.json"
    record.save(path)
    assert READER.sniff(path.read_text(encoding="utf-8")[:200]) == 1.0
    (curve,) = fit(tables(path)).curves
    assert curve.latency is not None
    assert curve.latency.value == pytest.approx(ALPHA_NS * 1e-9, rel=0.02)
    assert curve.bandwidth is not None
    assert curve.bandwidth.value == pytest.approx(BETA * 1e9, rel=0.02)
    assert (curve.series.key.test, curve.series.key.label, curve.series.key.ranks) == ("point-to-point", "tcp", 2)
    assert curve.series.repeats >= 6


def test_the_document_is_json_with_every_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    record = recorded(monkeypatch)
    record.save(tmp_path / "run.json")
    document = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    (curve,) = document["curves"]
    assert document["schema"] == "nhalf.run/1"
    assert sum(len(times) for point in curve["points"] for times in point["rounds_ns"]) == record.samples
    point = curve["points"][0]
    assert point["min_s"] <= point["low_s"] <= point["median_s"] <= point["high_s"]


def test_a_run_that_ended_early_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    record = recorded(monkeypatch, lost="rank 1: its process ended", doubts=[Doubt(code="busy", text="a load of 9")])
    record.save(tmp_path / "run.json")
    (table,) = tables(tmp_path / "run.json")
    assert [note.code for note in table.notes] == ["partial", "busy"]
    assert "rank 1" in table.notes[0].text


def test_wrong_results_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    record = recorded(monkeypatch)
    record.entries[3].right = False
    (table,) = tables_of(record.document(), "run.json")
    assert {point.size_bytes for point in table.points if point.wrong} == {64}


def test_a_file_of_another_version_is_refused() -> None:
    with pytest.raises(InputError, match=r"schema 'nhalf.run/9' is not known"):
        tables_of({"schema": "nhalf.run/9"}, "run.json")


def test_a_file_that_cannot_be_written_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the file cannot be written"):
        recorded(monkeypatch).save(tmp_path / "none" / "run.json")


def test_a_barrier_has_times_and_no_size() -> None:
    record = Record(backend="mpi", command="", seed=1, ranks={0: {"host": "a"}, 1: {"host": "b"}})
    cell = Cell(channel="mpi", op=Op.BARRIER, size_bytes=0, ranks=(0, 1))
    record.entries = [Entry(cell=cell, rounds=[[5000.0, 7000.0, 6000.0]] * 6)]
    (table,) = tables_of(record.document(), "run.json")
    assert (table.nodes, table.size_is) == (2, "none")
    assert [figure.value for figure in table.figures] == pytest.approx([6e-6] * 6)
    assert fit([table]).curves[0].floor_s == pytest.approx(6e-6)


# ------------------------------------------------------------------------------------------------- environment


def test_environments_that_differ_are_shown_with_both_values() -> None:
    merged, differ = environment.common([{"library": "nccl 2.27", "NCCL_ALGO": "Ring"}, {"library": "nccl 2.28"}])
    assert differ == ("NCCL_ALGO", "library")
    assert merged == {"library": "nccl 2.27 | nccl 2.28", "NCCL_ALGO": "(unset) | Ring"}


def test_only_variables_of_communication_libraries_are_recorded() -> None:
    given = {"NCCL_ALGO": "Ring", "UCX_TLS": "tcp", "HOME": "/home/me", "API_TOKEN": "secret"}
    assert environment.variables(given) == {"NCCL_ALGO": "Ring", "UCX_TLS": "tcp"}


def test_the_carrier_is_the_interface_that_counted_the_bytes() -> None:
    before = {"lo": 1000, "eth0": 10, "eth1": 0}
    assert traffic.carriers(before, {"lo": 1500, "eth0": 1_000_010, "eth1": 900_000}, 1_000_000) == ("eth0", "eth1")
    assert traffic.carriers(before, before, 1_000_000) == ()


def test_one_kernel_has_one_clock() -> None:
    assert clocks.shared({0: {"boot": "x"}, 1: {"boot": "x"}})
    assert not clocks.shared({0: {"boot": "x"}, 1: {"boot": "y"}})
    assert not clocks.shared({0: {"boot": ""}, 1: {"boot": ""}})
