"""How far a measurement is, on a terminal, and what is kept of one that ends early."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from nhalf.errors import NhalfError

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.evidence.probe.record import Record

_REFRESH_S: Final = 0.25
_PARTIAL: Final = "nhalf-measure.partial.json"


class Progress:
    """A bar on standard error, where that is a terminal; nothing elsewhere."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._due = 0.0

    def __enter__(self) -> Self:
        """Show it."""
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=Console(stderr=True),
                transient=True, auto_refresh=False,
            )  # fmt: skip
            self._task = self._bar.add_task("measuring", total=1.0)
            self._bar.start()
        return self

    def __call__(self, share: float, text: str) -> None:
        """Show how far it is."""
        now = time.monotonic()
        if self._bar is not None and (now >= self._due or share >= 1.0):
            self._due = now + _REFRESH_S  # drawing more often would take a processor from the ranks
            self._bar.update(self._task, completed=share, description=text, refresh=True)

    def close(self) -> None:
        """Take the bar away, so that a message has a line of its own."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def __exit__(self, *_: object) -> None:
        """Take it away."""
        self.close()


def rescue(
    target: Path | None, progress: Progress, warn: Callable[[str], None]
) -> Callable[[Record, BaseException], None]:
    """Return what saves the samples of a measurement that ends early, and says where they are."""

    def save(record: Record, error: BaseException) -> None:
        progress.close()
        if not record.samples:
            return
        path = target or Path(_PARTIAL)
        try:
            record.save(path)
        except NhalfError as problem:
            warn(f"{record.samples} samples are lost: {problem}")
            return
        why = f" ({error})" if not isinstance(error, NhalfError) else ""
        warn(f"ended early{why}: {record.samples} samples are in {path}; nhalf fit {path}")

    return save
