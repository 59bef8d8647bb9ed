"""Collecting: what is kept while the events of one profiler file stream past."""

from __future__ import annotations

import math
import re
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nhalf.trace.calls import Found
from nhalf.trace.events import kept

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.trace.events import Event
    from nhalf.trace.recognition import Recogniser

_CATEGORIES = {
    "kernel": "device", "gpu_memcpy": "device", "gpu_memset": "device", "memcpy": "device", "memset": "device",
    "user_annotation": "mark", "gpu_user_annotation": "mark",
    "cpu_op": "op", "operator": "op",
    "cuda_runtime": "launch", "cuda_driver": "launch", "hip_runtime": "launch", "runtime": "launch",
    "privateuse1_runtime": "launch", "xpu_runtime": "launch", "mtia_runtime": "launch",
}  # fmt: skip
"""The categories that are read, old names and new; python_function, flows and the rest are not."""
_CUSTOM_OPS = re.compile(
    r"custom_ar|custom_all_reduce|qr_all_reduce|fused_allreduce|all_reduce|allreduce", re.IGNORECASE
)
_PEER_COPY = "memcpy ptop"
_LATEST_US = 1e17  # of any clock that profilers use; three thousand years


@dataclass(slots=True)
class Columns:
    """Columns of one category: start and length [us], name and thread or stream, by index."""

    start: array[float] = field(default_factory=lambda: array("d"))
    length: array[float] = field(default_factory=lambda: array("d"))
    name: array[int] = field(default_factory=lambda: array("i"))
    lane: array[int] = field(default_factory=lambda: array("i"))

    def add(self, start: float, length: float, name: int, lane: int) -> None:
        """Append one event."""
        self.start.append(start)
        self.length.append(length)
        self.name.append(name)
        self.lane.append(lane)


@dataclass(slots=True)
class Collector:
    """The events that are kept of one file while it is read in batches."""

    recogniser: Recogniser
    names: dict[str, int] = field(default_factory=dict)
    lanes: dict[object, int] = field(default_factory=dict)
    device: Columns = field(default_factory=Columns)
    ops: Columns = field(default_factory=Columns)
    found: list[Found] = field(default_factory=list)
    marks: list[tuple[str, float, float, bool]] = field(default_factory=list)
    parameters: dict[int, Any] = field(default_factory=dict)
    enqueued: list[tuple[float, str]] = field(default_factory=list)
    launches: dict[int, float] = field(default_factory=dict)
    replayed: set[int] = field(default_factory=set)
    devices: set[object] = field(default_factory=set)
    origin_us: float | None = None
    first_us: float = math.inf
    last_us: float = -math.inf
    events: int = 0
    without_length: int = 0
    categories: dict[str, str | None] = field(default_factory=dict)

    @property
    def with_python(self) -> bool:
        """Return whether Python frames were recorded."""
        return "python_function" in self.categories

    def take(self, batch: Sequence[Event]) -> None:
        """Keep what is needed of a batch of events."""
        handlers = {"device": self._device, "mark": self._mark, "op": self._op, "launch": self._launch}
        known = self.categories
        first, last = self.first_us, self.last_us
        self.events += len(batch)
        for event in batch:
            cat = event.cat
            if cat not in known:
                known[cat] = _CATEGORIES.get(cat.lower())
            what = known[cat]
            if what is None or event.ph != "X":
                continue
            length, start = event.dur, event.ts
            if length is None or not 0.0 <= length < _LATEST_US or not -_LATEST_US < start < _LATEST_US:
                self.without_length += 1
                continue
            if self.origin_us is None:
                self.origin_us = float(math.floor(start))
            start -= self.origin_us
            first = min(first, start)
            last = max(last, start)
            handlers[what](event, start, length)
        self.first_us, self.last_us = first, last

    def _name(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    def _lane(self, lane: object) -> int:
        if isinstance(lane, int) and abs(lane) > _LATEST_US:
            lane = "beyond"  # no thread has such a number, and it may be too long to write
        return self.lanes.setdefault(str(lane), len(self.lanes))

    def _device(self, event: Event, start: float, length: float) -> None:
        args, name = event.args, event.name
        seen = self.recogniser.see(name)
        if args is not None and args.device is not None:
            self.devices.add(args.device)
        peer = seen is None and name.lower().startswith(_PEER_COPY)
        if seen is not None or peer:
            found = Found(start=start, length=length, name=name, seen=seen, args=kept(args))
            self.found.append(found)
            return
        lane = args.stream if args is not None and args.stream is not None else event.tid
        self.device.add(start, length, self._name(name), self._lane(lane))

    def _mark(self, event: Event, start: float, length: float) -> None:
        if event.name.startswith("gloo:"):
            self.found.append(
                Found(start=start, length=length, name=event.name, args=kept(event.args), thread=event.tid)
            )
        elif not event.name.startswith("nccl:"):
            self.marks.append((event.name, start, length, event.cat.startswith("gpu")))

    def _op(self, event: Event, start: float, length: float) -> None:
        name, args = event.name, event.args
        if name == "record_param_comms" or (_CUSTOM_OPS.search(name) and not name.startswith("c10d::")):
            if args is not None and isinstance(args.external, int):
                self.parameters[args.external] = (name, kept(args))
        elif name.startswith("c10d::"):
            self.enqueued.append((start, name))
        else:
            self.ops.add(start, length, self._name(name), self._lane(event.tid))

    def _launch(self, event: Event, start: float, length: float) -> None:
        del length
        args = event.args
        if "aunch" in event.name and args is not None and isinstance(args.correlation, int):
            self.launches[args.correlation] = start
