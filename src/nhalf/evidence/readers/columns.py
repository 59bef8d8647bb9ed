"""Columns: rows of numbers are understood by the names in their header, never by a fixed position."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from nhalf.evidence.readers.numerals import decimals, half_step, real
from nhalf.evidence.table import Note, Point, Skipped

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from nhalf.evidence.readers.protocol import Line

# A name that a vocabulary does not hold: words with a unit in parentheses ("Comm. Time (us)"), or one word.
_OTHER = r"[^\s()]+(?: [^\s()]+)*? ?\([^()]*\)(?::\S+)?|\S+"
_MOST_EARLY: Final = 64
_CUT: Final = "the row is cut: it has {found} values where the header has {wanted} columns"


class Vocabulary:
    """The column names of one format: a pattern for each, by the name that the reader uses."""

    def __init__(self, patterns: Mapping[str, str], *, needs: Collection[str] = (), one_of: Collection[str]) -> None:
        """Compile the patterns, tried in the order given; a header shows all of `needs` and at least `one_of`."""
        parts = [f"(?P<{name}>{pattern})" for name, pattern in patterns.items()]
        self._pattern = re.compile("|".join([*parts, _OTHER]), re.IGNORECASE)
        self._needs = frozenset(needs)
        self._one_of = frozenset(one_of)

    def header(self, text: str) -> Header | None:
        """Return the columns that a line names, or None when it is no header of this format."""
        found = [(match.lastgroup or "", match[0]) for match in self._pattern.finditer(text.lstrip("#*|> \t"))]
        names = [name for name, _ in found]
        if not self._needs <= set(names) or self._one_of.isdisjoint(names):
            return None
        first = next(i for i, name in enumerate(names) if name)
        lead = sum(1 for _, text_ in found[:first] if text_.strip("#*|> "))
        return Header(names=tuple(names[first:]), texts=tuple(text_ for _, text_ in found[first:]), lead=lead)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The columns of one table: `names` (empty where unknown), as printed (`texts`), and words before the first."""

    names: tuple[str, ...]
    texts: tuple[str, ...]
    lead: int = 0

    def row(self, tokens: Sequence[str]) -> dict[str, str] | None:
        """Return a row's values by column name, or None when it has not one value for each column.

        As many words as stood before the header's first column may stand before the row. A name that is there twice
        keeps its first value.
        """
        wanted = len(self.names)
        if len(tokens) == wanted + self.lead:
            tokens = tokens[self.lead :]
        elif len(tokens) != wanted:
            return None
        values: dict[str, str] = {}
        for name, token in zip(self.names, tokens, strict=True):
            if name:
                values.setdefault(name, token)
        return values

    def text(self, name: str) -> str:
        """Return how the header prints a column."""
        return self.texts[self.names.index(name)]


def skip(line: Line, source: str, why: str) -> Skipped:
    """Return the record of a line that is not taken."""
    return Skipped(file=source, line=line.number, why=why)


def interval(token: str, unit: float) -> tuple[float | None, float | None]:
    """Return the ends [SI] of what a printed number stands for; None where it has digits to spare or reaches 0."""
    value, half = real(token), half_step(token)
    if value is None or half == 0.0:
        return None, None
    return ((value - half) * unit if value > half else None), (value + half) * unit


def timed(line: Line, size: float, token: str, unit: float, **more: float | bool | None) -> Point | None:
    """Return the point of a row whose time is printed as `token` in `unit` [s], or None when it is no time."""
    value = real(token)
    if value is None or value <= 0.0:
        return None
    low, high = interval(token, unit)
    return Point(size_bytes=size, seconds=value * unit, line=line.number, low_s=low, high_s=high, **more)  # type: ignore[arg-type]


def rated(line: Line, size: float, amount: float, token: str, unit: float) -> Point | None:
    """Return the point of a row that prints a rate: `amount` divided by it is the time, or None when it is no rate.

    The rate is `token` times `unit`: a bandwidth [bytes/s] with the bytes moved, or a message rate [1/s] with 1.
    """
    value = real(token)
    if value is None or value <= 0.0:
        return None
    slow, fast = interval(token, unit)
    return Point(
        size_bytes=size,
        seconds=amount / (value * unit),
        line=line.number,
        low_s=amount / fast if fast else None,
        high_s=amount / slow if slow else None,
    )


def note(code: str, text: str) -> Note:
    """Return a note."""
    return Note(code=code, text=text)


def notes(pairs: Mapping[str, str]) -> tuple[Note, ...]:
    """Return notes from codes and texts; an empty text is no note."""
    return tuple(Note(code=code, text=text) for code, text in pairs.items() if text)


class Event(NamedTuple):
    """What a line is: `header`, `row` (with values by column), `cut` (a row that does not fit) or `text`."""

    kind: Literal["header", "row", "cut", "text"]
    line: Line
    tokens: list[str]
    values: dict[str, str]
    header: Header | None


def events(
    lines: Iterable[Line], vocabulary: Vocabulary, *, sign: str | tuple[str, ...], fixed: bool = True
) -> Iterator[Event]:
    """Yield what each line is, under the header that came last; rows before the first header are cut.

    Every header holds a `sign`, in lower case: a quick look that saves most lines the search for a header. A row
    whose last value has fewer decimals than all rows before was cut inside a number, where the tool prints a `fixed`
    number of decimals; elsewhere only the very last line of the file is held to that.
    """
    early: list[Event] = []
    found = _events(lines, vocabulary, sign=sign, fixed=fixed)
    for event in found:
        yield event
        if event.header is not None:
            wanted = len(event.header.names) + event.header.lead
            yield from (each._replace(kind="cut", header=event.header) for each in early if len(each.tokens) == wanted)
            break
        if len(early) < _MOST_EARLY and _mostly_numbers(event.tokens):
            early.append(event)
    yield from found


def _events(
    lines: Iterable[Line], vocabulary: Vocabulary, *, sign: str | tuple[str, ...], fixed: bool = True
) -> Iterator[Event]:
    """Yield what each line is, under the header that came last."""
    signs = (sign,) if isinstance(sign, str) else sign
    header: Header | None = None
    widths: set[int] = set()  # decimals of the last value of the rows so far
    held: Event | None = None
    for line in lines:
        if held:
            widths.add(decimals(held.tokens[-1]))
            yield held
            held = None
        tokens = line.text.split()
        if header is not None and _begins_with_number(tokens, header.lead):
            values = header.row(tokens)
            if values is not None:
                event = Event("row", line, tokens, values, header)
                width = decimals(tokens[-1])
                if len(widths) != 1 or width >= min(widths):
                    widths.add(width)
                    yield event
                elif fixed:
                    yield event._replace(kind="cut", values={})
                else:
                    held = event
                continue
            if _mostly_numbers(tokens):
                yield Event("cut", line, tokens, {}, header)
                continue
        lower = line.text.lower()
        if any(one in lower for one in signs) and (found := vocabulary.header(line.text)):
            header = found
            widths.clear()
            yield Event("header", line, tokens, {}, header)
        else:
            yield Event("text", line, tokens, {}, header)
    if held:
        yield held._replace(kind="cut", values={})


def why_cut(event: Event) -> str:
    """Return what is wrong with a row that does not fit its header."""
    wanted = len(event.header.names) if event.header else 0
    if len(event.tokens) == wanted:
        return "the row is cut in the middle of a number, or stands before its header"
    return _CUT.format(found=len(event.tokens), wanted=wanted)


def _begins_with_number(tokens: Sequence[str], lead: int) -> bool:
    return any(token[0].isdigit() and real(token) is not None for token in tokens[: lead + 1])


def _mostly_numbers(tokens: Sequence[str]) -> bool:
    return 2 * sum(1 for token in tokens if real(token) is not None) > len(tokens)
