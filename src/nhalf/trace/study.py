"""The study of a trace: files in, everything that can be said out."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nhalf import units
from nhalf.collective import Op
from nhalf.errors import InputError, WeakEvidenceError
from nhalf.trace import budget, fixed_time, flight, kineto, nsight, stragglers
from nhalf.trace.calls import with_sizes
from nhalf.trace.recognition import with_own
from nhalf.trace.replay import replay
from nhalf.trace.sources import find
from nhalf.trace.timeline import build

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nhalf.trace.budget import Budget
    from nhalf.trace.fixed_time import Pricing, Row
    from nhalf.trace.record import RankTrace
    from nhalf.trace.replay import Replayed
    from nhalf.trace.sources import Source
    from nhalf.trace.stragglers import Verdict
    from nhalf.trace.timeline import Timeline

_WORTH_A_PROCESS_BYTES = 8 << 20
_MOST_LOST = 0.2
_APART_S = 600.0
"""Windows of one run lie closer than this [s]: clocks of a cluster are minutes apart at worst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user adds: patterns of their own, a step marker, sizes by operation [bytes], prices, tokens a step."""

    patterns: tuple[Path, ...] = ()
    step: str | None = None
    sizes: Mapping[Op, float] | None = None
    price: Pricing | None = None
    tokens_per_step: float | None = None
    workers: int | None = None
    progress: Callable[[str], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Study:
    """What a trace says: the timeline, each rank's budget and their mean, collectives, stragglers, gains, notes."""

    timeline: Timeline
    budgets: tuple[Budget, ...]
    mean: Budget
    rows: tuple[Row, ...]
    floor_s: float
    floor_is_bound: bool
    verdict: Verdict
    replayed: Replayed
    tokens_per_step: float | None
    notes: tuple[str, ...]
    lost: float = 0.0


def study(names: Sequence[str], options: Options) -> Study:
    """Return the study of the traces that names, folders or patterns mean.

    Raises
    ------
    InputError
        A file is no trace, two runs are mixed, or two files hold the same rank.
    WeakEvidenceError
        There is no communication, or the ranks do not match.
    """
    sources, notes = find(names)
    traces = _ranked(_read(sources, options), notes)
    if not traces:
        raise WeakEvidenceError(
            f"Flight Recorder dumps hold calls and no steps; these hold {flight.summary(sources)}",
            where=", ".join(names),
            do="add the profiler traces of the run; nhalf fit reads the times of a dump that has duration_ms",
        )
    _one_run(traces)
    for trace in traces:
        notes += trace.notes
    lost = _lost(traces)
    if not any(len(trace.calls) for trace in traces):
        raise _silent(traces)
    notes += [
        f"{Path(trace.file).name}: no communication in it, so it was left out"
        for trace in traces
        if not len(trace.calls)
    ]
    traces = [trace for trace in traces if len(trace.calls)]
    traces = _with_sizes(traces, sources, options, notes)
    timeline = build(traces)
    return replace(_study(timeline, options, [*notes, *timeline.notes]), lost=lost)


def _lost(traces: Sequence[RankTrace]) -> float:
    """Return the share of all events that damage took.

    Raises
    ------
    WeakEvidenceError
        One of the traces has lost too many of its own to say anything of a step.
    """
    for trace in traces:
        share = trace.lost / max(1, trace.lost + trace.events)
        if share > _MOST_LOST:
            raise WeakEvidenceError(
                f"{100 * share:.0f} % of its events are lost to damage ({trace.lost} of {trace.lost + trace.events})",
                where=trace.file, allowed=f"{100 * _MOST_LOST:.0f} %", do="copy the trace again, or record a new one",
            )  # fmt: skip
    lost = sum(trace.lost for trace in traces)
    return lost / max(1, lost + sum(trace.events for trace in traces))


def _study(timeline: Timeline, options: Options, notes: list[str]) -> Study:
    known = timeline.waits_known
    if not timeline.labels:
        raise WeakEvidenceError(
            "the ranks share no step",
            where="steps",
            do="give traces of the same steps, or name a marker with --step REGEX",
        )
    every = np.arange(len(timeline.labels))
    budgets = tuple(budget.mean(parts, every, waits_known=known) for parts in timeline.parts)
    mean = budget.average(list(budgets))
    if mean.step_s <= 0:
        raise WeakEvidenceError("the steps have no length", where="steps", do="name another marker with --step REGEX")
    rows, more = fixed_time.rows(timeline, options.price)
    floor_s, bound = fixed_time.floor_s(rows)
    verdict = stragglers.find(timeline)
    replayed = replay(timeline, rows, verdict.stragglers, mean, options.price)
    notes += more
    if not known:
        alone = "one rank alone" if len(timeline.traces) == 1 else "no call could be matched across the ranks"
        notes.append(f"{alone}: waiting and moving cannot be told apart; add the other ranks' traces of the same steps")
        notes.append(_if_quick(rows))
    elif replayed.error > 0.03:  # noqa: PLR2004  the replay's own limit
        notes.append(
            f"the replay misses the measured step by {100 * replayed.error:.0f} %: modelled gains are withheld"
        )
    notes += _of_kinds(timeline)
    if timeline.meetings.unmatched_messages:
        notes.append(f"{timeline.meetings.unmatched_messages} messages name no peers and were not matched")
    return Study(
        timeline=timeline, budgets=budgets, mean=mean, rows=tuple(rows), floor_s=floor_s, floor_is_bound=bound,
        verdict=verdict, replayed=replayed, tokens_per_step=options.tokens_per_step, notes=_gathered(notes),
    )  # fmt: skip


def _if_quick(rows: list[Row]) -> str:
    """Return a lone rank's wait, if every call moved its bytes as fast as the quickest tenth did."""
    quick = sum(row.count_per_step * row.at_most_s for row in rows)
    whole = sum(row.count_per_step * float(row.transfers_s.mean()) for row in rows)
    waiting = units.format_time(max(0.0, whole - quick))
    return (
        f"if every call moved as fast as its kind's quickest tenth, {waiting} of {units.format_time(whole)} a step "
        "in communication would be waiting"
    )


def _of_kinds(timeline: Timeline) -> list[str]:
    """Return what to know about kernels whose duration is not, or not only, their transfer."""
    kinds = timeline.traces[0].kinds
    notes = []
    if any(kind.fused for kind in kinds):
        notes.append("fused kernels hold the norm too: their transfer is that much too long")
    if any("internode_ll" in kind.name for kind in kinds):
        notes.append(
            "DeepEP's low-latency kernels free the device between sending and receiving: "
            "that time on the wire is in none of their durations"
        )
    return notes


def _gathered(notes: list[str]) -> tuple[str, ...]:
    """Return the notes, each once; what several files have in common is one note with the number of files."""
    files: dict[str, list[str]] = {}
    for note in notes:
        file, colon, text = note.partition(": ")
        of_file = bool(colon) and Path(file).suffix in (".json", ".gz", ".zst", ".sqlite")
        files.setdefault(text if of_file else note, []).append(file if of_file else "")
    gathered = []
    for text, named in files.items():
        several = [name for name in dict.fromkeys(named) if name]
        gathered.append(
            text if not several else f"{several[0] if len(several) == 1 else f'{len(several)} files'}: {text}"
        )
    return tuple(gathered)


def _read(sources: Sequence[Source], options: Options) -> list[RankTrace]:
    """Return the traces of all files; several large ones in processes, each of which holds one file at a time."""
    patterns = with_own(options.patterns)
    wanted = [source for source in sources if source.format != "flight"]
    workers = min(options.workers or os.cpu_count() or 1, len(wanted))
    large = sum(source.path.stat().st_size for source in wanted) > _WORTH_A_PROCESS_BYTES
    tell = options.progress or (lambda _: None)
    found: list[RankTrace] = []
    if workers > 1 and large:
        with ProcessPoolExecutor(workers) as pool:
            # A worker takes the patterns' files, not the compiled patterns: those would be pickled for each file.
            jobs = {pool.submit(_read_one, source, options.patterns, options.step): source for source in wanted}
            for job in as_completed(jobs):
                tell(jobs[job].path.name)
            for job in jobs:
                found += job.result()
        return found
    for source in wanted:
        found += nsight.read(source.path, patterns, step=options.step) if source.format == "nsight" else [
            kineto.read(source.path, patterns, step=options.step)
        ]  # fmt: skip
        tell(source.path.name)
    return found


def _read_one(source: Source, patterns: tuple[Path, ...], step: str | None) -> list[RankTrace]:
    """Return the traces of one file (in a process of its own)."""
    if source.format == "nsight":
        return nsight.read(source.path, with_own(patterns), step=step)
    return [kineto.read(source.path, with_own(patterns), step=step)]


def _ranked(traces: Sequence[RankTrace], notes: list[str]) -> list[RankTrace]:
    """Return the traces in the order of their ranks, with a rank for each that names none.

    Raises
    ------
    InputError
        Two files hold the same rank.
    """
    taken = {trace.rank for trace in traces if trace.rank >= 0}
    free = (rank for rank in range(len(traces) + len(taken) + 1) if rank not in taken)
    ranked = []
    for trace in traces:
        if trace.rank >= 0:
            ranked.append(trace)
            continue
        rank = next(free)
        if len(traces) > 1:
            notes.append(f"{trace.file}: neither the trace nor its name says a rank; it was taken as rank {rank}")
        ranked.append(replace(trace, rank=rank))
    files: dict[int, str] = {}
    for trace in ranked:
        if trace.rank in files:
            raise InputError(
                f"{files[trace.rank]} and {trace.file} both hold rank {trace.rank}: two runs are mixed",
                where="nhalf trace",
                allowed="one file per rank of one run",
                do="give the files of one run; compare two runs with --diff BEFORE AFTER",
            )
        files[trace.rank] = trace.file
    return sorted(ranked, key=lambda trace: trace.rank)


def _one_run(traces: Sequence[RankTrace]) -> None:
    """Refuse traces of different runs: by what they say of themselves, or because they lie far apart in time."""
    first = traces[0]
    for other in traces[1:]:
        ours, theirs = first.header, other.header
        for what, a, b in (
            ("world size", ours.world_size, theirs.world_size),
            ("backend", ours.backend, theirs.backend),
        ):
            if a and b and a != b:
                raise InputError(
                    f"{first.file} says {what} {a}, {other.file} says {b}: two runs are mixed",
                    where="nhalf trace",
                    allowed="files of one run",
                    do="give the files of one run; compare two runs with --diff BEFORE AFTER",
                )
        apart = (other.origin_ns - first.origin_ns) * 1e-9
        gap = max(apart + other.window_s[0] - first.window_s[1], first.window_s[0] - apart - other.window_s[1])
        if gap > _APART_S:
            raise InputError(
                f"{first.file} and {other.file} lie {gap / 60:.0f} minutes apart: two runs are mixed",
                where="nhalf trace",
                allowed="files of one run, whose clocks agree within ten minutes",
                do="give the files of one run; compare two runs with --diff BEFORE AFTER",
            )


def _silent(traces: Sequence[RankTrace]) -> WeakEvidenceError:
    """Return the error of traces without communication, with the kernels that took longest."""
    longest = sorted(traces[0].works.items(), key=lambda item: -item[1].total_s)[:3]
    names = "; ".join(f"{name[:60]} ({1e3 * work.total_s:.3g} ms)" for name, work in longest)
    graph = any("GraphTrace" in note or "graph-trace" in note for trace in traces for note in trace.notes)
    return WeakEvidenceError(
        f"no communication is found among {traces[0].events} events; the longest are {names}",
        where=traces[0].file,
        do="record with --cuda-graph-trace=node" if graph
        else "add a pattern for your kernels with --patterns FILE, or trace a run on several devices",
    )  # fmt: skip


def _with_sizes(
    traces: list[RankTrace], sources: Sequence[Source], options: Options, notes: list[str]
) -> list[RankTrace]:
    """Return the traces with sizes where they have none: from Flight Recorder dumps, then from the model."""
    dumps = [flight.read(source.path) for source in sources if source.format == "flight"]
    if dumps:
        traces = flight.fill(traces, dumps, notes)
    if options.sizes:
        lacking = any(kind.size_bytes is None and kind.op in options.sizes for t in traces for kind in t.kinds)
        if lacking:
            notes.append("sizes marked 'model' are hidden size x batch x bytes of an element, not read from the trace")
        traces = [replace(trace, kinds=with_sizes(trace.kinds, options.sizes, "model")) for trace in traces]
    if any(kind.size_bytes is None and kind.op is not Op.BARRIER for trace in traces for kind in trace.kinds):
        graph = any(kind.family != "gloo" and not kind.group for trace in traces for kind in trace.kinds)
        cause = "graph replay and custom kernels record no arguments" if graph else "shapes were not recorded"
        notes.append(f"some calls have no size ({cause}): give --model and --batch, or record_shapes=True")
    return traces
