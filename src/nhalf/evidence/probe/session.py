"""A session: bring the ranks together, however they were started, measure, and leave nothing running."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nhalf.evidence.probe.conduct import conduct
from nhalf.evidence.probe.conductor import Conductor
from nhalf.evidence.probe.handshake import enter, key_of
from nhalf.evidence.probe.joining import joined
from nhalf.evidence.probe.launch import Launched, start_mpi, start_ranks
from nhalf.evidence.probe.messages import Address
from nhalf.evidence.probe.plan import PORT, SOCKETS
from nhalf.evidence.probe.record import Record
from nhalf.evidence.probe.wire import connected

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.evidence.probe.plan import Request
    from nhalf.evidence.probe.ranks import Place

    Progress = Callable[[float, str], None]
    Rescue = Callable[[Record, BaseException], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """Who is told how far a measurement is, who saves it when anything goes wrong, and who says whether to stop."""

    progress: Progress
    rescue: Rescue
    interrupted: Callable[[], bool]

    def failed(self, record: Record, error: BaseException) -> None:
        """Save a record that an error ends, before the error goes on."""
        record.lost, record.complete = str(error) or type(error).__name__, False
        self.rescue(record, error)


def measured(request: Request, place: Place | None, calls: Calls) -> Record | None:
    """Measure among the ranks that are asked for; None where another rank has the answer."""
    if request.host:
        return connect(request, calls)
    return joined(request, place, calls) if place is not None else local(request, calls)


def local(request: Request, calls: Calls) -> Record:
    """Start the ranks on this machine, measure, and end them; anew for each launch, which share the time."""
    if request.launches == 1:
        return _launch(request, calls)
    whole: Record | None = None

    def rescued(part: Record, error: BaseException) -> None:
        if whole is None:
            calls.rescue(part, error)
        else:
            whole.follow(part)
            calls.rescue(whole, error)

    for launch in range(request.launches):
        # What is saved now and then is one launch only, so the whole is saved after each.
        each = replace(request, budget_s=request.budget_s / request.launches, seed=request.seed + launch, file="")
        progress = _share_of(calls.progress, launch, request.launches)
        part = _launch(each, replace(calls, progress=progress, rescue=rescued))
        if whole is None:
            whole = part
        else:
            whole.follow(part)
        whole.complete = launch == request.launches - 1
        if request.file:
            whole.save(Path(request.file))
    return whole or new_record(request)


def new_record(request: Request) -> Record:
    """Return an empty record of what is asked."""
    return Record(backend=request.backend, command=request.command, seed=request.seed)


def _share_of(progress: Progress, launch: int, launches: int) -> Progress:
    def told(share: float, text: str) -> None:
        progress((launch + share) / launches, f"launch {launch + 1}: {text}")

    return told


def _launch(request: Request, calls: Calls) -> Record:
    launched = Launched()
    conductor = Conductor(request.size)

    def begin() -> None:
        conductor.health = launched.health
        if request.backend == SOCKETS:
            start_ranks(launched, conductor, range(request.size), request.placement)
        else:
            start_mpi(launched, conductor, request.placement)
        conductor.assemble(request.wait_s)

    return _run(conductor, launched, request, begin, calls)


def connect(request: Request, calls: Calls) -> Record:
    """Measure between this host and one that listens."""
    port, where = request.port or PORT, f"--connect {request.host}"
    wire = connected(request.host, port, wait_s=min(request.wait_s, 10.0), where="--connect")
    key = enter(wire, key_of(request.word), rank=0, where=where)
    launched = Launched()
    conductor = Conductor(2, key=key)

    def begin() -> None:
        conductor.add(wire, 1)
        conductor.info[1]["address"] = Address(host=request.host, port=port)
        conductor.health = launched.health
        start_ranks(launched, conductor, [0], request.placement)
        conductor.assemble(request.wait_s)

    return _run(conductor, launched, request, begin, calls)


def _run(conductor: Conductor, launched: Launched, request: Request, begin: Callable[[], None], calls: Calls) -> Record:
    """Measure with ranks that `begin` brings together; whatever happens, none is left running."""
    record, fine = new_record(request), False
    conductor.interrupted = calls.interrupted
    try:
        calls.progress(0.0, "starting the ranks")
        begin()
        conduct(conductor, request, record, calls.progress)
        conductor.health = lambda: None
        conductor.stop()
        fine = True
    except BaseException as error:
        calls.failed(record, error)
        raise
    finally:
        conductor.close()
        launched.end(patient=fine)
    return record
