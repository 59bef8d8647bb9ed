"""Doubts: what to know before the numbers of a measurement are believed, and the command that would settle it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.evidence.probe.record import Doubt
from nhalf.evidence.probe.schedule import settled, worst
from nhalf.evidence.probe.statistics import median

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from nhalf.collective import Op
    from nhalf.evidence.probe.cell import Cell
    from nhalf.evidence.probe.plan import Request
    from nhalf.evidence.probe.record import Entry, Record

_SKEWED: Final = 0.2


def before(ranks: Mapping[int, Mapping[str, Any]]) -> list[Doubt]:
    """Return the doubts that hold before anything is timed: too few processors, other work on them."""
    found = [*_oversubscribed(ranks)]
    cores = os.cpu_count() or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > 0.5 * cores:
        found.append(Doubt(code="busy", text=f"other work runs here: a load of {load:.1f} on {cores} processors before "
                           "the measurement began", do="measure again when the machine is idle"))  # fmt: skip
    return found


def of_backend(backend: str) -> list[Doubt]:
    """Return the doubt that holds for all of a backend's times."""
    if backend != "nccl":
        return []
    text = "nhalf's path over NCCL, with its graphs, was read and run on stand-ins only: it is untested on hardware"
    return [Doubt(code="untested", text=text, do="compare it with all_reduce_perf -b 8 -e 128M -f 2 of nccl-tests")]


def oversubscribed(ranks: Mapping[int, Mapping[str, Any]]) -> bool:
    """Return whether a host has more ranks than processors for them."""
    return bool(list(_oversubscribed(ranks)))


def _oversubscribed(ranks: Mapping[int, Mapping[str, Any]]) -> Iterable[Doubt]:
    hosts: dict[str, list[Mapping[str, Any]]] = {}
    for info in ranks.values():
        hosts.setdefault(info["host"], []).append(info)
    for host, infos in hosts.items():
        cpus = {cpu for info in infos for cpu in info.get("cpus", ())}
        if cpus and len(infos) > len(cpus):
            yield Doubt(
                code="oversubscribed",
                text=f"{len(infos)} ranks share {len(cpus)} processor{'s' * (len(cpus) != 1)} of {host}: the times "
                "hold the waiting of ranks for a processor",
                do=f"measure with {len(cpus)} ranks, or fewer" if len(cpus) > 1 else "measure on more processors",
            )


def left_out(cells: Sequence[Cell], request: Request) -> list[Doubt]:
    """Return the doubt that sizes were left out, since they are too slow for the budget."""
    if not cells:
        return []
    first = min(cells, key=lambda cell: cell.size_bytes)
    ops = ", ".join(dict.fromkeys(str(cell.op) for cell in cells))
    return [
        Doubt(
            code="left-out",
            text=f"{len(cells)} points were left out, as they would have taken the budget of {request.budget_s:.0f} s: "
            f"{ops} from {units.format_size(first.size_bytes)} on",
            do=f"{request.command} --budget {4 * request.budget_s * request.launches:.0f}s",
        )
    ]


def after(record: Record, request: Request, *, rounds: int) -> list[Doubt]:
    """Return the doubts that the times themselves raise."""
    entries = [entry for entry in record.entries_of("isolated", "back_to_back", "graph") if entry.rounds]
    found = []
    known = settled(entries, request.target)
    if entries and known < len(entries):
        budget = f"{2 * request.budget_s * request.launches:.0f}s"
        found.append(
            Doubt(
                code="noise",
                text=f"the median is known within {100 * request.target:.2g} % at {known} of {len(entries)} points "
                f"after {rounds} rounds; worst at {worst(entries)}",
                do=f"{request.command} --budget {budget}",
            )
        )
    wrong = [entry for entry in record.entries if not entry.right]
    if wrong:
        names = ", ".join(sorted({f"{e.cell.op} of {units.format_size(e.cell.size_bytes)}" for e in wrong}))
        found.append(Doubt(code="wrong-results", text=f"the results were wrong: {names}", do="check the library"))
    return [*found, *_skews(entries), *_changed(record)]


def _skews(entries: Iterable[Entry]) -> Iterable[Doubt]:
    by_op: dict[Op, list[float]] = {}
    for entry in entries:
        if entry.cell.how == "isolated" and entry.skews_ns and entry.medians_ns:
            by_op.setdefault(entry.cell.op, []).append(median(entry.skews_ns) / median(entry.medians_ns))
    bad = {op: median(shares) for op, shares in by_op.items() if median(shares) > _SKEWED}
    if bad:
        names = ", ".join(f"{op} {100 * share:.0f} %" for op, share in bad.items())
        yield Doubt(code="skew", text=f"ranks leave the barrier apart, by this share of an isolated time: {names}; up "
                    "to one latency of it is the barrier's", do="believe the back-to-back times of collectives, and "
                    "send-recv for the latency")  # fmt: skip


def _changed(record: Record) -> Iterable[Doubt]:
    _, differ = record.merged
    if differ:
        yield Doubt(code="ranks-differ", text=f"the ranks differ in {', '.join(differ)}",
                    do="start all ranks with one environment")  # fmt: skip
