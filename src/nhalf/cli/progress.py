"""How far a simulation or a sweep is, on standard error, and in words when it is interrupted."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import click

from nhalf.printable import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

_PATIENCE_S = 2.0
_EVERY_S = 10.0


class Progress:
    """A bar on standard error, once a run has taken two seconds; it only pulses while the run cannot say how far it is.

    A timer of its own shows it: a run by events is one call.
    """

    def __init__(self, name: str, total: int, *, what: str = "messages") -> None:
        self._name = name
        self._total = total
        self._what = what
        self._done = 0
        self._bar: Any = None
        self._task: Any = None
        self._timer = threading.Timer(_PATIENCE_S, self._show)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        """Start to wait."""
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the bar away."""
        self._timer.cancel()
        self._timer.join()
        if self._bar is not None:
            self._bar.stop()

    @property
    def words(self) -> str:
        """Return how far an interrupted run came."""
        return f"interrupted in {self._name} after {100 * min(1.0, self._done / self._total):.0f} % of its {self._what}"

    def advance(self, done: int) -> None:
        """Count what is done."""
        self._done += done
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, total=self._total)

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import Progress as Bar

        console = Console(stderr=True)
        if not console.is_terminal:
            return  # it would leave an empty line in a file
        bar = Bar(console=console, transient=True)
        self._task = bar.add_task(self._name, total=self._total if self._done else None, completed=self._done)
        bar.start()
        self._bar = bar


def _span(seconds: float) -> str:
    """Return a time [s] in the unit that suits it."""
    for length, name in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {name}"
    return f"{seconds:.0f} s"


class SweepProgress:
    """How far a sweep is, on standard error: a line that is written over on a terminal, else one now and then."""

    def __init__(self, points: int) -> None:
        self.points, self.begun = points, time.monotonic()
        self.told = self.begun
        self.terminal = sys.stderr.isatty()

    def at(self, done: int) -> None:
        """Say how far it is, when there is something new to say."""
        now = time.monotonic()
        if now - self.told < (0.2 if self.terminal else _EVERY_S):
            return
        self.told = now
        rate = done / (now - self.begun)
        left = (self.points - done) / rate
        line = f"sweep: {100 * done / self.points:.0f} % of {self.points} points, {rate:.3g}/s, {_span(left)} left"
        click.echo(f"\r\x1b[K{line}" if self.terminal else line, err=True, nl=not self.terminal)

    def end(self) -> None:
        """Wipe the line."""
        if self.terminal:
            click.echo("\r\x1b[K", err=True, nl=False)


@contextlib.contextmanager
def reading() -> Iterator[Callable[[str], None] | None]:
    """Give what tells of each file that was read, on a line that is wiped at the end; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    count = itertools.count(1)
    try:
        yield lambda name: click.echo(f"\rread {next(count)} files, {shown(name)[:60]:<60}", nl=False, err=True)
    finally:
        click.echo("\r" + " " * 90 + "\r", nl=False, err=True)
