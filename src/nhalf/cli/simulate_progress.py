"""How far a simulation is, on standard error, and in words when it is interrupted."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

_PATIENCE_S = 2.0


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
