"""Conduct a measurement among ranks that have come: transport, clocks, cells, rounds, doubts."""

from __future__ import annotations

import time
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.collective import Op
from nhalf.evidence.probe import clocks, doubts, placement, traffic
from nhalf.evidence.probe.messages import Clock, Open, Peer, Ran, Traffic
from nhalf.evidence.probe.plan import SOCKETS, cells, example_pairs, loop_cell
from nhalf.evidence.probe.record import Doubt
from nhalf.evidence.probe.schedule import Schedule, Terms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nhalf.evidence.probe.cell import Cell, Program
    from nhalf.evidence.probe.conductor import Conductor
    from nhalf.evidence.probe.plan import Request
    from nhalf.evidence.probe.record import Record

    Progress = Callable[[float, str], None]

_SAVE_S, _SAVE_SHARE = 2.0, 30.0
_DOUBLE: Final = 2.2
"""Beyond twice the floor by what one reading may be wrong."""
_CLIMBING: Final = 0.5
"""The share of the budget that may be spent before the first round."""
_CLOCK_NS: Final = 5000
"""An offset that may be wrong by more than this [ns] starts no window."""
_ROUND_TRIP: Final = 2
_LOOK_BYTES: Final = 65_536
_LARGEST_CONTROL: Final = 4096  # [bytes] buffers for clocks and acknowledgements, whatever the sizes


def conduct(conductor: Conductor, request: Request, record: Record, progress: Progress) -> None:
    """Measure, and put everything into the record as it comes.

    Raises RankLostError when a rank is lost, StoppedError when the user interrupts; the record holds what there is.
    """
    record.ranks = dict(conductor.info)
    record.doubts += [*doubts.of_backend(request.backend), *doubts.before(record.ranks)]
    planned = cells(request, record.nodes)
    if request.backend == SOCKETS:
        _open(conductor, request, planned)
    ahead, error_ns = _clocks(conductor, request, record)
    by_clock = request.sync == "window" or (
        request.sync == "auto" and error_ns <= _CLOCK_NS and not doubts.oversubscribed(record.ranks)
    )
    terms = Terms(budget_s=request.budget_s, deadline_s=request.deadline_s, target=request.target, seed=request.seed,
                  windows=by_clock)  # fmt: skip
    schedule = Schedule(conductor, record, terms, _kept(record, request, progress))
    schedule.ahead_ns = ahead
    try:
        numbers = [*schedule.prepare(planned), *_climbed(schedule, request)]
        _transports(conductor, request, record, schedule)
        rounds = schedule.rounds(numbers)
        record.placed = placement.described(
            request.placement, conductor.ask_all(Ran(), request.deadline_s), record.nodes
        )
    finally:
        record.seconds = schedule.spent_s
    record.doubts += doubts.left_out(schedule.left_out, request)
    record.doubts += doubts.after(record, request, rounds=rounds)
    record.complete = True
    progress(1.0, f"{rounds} rounds")


def _climbed(schedule: Schedule, request: Request) -> list[int]:
    """Prepare rungs, every other one upwards until one takes twice the floor, then the one left out below it.

    The first of the ladder is the floor. Return the numbers of the cells.
    """
    if not request.ladder:
        return []

    def prepare(rung: Program) -> int:
        (number,) = schedule.prepare([loop_cell(request, rung)])
        return number

    floor, *rungs = request.ladder
    numbers = [prepare(floor)]
    for place in range(0, len(rungs), 2):
        if schedule.has_spent(_CLIMBING):
            break
        numbers.append(prepare(rungs[place]))
        if schedule.about_s(numbers[-1]) >= _DOUBLE * schedule.about_s(numbers[0]):
            numbers += [prepare(rungs[place - 1])] if place else []
            break
    return numbers


def _kept(record: Record, request: Request, progress: Progress) -> Progress:
    """Return a progress that saves the record now and then, in case not even an error can be handled."""
    if not request.file:
        return progress
    path, due = Path(request.file), time.monotonic() + _SAVE_S

    def told(share: float, text: str) -> None:
        nonlocal due
        progress(share, text)
        if time.monotonic() >= due:
            started = time.monotonic()
            record.save(path)
            due = time.monotonic() + max(_SAVE_S, _SAVE_SHARE * (time.monotonic() - started))

    return told


def _open(conductor: Conductor, request: Request, planned: Sequence[Cell]) -> None:
    """Connect the pairs of ranks that any cell needs: the lower rank of each to the higher."""
    pairs = {pair for cell in planned for pair in combinations(sorted(cell.ranks), 2)}
    pairs |= {(0, rank) for rank in range(1, conductor.size)}
    peers: dict[int, list[Peer]] = {rank: [] for rank in range(conductor.size)}
    for low, high in sorted(pairs):
        peers[low].append(Peer(rank=high, address=conductor.info[high]["address"]))
        peers[high].append(Peer(rank=low))
    sent = [step.size_bytes for each in request.ladder for step in each.steps if step.op is Op.SEND_RECV]
    largest = max(_LARGEST_CONTROL, *(cell.size_bytes for cell in planned if cell.program is None), *sent)
    orders = {
        rank: Open(channels=request.channels, peers=tuple(found), largest_bytes=largest, deadline_s=request.deadline_s)
        for rank, found in peers.items()
    }
    conductor.ask(orders, request.deadline_s + 1.0)


def _clocks(conductor: Conductor, request: Request, record: Record) -> tuple[dict[int, int], int]:
    """Return how far each clock is ahead of rank 0's [ns], and the most that this may be wrong."""
    if clocks.shared(record.ranks):
        record.clock = "one clock: all ranks run on one kernel"
        return {}, 0
    ahead, errors = {0: 0}, [0]
    for rank in range(1, conductor.size):
        channel = request.wires[0]
        answers = conductor.ask(
            {0: Clock(channel=channel, peer=rank, leads=True), rank: Clock(channel=channel, peer=0, leads=False)},
            request.deadline_s,
        )
        ahead[rank] = answers[0]["ahead_ns"]
        errors.append(answers[0]["error_ns"])
    worst = max(errors)
    record.clock = f"clocks compared with rank 0's, each known within {units.format_time(worst * 1e-9)}"
    return ahead, worst


def _transports(conductor: Conductor, request: Request, record: Record, schedule: Schedule) -> None:
    """Send messages that are large enough to be seen among what interfaces count, and note what counted them."""
    for label, pair in example_pairs(record.nodes):
        for channel in request.wires:
            number = schedule.largest(channel, pair)
            if number is None:
                continue
            before = _counters(conductor, pair[0], request)
            sent = sum(schedule.visit(number) for _ in range(_ROUND_TRIP)) * schedule.size_of(number)
            after = _counters(conductor, pair[0], request)
            found = traffic.carriers(before, after, sent) if sent >= _LOOK_BYTES else ()
            record.transports.append(_transport(channel, label, found, known=bool(after) and sent >= _LOOK_BYTES))
            record.doubts += _unexpected(record, channel, pair, found, known=bool(after))


def _counters(conductor: Conductor, rank: int, request: Request) -> dict[str, int]:
    found: dict[str, int] = conductor.ask({rank: Traffic()}, request.deadline_s)[rank]
    return found


def _transport(channel: str, label: str, found: tuple[str, ...], *, known: bool) -> dict[str, str]:
    if not known:
        text = "unknown: the system does not count, or too little was sent to tell"
    elif found:
        text = f"a network interface carried the bytes: {', '.join(found)}"
    else:
        text = "no network interface counted the bytes: the memory of one machine"
    return {"channel": channel, "between": label, "carried_by": ", ".join(found), "text": text}


def _unexpected(
    record: Record, channel: str, pair: tuple[int, int], found: tuple[str, ...], *, known: bool
) -> list[Doubt]:
    """Return the doubt that the ranks seem far apart while the bytes never left the machine."""
    first, second = (record.ranks[rank] for rank in pair)
    apart = first["host"] != second["host"] or first.get("network") != second.get("network")
    if found or not known or not apart:
        return []
    return [
        Doubt(
            code="transport",
            text=f"{channel}: ranks {pair[0]} and {pair[1]} are on different hosts or networks, but no interface "
            "counted their bytes: they went through shared memory, and the network was not measured",
            do="MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self FI_PROVIDER=tcp for MPICH, --mca pml ob1 --mca btl tcp,self for "
            "Open MPI; then measure again",
        )
    ]
