"""JSON as tools write it: one object, several after one another, one a line, or with a name that lost its quotes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from nhalf.evidence.readers.numerals import LARGEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nhalf.evidence.readers.protocol import Line

_DECODER = json.JSONDecoder(strict=False)
_BARE_NAME = re.compile(r"^(\s*)([A-Za-z_]\w*)(\s*:)", re.MULTILINE)
_MARK = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],]')
_MOST_TRIES: Final = 20  # braces that begin no JSON: words around it
_NOT_A_NUMBER = re.compile(r"(:\s*)-?(?:nan|inf)\b", re.IGNORECASE)


def objects(lines: Iterable[Line]) -> tuple[list[dict[str, Any]], str]:
    """Return the objects of a file, and what is wrong with it (empty: nothing); what surrounds them is left out."""
    text = "\n".join(line.text for line in lines)
    found: list[dict[str, Any]] = []
    problem = ""
    place = text.find("{")
    tries = _MOST_TRIES
    while place >= 0 and tries:
        value, end, wrong = _decode(text, place)
        problem = wrong or problem
        if value is None:
            tries -= 1
        elif value:
            found.append(value)
        place = text.find("{", end)
    return found, problem


def records(lines: Iterable[Line]) -> Iterator[tuple[Line, dict[str, Any] | None]]:
    """Yield each line of a file of JSON lines with its object; None where a line that begins one does not end it."""
    for line in lines:
        text = line.text.strip().rstrip(",")
        if not text.startswith("{"):
            continue
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        yield line, value if isinstance(value, dict) else None


def number(value: object) -> float | None:
    """Return a JSON number, or a string that holds one, as a float; None for anything else ("nan", true)."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        result = float(value)
    except (ValueError, OverflowError):  # an integer of hundreds of digits
        return None
    return result if abs(result) <= LARGEST else None


def dictionary(value: object) -> dict[str, Any]:
    """Return a JSON object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def array(value: object) -> list[Any]:
    """Return a JSON array, or an empty one for anything else."""
    return value if isinstance(value, list) else []


def _decode(text: str, place: int) -> tuple[dict[str, Any] | None, int, str]:
    """Return the object at a place, where it ends, and what is wrong with it."""
    try:
        value, end = _DECODER.raw_decode(text, place)
    except RecursionError:
        return None, len(text), "the JSON is nested beyond reason"
    except ValueError as error:
        why = f"the JSON is cut or damaged: {error}"
        mended = _NOT_A_NUMBER.sub(r"\1null", _BARE_NAME.sub(r'\1"\2"\3', text[place:]))
        for whole, problem in ((mended, ""), (_closed(mended), why)):
            try:
                value, _ = _DECODER.raw_decode(whole)
            except (ValueError, RecursionError):
                continue
            return dictionary(value), len(text), problem
        return None, place + 1, why
    return dictionary(value), end, ""


def _closed(text: str) -> str:
    """Return a cut JSON text up to the last whole object of a list, or else the last whole value, and closed there."""
    open_: list[str] = []
    value, item = "", ""
    for found in _MARK.finditer(text):
        mark = found[0]
        if mark in "{[":
            open_.append("}" if mark == "{" else "]")
        elif mark in "}]":
            if not open_ or open_.pop() != mark:
                break
            value = text[: found.end()] + "".join(reversed(open_))
            if not open_:
                break
            if mark == "}" and open_[-1] == "]":
                item = value
        elif mark == ",":
            value = text[: found.start()] + "".join(reversed(open_))
    return item or value
