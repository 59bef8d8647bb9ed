"""Collecting: what is kept while the events of one profiler file stream past, as columns where there are many."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nhalf.trace.calls import Found
from nhalf.trace.events import kept
from nhalf.trace.skim import CATEGORIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.trace.events import Event
    from nhalf.trace.recognition import Recogniser
    from nhalf.trace.record import Floats, Ints

_CUSTOM_OPS = re.compile(
    r"custom_ar|custom_all_reduce|qr_all_reduce|fused_allreduce|all_reduce|allreduce", re.IGNORECASE
)
_PEER_COPY = "memcpy ptop"
_IGNORED, _DEVICE, _OP, _LAUNCH, _CALL, _MARK, _PARAMETERS, _ENQUEUED = range(8)
"""What an event is, by its category and name; the last four are looked at one by one."""
_LATEST_US = 1e17  # of any clock that profilers use; three thousand years


@dataclass(slots=True)
class Columns:
    """Compute of one sort, batch by batch: start and length [us], name by index."""

    batches: list[tuple[Floats, Floats, Ints]] = field(default_factory=list)

    def whole(self) -> tuple[Floats, Floats, Ints]:
        """Return start and length [us] and name of all batches."""
        if not self.batches:
            return np.empty(0), np.empty(0), np.empty(0, dtype=np.int64)
        start, length, name = (np.concatenate(column) for column in zip(*self.batches, strict=True))
        return start, length, name


class _Roles(dict[str, int]):
    """What the events of a category are by their name: one of the roles, and above its three bits the name's index."""

    def __init__(self, what: str, collector: Collector) -> None:
        """Begin with no name."""
        self.what, self.collector = what, collector

    def __missing__(self, name: str) -> int:
        """Look at a new name."""
        role = self._role(name)
        names = self.collector.names
        index = names.setdefault(name, len(names)) if role in (_DEVICE, _OP) else 0
        self[name] = found = index << 3 | role
        return found

    def _role(self, name: str) -> int:
        if self.what == "device":
            peer = name.lower().startswith(_PEER_COPY)
            return _CALL if peer or self.collector.recogniser.see(name) is not None else _DEVICE
        if self.what == "launch":
            return _LAUNCH if "aunch" in name else _IGNORED
        if self.what == "mark":
            return _IGNORED if name.startswith("nccl:") else _MARK
        if name == "record_param_comms" or (_CUSTOM_OPS.search(name) and not name.startswith("c10d::")):
            return _PARAMETERS
        return _ENQUEUED if name.startswith("c10d::") else _OP


@dataclass(slots=True)
class Collector:
    """The events that are kept of one file while it is read in batches.

    `threads` are those of the operators, `thread` which of them each ran on, batch by batch.
    """

    recogniser: Recogniser
    names: dict[str, int] = field(default_factory=dict)
    threads: dict[int | str, int] = field(default_factory=dict)
    device: Columns = field(default_factory=Columns)
    ops: Columns = field(default_factory=Columns)
    thread: list[Ints] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    marks: list[tuple[str, float, float, bool]] = field(default_factory=list)
    parameters: dict[int, Any] = field(default_factory=dict)
    enqueued: list[tuple[float, str]] = field(default_factory=list)
    launches: dict[int, float] = field(default_factory=dict)
    devices: set[int | str] = field(default_factory=set)
    origin_us: float | None = None
    first_us: float = math.inf
    last_us: float = -math.inf
    events: int = 0
    without_length: int = 0
    categories: dict[str, _Roles | None] = field(default_factory=dict)

    def take(self, batch: Sequence[Event]) -> None:
        """Keep what is needed of a batch of events."""
        known = self.categories
        for cat in dict.fromkeys(event.cat for event in batch if event.cat not in known):
            what = CATEGORIES.get(cat.lower())
            known[cat] = None if what is None else _Roles(what, self)
        self.events += len(batch)
        read = [event for event in batch if known[event.cat] is not None and event.ph == "X"]
        start = np.array([event.ts for event in read], dtype=np.float64)
        length = np.array([event.dur for event in read], dtype=np.float64)
        good = (length >= 0.0) & (length < _LATEST_US) & (start > -_LATEST_US) & (start < _LATEST_US)
        if not np.all(good):
            self.without_length += int(np.sum(~good))
            read, start, length = [read[i] for i in np.flatnonzero(good).tolist()], start[good], length[good]
        if not read:
            return
        if self.origin_us is None:
            self.origin_us = float(math.floor(start[0]))
        start -= self.origin_us
        self.first_us, self.last_us = min(self.first_us, float(start.min())), max(self.last_us, float(start.max()))
        self._sort(read, start, length, np.array([known[event.cat][event.name] for event in read]))  # type: ignore[index]

    def _sort(self, events: Sequence[Event], start: Floats, length: Floats, seen: Ints) -> None:
        """Keep events by what they are."""
        role = seen & 7
        for what, columns in ((_DEVICE, self.device), (_OP, self.ops)):
            if np.any(here := role == what):
                columns.batches.append((start[here], length[here], seen[here] >> 3))
        ran = [events[i].tid for i in np.flatnonzero(role == _OP).tolist()]
        keys = ran if set(map(type, ran)) == {int} else map(thread_of, ran)
        self.thread.append(np.array([self.threads.setdefault(key, len(self.threads)) for key in keys], dtype=np.int64))
        of_device = [events[i].args for i in np.flatnonzero((role == _DEVICE) | (role == _CALL)).tolist()]
        self.devices |= {args.device for args in of_device if args is not None and type(args.device) in (int, str)}
        launched = np.flatnonzero(role == _LAUNCH)
        asked = zip([events[i].args for i in launched.tolist()], start[launched].tolist(), strict=True)
        self.launches |= {
            args.correlation: begin for args, begin in asked if args and isinstance(args.correlation, int)
        }
        for i in np.flatnonzero(role >= _CALL).tolist():
            self._one(events[i], float(start[i]), float(length[i]), int(role[i]))

    def _one(self, event: Event, start: float, length: float, role: int) -> None:
        """Keep an event that is few among many: communication, a range of the program, or what says its size."""
        name, args = event.name, event.args
        if role == _CALL:
            seen = self.recogniser.see(name)
            self.found.append(Found(start=start, length=length, name=name, seen=seen, args=kept(args)))
        elif role == _MARK and name.startswith("gloo:"):
            self.found.append(Found(start=start, length=length, name=name, args=kept(args), thread=event.tid))
        elif role == _MARK:
            self.marks.append((name, start, length, event.cat.startswith("gpu")))
        elif role == _ENQUEUED:
            self.enqueued.append((start, name))
        elif args is not None and isinstance(args.external, int):
            self.parameters[args.external] = (name, kept(args))


def thread_of(lane: object) -> int | str:
    """Return a thread as a key: its number, or the text of what is none."""
    return lane if type(lane) is int else str(lane)
