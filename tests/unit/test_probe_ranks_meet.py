"""Ranks that meet: wires, channels, the conductor and its players, and how each way to lose a rank is named."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from nhalf.collective import Op
from nhalf.errors import InputError
from nhalf.evidence.probe import clocks
from nhalf.evidence.probe.cell import Cell
from nhalf.evidence.probe.conductor import Conductor, RankLostError, StoppedError
from nhalf.evidence.probe.memory import Segment
from nhalf.evidence.probe.player import Player
from nhalf.evidence.probe.signals import Interrupts
from nhalf.evidence.probe.sockets import MEMORY, TCP, Listener, Sockets, channels
from nhalf.evidence.probe.streams import PeerGoneError, Stream
from nhalf.evidence.probe.timing import Task
from nhalf.evidence.probe.wire import Wire, WireClosedError, connected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOOPBACK = "127.0.0.1"
DEADLINE_S = 5.0


@pytest.fixture(autouse=True)
def _no_end_is_left_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close what a test leaves open, as a rank that died does."""
    made: list[socket.socket] = []
    begin = socket.socket.__init__

    def noted(self: socket.socket, *arguments: Any, **named: Any) -> None:  # noqa: ANN401
        begin(self, *arguments, **named)
        made.append(self)

    monkeypatch.setattr(socket.socket, "__init__", noted)
    yield
    for each in made:
        each.close()


def joined(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(10.0)
        assert not thread.is_alive(), "a thread hangs"


def beside(body: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    return thread


# ------------------------------------------------------------------------------------------------- wires


def test_messages_arrive_whole_and_in_order() -> None:
    left, right = (Wire(end) for end in socket.socketpair())
    sent = [{"n": n, "times": list(range(20_000))} for n in range(3)]

    def send() -> None:
        for message in sent:
            left.send(message)

    sender = beside(send)
    received: list[dict[str, Any]] = []
    while len(received) < len(sent) and select.select([right], [], [], DEADLINE_S)[0]:
        received += right.pump()
    joined([sender])
    assert received == sent


@pytest.mark.parametrize("noise", [b"\xff\xff\xff\xff", b"\0\0\0\2[]", b"\0\0\0\3abc", b"GET / HTTP/1.1\r\n\r\n"])
def test_what_is_no_message_closes_the_wire(noise: bytes) -> None:
    end, other = socket.socketpair()
    other.sendall(noise)
    with pytest.raises(WireClosedError, match="no message of nhalf"):
        Wire(end).receive(1.0)


def test_silence_ends_at_the_deadline() -> None:
    end, _other = socket.socketpair()
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        Wire(end).receive(0.2)
    assert time.monotonic() - started < 2.0


def test_a_port_that_nobody_opened_is_one_clear_error() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(InputError, match=f"nobody answers at {LOOPBACK}:{port}"):
        connected(LOOPBACK, port, wait_s=0.3, where="--connect")


# ------------------------------------------------------------------------------------------------- channels


@pytest.fixture
def pair() -> Iterator[tuple[Sockets, Sockets]]:
    both = tuple(Sockets(rank, Listener(LOOPBACK)) for rank in (0, 1))
    message = {
        "channels": list(channels()),
        "pairs": [[0, 1]],
        "addresses": {str(rank): both[rank].address(LOOPBACK) for rank in (0, 1)},
        "largest_bytes": 100_000,
        "deadline_s": DEADLINE_S,
        "token": "t",
    }
    threads = [beside(lambda each=each: each.open(message)) for each in both]  # type: ignore[misc]
    joined(threads)
    yield both  # type: ignore[misc]
    for each in both:
        each.close()


@pytest.mark.parametrize("channel", channels())
@pytest.mark.parametrize("size", [1, 8, 100_000])
@pytest.mark.parametrize("how", ["isolated", "back_to_back"])
def test_messages_are_right_and_timed(pair: tuple[Sockets, Sockets], channel: str, size: int, how: Any) -> None:  # noqa: ANN401
    cell = Cell(channel=channel, op=Op.SEND_RECV, size_bytes=size, ranks=(0, 1), how=how)
    tasks = [Task(cell, pair[rank], rank) for rank in (0, 1)]
    found: list[Any] = [None, None]

    def play(rank: int) -> None:
        prepared = tasks[rank].prepare()
        found[rank] = (prepared, tasks[rank].visit({"repetitions": 7, "burst": 4}))

    joined([beside(lambda rank=rank: play(rank)) for rank in (0, 1)])  # type: ignore[misc]
    (prepared, visit), (other, nothing) = found
    assert prepared["right"] is True
    assert prepared["about_ns"] > 0
    assert other["right"] is True
    assert len(visit["times"]) == 7
    assert min(visit["times"]) > 0
    assert nothing == {}


@pytest.mark.parametrize("channel", channels())
def test_damaged_bytes_are_noticed(pair: tuple[Sockets, Sockets], channel: str) -> None:
    cell = Cell(channel=channel, op=Op.SEND_RECV, size_bytes=64, ranks=(0, 1))
    right: list[bool] = []

    def damage() -> None:
        messenger = pair[1].messenger(channel, 0, 64)
        messenger.receive()
        messenger.fill(b"\7" * 64)
        messenger.send()

    thread = beside(damage)
    right.append(Task(cell, pair[0], 0)._check())
    joined([thread])
    assert right == [False]


def test_a_strange_token_gets_no_channel(pair: tuple[Sockets, Sockets]) -> None:
    listener = Listener(LOOPBACK)
    mine = Sockets(1, listener)
    stranger = connected(LOOPBACK, listener.port, wait_s=1.0, where="")
    stranger.send({"rank": 0, "channel": TCP, "token": "guess"})
    message = {
        "channels": [TCP],
        "pairs": [[0, 1]],
        "addresses": {},
        "largest_bytes": 8,
        "deadline_s": 0.5,
        "token": "t",
    }
    with pytest.raises(PeerGoneError, match="did not connect before the deadline"):
        mine.open(message)
    mine.close()
    with pytest.raises(InputError, match="sockets have no all-reduce"):
        pair[0].action(Cell(channel=TCP, op=Op.ALL_REDUCE, size_bytes=8, ranks=(0, 1)))


def test_a_guest_cannot_ask_for_memory() -> None:
    listener = Listener(LOOPBACK)
    mine = Sockets(1, listener, allowed=(TCP,))
    guest = connected(LOOPBACK, listener.port, wait_s=1.0, where="")
    guest.send({"rank": 0, "channel": MEMORY, "token": "t", "path": "/etc/passwd"})
    message = {"channels": [MEMORY], "pairs": [[0, 1]], "addresses": {}, "largest_bytes": 8, "deadline_s": 0.5,
               "token": "t"}  # fmt: skip
    with pytest.raises(PeerGoneError, match="did not connect"):
        mine.open(message)
    mine.close()


def test_a_stream_ends_at_its_deadline_and_when_the_peer_goes() -> None:
    left, right = socket.socketpair()
    stream = Stream(left, 8, 0.2)
    with pytest.raises(PeerGoneError, match="nothing moved before the deadline"):
        stream.messenger(8).receive()
    right.close()
    with pytest.raises(PeerGoneError):
        stream.messenger(8).receive()


def test_memory_ends_at_its_deadline_and_when_the_peer_goes() -> None:
    guard, other = socket.socketpair()
    path = Segment.create(64)
    segment = Segment(path, 64, guard, first=True, deadline_s=0.3)
    path.unlink()
    with pytest.raises(PeerGoneError, match="nothing moved before the deadline"):
        segment.messenger(8).receive()
    segment.deadline_s = 60.0
    other.close()
    started = time.monotonic()
    with pytest.raises(PeerGoneError, match="the other process ended"):
        segment.messenger(8).receive()
    assert time.monotonic() - started < 10.0


def test_clocks_are_compared_by_the_quickest_exchange(
    pair: tuple[Sockets, Sockets], monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = 5_000_000
    real = time.perf_counter_ns
    thread_of_other: list[int] = []

    def clock() -> int:
        return real() + (ahead if threading.get_ident() in thread_of_other else 0)

    monkeypatch.setattr(time, "perf_counter_ns", clock)

    def answer() -> None:
        thread_of_other.append(threading.get_ident())
        clocks.compare(pair[1].messenger(TCP, 0, clocks.SIZE), leads=False)

    thread = beside(answer)
    found = clocks.compare(pair[0].messenger(TCP, 1, clocks.SIZE), leads=True)
    joined([thread])
    assert abs(found["ahead_ns"] - ahead) <= found["error_ns"] + 1000


# ------------------------------------------------------------------------------------------------- conductor


class Ranks:
    """Two players in threads, over real wires."""

    def __init__(self) -> None:
        self.conductor = Conductor(2)
        self.ended: list[BaseException | None] = [None, None]
        self.threads = [beside(lambda rank=rank: self.play(rank)) for rank in (0, 1)]  # type: ignore[misc]
        self.conductor.assemble(DEADLINE_S)

    def play(self, rank: int) -> None:
        wire = connected(LOOPBACK, self.conductor.port, wait_s=DEADLINE_S, where="test")
        backend = Sockets(rank, Listener(LOOPBACK))
        try:
            Player(wire, rank, backend).play(self.conductor.token, address=backend.address(LOOPBACK))
        except PeerGoneError as error:
            self.ended[rank] = error

    def open(self) -> None:
        self.conductor.ask_all(
            {"do": "open", "channels": [TCP], "pairs": [[0, 1]], "largest_bytes": 4096, "deadline_s": DEADLINE_S,
             "token": self.conductor.token,
             "addresses": {str(rank): info["address"] for rank, info in self.conductor.info.items()}},
            DEADLINE_S,
        )  # fmt: skip


def test_ranks_say_who_they_are_and_stop_when_told() -> None:
    ranks = Ranks()
    info = ranks.conductor.info[1]
    assert (info["pid"], info["host"]) == (os.getpid(), socket.gethostname())
    ranks.open()
    ranks.conductor.stop()
    joined(ranks.threads)
    assert ranks.ended == [None, None]


def test_ranks_end_when_the_conductor_is_gone() -> None:
    ranks = Ranks()
    ranks.conductor.close()
    joined(ranks.threads)
    assert all("is gone" in str(error) for error in ranks.ended)


def test_a_rank_that_fails_is_named_with_its_reason() -> None:
    ranks = Ranks()
    cell = Cell(channel="mpi", op=Op.ALL_REDUCE, size_bytes=8, ranks=(0, 1))
    with pytest.raises(RankLostError, match=r"rank 1: .*sockets have no all-reduce"):
        ranks.conductor.ask({1: {"do": "prepare", "id": 0, "cell": cell.to_dict()}}, DEADLINE_S)
    ranks.conductor.stop()
    joined(ranks.threads)


def test_a_rank_that_waits_for_another_lives_and_says_so() -> None:
    ranks = Ranks()
    ranks.open()
    cell = Cell(channel=TCP, op=Op.SEND_RECV, size_bytes=8, ranks=(0, 1))
    with pytest.raises(RankLostError, match="though its process lives"):
        ranks.conductor.ask({1: {"do": "prepare", "id": 0, "cell": cell.to_dict()}}, 0.5)
    ranks.conductor.close()
    joined(ranks.threads)


def silent(conductor: Conductor, rank: int) -> Wire:
    """Return the end of a rank that came, and says nothing any more."""
    wire = connected(LOOPBACK, conductor.port, wait_s=1.0, where="test")
    wire.send({"rank": rank, "token": conductor.token, "host": "there", "pid": 7})
    return wire


def test_a_rank_without_a_sign_of_life_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nhalf.evidence.probe.conductor._PONG_S", 0.3)
    conductor = Conductor(1)
    wire = silent(conductor, 0)
    conductor.assemble(2.0)
    with pytest.raises(RankLostError, match=r"rank 0: no answer for 0 s, nor a sign of life \(there, pid 7\)"):
        conductor.ask_all({"do": "visit"}, 0.3)
    wire.close()
    conductor.close()


def test_a_rank_that_dies_is_named_even_while_another_is_waited_for() -> None:
    conductor = Conductor(2)
    wires = [silent(conductor, rank) for rank in (0, 1)]
    conductor.assemble(2.0)
    wires[1].close()
    with pytest.raises(RankLostError, match="rank 1: its process ended"):
        conductor.ask({0: {"do": "visit"}}, 5.0)
    conductor.close()


def test_the_rank_that_died_is_named_though_another_fails_of_it_first() -> None:
    conductor = Conductor(2)
    wires = [silent(conductor, rank) for rank in (0, 1)]
    conductor.assemble(2.0)
    wires[0].send({"failed": "no such process"})  # what a library says whose peer is gone
    threading.Timer(0.4, wires[1].close).start()
    with pytest.raises(RankLostError, match="rank 1: its process ended"):
        conductor.ask_all({"do": "visit"}, 5.0)
    wires[0].close()
    conductor.close()


def test_ranks_that_do_not_come_are_listed() -> None:
    conductor = Conductor(3)
    wire = silent(conductor, 1)
    stranger = connected(LOOPBACK, conductor.port, wait_s=1.0, where="test")
    stranger.send({"rank": 0, "token": "guess"})
    with pytest.raises(RankLostError, match=r"missing: 0, 2 of 3"):
        conductor.assemble(0.6)
    wire.close()
    conductor.close()


def test_two_processes_of_one_rank_are_refused() -> None:
    conductor = Conductor(2)
    wires = [silent(conductor, 1) for _ in range(2)]
    with pytest.raises(InputError, match="two processes say that they are rank 1"):
        conductor.assemble(2.0)
    for wire in wires:
        wire.close()
    conductor.close()


def test_a_taken_port_is_one_clear_error() -> None:
    with socket.create_server((LOOPBACK, 0)) as server, pytest.raises(InputError, match="choose another: --port"):
        Conductor(2, port=server.getsockname()[1])


def test_an_interrupt_ends_a_wait() -> None:
    conductor = Conductor(1)
    wire = silent(conductor, 0)
    conductor.assemble(2.0)
    conductor.interrupted = lambda: True
    with pytest.raises(StoppedError) as caught:
        conductor.ask_all({"do": "visit"}, 60.0)
    assert caught.value.exit_code == 130
    wire.close()
    conductor.close()


def test_a_rank_that_died_is_named_though_its_launcher_interrupts_the_others() -> None:
    conductor = Conductor(2)
    wires = [silent(conductor, rank) for rank in (0, 1)]
    conductor.assemble(2.0)
    conductor.interrupted = lambda: True
    wires[1].close()
    with pytest.raises(RankLostError, match="rank 1: its process ended"):
        conductor.ask({0: {"do": "visit"}}, 5.0)
    conductor.close()


def test_a_signal_is_noted_and_what_was_is_restored() -> None:
    import signal

    before = signal.getsignal(signal.SIGTERM)
    with Interrupts() as interrupts:
        assert not interrupts()
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts()
    assert signal.getsignal(signal.SIGTERM) is before
