"""Where the lines of a page must not end: inside a flag, inside a word of a command, between a number and its unit.

Browsers break lines after any hyphen. A word that must not break is a box of its own, which moves to the next line
whole, and breaks only where it is longer than a line. Nothing is added to the text, so what is copied stays a command.
"""

from __future__ import annotations

import re
from typing import Any, Final

from nhalf.printable import shown
from nhalf.report.figures.figure import needed

_FLAG: Final = re.compile(r"(?<!\S)[(\[{]*--?[A-Za-z]\S*")
_HYPHENED: Final = re.compile(r"\S*-\S*")
_UNIT: Final = re.compile(r"(?<=\d) (?=(?:%|[num]?s|[kMGT]?i?B(?:/s)?)(?!\w))")


def prose(text: str) -> Any:  # noqa: ANN401  markup of an extra
    """Return a text as markup in which no line ends inside a flag, or between a number and its unit."""
    return _kept(re.sub(_UNIT, "\u00a0", text), _FLAG)


def code(text: str) -> Any:  # noqa: ANN401  markup of an extra
    """Return lines to copy as markup in which no line ends inside a word."""
    return _kept(text, _HYPHENED)


def _kept(text: str, words: re.Pattern[str]) -> Any:  # noqa: ANN401  markup of an extra
    """Return a text as markup in which some words are kept whole."""
    markup: Any = needed("markupsafe", "jinja2")
    return markup.Markup(re.sub(words, r'<span class="whole">\g<0></span>', str(markup.escape(shown(text)))))
