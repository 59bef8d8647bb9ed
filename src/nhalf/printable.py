"""Text that cannot drive a terminal: characters that move, hide or reorder what is shown become escapes."""

from __future__ import annotations

import json
import re
from typing import Final

_DRIVING: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls of ASCII and Latin-1, apart from tabs and line ends
    "\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"  # no width, or the order of what follows turned round
    "\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"  # halves of characters, marks of notes, tags
)


def shown(text: str) -> str:
    r"""Return a text in which such a character is the escape that Python writes: `\x1b`, `\u202e`."""
    return _DRIVING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def shown_json(text: str) -> str:
    """Return JSON in which such a character is an escape of JSON: what is read back stays the same."""
    return _DRIVING.sub(lambda found: json.dumps(found[0])[1:-1].replace("\x7f", "\\u007f"), text)
