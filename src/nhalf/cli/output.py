"""Where an answer goes: the width, colour and alphabet of the terminal, and JSON without surprises."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from nhalf.printable import shown, shown_json
from nhalf.report.canvas import Canvas

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nhalf.report.view import View

NARROWEST = 60
_COLUMNS = 100
"""The width of a page that no terminal shows."""
_STYLE = re.compile(r"(\x1b\[[0-9;]*m)")


def canvas() -> Canvas:
    """Return a page as wide as the terminal (or COLUMNS), coloured on a terminal unless NO_COLOR forbids it."""
    width = max(NARROWEST, _columns())
    colour = bool(sys.stdout and sys.stdout.isatty()) and not os.environ.get("NO_COLOR")
    plain = "utf" not in ((sys.stdout and sys.stdout.encoding) or "ascii").lower()
    return Canvas(width=width, colour=colour, plain=plain)


def _columns() -> int:
    """Return the width that COLUMNS states, else that of the terminal, else 100: as shutil does, which loads more."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and int(stated):
        return int(stated)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or _COLUMNS  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return _COLUMNS


@dataclass(slots=True)
class Kept:
    """What a command that runs inside Python would print: its views, its text, and its warnings."""

    views: list[View] = field(default_factory=list)
    text: str = ""
    warnings: list[str] = field(default_factory=list)


_KEPT: ContextVar[Kept | None] = ContextVar("kept", default=None)


@contextmanager
def kept() -> Iterator[Kept]:
    """Keep what commands print instead of printing it."""
    found = Kept()
    token = _KEPT.set(found)
    try:
        yield found
    finally:
        _KEPT.reset(token)


def keeping() -> Kept | None:
    """Return where what a command prints is kept; None where it is printed."""
    return _KEPT.get()


def write(text: str) -> None:
    """Write text to standard output."""
    if (found := keeping()) is not None:
        found.text += text
        return
    click.echo(_shown(text), nl=False)


def write_json(document: dict[str, Any]) -> None:
    """Write a document to standard output as JSON."""
    click.echo(shown_json(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)))


def warn(message: str) -> None:
    """Write a warning to standard error."""
    if (found := keeping()) is not None:
        found.warnings.append(message)
        return
    tell(f"warning: {message}")


def tell(text: str) -> None:
    """Write a line to standard error."""
    click.echo(shown(text), err=True)


def _shown(text: str) -> str:
    """Return a text without what could drive a terminal, apart from the colours of our own pages on one."""
    if "\x1b" not in text or not sys.stdout.isatty():
        return shown(text)
    return "".join(part if _STYLE.fullmatch(part) else shown(part) for part in _STYLE.split(text))
