"""Detection: which reader a file belongs to, by its content, and the plug-ins that may know more formats."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import entry_points
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final, TypeVar

from nhalf.errors import InputError, did_you_mean
from nhalf.evidence.readers import formats
from nhalf.evidence.readers.cleaning import Cleaner
from nhalf.evidence.readers.protocol import Format, Line, Reader
from nhalf.evidence.readers.source import Source
from nhalf.evidence.readers.wrapping import rewritten, unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

Parsed = TypeVar("Parsed")
GROUP: Final = "nhalf.readers"
"""The entry-point group under which a package offers a reader."""

_FIRST_WINDOW = 200  # lines looked at together
_WINDOW = 2000
_WINDOW_CHARACTERS = 1 << 22
_LONGEST: Final = 1 << 16  # characters of a line from which a format is told
_DEBUG, _CHOICE = " NCCL INFO ", " Bytes -> "  # pages of the one hide a log; the other may be what it is about
_MOST_REWRITTEN: Final = 20_000  # lines; nobody pastes more
_ENOUGH = 0.5  # confidence that ends the search
_LITTLE = 0.05


def named(name: str) -> Reader:
    """Return the reader that `--format` names, built in or from a plug-in.

    Raises InputError when there is none of that name, or the plug-in offers no reader.
    """
    wanted = _key(name)
    for built_in in formats.ALL:
        if _key(built_in.name) == wanted:
            return built_in
    for plug_in in plug_ins():
        if _key(plug_in.name) == wanted:
            return plug_in
    names = known()
    raise InputError(
        f"{name!r} is not a known log format", where="--format", allowed=", ".join(names), do=did_you_mean(name, names)
    )


def known() -> list[str]:
    """Return the names of all formats, those of plug-ins as well, in order of the alphabet.

    Raises InputError when a plug-in cannot be loaded or is no reader.
    """
    return sorted(reader.name for reader in (*formats.ALL, *plug_ins()))


def plug_ins() -> list[Reader]:
    """Return the readers that installed packages offer under `nhalf.readers`.

    Raises InputError when one cannot be loaded or is no reader.
    """
    return [_load(entry.name, entry.load) for entry in entry_points(group=GROUP)]


def detect(source: Source, *, without: Collection[Reader] = ()) -> Reader | None:
    """Return the reader that is surest of the file, or None; plug-ins are asked when no built-in one claims it.

    `without` are readers that found no row in it: what they know it by stands around the output of another tool.
    The first lines usually decide. A log may begin with pages of chatter, so the search goes on while nothing is sure.
    """
    best: Reader | None = None
    surest = _LITTLE
    for head in _windows(source):
        for built_in in formats.ALL:
            if built_in in without:
                continue
            confidence = built_in.sniff(head)
            if confidence > surest:
                best, surest = built_in, confidence
        if surest >= _ENOUGH:
            return best
    if best is not None:
        return best
    head = next(_windows(source), "")
    for plug_in in () if without else plug_ins():
        confidence = plug_in.sniff(head)
        if confidence > surest:
            best, surest = plug_in, confidence
    return best


def cleaned(source: Source) -> Iterator[Line]:
    """Yield the lines of a file without what launchers and terminals added."""
    lines = unwrapped(source.lines())
    head = _few(lines, _WINDOW)
    cleaner = Cleaner(head)
    yield from cleaner.lines(head)
    yield from cleaner.lines(lines)


def text_of(source: Source) -> str:
    """Return the text of a file without what launchers and terminals added, each line at its number."""
    found: list[str] = []
    for number, text in cleaned(source):
        found += [""] * (number - 1 - len(found))
        found.append(text)
    return "\n".join(found)


def texts(source: Source) -> Iterator[str]:
    """Yield the text of a file, then what it may have been before something rewrote it."""
    yield text_of(source)
    for before in rewritings(source):
        yield text_of(before)


def parsed(source: Source, parse: Callable[[str], Parsed]) -> Parsed:
    """Return what a function makes of the first text of a file that it takes.

    Raises InputError when it takes none: the one about the text as it is.
    """
    problem: InputError | None = None
    for text in texts(source):
        try:
            return parse(text)
        except InputError as error:
            problem = problem or error
    raise problem or InputError("it is empty", where=source.name)


def rewritings(source: Source) -> Iterator[Source]:
    """Yield what a file may have been before something rewrote it: lines broken at a width, or made one string."""
    text = "".join(islice((line.text.rstrip("\r\n") + "\n" for line in source.lines()), _MOST_REWRITTEN))
    for before in rewritten(text):
        yield Source(name=source.name, content=before.encode())


def sections(lines: Iterable[Line], first: Reader) -> Iterator[tuple[Reader, Iterator[Line]]]:
    """Yield the parts of a file that belong to one tool each; a part ends where another tool's banner stands."""
    if not isinstance(first, Format) or first.whole:
        yield first, iter(lines)
        return
    for reader, part in groupby(_labelled(lines, first), key=lambda pair: pair[0]):
        yield reader, (line for _, line in part)


def _labelled(lines: Iterable[Line], first: Format) -> Iterator[tuple[Reader, Line]]:
    banners, by_group = _banners()
    current = first
    for line in lines:
        found = banners.match(line.text)
        if found and found.lastgroup:
            current = by_group[found.lastgroup]
        yield current, line


@cache
def _banners() -> tuple[re.Pattern[str], dict[str, Format]]:
    by_group = {f"b{i}": reader for i, reader in enumerate(formats.ALL) if reader.banner}
    # The groups of a banner are named, if it needs any: an unnamed one would hide its own.
    parts = [f"(?P<{group}>{reader.banner.pattern})" for group, reader in by_group.items() if reader.banner]
    return re.compile(rf"[\s#*]*+(?:{'|'.join(parts)})"), by_group


def _windows(source: Source) -> Iterator[str]:
    """Yield the text of the lines in parts: a short one, which is enough for most files, then longer ones."""
    lines = (line for line in cleaned(source) if _DEBUG not in line.text or _CHOICE in line.text)
    size = _FIRST_WINDOW
    while window := _few(lines, size):
        yield "\n".join(line.text[:_LONGEST] for line in window)
        size = _WINDOW


def _few(lines: Iterator[Line], count: int) -> list[Line]:
    """Return the next lines: so many, or fewer where they are long."""
    found, room = [], _WINDOW_CHARACTERS
    for line in islice(lines, count):
        found.append(line)
        room -= len(line.text)
        if room < 0:
            break
    return found


def _load(name: str, load: object) -> Reader:
    try:
        offered = load() if callable(load) else None
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"the plug-in cannot be imported: {error}", where=f"{GROUP}: {name}", do="repair or remove the package"
        ) from error
    reader = offered() if isinstance(offered, type) else offered
    if not isinstance(reader, Reader):
        raise InputError(
            "the plug-in is no reader",
            where=f"{GROUP}: {name}",
            allowed="an object, or a class, with name, sniff(head) and read(lines, source)",
        )
    return reader


def _key(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).casefold()
