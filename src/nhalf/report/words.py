"""Words that every answer uses: a count with its noun."""

from __future__ import annotations


def counted(count: int, noun: str = "row") -> str:
    """Return a number of rows, or of another noun, in words."""
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"
