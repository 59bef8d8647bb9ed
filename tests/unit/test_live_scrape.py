"""Scrapes of servers that are slow, dead, lying or enormous: processes on loopback, each within its time and size."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nhalf.errors import InputError
from nhalf.live.answer import answer
from nhalf.live.polling import Poll
from nhalf.live.scrape import GapError, fetch, target

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER = Path(__file__).with_name("live_server.py")
SCRAPES = Path(__file__).parents[1] / "golden" / "scrapes"


@contextmanager
def serving(*words: str) -> Iterator[str]:
    """Run a server of the tests as a process; give its address."""
    process = subprocess.Popen([sys.executable, str(SERVER), *words], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/metrics"
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.parametrize(
    ("mode", "why"),
    [("silent", "answer within"), ("slow", "answer within"), ("huge", "larger than"), ("half", "in the middle")],
)
def test_what_does_not_answer_in_time_or_size_is_a_gap(mode: str, why: str) -> None:
    with serving(mode) as url:
        begin = time.monotonic()
        with pytest.raises(GapError, match=why):
            fetch(target(url), 0.7, 1_000_000)
        assert time.monotonic() - begin < 3.0


def test_redirects_are_not_followed() -> None:
    with serving("pages", str(SCRAPES / "vllm-t0.prom")) as there, serving("moved", there) as url:
        with pytest.raises(GapError, match="redirects are not followed"):
            fetch(target(url))
        assert "vllm:" in fetch(target(there))


def test_where_nothing_listens_there_is_a_gap_and_an_alarm() -> None:
    poll = Poll(targets=[target("http://127.0.0.1:9/metrics")], every=10.0)
    poll.scrape()
    poll.close()
    [watch] = poll.servers()
    found = answer(watch, time.time())
    assert [(each.code, each.alarm) for each in found.findings] == [("no-answer", True)]
    assert found.why_nothing == "nothing listens there"


@pytest.mark.parametrize("mode", ["lying", "binary"])
def test_numbers_that_cannot_be_say_nothing(mode: str) -> None:
    with serving(mode) as url:
        poll = Poll(targets=[target(url)], every=10.0)
        for _ in range(6):
            poll.scrape()
            time.sleep(0.01)
        poll.close()
        [watch] = poll.servers()
        assert not watch.seen
        assert watch.gaps


def test_dumps_of_ranks_are_put_together(tmp_path: Path) -> None:
    files = []
    for rank in range(4):
        perf = {"coll": "AllReduce", "coll_msg_size_bytes": 16384, "coll_exec_time_us": 15 if rank == 2 else 25}
        head = {"id": "0x1", "rank": rank}
        lines = [json.dumps({"header": head, "coll_perf": {**perf, "coll_sn": number}}) for number in range(60)]
        files.append(tmp_path / f"rank{rank}.log")
        files[-1].write_text("\n".join(lines))
    with serving("pages", str(SCRAPES / "vllm-t0.prom")) as url:
        poll = Poll(targets=[target(url), *(target(str(file)) for file in files)], every=10.0)
        poll.scrape()
        poll.close()
    [watch] = poll.servers()
    [(_, found)] = watch.calls
    assert found.slowest == (2,)
    assert found.wait_s[0] == pytest.approx(10e-6)


def test_one_server_that_hangs_does_not_hold_up_another() -> None:
    pages = [str(SCRAPES / f"vllm-t{turn}.prom") for turn in range(3)]
    with serving("silent") as dead, serving("pages", *pages) as alive:
        poll = Poll(targets=[target(dead), target(alive)], every=10.0, timeout_s=0.5)
        for _ in range(3):
            poll.scrape()
            time.sleep(0.01)
        poll.close()
        assert len(poll.watches[alive].seen) == 2
        assert poll.watches[dead].gaps
        assert poll.served(alive) == "meta-llama/Llama-3.3-70B-Instruct"


@pytest.mark.parametrize("text", ["", "ftp://host/x", "host", "http://", "http://user:word@host/", "http://host:port/"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        target(text)


def test_a_host_and_port_are_enough() -> None:
    found = target("localhost:8000")
    assert (found.host, found.port, found.path) == ("localhost", 8000, "/metrics")
