"""One message shape for everything that can go wrong: where, what, what is allowed, what to do."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SEPARATORS = str.maketrans("", "", " _-")
_CLOSE_ENOUGH = 0.6
_LONGEST_QUOTE = 60
_NAMED = 5
"""Names that an error names: more bury the hint."""


class NhalfError(Exception):
    """Something nhalf can say about its input or its answer; the base of every error it raises on purpose.

    `where` is the place (a file and line, a flag, a field), `what` is wrong there, `allowed` is what would be accepted
    and `do` is the next thing to try. Only `what` is needed; `str()` joins the parts that are not empty.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, where: str = "", allowed: str = "", do: str = "") -> None:
        """Keep the four parts; a report shows them apart, the command line shows them joined."""
        super().__init__(what)
        self.what = what
        self.where = where
        self.allowed = allowed
        self.do = do

    def __str__(self) -> str:
        """Return the message on one line: `where: what. Allowed: ... . Do: ... .`."""
        parts = [_sentence(f"{self.where}: {self.what}" if self.where else self.what)]
        if self.allowed:
            parts.append(_sentence(f"Allowed: {self.allowed}"))
        if self.do:
            # A question ("Did you mean ...?") already says what to do.
            parts.append(_sentence(self.do if self.do.rstrip().endswith("?") else f"Do: {self.do}"))
        return " ".join(parts)


class InputError(NhalfError):
    """The input is wrong: usage, an unreadable file, an impossible value."""

    exit_code = 2


class NoAnswerError(NhalfError):
    """The input is valid and no answer satisfies it, or a threshold the user set was tripped."""

    exit_code = 3


class WeakEvidenceError(NhalfError):
    """The evidence is too weak to answer from."""

    exit_code = 4


_FLAG: Final = re.compile(
    r"--([a-z][a-z0-9-]*)"
    r"(?: ((?=\S*[A-Z0-9'.])[^\s;,)]*[^\s;,.)]|(?!(?:out|too|alone|instead|here|there)\b)[a-z][\w-]*(?=[,:;)]|\.?$)))?"
)
"""A flag, and the value behind it where it looks like one."""
_KEYWORDS: Final = {"axis": "axes", "layout": "layouts", "option": "options"}


@contextmanager
def in_python() -> Iterator[None]:
    """Let errors speak of keywords where they would of flags: whoever asks from Python typed none."""
    try:
        yield
    except NhalfError as error:
        error.where = "model" if error.where == "MODEL" else _keywords(error.where)
        error.what, error.allowed, error.do = map(_keywords, (error.what, error.allowed, error.do))
        raise


def _keywords(text: str) -> str:
    """Return a text with keywords for flags, but for those of a command that it names."""
    return "; ".join(part if "nhalf " in part else _FLAG.sub(_keyword, part) for part in text.split("; "))


def _keyword(found: re.Match[str]) -> str:
    name, value = found[1].replace("-", "_"), found[2]
    if name == "axis" and value:
        return f"axes[{value!r}]"
    return _KEYWORDS.get(name, name) + (f"={value}" if value else "")


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return at most five known names, those nearest to a name first: spelled like it, or beginning as it does."""
    from difflib import get_close_matches

    by_letters = {_letters(candidate): candidate for candidate in known}
    wanted = _letters(name)
    near = get_close_matches(wanted, by_letters, n=_NAMED, cutoff=_CLOSE_ENOUGH)
    near += [letters for letters in by_letters if wanted and letters.startswith(wanted) and letters not in near]
    return [by_letters[letters] for letters in near[:_NAMED]]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "Did you mean 'h100-sxm'?" for the known name nearest to `name`, or "" when none is near.

    Case, spaces, `_` and `-` are ignored, because ids ignore them on input.
    """
    # Only needed once something went wrong, so a correct run does not pay for the import.
    from difflib import get_close_matches

    by_letters = {_letters(candidate): candidate for candidate in known}
    near = get_close_matches(_letters(name), by_letters, n=1, cutoff=_CLOSE_ENOUGH)
    return f"Did you mean '{by_letters[near[0]]}'?" if near else ""


def quoted(text: str) -> str:
    """Return a text in quotes, as messages show what was given; the end of a long one is left out."""
    return repr(text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}...")


def _letters(name: str) -> str:
    return name.casefold().translate(_SEPARATORS)


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "?", "!")) else f"{text}."
