"""The protocol of a reader: what a log format offers so that a file can be recognised and read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable

    from nhalf.evidence.table import Table


class Line(NamedTuple):
    """One line of a log: its number, from 1, and its text, without launcher prefixes, colours and line ends."""

    number: int
    text: str


@runtime_checkable
class Reader(Protocol):
    """A log format. A plug-in offers one under the entry-point group `nhalf.readers`.

    `sniff` returns how sure it is, from 0 (not mine) to 1 (cannot be anything else), from the first lines of a file.
    `read` returns the tables it finds; it streams, so that a log of any size fits into memory, and it reports every
    line that looks like a result and is not taken in a table's `skipped`.
    """

    @property
    def name(self) -> str:
        """Return the name that `--format` takes, in kebab-case."""
        ...

    def sniff(self, head: str) -> float:
        """Return the confidence, 0 to 1, that a file with these first lines is in this format."""
        ...

    def read(self, lines: Iterable[Line], source: str) -> list[Table]:
        """Return the tables of a file; `source` is its name in messages."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A reader that nhalf brings along: signs to know it by, and one function.

    Each of `signs` is a pattern looked for in the head with the confidence that it gives, and only when one of `words`
    is in it: a quick look, since most of a long log is chatter. `banner` matches the start of a line that begins an
    output of this tool and of no other, so that one file may hold the outputs of several tools; None where the format
    is the whole file (`whole`: JSON, CSV).
    """

    name: str
    words: tuple[str, ...]
    signs: tuple[tuple[re.Pattern[str], float], ...]
    parse: Callable[[Iterable[Line], str], list[Table]]
    banner: re.Pattern[str] | None = None
    whole: bool = False

    def sniff(self, head: str) -> float:
        """Return the confidence of the surest sign that the head shows."""
        if not any(word in head for word in self.words):
            return 0.0
        return max((confidence for sign, confidence in self.signs if sign.search(head)), default=0.0)

    def read(self, lines: Iterable[Line], source: str) -> list[Table]:
        """Return the tables of a file."""
        return self.parse(lines, source)
