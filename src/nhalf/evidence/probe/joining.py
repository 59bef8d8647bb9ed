"""Join a measurement as one of its ranks: as a launcher started it, or as nhalf did."""

from __future__ import annotations

import signal
import socket
import threading
from typing import TYPE_CHECKING, Final

from nhalf.errors import InputError
from nhalf.evidence.probe.conduct import conduct
from nhalf.evidence.probe.conductor import Conductor, RankLostError
from nhalf.evidence.probe.guard import within
from nhalf.evidence.probe.handshake import enter, key_of, new_key
from nhalf.evidence.probe.plan import LOOPBACK, PORT, SOCKETS
from nhalf.evidence.probe.player import Player
from nhalf.evidence.probe.record import Record
from nhalf.evidence.probe.sockets import Sockets
from nhalf.evidence.probe.streams import PeerGoneError
from nhalf.evidence.probe.wire import connected

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.evidence.probe.backend import Backend
    from nhalf.evidence.probe.plan import Request
    from nhalf.evidence.probe.ranks import Place
    from nhalf.evidence.probe.session import Calls

_CONNECT_S: Final = 60.0


def play(backend: Backend, rank: int, meeting: tuple[str, int, bytes]) -> None:
    """Be one rank: prove the key to the conductor at a host and port, and do what it asks."""
    host, port, key = meeting
    where = f"rank {rank}"
    wire = connected(host, port, wait_s=_CONNECT_S, where=where)
    enter(wire, key, rank=rank, where=where)
    address = backend.address(wire.local_host()) if isinstance(backend, Sockets) else None
    Player(wire, rank, backend).play(address)


def joined(request: Request, place: Place, calls: Calls) -> Record | None:
    """Measure with ranks that a launcher started, of which this process is one; None where it is not rank 0."""
    backend, share = _backend(request, place)
    if place.rank > 0:
        # Only rank 0 heeds a signal: the others end when it has saved what there is, or is gone.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        try:
            play(backend, place.rank, _met(share("")))
        except PeerGoneError as error:
            raise RankLostError(0, "it ended before the measurement did", do="look at what rank 0 printed") from error
        return None
    host = request.bind or _own_host(place)
    sockets = request.backend == SOCKETS
    conductor = Conductor(place.size, host=host, port=request.port or (PORT if sockets else 0),
                          key=_key(request, place) if sockets else new_key())  # fmt: skip
    meeting = share(f"{host} {conductor.port} {conductor.key.hex()}")
    record = Record(backend=request.backend, command=request.command, seed=request.seed)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            conductor.assemble(request.wait_s)
            conduct(conductor, request, record, calls.progress)
            conductor.stop()
        except BaseException as error:  # noqa: BLE001  the main thread raises it again, unless it hangs in a library
            errors.append(error)
            calls.failed(record, error)
        finally:
            conductor.close()

    conductor.interrupted = calls.interrupted
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        play(backend, 0, _met(meeting))
    except PeerGoneError:
        if not errors:
            thread.join(request.deadline_s)
    thread.join(request.deadline_s)
    if errors:
        raise errors[0]
    return record


def _met(meeting: str) -> tuple[str, int, bytes]:
    host, port, key = meeting.split()
    return host, int(port), bytes.fromhex(key)


def _backend(request: Request, place: Place) -> tuple[Backend, Callable[[str], str]]:
    """Return the backend of this rank, and how rank 0 tells the others where, and by which key, they meet."""
    if request.backend == "mpi":
        from nhalf.evidence.probe.mpi import Mpi

        late = f"nhalf: rank {place.rank}: MPI did not start within {request.wait_s:.0f} s"
        do = "check that the hosts of mpiexec reach one another, or give it longer: --wait 5min"
        with within(request.wait_s, f"{late}. Do: {do}."):
            mpi = Mpi()
        return mpi, mpi.share
    if request.backend in ("gloo", "nccl"):
        from nhalf.evidence.probe.torch_group import TorchGroup

        group = TorchGroup(request.backend, place, request.deadline_s)
        return group, group.share
    if not place.master and place.rank > 0:
        raise InputError("nobody says where rank 0 is", where="MASTER_ADDR", allowed="the name of rank 0's host",
                         do="export MASTER_ADDR=HOST before the ranks start")  # fmt: skip
    key = _key(request, place)
    meeting = f"{place.master or LOOPBACK} {request.port or PORT} {key.hex()}"
    return Sockets(place.rank, key), lambda text: text or meeting


def _key(request: Request, place: Place) -> bytes:
    """Return the key of ranks that no library introduces: of a word that their launcher hands to all of them.

    Raises InputError where ranks of several hosts have none.
    """
    if not request.word and _own_host(place) != LOOPBACK:
        raise InputError("ranks of several hosts need a word, by which they know one another", where="NHALF_WORD",
                         do="export NHALF_WORD=$(openssl rand -hex 8) before the launcher starts them")  # fmt: skip
    return key_of(request.word or "the ranks of this machine")


def _own_host(place: Place) -> str:
    """Return the address at which the other ranks reach rank 0."""
    if place.master in ("localhost", LOOPBACK, "::1") or place.size == (place.local_size or 0):
        return LOOPBACK
    name = place.master or socket.gethostname()
    try:
        return socket.gethostbyname(name)
    except OSError:
        return LOOPBACK
