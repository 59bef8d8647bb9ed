"""How far a sweep is."""

from __future__ import annotations

import sys
import time

import click

_EVERY_S = 10.0


def _span(seconds: float) -> str:
    """Return a time [s] in the unit that suits it."""
    for length, name in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {name}"
    return f"{seconds:.0f} s"


class Progress:
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
