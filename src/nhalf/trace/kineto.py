"""The reader of PyTorch profiler (Kineto) traces: events in, one rank's reduced trace out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nhalf.errors import InputError
from nhalf.trace import events as stream
from nhalf.trace.calls import MOST_RANKS, calls_of, listed
from nhalf.trace.collect import Collector, thread_of
from nhalf.trace.recognition import Recogniser, sounds_like_communication
from nhalf.trace.record import Header, RankTrace, Work, merged
from nhalf.trace.skim import PYTHON
from nhalf.trace.steps import Mark, detect

if TYPE_CHECKING:
    from pathlib import Path

    from nhalf.trace.recognition import Pattern
    from nhalf.trace.record import Floats

_RANK_IN_NAME = (
    re.compile(r"rank[-_. ]?(\d+)", re.IGNORECASE),
    re.compile(r"(?<![a-z])TP[-_](\d+)", re.IGNORECASE),
    re.compile(r"(?<![a-z])(?:gpu|worker|device)[-_]?(\d+)", re.IGNORECASE),
)
_US = 1e-6
_LATEST_NS = 2**62  # of the clock that starts in 1970; the year 2116
_SLACK_US = 1e3  # how far a true event may reach past the last start of the trace, beside the trace's own length


def read(path: Path, patterns: tuple[Pattern, ...], *, step: str | None = None) -> RankTrace:
    """Return one rank's trace from a profiler file.

    Raises
    ------
    InputError
        The file is no trace, or holds no complete event.
    """
    beside = stream.Beside()
    collector = Collector(recogniser=Recogniser(patterns))
    for batch in stream.read(path, beside):
        collector.take(batch)
    if not (collector.found or collector.device.batches or collector.ops.batches):
        raise InputError(
            "the trace holds no complete kernel or operator event "
            f"among its {collector.events + beside.skipped} events",
            where=str(path),
            allowed='events with "ph": "X" and a "dur"',
            do="record with torch.profiler while the model runs, and wait for the profiler to stop before copying",
        )
    return _Reduction(path=path, beside=beside, collector=collector, step=step).trace()


@dataclass(slots=True, kw_only=True)
class _Reduction:
    """Builds a rank's trace from the events that were collected."""

    path: Path
    beside: stream.Beside
    collector: Collector
    step: str | None

    def trace(self) -> RankTrace:
        """Build the rank's trace from the collected events."""
        kept = self.collector
        limit = kept.last_us - kept.first_us + _SLACK_US
        head = _header(self.beside.header)
        on_device = bool(kept.device.batches) or any(found.thread is None for found in kept.found)
        start, length, name = (kept.device if on_device else kept.ops).whole()
        good = length <= limit
        if not on_device:
            # Operators on a worker thread of gloo belong to the collective that runs there.
            workers = {kept.threads.get(thread_of(f.thread), -1) for f in kept.found}
            main = {kept.threads.get(thread_of(f.thread), -1) for f in kept.found if _is_message(f.name)}
            good &= ~np.isin(np.concatenate([*kept.thread, np.empty(0, dtype=np.int64)]), list(workers - main))
        found = [one for one in kept.found if one.length <= limit]
        giants = int(np.sum(length > limit)) + len(kept.found) - len(found)
        start_s, end_s = start[good] * _US, (start + length)[good] * _US
        calls, kinds, launches = calls_of(found, kept, head, rank := self._rank())
        self._remark(giants, head)
        window = (kept.first_us * _US, max([kept.last_us * _US, *calls.end_s.tolist()[-1:], *end_s.tolist()[-1:]]))
        marks = [
            Mark(name=n, start_s=s * _US, end_s=(s + d) * _US, on_device=g) for n, s, d, g in kept.marks if d <= limit
        ]
        return RankTrace(
            rank=rank,
            file=str(self.path),
            origin_ns=self._origin_ns(),
            device="gpu" if on_device else "cpu",
            header=head,
            kinds=kinds,
            calls=calls,
            steps=detect(marks, calls.start_s, launches, self.step, window[1]),
            busy_s=merged(start_s, end_s),
            works=_works(kept.names, name[good], length[good] * _US),
            suspects=_suspects(kept.names, name[good], length[good] * _US) if on_device else {},
            window_s=window,
            events=kept.events + self.beside.skipped,
            lost=self.beside.lost + kept.without_length,
            notes=tuple(self.beside.notes),
        )

    def _origin_ns(self) -> int:
        base = self.beside.header.get("baseTimeNanoseconds")
        base_ns = int(base) if isinstance(base, (int, float)) and abs(base) < _LATEST_NS else 0
        return base_ns + int(self.collector.origin_us or 0.0) * 1000

    def _rank(self) -> int:
        """Return the rank: as the trace says, else as the file's name says, else -1."""
        info = self.beside.header.get("distributedInfo")
        rank = info.get("rank") if isinstance(info, Mapping) else None
        if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < MOST_RANKS:
            return rank
        named = rank_in_name(self.path.name)
        if named is None:
            return -1
        self.beside.notes.append(f"{self.path.name}: the rank was taken from the file's name")
        return named

    def _remark(self, giants: int, head: Header) -> None:
        """Note what a reader of the answer should know about this file."""
        kept, name = self.collector, self.path.name
        if giants:
            self.beside.notes.append(f"{name}: {giants} events longer than the whole trace were left out as corrupt")
        if kept.without_length:
            self.beside.notes.append(f"{name}: {kept.without_length} events without a usable time were left out")
        if len(kept.devices) > 1:
            self.beside.notes.append(f"{name}: kernels of {len(kept.devices)} devices are read as one rank")
        if self.beside.python or PYTHON in kept.categories or self.beside.header.get("with_stack"):
            self.beside.notes.append(
                f"{name}: recorded with Python stacks, which slow the host: launch gaps and skew may be the profiler's"
            )
        if not head.world_size:
            self.beside.notes.append(f"{name}: no distributedInfo: groups of ranks are not known")


def rank_in_name(name: str) -> int | None:
    """Return the rank that a file's name says, None when it says none."""
    for regex in _RANK_IN_NAME:
        if (found := regex.search(name)) and int(found[1]) < MOST_RANKS:
            return int(found[1])
    return None


def _is_message(name: str) -> bool:
    return name in ("gloo:send", "gloo:recv")


def _header(found: dict[str, Any]) -> Header:
    """Return what the trace says about its run."""
    info = found.get("distributedInfo")
    if not isinstance(info, Mapping):
        return Header(host=str(found.get("host_name") or ""))
    groups: dict[str, tuple[int, ...]] = {}
    configs = info.get("pg_config")
    for entry in configs if isinstance(configs, list) else []:
        ranks = entry.get("ranks") if isinstance(entry, Mapping) else None
        if isinstance(ranks, str):
            ranks = listed(ranks)
        if isinstance(ranks, list) and all(isinstance(rank, int) and 0 <= rank < MOST_RANKS for rank in ranks):
            groups[str(entry.get("pg_name", ""))] = tuple(sorted(ranks))
    world = info.get("world_size")
    return Header(
        backend=str(info.get("backend") or ""),
        world_size=world if isinstance(world, int) and 0 < world <= MOST_RANKS else None,
        host=str(found.get("host_name") or ""),
        groups=groups,
    )


def _works(names: dict[str, int], name: Any, length_s: Floats) -> dict[str, Work]:  # noqa: ANN401  an array of int32
    """Return how often and how long each kernel ran."""
    counts = np.bincount(name, minlength=len(names))
    totals = np.bincount(name, weights=length_s, minlength=len(names))
    return {text: Work(count=int(counts[i]), total_s=float(totals[i])) for text, i in names.items() if counts[i]}


def _suspects(names: dict[str, int], name: Any, length_s: Floats) -> dict[str, float]:  # noqa: ANN401
    totals = np.bincount(name, weights=length_s, minlength=len(names))
    return {text: float(totals[i]) for text, i in names.items() if totals[i] and sounds_like_communication(text)}
