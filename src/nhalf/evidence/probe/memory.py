"""Messages through shared memory: one rank copies in, the other polls a counter and copies out."""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import stat
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nhalf.evidence.probe.streams import PeerGoneError

if TYPE_CHECKING:
    import socket

PREFIX: Final = "nhalf-"
"""Begins the name of every temporary file and folder of a measurement."""
_COUNTERS: Final = 4
_SENT, _TAKEN = 0, 1  # counters of one direction
_LINE: Final = 128  # [bytes] two cache lines, so that no counter shares one with another (prefetchers take pairs)
_STEP: Final = _LINE // 8  # counters are 8 bytes
_HEADER: Final = _COUNTERS * _LINE
_SPINS: Final = 200  # polls before the processor is offered to others
_LOOKS: Final = 5000  # offers between two looks at the clock and at the other rank
_YIELD = getattr(os, "sched_yield", lambda: time.sleep(0))


def folder() -> str | None:
    """Return where files live in memory: None where the system has no such place."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108  it is what the name says


def _mapped(path: Path, size_bytes: int) -> mmap.mmap:
    """Map a whole file, where it is a plain one of this user and as large as was agreed."""
    handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    try:
        found = os.fstat(handle)
        mine = not hasattr(os, "getuid") or found.st_uid == os.getuid()
        if not stat.S_ISREG(found.st_mode) or found.st_size != size_bytes or not mine:
            raise PeerGoneError("the shared memory is not what was agreed")
        return mmap.mmap(handle, size_bytes)
    finally:
        os.close(handle)


class Segment:
    """A piece of memory that two processes share; `guard` is a socket between them that closes when one ends."""

    def __init__(self, path: Path, largest_bytes: int, guard: socket.socket, *, first: bool, deadline_s: float) -> None:
        """Map a file that `create` made; `first` is the rank that made it.

        Raises PeerGoneError when it is not the file of this user that the other rank was to make.
        """
        self.largest_bytes = largest_bytes
        self.guard = guard
        self.deadline_s = deadline_s
        self._map = _mapped(path, _HEADER + 2 * largest_bytes)
        self.counters = memoryview(self._map)[:_HEADER].cast("Q")
        there, back = memoryview(self._map)[_HEADER : _HEADER + largest_bytes], _HEADER + largest_bytes
        other = memoryview(self._map)[back : back + largest_bytes]
        self.out, self.into = (there, other) if first else (other, there)
        self.out_at, self.into_at = (0, 2 * _STEP) if first else (2 * _STEP, 0)
        self.outgoing, self.incoming = bytearray(largest_bytes), bytearray(largest_bytes)

    @staticmethod
    def create(largest_bytes: int) -> Path:
        """Return a new file for the segment; whoever made it unlinks it once both have mapped it."""
        handle, name = tempfile.mkstemp(prefix=PREFIX, dir=folder())
        with os.fdopen(handle, "r+b") as file:
            file.truncate(_HEADER + 2 * largest_bytes)
        return Path(name)

    @staticmethod
    def named(name: str) -> Path:
        """Return the file of that name that another rank of this machine made."""
        return Path(folder() or tempfile.gettempdir()) / name

    def messenger(self, size_bytes: int) -> MemoryMessenger:
        """Return messages of one size [bytes]."""
        return MemoryMessenger(self, size_bytes)

    def wait(self, counter: int, value: int) -> None:
        """Return when a counter has a value. Raises PeerGoneError after the deadline, or when the other rank ended."""
        counters = self.counters
        until = time.monotonic() + self.deadline_s
        while True:
            for _ in range(_LOOKS):
                for _ in range(_SPINS):
                    if counters[counter] == value:
                        return
                _YIELD()
            if time.monotonic() > until:
                raise PeerGoneError("nothing moved before the deadline")
            if select.select([self.guard], [], [], 0)[0]:  # nothing is ever sent there
                raise PeerGoneError("the other process ended")

    def close(self) -> None:
        """Give the memory back, as soon as no message looks at it any more."""
        self.guard.close()
        with contextlib.suppress(BufferError):  # a messenger still holds a view: the last one to go takes it along
            self._map.close()


class MemoryMessenger:
    """Messages of one size through a segment; a stream of them waits for the one place that there is."""

    def __init__(self, segment: Segment, size_bytes: int) -> None:
        """Cut the buffers to the size."""
        self._segment = segment
        self._counters = segment.counters
        self._sent, self._taken = segment.out_at + _SENT, segment.out_at + _TAKEN * _STEP
        self._came, self._took = segment.into_at + _SENT, segment.into_at + _TAKEN * _STEP
        self._out, self._into = segment.out[:size_bytes], segment.into[:size_bytes]
        self._outgoing = memoryview(segment.outgoing)[:size_bytes]
        self._incoming = memoryview(segment.incoming)[:size_bytes]

    def send(self) -> None:
        """Copy one message in, and say so, once the one before it was taken."""
        counters = self._counters
        number: int = counters[self._sent]
        if counters[self._taken] != number:
            self._segment.wait(self._taken, number)
        self._out[:] = self._outgoing
        counters[self._sent] = number + 1

    def receive(self) -> None:
        """Wait for a message, and copy it out."""
        counters = self._counters
        number: int = counters[self._took] + 1
        self._segment.wait(self._came, number)
        self._incoming[:] = self._into
        counters[self._took] = number

    def fill(self, pattern: bytes) -> None:
        """Write a pattern into what goes out."""
        self._outgoing[:] = pattern

    def echo(self) -> None:
        """Let what came in go out next."""
        self._outgoing[:] = self._incoming

    def received(self) -> bytes:
        """Return what came in."""
        return bytes(self._incoming)
