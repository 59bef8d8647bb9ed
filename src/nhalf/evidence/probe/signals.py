"""Ctrl-C and SIGTERM as a question that can be asked, also while the main thread is inside a library."""

from __future__ import annotations

import select
import signal
import socket
import threading
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from types import FrameType, TracebackType

_CAUGHT: Final = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """While it is entered, the first signal is noted; a second one acts as it always does.

    The number of a signal goes to a socket from the system's own handler, so another thread learns of it even when
    the main thread does not come back from a library.
    """

    def __init__(self) -> None:
        """Make the pair of sockets."""
        self._read, self._write = socket.socketpair()
        self._before: dict[int, Any] = {}
        self._noted = False
        self._wakeup = -1

    def __enter__(self) -> Self:
        """Begin to note signals, where this is the main thread."""
        if threading.current_thread() is threading.main_thread():
            self._write.setblocking(False)  # noqa: FBT003  its only parameter
            self._before = {number: signal.signal(number, self._note) for number in _CAUGHT}
            self._wakeup = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Restore what was."""
        if self._before:
            signal.set_wakeup_fd(self._wakeup)
            for number, handler in self._before.items():
                signal.signal(number, handler)
        self._read.close()
        self._write.close()

    def __call__(self) -> bool:
        """Return whether a signal came."""
        if not self._noted and self._read.fileno() >= 0 and select.select([self._read], [], [], 0)[0]:
            numbers = self._read.recv(64)
            self._noted = any(number in _CAUGHT for number in numbers)
        return self._noted

    def ignore(self) -> None:
        """Let no further signal end this process before it is left: the work is done, and only to be written down."""
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._noted = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
