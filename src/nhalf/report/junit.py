"""JUnit: checks as the XML that every CI system shows."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from nhalf.printable import shown

if TYPE_CHECKING:
    from collections.abc import Sequence


def xml(suite: str, checks: Sequence[tuple[str, str]]) -> str:
    """Return checks as JUnit XML: each a name, and why it failed (empty where it passed)."""
    failed = sum(bool(why) for _, why in checks)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuite name={quoteattr(suite)} tests="{len(checks)}" failures="{failed}">',
    ]
    for name, why in checks:
        case = f"  <testcase classname={quoteattr(suite)} name={quoteattr(shown(name))}"
        if why:
            text = shown(why)
            lines += [f"{case}>", f"    <failure message={quoteattr(text)}>{escape(text)}</failure>", "  </testcase>"]
        else:
            lines.append(f"{case}/>")
    return "\n".join([*lines, "</testsuite>", ""])
