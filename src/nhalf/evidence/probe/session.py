"""A session: bring the ranks together, however they were started, measure, and leave nothing running."""

from __future__ import annotations

import os
import signal
import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nhalf.errors import InputError
from nhalf.evidence.probe.conduct import conduct
from nhalf.evidence.probe.conductor import Conductor, RankLostError
from nhalf.evidence.probe.guard import within
from nhalf.evidence.probe.launch import Launched, start_mpi, start_ranks
from nhalf.evidence.probe.plan import SOCKETS
from nhalf.evidence.probe.player import Player
from nhalf.evidence.probe.record import Record
from nhalf.evidence.probe.signals import Interrupts
from nhalf.evidence.probe.sockets import TCP, Listener, Sockets
from nhalf.evidence.probe.streams import PeerGoneError
from nhalf.evidence.probe.wire import Wire, WireClosedError, connected

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.evidence.probe.backend import Backend
    from nhalf.evidence.probe.plan import Request
    from nhalf.evidence.probe.ranks import Place

    Progress = Callable[[float, str], None]
    Rescue = Callable[[Record, BaseException], None]

LOOPBACK: Final = "127.0.0.1"
PORT: Final = 29_577
"""Where ranks meet when nobody chooses another port; torchrun's is 29500."""
_JOIN: Final = "join"


def new_record(request: Request) -> Record:
    """Return an empty record of what is asked."""
    return Record(backend=request.backend, command=request.command, seed=request.seed)


def local(request: Request, progress: Progress, rescue: Rescue) -> Record:
    """Start the ranks on this machine, measure, and end them; anew for each launch, which share the time.

    `rescue` is given the record when anything goes wrong, before the error goes on.
    """
    if request.launches == 1:
        return _launch(request, progress, rescue)
    whole: Record | None = None

    def rescued(part: Record, error: BaseException) -> None:
        if whole is None:
            rescue(part, error)
        else:
            whole.follow(part)
            rescue(whole, error)

    for launch in range(request.launches):
        # What is saved now and then is one launch only, so the whole is saved after each.
        each = replace(request, budget_s=request.budget_s / request.launches, seed=request.seed + launch, file="")
        part = _launch(each, _share_of(progress, launch, request.launches), rescued)
        if whole is None:
            whole = part
        else:
            whole.follow(part)
        if request.file:
            whole.save(Path(request.file))
    return whole or new_record(request)


def _share_of(progress: Progress, launch: int, launches: int) -> Progress:
    def told(share: float, text: str) -> None:
        progress((launch + share) / launches, f"launch {launch + 1}: {text}")

    return told


def _launch(request: Request, progress: Progress, rescue: Rescue) -> Record:
    launched = Launched()
    conductor = Conductor(request.size)

    def begin() -> None:
        conductor.health = launched.health
        if request.backend == SOCKETS:
            start_ranks(launched, conductor, range(request.size))
        else:
            start_mpi(launched, conductor)
        conductor.assemble(request.wait_s)

    return _run(conductor, launched, request, begin, (progress, rescue))


def connect(request: Request, progress: Progress, rescue: Rescue) -> Record:
    """Measure between this host and one that listens."""
    launched = Launched()
    conductor = Conductor(2)

    def begin() -> None:
        wire = connected(request.host, request.port or PORT, wait_s=min(request.wait_s, 10.0), where="--connect")
        wire.send({"do": _JOIN, "rank": 1, "token": conductor.token, "word": request.word})
        if conductor.add(wire) is None:
            raise InputError(f"what listens at {request.host}:{request.port or PORT} sent this host away",
                             where="--connect", allowed="nhalf measure --listen, with the same --word and version",
                             do="look at what the other host printed")  # fmt: skip
        conductor.info[1]["address"] = {"host": request.host, "port": request.port or PORT, "path": ""}
        conductor.health = launched.health
        start_ranks(launched, conductor, [0])
        conductor.assemble(request.wait_s)

    return _run(conductor, launched, request, begin, (progress, rescue))


def _run(
    conductor: Conductor, launched: Launched, request: Request, begin: Callable[[], None],
    calls: tuple[Progress, Rescue],
) -> Record:  # fmt: skip
    """Measure with ranks that `begin` brings together; whatever happens, none is left running."""
    progress, rescue = calls
    record, fine = new_record(request), False
    with Interrupts() as interrupts:
        conductor.interrupted = interrupts
        try:
            progress(0.0, "starting the ranks")
            begin()
            conduct(conductor, request, record, progress)
            conductor.health = lambda: None
            conductor.stop()
            fine = True
        except BaseException as error:
            _failed(record, error, rescue)
            raise
        finally:
            conductor.close()
            launched.end(patient=fine)
    return record


def _failed(record: Record, error: BaseException, rescue: Rescue) -> None:
    record.lost = str(error) or type(error).__name__
    rescue(record, error)


def listen(request: Request, ready: Callable[[str, int], None]) -> str:
    """Wait for one host that connects, measure with it as rank 1, and return who came.

    Raises RankLostError when nobody comes in time, or who came goes away.
    """
    host, port = request.bind or "0.0.0.0", request.port or PORT  # noqa: S104  the other host must reach it
    try:
        server = socket.create_server((host, port), backlog=8)
    except OSError as error:
        raise InputError(f"port {port} of {host} cannot be opened: {error.strerror or error}", where="--listen",
                         allowed="a free port", do="choose another: --port 29650") from error  # fmt: skip
    server.settimeout(request.wait_s)
    ready(host, port)
    try:
        wire, message, came_from = _guest(server, request)
    except TimeoutError as error:
        server.close()
        raise RankLostError(0, f"nobody connected within {request.wait_s:.0f} s",
                            do="nhalf measure --connect HOST on the other host") from error  # fmt: skip
    backend = Sockets(1, Listener(host, server), allowed=(TCP,))
    try:
        Player(wire, 1, backend).play(message["token"], address={"host": "", "port": port, "path": ""})
    except PeerGoneError as error:
        raise RankLostError(0, "the other host went away before the end") from error
    return came_from


def _guest(server: socket.socket, request: Request) -> tuple[Wire, dict[str, str], str]:
    """Return the first connection that asks to measure, with the right word."""
    while True:
        connection, where = server.accept()
        wire = Wire(connection)
        try:
            message = wire.receive(5.0)
        except (TimeoutError, WireClosedError):
            wire.close()
            continue
        if message.get("do") == _JOIN and message.get("word", "") == request.word:
            return wire, message, str(where[0])
        wire.close()


def joined(request: Request, place: Place, progress: Progress, rescue: Rescue) -> Record | None:
    """Measure with ranks that a launcher started, of which this process is one; None where it is not rank 0."""
    backend, share = _backend(request, place)
    if place.rank > 0:
        # Only rank 0 heeds a signal: the others end when it has saved what there is, or is gone.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        try:
            _play(backend, place, share(""))
        except PeerGoneError as error:
            raise RankLostError(0, "it ended before the measurement did", do="look at what rank 0 printed") from error
        return None
    host = request.bind or _own_host(place)
    conductor = Conductor(place.size, host=host, port=request.port or (PORT if request.backend == SOCKETS else 0),
                          token=_fixed_token(request))  # fmt: skip
    meeting = share(f"{host} {conductor.port} {conductor.token}")
    record = new_record(request)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            conductor.assemble(request.wait_s)
            conduct(conductor, request, record, progress)
            conductor.stop()
        except BaseException as error:  # noqa: BLE001  the main thread raises it again, unless it hangs in a library
            errors.append(error)
            _failed(record, error, rescue)
        finally:
            conductor.close()

    with Interrupts() as interrupts:
        conductor.interrupted = interrupts
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            _play(backend, place, meeting)
        except PeerGoneError:
            if not errors:
                thread.join(request.deadline_s)
        thread.join(request.deadline_s)
    if errors:
        raise errors[0]
    return record


def _play(backend: Backend, place: Place, meeting: str) -> None:
    host, port, token = meeting.split()
    listener_host = LOOPBACK if host == LOOPBACK else ""
    wire = connected(host, int(port), wait_s=60.0, where=f"rank {place.rank}")
    address = None
    if isinstance(backend, Sockets):
        address = backend.address(listener_host or wire.local_host())
    Player(wire, place.rank, backend).play(token, address=address)


def _backend(request: Request, place: Place) -> tuple[Backend, Callable[[str], str]]:
    """Return the backend of this rank, and how rank 0 tells the others a word."""
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
    meeting = f"{place.master} {request.port or PORT} {_fixed_token(request)}"
    return Sockets(place.rank, None), lambda _: meeting


def _fixed_token(request: Request) -> str:
    """Return the token of ranks that have no way to tell one another but a port: the user's word."""
    if request.backend != SOCKETS:
        return ""
    return request.word or os.environ.get("SLURM_JOB_ID", "") or "nhalf"


def _own_host(place: Place) -> str:
    """Return the address at which the other ranks reach this one."""
    if place.master in ("localhost", LOOPBACK, "::1") or place.size == (place.local_size or 0):
        return LOOPBACK
    name = place.master or socket.gethostname()
    try:
        return socket.gethostbyname(name)
    except OSError:
        return LOOPBACK
