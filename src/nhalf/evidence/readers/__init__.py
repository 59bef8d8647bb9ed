"""Readers: one file for each log format behind one small protocol; `read` finds the right one by content."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nhalf.evidence.readers.protocol import Line as Line
    from nhalf.evidence.readers.protocol import Reader as Reader
    from nhalf.evidence.readers.reading import read as read

__all__ = ["Line", "Reader", "read"]

_HOMES = {
    "Line": "nhalf.evidence.readers.protocol",
    "Reader": "nhalf.evidence.readers.protocol",
    "read": "nhalf.evidence.readers.reading",
}


def __getattr__(name: str) -> object:
    """Return a public name, importing its module when it is first asked for: most commands read no log (PEP 562)."""
    if name not in _HOMES:
        message = f"module 'nhalf.evidence.readers' has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(_HOMES[name]), name)
