"""Strangers at `nhalf measure --listen` and at a launcher's rank 0, on loopback: nothing they send helps them.

They get no word of the host, make it open nothing, stretch no deadline, and end it with a clear line at most; the guest
that knows the word still comes in.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.ports import free_port

from nhalf.evidence.probe.door import Door
from nhalf.evidence.probe.handshake import enter, key_of, nonce
from nhalf.evidence.probe.messages import PROTOCOL, REPLIES, Facts, Failed, Traffic
from nhalf.evidence.probe.wire import Wire, listening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOURCE = Path(__file__).resolve().parents[2] / "src"
LOOPBACK = "127.0.0.1"
WORD = "sesame-sesame"
LAUNCHERS = ("NHALF_WORD", "RANK", "WORLD_SIZE", "MASTER_ADDR", "PMI_", "OMPI_", "SLURM_")
QUICK = ("--sizes", "8B,64B", "--budget", "0.3s", "--json")
LIMIT_S = 30.0
SLACK_S = 6.0
"""What starting Python, and a busy machine, may add to a deadline."""


STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture(scope="module", autouse=True)
def _no_process_is_left_running() -> Iterator[None]:
    yield
    for each in STARTED:
        if each.poll() is None:
            each.kill()
            each.communicate()


def start(*arguments: str, **given: str) -> subprocess.Popen[str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith(LAUNCHERS)}
    process = subprocess.Popen(
        [sys.executable, "-m", "nhalf", "measure", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**kept, "PYTHONPATH": str(SOURCE), "NO_COLOR": "1", "NHALF_WORD": WORD, **given},
    )  # fmt: skip
    STARTED.append(process)
    return process


def ended(process: subprocess.Popen[str], limit_s: float = LIMIT_S) -> tuple[int, str, str]:
    """Return code, output and errors of a command that must end in time, without a traceback."""
    try:
        out, err = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        pytest.fail(f"nhalf measure hangs for {limit_s:.0f} s")
    assert "Traceback" not in err, err
    assert "internal error" not in err, err
    return process.returncode, out, err


pytestmark = pytest.mark.usefixtures("no_end_is_left_open")


class Host:
    """A host that listens, and what a stranger does to it."""

    def __init__(self, *flags: str) -> None:
        self.port = free_port()
        self.process = start("--listen", f"{LOOPBACK}:{self.port}", *flags)

    def ready(self) -> Host:
        assert self.process.stderr is not None
        assert "listening on" in self.process.stderr.readline()
        return self

    def connection(self) -> socket.socket:
        return socket.create_connection((LOOPBACK, self.port), timeout=10.0)

    def guest(self) -> Wire:
        """Return the wire of a guest that proved to know the word and was told what the host runs on."""
        wire = Wire(self.connection())
        enter(wire, key_of(WORD), rank=0, where="test")
        wire.speech = REPLIES
        assert isinstance(wire.receive(10.0), Facts)
        return wire


def framed(what: object) -> bytes:
    text = what if isinstance(what, bytes) else json.dumps(what).encode()
    return len(text).to_bytes(4, "big") + text


def answer(connection: socket.socket) -> bytes:
    """Return all that comes until the other end closes."""
    connection.settimeout(10.0)
    got = b""
    with contextlib.suppress(ConnectionError):
        while new := connection.recv(65_536):
            got += new
    return got


class Trap:
    """A service of the host's own, over TCP and a Unix socket: nobody may be sent there."""

    def __init__(self, folder: Path) -> None:
        self.tcp = socket.create_server((LOOPBACK, 0))
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(str(folder / "ranks"))
        self.unix.listen(4)
        self.port = int(self.tcp.getsockname()[1])

    def untouched(self) -> bool:
        for server in (self.tcp, self.unix):
            server.settimeout(0.05)
            with contextlib.suppress(TimeoutError):
                server.accept()
                return False
        return True

    def close(self) -> None:
        self.tcp.close()
        self.unix.close()


@pytest.fixture
def trap() -> Iterator[Trap]:
    with tempfile.TemporaryDirectory(prefix="nhalf-") as folder:
        found = Trap(Path(folder))
        found.folder = Path(folder).name  # type: ignore[attr-defined]
        yield found
        found.close()


HELLO = {"do": "hello", "protocol": PROTOCOL, "rank": 0, "channel": "", "nonce": "0" * 64}
LONE = {
    "garbage": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 50,
    "huge frame": b"\x7f\xff\xff\xff" + b"x" * 1_000_000,
    "deep JSON": framed(b"[" * 1000),
    "deeper JSON": framed(b"[" * 200_000),
    "no JSON": framed(b"\xff\x00\xfe"),
    "no do": framed({}),
    "another do": framed({"do": "nope"}),
    "types": framed({**HELLO, "rank": ["a"]}),
    "an order": framed({"do": "open", "channels": ["tcp"], "peers": [], "largest_bytes": 8, "deadline_s": 1.0}),
    "the old join": framed({"do": "join", "rank": 1, "token": "x", "word": ""}),
    "a join without token": framed({"do": "join", "rank": 1}),
    "a proof first": framed({"do": "proof", "proof": "0" * 64}),
    "two at once": framed(HELLO) * 2,
}
ASKED: dict[str, list[dict[str, Any]]] = {
    "wrong word": [HELLO, {"do": "proof", "proof": "0" * 64}],
    "another version": [{**HELLO, "protocol": PROTOCOL + 1}],
    "another rank": [{**HELLO, "rank": 1}],
    "a local channel": [{**HELLO, "channel": "unix"}],
}


def recorded() -> list[bytes]:
    """Return what a guest that knows the word said to another host that knows it."""
    server = listening(LOOPBACK, 0, where="test")
    door = Door([server], key_of(WORD))
    said: list[bytes] = []

    class Recorder(Wire):
        def send(self, message: Any) -> None:  # noqa: ANN401
            import msgspec

            said.append(framed(msgspec.json.encode(message)))
            super().send(message)

    wire = Recorder(socket.create_connection(server.getsockname()))
    enter(wire, key_of(WORD), rank=0, where="test")
    wire.close()
    door.close()
    return said


def slowly(host: Host) -> float:
    """Say a good hello byte by byte, and return how long the host listened [s]."""
    connection, started = host.connection(), time.monotonic()
    with contextlib.suppress(OSError):
        for byte in framed({**HELLO, "nonce": nonce()}):
            connection.sendall(bytes([byte]))
            time.sleep(0.25)
    return time.monotonic() - started


def test_strangers_get_nothing_and_the_guest_still_comes_in() -> None:
    host = Host("--wait", "25s").ready()
    name = socket.gethostname().encode()
    listened: list[float] = []
    slow = threading.Thread(target=lambda: listened.append(slowly(host)), daemon=True)
    slow.start()
    for what, said in LONE.items():
        with host.connection() as connection:
            with contextlib.suppress(ConnectionError):
                connection.sendall(said)
            assert answer(connection) == b"", what
    for what, messages in ASKED.items():
        with host.connection() as connection:
            for message in messages:
                connection.sendall(framed(message))
                time.sleep(0.05)
            got = answer(connection)
        assert b'"do":"refused"' in got, what
        assert name not in got, what
    with host.connection() as connection:
        for said in recorded():
            connection.sendall(said)
            time.sleep(0.05)
        got = answer(connection)
        assert b'"why":"word"' in got
        assert b"welcome" not in got
    crowd = [host.connection() for _ in range(200)]
    slow.join(15.0)
    assert listened
    assert listened[0] < 5.0 + SLACK_S
    guest = start("--connect", f"{LOOPBACK}:{host.port}", *QUICK)
    code, out, err = ended(guest)
    assert (code, err) == (0, "")
    assert json.loads(out)["fits"]
    assert ended(host.process) == (0, f"Measured with {LOOPBACK}; the answer is there.\n", "")
    for each in crowd:
        each.close()


def test_connections_that_say_nothing_stretch_no_wait() -> None:
    host = Host("--wait", "2s").ready()
    started = time.monotonic()
    crowd = []
    while time.monotonic() - started < 2.0 + SLACK_S and host.process.poll() is None:
        with contextlib.suppress(OSError):
            crowd.append(host.connection())
            crowd[-1].sendall(b"\0\0")
        time.sleep(0.1)
    assert time.monotonic() - started < 2.0 + SLACK_S
    code, _, err = ended(host.process)
    assert code == 4
    assert "rank 0: nobody connected within 2 s" in err
    assert err.count("\n") == 1
    for each in crowd:
        each.close()


# ------------------------------------------------------------------------------------------------- proved, then hostile


def says(text: bytes) -> Callable[[Wire], None]:
    return lambda wire: wire.release().sendall(text)


def drips(wire: Wire) -> None:
    """Say an order byte by byte."""
    with contextlib.suppress(OSError):
        for byte in framed({"do": "traffic", "x": " " * 200}):
            wire.release().sendall(bytes([byte]))
            time.sleep(0.2)


def keeps_asking(wire: Wire) -> None:
    """Give good orders for ever."""
    with contextlib.suppress(Exception):
        while True:
            wire.send(Traffic())
            wire.receive(5.0)
            time.sleep(0.1)


PROVED = {
    "silence": (says(b""), "nothing moved for 1 s (--deadline)"),
    "drips": (drips, "nothing moved for 1 s (--deadline)"),
    "deep JSON": (says(framed(b"[" * 900_000)), "no message of nhalf"),
    "a channel that never comes": (
        says(
            framed({"do": "open", "channels": ["tcp"], "peers": [{"rank": 0}], "largest_bytes": 8, "deadline_s": 1e5})
        ),
        "nothing moved for 1 s (--deadline)",
    ),
    "orders by the thousand": (
        says(
            framed({"do": "open", "channels": ["tcp"], "peers": [{"rank": 0}], "largest_bytes": 8, "deadline_s": 1e5})
            + framed({"do": "traffic"}) * 5000
        ),
        "orders came faster",
    ),
    "orders without end": (keeps_asking, "the measurement did not end within 2 s (--budget)"),
    "gone": (lambda wire: wire.close(), "is gone"),
}


@pytest.fixture(scope="module")
def hosts() -> dict[str, Host]:
    """Start all hosts at once: Python takes most of the time."""
    found = {name: Host("--wait", "25s", "--deadline", "1s", "--budget", "2s") for name in (*PROVED, "elsewhere")}
    return {name: host.ready() for name, host in found.items()}


@pytest.mark.parametrize("name", PROVED)
def test_who_knows_the_word_cannot_hold_a_host_up_either(name: str, hosts: dict[str, Host]) -> None:
    act, why = PROVED[name]
    wire = hosts[name].guest()
    started = time.monotonic()
    threading.Thread(target=act, args=(wire,), daemon=True).start()
    code, out, err = ended(hosts[name].process)
    assert time.monotonic() - started < 2.0 + SLACK_S
    assert (code, out) == (4, "")
    assert why in err
    assert err.count("\n") == 1
    wire.close()


def test_a_host_is_sent_nowhere(hosts: dict[str, Host], trap: Any) -> None:  # noqa: ANN401
    wire = hosts["elsewhere"].guest()
    there = {"host": LOOPBACK, "port": trap.port}
    for channel, address in (("tcp", there), ("unix", {**there, "folder": trap.folder}), ("shm", there)):
        order = {"do": "open", "channels": [channel], "peers": [{"rank": 2, "address": address}],
                 "largest_bytes": 64, "deadline_s": 1.0}  # fmt: skip
        wire.release().sendall(framed(order))
        reply = wire.receive(5.0)
        assert isinstance(reply, Failed)
        assert "connects to nobody" in reply.why
    assert trap.untouched()
    wire.close()
    assert ended(hosts["elsewhere"].process)[0] == 4
    assert trap.untouched()


def test_a_second_guest_is_told_that_the_host_is_busy() -> None:
    host = Host("--wait", "25s").ready()
    first = host.guest()
    code, out, err = ended(start("--connect", f"{LOOPBACK}:{host.port}", *QUICK))
    assert (code, out) == (2, "")
    assert "it is busy with another measurement" in err
    first.close()
    assert ended(host.process)[0] == 4


# ------------------------------------------------------------------------------------------------- a launcher's rank 0


def test_a_launchers_ranks_meet_among_strangers() -> None:
    port = str(free_port())
    given = {"WORLD_SIZE": "2", "MASTER_ADDR": LOOPBACK}
    flags = ("--backend", "sockets", "--channels", "tcp", "--port", port, "--wait", "20s", *QUICK)
    first = start(*flags, RANK="0", **given)
    crowd: list[socket.socket] = []
    until = time.monotonic() + 15.0
    while not crowd and time.monotonic() < until:
        with contextlib.suppress(OSError):
            crowd.append(socket.create_connection((LOOPBACK, int(port)), timeout=1.0))
        time.sleep(0.05)
    for said in LONE.values():
        with socket.create_connection((LOOPBACK, int(port)), timeout=5.0) as connection:
            with contextlib.suppress(ConnectionError):
                connection.sendall(said)
            assert answer(connection) == b""
    crowd += [socket.create_connection((LOOPBACK, int(port)), timeout=5.0) for _ in range(100)]
    stranger = start(*flags, RANK="1", **given, NHALF_WORD="sesame-opens")
    code, _, err = ended(stranger)
    assert code == 2
    assert "the word is not" in err
    second = start(*flags, RANK="1", **given)
    code, out, err = ended(first)
    assert (code, err) == (0, "")
    assert json.loads(out)["fits"]
    assert ended(second)[:2] == (0, "")
    for each in crowd:
        each.close()
