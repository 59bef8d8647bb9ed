"""A session's end: an interrupt after the last sample changes nothing, and a file says whether it is whole."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from nhalf.cli.measure import measure
from nhalf.collective import Op
from nhalf.evidence.probe import session
from nhalf.evidence.probe.cell import Cell
from nhalf.evidence.probe.conductor import StoppedError
from nhalf.evidence.probe.plan import Request
from nhalf.evidence.probe.record import Entry, Record

if TYPE_CHECKING:
    from pathlib import Path

SIZES = [8 * 4**power for power in range(8)]


def whole() -> Record:
    """Return the record of a measurement that ended well."""
    record = Record(backend="sockets", command="nhalf measure", seed=1, complete=True)
    record.ranks = {rank: {"host": "here", "environment": {}, "pid": rank, "cpus": [rank]} for rank in (0, 1)}
    for size in SIZES:
        cell = Cell(channel="tcp", op=Op.SEND_RECV, size_bytes=size, ranks=(0, 1), label="tcp")
        record.entries.append(Entry(cell=cell, sync="ping-pong", rounds=[[8000.0 + size / 3] * 9 for _ in range(9)]))
    return record


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("when", ["measured", "saved"])
def test_an_interrupt_after_the_last_sample_exits_0_with_the_file(
    when: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> None:
        os.kill(os.getpid(), number)

    def measured(*_: Any) -> Record:  # noqa: ANN401
        if when == "measured":
            interrupted()
        return whole()

    save = Record.save

    def saved(self: Record, path: Path) -> None:
        save(self, path)
        if when == "saved":
            for _ in range(3):
                interrupted()

    monkeypatch.setattr(session, "measured", measured)
    monkeypatch.setattr(Record, "save", saved)
    file = tmp_path / "run.json"
    before = signal.getsignal(number)
    result = CliRunner().invoke(measure, ["-o", str(file)])
    assert (result.exit_code, result.exception) == (0, None)
    assert "point-to-point on 2 ranks" in result.output
    assert json.loads(file.read_text(encoding="utf-8"))["complete"] is True
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("stopped_at", [1, 2, None])
def test_a_file_of_several_launches_is_whole_after_the_last(
    stopped_at: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "run.json"
    seen: list[bool | None] = []

    def launch(request: Request, calls: session.Calls) -> Record:
        seen.append(json.loads(file.read_text(encoding="utf-8"))["complete"] if file.exists() else None)
        if len(seen) - 1 == stopped_at:
            error = StoppedError("interrupted")
            calls.failed(session.new_record(request), error)
            raise error
        return whole()

    def rescue(record: Record, _: BaseException) -> None:
        record.save(file)

    monkeypatch.setattr(session, "_launch", launch)
    calls = session.Calls(progress=lambda *_: None, rescue=rescue, interrupted=lambda: False)
    request = Request(launches=3, file=str(file))
    if stopped_at is None:
        assert session.local(request, calls).complete
    else:
        with pytest.raises(StoppedError):
            session.local(request, calls)
    assert seen == [None, False, False][: len(seen)]
    document = json.loads(file.read_text(encoding="utf-8"))
    assert document["complete"] is (stopped_at is None)
    assert all(len(point["rounds_ns"]) >= 9 for curve in document["curves"] for point in curve["points"])
