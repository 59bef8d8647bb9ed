"""The loop of `nhalf live`: a screen that is drawn anew on a terminal, rows as they come elsewhere, or one answer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from nhalf.cli import output, output_formats
from nhalf.report.document import to_csv
from nhalf.report.view import write_brief, write_everything

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.report.view import View


def refreshing(
    look: Callable[[], None], view: Callable[[], View], *, every: float, once: bool, stop: float | None
) -> None:
    """Look again and again and show what is seen; an interrupt ends it, and the last answer stays."""
    if once:
        look()
        if not _enough(view()):
            time.sleep(every)
            look()
        output_formats.show(view())
        return
    end = time.monotonic() + (stop if stop is not None else float("inf"))
    rows = _Rows() if output_formats.asked() == "csv" else None
    screen = _Screen() if rows is None and not output_formats.asked() and output.canvas().colour else None
    try:
        due = time.monotonic()
        while due <= end:
            look()
            if rows is not None:
                rows.write(view().document()["history"])
            elif screen is not None:
                screen.draw(view())
            due = max(due + every, time.monotonic())
            time.sleep(max(min(due, end) - time.monotonic(), 0.0))
            if due > end:
                break
    except KeyboardInterrupt:
        output.tell("stopped")
    finally:
        if screen is not None:
            screen.close()
    if rows is None:
        output_formats.show(view())


def _enough(found: View) -> bool:
    """Tell whether one scrape was enough, as of a server that lists its steps."""
    return found.document()["measured"] is not None


class _Rows:
    """Rows of CSV, each written once, under one header."""

    def __init__(self) -> None:
        self._done: set[tuple[Any, Any]] = set()
        self._headed = False

    def write(self, rows: list[dict[str, Any]]) -> None:
        """Write the rows that are new; a gap is written when it is over or as long as it was last."""
        new = [row for row in rows if (row["server"], row["to"]) not in self._done]
        self._done |= {(row["server"], row["to"]) for row in new}
        if new:
            text = to_csv(new)
            output.write(text.partition("\n")[2] if self._headed else text)
            self._headed = True


class _Screen:
    """A screen that is drawn anew, in the terminal's other buffer."""

    def __init__(self) -> None:
        from rich.live import Live

        self._live = Live(screen=True, auto_refresh=False)
        self._live.start()

    def draw(self, view: View) -> None:
        """Draw an answer."""
        from rich.text import Text

        canvas = output.canvas()
        if output_formats.everything():
            write_everything(view, canvas)
        else:
            write_brief(view.brief(), canvas)
        self._live.update(Text.from_ansi(canvas.text), refresh=True)

    def close(self) -> None:
        """Give the terminal back."""
        self._live.stop()
