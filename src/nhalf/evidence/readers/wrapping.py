"""Wrappings: a log inside another format (JSON lines of a container, one string, lines broken at a width) laid bare."""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from nhalf.evidence.readers.json_text import dictionary
from nhalf.evidence.readers.protocol import Line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_KEYS: Final = ("log", "message", "msg", "MESSAGE", "textPayload", "line", "text", "body", "content")
"""Where collectors of logs put a line: Docker's json-file and fluentd `log`, journald `MESSAGE`, Google `textPayload`,
Loki `line`, OpenTelemetry `body`, most others `message`."""
_QUICK = re.compile(rf'^\s*\{{.*"(?:{"|".join(_KEYS)})"\s*:', re.DOTALL)
_LOOK: Final = 60  # lines that tell a wrapping
_MOST: Final = 0.6
_LONGEST: Final = 1 << 17  # characters of a line of a collector; Docker breaks its own at 16 KiB
_QUOTED = re.compile(r'\s*"(?:[^"\\]|\\.)*",?\s*')
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_TERMINALS: Final = (72, 78, 79, 80, 100, 120, 132)  # characters
_LONG_WORD: Final = 15  # characters
_FULL: Final = 0.05  # of the lines
_NARROWEST, _WIDEST = 40, 250  # characters of a terminal, a mail or a form


def unwrapped(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the lines that a collector wrapped into JSON objects or quoted strings, one a line; others as they are."""
    lines = iter(lines)
    head = list(islice(lines, _LOOK))
    filled = [line.text for line in head if line.text.strip()]
    key = _key(filled)
    if key:
        return _of_objects(chain(head, lines), key)
    if len(filled) > 1 and sum(1 for text in filled if _QUOTED.fullmatch(text)) > _MOST * len(filled):
        return _of_strings(chain(head, lines))
    return chain(head, lines)


def _key(filled: Sequence[str]) -> str:
    """Return the key under which most lines hold a text, or nothing."""
    found = Counter(key for text in filled if _QUICK.match(text) for key in _KEYS if isinstance(_under(text, key), str))
    key, count = found.most_common(1)[0] if found else ("", 0)
    return key if count > _MOST * len(filled) else ""


def _under(text: str, key: str) -> object:
    """Return what a line's object, or one object inside it, holds under a key; None where there is none."""
    if len(text) > _LONGEST or key not in text:
        return None
    try:
        whole = dictionary(json.loads(text))
    except (ValueError, RecursionError):
        return None
    if key in whole:
        return whole[key]
    return next((inner[key] for inner in whole.values() if isinstance(inner, dict) and key in inner), None)


def _of_objects(lines: Iterable[Line], key: str) -> Iterator[Line]:
    """Yield the texts under a key; Docker ends each with a line feed, except one that it broke."""
    broken, feeds = "", False
    for line in lines:
        text = _under(line.text, key)
        if not isinstance(text, str):
            yield line
            continue
        feeds = feeds or text.endswith("\n")
        broken += text
        if feeds and not text.endswith("\n"):
            continue
        for part in broken.splitlines():
            yield Line(line.number, part)
        broken = ""
    if broken:
        yield Line(line.number, broken)


def _of_strings(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the texts of quoted lines: a list of strings that was written one a line."""
    for line in lines:
        text = line.text.strip().removesuffix(",")
        try:
            inner = json.loads(text) if text.startswith('"') else text
        except ValueError:
            inner = text
        for part in str(inner).splitlines() or [""]:
            yield Line(line.number, part)


def rewritten(text: str) -> Iterator[str]:
    """Yield what a text may have been before something rewrote it, where that shows: one string, or broken lines."""
    longest = max((found[0] for found in _STRING.finditer(text)), key=len, default="")
    if max(longest.count("\\n"), longest.count('\\"')) > 1:
        with suppress(ValueError):
            yield json.loads(longest)
    lines = text.split("\n")
    width = max(map(len, lines), default=0)
    full = sum(len(line) > width - _LONG_WORD for line in lines)
    if width in _TERMINALS or (_NARROWEST <= width <= _WIDEST and full > max(2, _FULL * len(lines))):
        for way in ("hard", "soft", "words"):
            yield _rejoined(lines, width, way)


def _rejoined(lines: Sequence[str], width: int, way: str) -> str:
    """Return lines that were broken at a width, each as one; empty lines keep the numbers of those that follow.

    They were broken after so many characters (`hard`, a terminal) or before the word that would not have fitted (a
    mail): `soft` wherever that was, `words` only where a line begins with a word, as rows themselves begin with blanks.
    """
    found: list[str] = []
    last = count = 0
    for line in lines:
        bare = line.lstrip()
        word = bare.split(" ", 1)[0] if way == "soft" or bare == line else ""
        if found and last and (last == width if way == "hard" else bool(word) and last + 1 + len(word) > width):
            found[-1] += line if way == "hard" or found[-1].endswith(" ") or bare != line else f" {line}"
            count += 1
        else:
            found += [""] * count
            found.append(line)
            count = 0
        last = len(line)
    return "\n".join(found)
