"""Where an answer goes: the width, colour and alphabet of the terminal, and JSON without surprises."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import Any

import click

from nhalf.report.canvas import Canvas

NARROWEST = 60


def canvas() -> Canvas:
    """Return a page as wide as the terminal (or COLUMNS), coloured on a terminal unless NO_COLOR forbids it."""
    width = max(NARROWEST, shutil.get_terminal_size((100, 24)).columns)
    colour = bool(sys.stdout and sys.stdout.isatty()) and not os.environ.get("NO_COLOR")
    plain = "utf" not in ((sys.stdout and sys.stdout.encoding) or "ascii").lower()
    return Canvas(width=width, colour=colour, plain=plain)


def write(text: str) -> None:
    """Write text to standard output."""
    click.echo(text, nl=False)


def write_json(document: dict[str, Any]) -> None:
    """Write a document to standard output as JSON."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def warn(message: str) -> None:
    """Write a warning to standard error."""
    click.echo(f"warning: {message}", err=True)
