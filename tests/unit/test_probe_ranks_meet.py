"""Ranks that meet: wires, channels, the conductor and its players, and how each way to lose a rank is named."""

from __future__ import annotations

import json
import os
import re
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
from nhalf.evidence.probe.door import Door
from nhalf.evidence.probe.handshake import RefusedError, enter, key_of, new_word, nonce
from nhalf.evidence.probe.joining import play
from nhalf.evidence.probe.memory import Segment
from nhalf.evidence.probe.messages import (
    GREETINGS,
    ORDERS,
    REPLIES,
    Address,
    Challenge,
    Done,
    Facts,
    Failed,
    Hello,
    Open,
    Peer,
    Prepare,
    Refused,
    Visit,
    Welcome,
)
from nhalf.evidence.probe.signals import Interrupts
from nhalf.evidence.probe.sockets import TCP, Sockets, channels
from nhalf.evidence.probe.streams import PeerGoneError, Stream
from nhalf.evidence.probe.timing import Task
from nhalf.evidence.probe.wire import NoMessageError, Wire, connected, listening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from nhalf.evidence.probe.messages import Channel, Message, Speech

LOOPBACK = "127.0.0.1"
DEADLINE_S = 5.0
KEY = b"a key of the tests"
VISIT = Visit(id=0, repetitions=1)


pytestmark = pytest.mark.usefixtures("no_end_is_left_open")


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
    right.speech = REPLIES
    sent = [Done(result={"times": list(range(20_000)), "n": n}) for n in range(3)]

    def send() -> None:
        for message in sent:
            left.send(message)

    sender = beside(send)
    received: list[Message] = []
    while len(received) < len(sent) and select.select([right], [], [], DEADLINE_S)[0]:
        received += right.pump()
    joined([sender])
    assert received == sent


def framed(text: bytes) -> bytes:
    return len(text).to_bytes(4, "big") + text


NOISE = [
    b"\xff\xff\xff\xff",
    b"GET / HTTP/1.1\r\n\r\n",
    *map(framed, (b"[]", b"abc", b"\xff\xfe", b"null", b"{}", b'{"do":"none"}', b'{"do":"stop","more":1}', b"[" * 900)),
]


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("speech", [GREETINGS, ORDERS, REPLIES])
def test_what_is_no_message_closes_the_wire(noise: bytes, speech: Speech) -> None:
    end, other = socket.socketpair()
    wire = Wire(end)
    wire.speech = speech
    other.sendall(noise)
    with pytest.raises(NoMessageError, match="no message of nhalf"):
        wire.receive(1.0)


def test_depth_and_length_are_bounded_for_those_who_proved_themselves_too() -> None:
    for text in (
        b"[" * 900_000,
        b'{"do":"prepare","id":' + b"[" * 500_000,
        b'{"do":"clock","channel":"' + b"x" * 2001 + b'"}',
    ):
        end, other = socket.socketpair()
        wire = Wire(end)
        wire.speech = ORDERS
        sender = beside(lambda other=other, text=text: other.sendall(framed(text)))  # type: ignore[misc]
        with pytest.raises(NoMessageError):
            wire.receive(5.0)
        end.close()
        joined([sender])


ORDERS_THAT_ARE_NONE = [
    {"do": "open", "channels": ["tcp"], "peers": [], "largest_bytes": 2**40, "deadline_s": 1.0},
    {"do": "open", "channels": ["file"], "peers": [], "largest_bytes": 8, "deadline_s": 1.0},
    {"do": "open", "channels": ["tcp"], "peers": [{"rank": 5000}], "largest_bytes": 8, "deadline_s": 1.0},
    {"do": "open", "channels": ["unix"], "largest_bytes": 8, "deadline_s": 1.0,
     "peers": [{"rank": 1, "address": {"host": "", "port": 1, "folder": "../../run/docker.sock"}}]},
    {"do": "visit", "id": 0, "repetitions": 10**12},
    {"do": "visit", "id": 0, "repetitions": -1},
    {"do": "visit", "id": 0, "repetitions": 1.5},
    {"do": "clock", "channel": "tcp", "peer": "0", "leads": True},
]  # fmt: skip


@pytest.mark.parametrize("order", ORDERS_THAT_ARE_NONE)
def test_an_order_out_of_its_limits_is_no_message(order: dict[str, Any]) -> None:
    end, other = socket.socketpair()
    wire = Wire(end)
    wire.speech = ORDERS
    other.sendall(framed(json.dumps(order).encode()))
    with pytest.raises(NoMessageError):
        wire.receive(1.0)


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


def opening(over: tuple[Channel, ...], address: Address, *, largest_bytes: int = 4096) -> dict[int, Open]:
    """Return what tells ranks 0 and 1 to join: 0 connects."""
    peers = {0: Peer(rank=1, address=address), 1: Peer(rank=0)}
    return {
        rank: Open(channels=over, peers=(peer,), largest_bytes=largest_bytes, deadline_s=DEADLINE_S)
        for rank, peer in peers.items()
    }


@pytest.fixture
def pair() -> Iterator[tuple[Sockets, Sockets]]:
    both = tuple(Sockets(rank, KEY) for rank in (0, 1))
    orders = opening(channels(), both[1].address(LOOPBACK), largest_bytes=100_000)
    threads = [beside(lambda rank=rank: both[rank].open(orders[rank])) for rank in (0, 1)]  # type: ignore[misc]
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
        found[rank] = (prepared, tasks[rank].visit(Visit(id=0, repetitions=7, burst=4)))

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


def expecting(channel: Channel, deadline_s: float) -> Open:
    return Open(channels=(channel,), peers=(Peer(rank=0),), largest_bytes=8, deadline_s=deadline_s)


def test_a_strange_key_gets_no_channel(pair: tuple[Sockets, Sockets]) -> None:
    mine = Sockets(1, KEY)
    address = mine.address(LOOPBACK)
    stranger = connected(LOOPBACK, address.port, wait_s=1.0, where="")
    with pytest.raises(RefusedError, match="the word is not"):
        enter(stranger, b"guess", rank=0, channel=TCP, where="")
    with pytest.raises(PeerGoneError, match="did not connect before the deadline"):
        mine.open(expecting(TCP, 0.5))
    mine.close()
    with pytest.raises(InputError, match="sockets have no broadcast"):
        pair[0].action(Cell(channel=TCP, op=Op.BROADCAST, size_bytes=8, ranks=(0, 1)))
    with pytest.raises(InputError, match="no streams over shm"):
        pair[0].action(Cell(channel="shm", op=Op.ALL_REDUCE, size_bytes=8, ranks=(0, 1)))


def test_half_open_connections_hold_up_no_rank() -> None:
    both = tuple(Sockets(rank, KEY) for rank in (0, 1))
    address = both[1].address(LOOPBACK)
    idle = [socket.create_connection((LOOPBACK, address.port)) for _ in range(100)]
    orders = opening((TCP,), address)
    started = time.monotonic()
    joined([beside(lambda rank=rank: both[rank].open(orders[rank])) for rank in (0, 1)])  # type: ignore[misc]
    assert time.monotonic() - started < DEADLINE_S
    assert len(idle) == 100
    for each in both:
        each.close()


@pytest.mark.parametrize("channel", ["unix", "shm"])
def test_a_host_that_listens_opens_no_local_channel_and_connects_to_nobody(channel: Channel) -> None:
    door = Door([listening(LOOPBACK, 0, where="")], KEY, ranks=1, once=True)
    mine = Sockets(1, KEY, door)
    elsewhere = Open(channels=(TCP,), largest_bytes=8, deadline_s=0.5,
                     peers=(Peer(rank=2, address=Address(host=LOOPBACK, port=1)),))  # fmt: skip
    for order in (expecting(channel, 0.5), elsewhere):
        with pytest.raises(InputError, match="connects to nobody"):
            mine.open(order)
    mine.close()


def test_only_the_file_that_was_agreed_becomes_memory(tmp_path: Path) -> None:
    guard, _other = socket.socketpair()
    small, link = tmp_path / "small", tmp_path / "link"
    small.write_bytes(b"x" * 100)
    link.symlink_to(small)
    with pytest.raises(PeerGoneError, match="not what was agreed"):
        Segment(small, 64, guard, first=False, deadline_s=1.0)
    with pytest.raises(OSError, match="symbolic"):
        Segment(link, 64, guard, first=False, deadline_s=1.0)


# ------------------------------------------------------------------------------------------------- the handshake


def test_both_ends_prove_the_word_and_share_a_key_that_no_recording_gives() -> None:
    door = Door([server := listening(LOOPBACK, 0, where="")], key_of("sesame-sesame"))
    port = server.getsockname()[1]
    keys = []
    for _ in range(2):
        wire = connected(LOOPBACK, port, wait_s=1.0, where="")
        mine = enter(wire, key_of("sesame-sesame"), rank=3, where="")
        guest = door.next(DEADLINE_S)
        assert guest is not None
        assert (guest.key, guest.hello.rank) == (mine, 3)
        keys.append(mine)
    assert keys[0] != keys[1]
    door.close()


def test_a_host_that_does_not_know_the_word_is_not_believed() -> None:
    server = listening(LOOPBACK, 0, where="")

    def pretend() -> None:
        wire = Wire(server.accept()[0])
        wire.receive(DEADLINE_S)
        wire.send(Challenge(nonce=nonce()))
        wire.receive(DEADLINE_S)
        wire.send(Welcome(proof="0" * 64))

    thread = beside(pretend)
    with pytest.raises(RefusedError, match="no nhalf measure that listens"):
        enter(connected(LOOPBACK, server.getsockname()[1], wait_s=1.0, where=""), KEY, rank=0, where="")
    joined([thread])


def test_a_handshake_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nhalf.evidence.probe.handshake.HELLO_S", 0.4)
    door = Door([server := listening(LOOPBACK, 0, where="")], KEY)
    silent, slow = (socket.create_connection(server.getsockname()) for _ in range(2))
    started = time.monotonic()
    with pytest.raises(OSError, match=r"reset|pipe"):  # noqa: PT012  it ends somewhere in the loop
        while time.monotonic() - started < DEADLINE_S:
            slow.sendall(b"\0")
            time.sleep(0.05)
    silent.settimeout(DEADLINE_S)
    assert silent.recv(1) == b""
    assert door.sent_away == 2
    door.close()


def test_another_version_is_refused_by_name() -> None:
    door = Door([server := listening(LOOPBACK, 0, where="")], KEY)
    wire = connected(LOOPBACK, server.getsockname()[1], wait_s=1.0, where="")
    wire.send(Hello(protocol=1, rank=0, channel="", nonce=nonce()))
    assert wire.receive(DEADLINE_S) == Refused(why="version")
    door.close()


def test_words_are_made_of_letters_that_can_be_read_aloud_and_differ() -> None:
    words = {new_word() for _ in range(200)}
    assert len(words) == 200
    assert all(re.fullmatch(r"[a-km-np-z2-9]{4}(-[a-km-np-z2-9]{4}){2}", word) for word in words)


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
    found: Any = clocks.compare(pair[0].messenger(TCP, 1, clocks.SIZE), leads=True)
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
        key = self.conductor.key
        try:
            play(Sockets(rank, key), rank, (LOOPBACK, self.conductor.port, key))
        except PeerGoneError as error:
            self.ended[rank] = error

    def open(self) -> None:
        self.conductor.ask(opening((TCP,), self.conductor.info[1]["address"]), DEADLINE_S)


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
    with pytest.raises(RankLostError, match=r"rank 1: .*no streams over mpi"):
        ranks.conductor.ask({1: Prepare(id=0, cell=cell)}, DEADLINE_S)
    ranks.conductor.stop()
    joined(ranks.threads)


def test_a_rank_that_waits_for_another_lives_and_says_so() -> None:
    ranks = Ranks()
    ranks.open()
    cell = Cell(channel=TCP, op=Op.SEND_RECV, size_bytes=8, ranks=(0, 1))
    with pytest.raises(RankLostError, match="though its process lives"):
        ranks.conductor.ask({1: Prepare(id=0, cell=cell)}, 0.5)
    ranks.conductor.close()
    joined(ranks.threads)


def silent(conductor: Conductor, rank: int) -> Wire:
    """Return the end of a rank that came, and says nothing any more."""
    wire = connected(LOOPBACK, conductor.port, wait_s=1.0, where="test")
    enter(wire, conductor.key, rank=rank, where="test")
    wire.send(Facts(host="there", pid=7))
    return wire


def test_a_rank_without_a_sign_of_life_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nhalf.evidence.probe.conductor._PONG_S", 0.3)
    conductor = Conductor(1)
    wire = silent(conductor, 0)
    conductor.assemble(2.0)
    with pytest.raises(RankLostError, match=r"rank 0: no answer for 0 s, nor a sign of life \(there, pid 7\)"):
        conductor.ask_all(VISIT, 0.3)
    wire.close()
    conductor.close()


def test_a_rank_that_dies_is_named_even_while_another_is_waited_for() -> None:
    conductor = Conductor(2)
    wires = [silent(conductor, rank) for rank in (0, 1)]
    conductor.assemble(2.0)
    wires[1].close()
    with pytest.raises(RankLostError, match="rank 1: its process ended"):
        conductor.ask({0: VISIT}, 5.0)
    conductor.close()


def test_the_rank_that_died_is_named_though_another_fails_of_it_first() -> None:
    conductor = Conductor(2)
    wires = [silent(conductor, rank) for rank in (0, 1)]
    conductor.assemble(2.0)
    wires[0].send(Failed(why="no such process"))  # what a library says whose peer is gone
    threading.Timer(0.4, wires[1].close).start()
    with pytest.raises(RankLostError, match="rank 1: its process ended"):
        conductor.ask_all(VISIT, 5.0)
    wires[0].close()
    conductor.close()


def test_ranks_that_do_not_come_are_listed() -> None:
    conductor = Conductor(3)
    wire = silent(conductor, 1)
    stranger = connected(LOOPBACK, conductor.port, wait_s=1.0, where="test")
    with pytest.raises(RefusedError):
        enter(stranger, b"guess", rank=0, where="test")
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
        conductor.ask_all(VISIT, 60.0)
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
        conductor.ask({0: VISIT}, 5.0)
    conductor.close()


def test_a_signal_is_noted_and_what_was_is_restored() -> None:
    import signal

    before = signal.getsignal(signal.SIGTERM)
    with Interrupts() as interrupts:
        assert not interrupts()
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts()
    assert signal.getsignal(signal.SIGTERM) is before
