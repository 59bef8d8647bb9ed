"""Files that nhalf writes: whole or not at all, one writer at a time, nothing of anyone else's touched.

A file grows under a private name beside its target, `NAME.nhalf-PID-START-....part`, made new and never through a link,
and takes the target's name when it is on the disk. Its writer holds a lock on it: who comes second is refused by the
number of the first, and what a killed run left has no lock, so the next writer of the target removes it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import stat
import threading
import time
from itertools import count
from typing import IO, TYPE_CHECKING, Any, Final

from nhalf.errors import InputError

try:
    import fcntl
except ImportError:  # Windows: no locks, so two writers there are only kept apart, not told of each other
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PRIVATE: Final = re.compile(r"\.nhalf-(?P<pid>\d+)-\d{8}T(?P<start>\d{6})-[0-9a-f]{8}\.part")
_LONGEST_NAME: Final = 180
"""Letters of a target's name that its private name repeats: the whole must be a legal name."""
_ELSEWHERE: Final = ("dev", "proc")
"""Folders whose names stand for something that is open already, such as /dev/stdout."""
_PATIENCE_S: Final = 2.0
"""How long the lock of a folder is waited for, which is held for moments [s]."""
_ENDING: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that end a program without a word unless something catches them."""


class Draft:
    """A file in the making: `keep` gives it its name, `drop` removes it, `set_aside` keeps the rows there are.

    A pipe or a device is written straight to. While a draft is open, SIGTERM and SIGHUP end the program as an interrupt
    does, so that whoever writes can clean up; `file` is open for bytes, `path` the private name.

    Raises InputError when it cannot be begun, or another program is writing the same target.
    """

    def __init__(self, target: Path) -> None:
        """Begin a file."""
        self.name = target
        self.whole = 0
        try:
            self._straight = target.absolute().parts[1:2] in {(each,) for each in _ELSEWHERE} or (
                target.exists() and not target.is_file()  # a pipe, or a folder, which refuses
            )
            self.target = target if self._straight else target.resolve()
            self._mode = stat.S_IMODE(self.target.stat().st_mode) if self.target.exists() else None
            self.path = self.target if self._straight else self._private()
            self.file: IO[bytes] = self.path.open("wb") if self._straight else self._begun()
        except (OSError, ValueError) as error:
            raise self.failed(error) from error
        _Signals.hold(self)

    def mark(self) -> None:
        """Remember that what has been written up to here is whole: `set_aside` keeps no more."""
        self.file.flush()
        self.whole = 0 if self._straight else self.file.tell()

    def keep(self, last: bytes = b"") -> None:
        """Write what is last, and give the file its name once it is on the disk.

        Raises InputError when that fails, and removes it then.
        """
        try:
            self.file.write(last)
            self.file.flush()
            if not self._straight:
                os.fsync(self.file.fileno())
                if self._mode is not None:
                    self.path.chmod(self._mode)
                if os.name == "nt":
                    self.file.close()
                self.path.replace(self.target)
                _sync(self.target.parent)
            self.file.close()
        except OSError as error:
            self.drop()
            raise self.failed(error) from error
        except BaseException:
            self.drop()
            raise
        _Signals.release(self)

    def drop(self) -> None:
        """Remove the file; what it was to replace stays."""
        with contextlib.suppress(OSError):
            self.file.close()  # on a full disk this too may fail
        if not self._straight:
            self.path.unlink(missing_ok=True)
        _Signals.release(self)

    def set_aside(self) -> str:
        """Keep what is whole under the first free name that ends in `.part`, and return that; nothing of nothing."""
        if not self.whole:
            self.drop()
            return ""
        with contextlib.suppress(OSError):
            self.file.close()  # it writes what is left of a row, where there is room
        os.truncate(self.path, self.whole)
        kept = self.path
        for turn in count():
            free = self.name.with_name(f"{self.name.name}{f'.{turn}' if turn else ''}.part")
            try:
                os.link(self.path, free)
            except FileExistsError:  # the user's own, or that of an earlier interrupt
                continue
            except OSError:  # a file system without links: the private name is told instead
                break
            self.path.unlink()
            kept = free
            break
        _Signals.release(self)
        return str(kept)

    def failed(self, error: BaseException) -> InputError:
        """Return what a user is told of an error."""
        if isinstance(error, InputError):
            return error
        why = getattr(error, "strerror", "") or str(error)
        do = "check the room on the disk" if "space" in why else "check the folder"
        return InputError(f"the file cannot be written: {why}", where=str(self.name), do=do)

    def _private(self) -> Path:
        start = time.strftime("%Y%m%dT%H%M%S")
        ending = f".nhalf-{os.getpid()}-{start}-{os.urandom(4).hex()}.part"
        return self.target.with_name(f"{self._stem()}{ending}")

    def _stem(self) -> str:
        return os.fsdecode(os.fsencode(self.target.name)[:_LONGEST_NAME])

    def _begun(self) -> IO[bytes]:
        """Return the private file, open and locked, after what others left or write has been looked at."""
        with _locked(self.target.parent):
            self._look_around()
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
            mode = 0o666 if self._mode is None else self._mode | stat.S_IWUSR
            file = os.fdopen(os.open(self.path, flags, mode), "wb")
            if fcntl is not None:
                with contextlib.suppress(OSError):  # a file system without locks
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file

    def _look_around(self) -> None:
        """Remove what killed runs left; raises InputError when a living one writes the same target."""
        if fcntl is None:
            return
        stem = self._stem()
        with os.scandir(self.target.parent) as entries:
            names = [each.name for each in entries if each.name.startswith(stem)]
        for name in names:
            found = _PRIVATE.fullmatch(name, len(stem))
            left = self.target.with_name(name)
            if found is None or (state := _state(left)) == "other":
                continue
            if state == "left":
                left.unlink(missing_ok=True)
                continue
            clock = ":".join(re.findall("..", found["start"]))
            raise InputError(
                f"another program is writing this file: process {found['pid']}, since {clock}", where=str(self.name),
                do="wait for it, or name another file",
            )  # fmt: skip


def write_text(path: Path, text: str) -> None:
    """Write a file in UTF-8: whole, or not at all, so that what it replaces is not lost when a disk is full.

    Raises
    ------
    InputError
        It cannot be written, or another program is writing it.
    """
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file: whole, or not at all. Raises InputError as `write_text` does."""
    Draft(path).keep(content)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a folder for the moment in which a draft is begun: of two that begin at once, one sees the other."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:  # a file system that locks no folder
                break
            else:
                break
        yield
    finally:
        os.close(handle)


def _state(path: Path) -> str:
    """Return whether a private file is "held" by a living writer, "left" by a killed one of ours, or "other"."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return "other"
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
            return "other"
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return "held"
    except OSError:
        return "other"
    else:
        return "left"
    finally:
        os.close(handle)


def _sync(folder: Path) -> None:
    """Bring a folder's new name to the disk, where that can be asked for."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class _Signals:
    """SIGTERM and SIGHUP as interrupts, while any draft is open; who handles them already, or ignores them, goes on."""

    drafts: Final[set[Draft]] = set()
    before: Final[dict[int, Any]] = {}
    owner = 0

    @classmethod
    def hold(cls, draft: Draft) -> None:
        cls.drafts.add(draft)
        if cls.before or threading.current_thread() is not threading.main_thread():
            return
        cls.owner = os.getpid()
        for number in _ENDING:
            if signal.getsignal(number) == signal.SIG_DFL:
                cls.before[number] = signal.signal(number, cls._interrupt)

    @classmethod
    def release(cls, draft: Draft) -> None:
        cls.drafts.discard(draft)
        if cls.drafts or threading.current_thread() is not threading.main_thread():
            return
        for number, handler in cls.before.items():
            signal.signal(number, handler)
        cls.before.clear()

    @classmethod
    def _interrupt(cls, number: int, frame: object) -> None:
        del frame
        if os.getpid() == cls.owner:
            raise KeyboardInterrupt
        signal.signal(number, signal.SIG_DFL)  # a process forked meanwhile: no draft is its own
        os.kill(os.getpid(), number)
