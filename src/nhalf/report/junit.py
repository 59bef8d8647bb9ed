"""JUnit: checks as the XML that every CI system shows."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from nhalf.printable import shown

if TYPE_CHECKING:
    from collections.abc import Sequence


def xml(suite: str, checks: Sequence[tuple[str, str]]) -> str:
    """Return checks as JUnit XML: each a name, and why it failed (empty where it passed)."""
    name, failed = quoteattr(suite), sum(bool(why) for _, why in checks)
    lines = [
        f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuite name={name} tests="{len(checks)}" failures="{failed}">'
    ]
    for check, why in checks:
        failure = f"<failure message={quoteattr(shown(why))}/>" if why else ""
        lines.append(f"  <testcase classname={name} name={quoteattr(shown(check))}>{failure}</testcase>")
    return "\n".join([*lines, "</testsuite>", ""])
