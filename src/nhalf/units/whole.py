"""Read whole numbers: counts, and lists of them with ranges."""

from __future__ import annotations

import re
from typing import Final

from nhalf.errors import InputError, quoted

_COUNTS: Final = "whole numbers of 1 or more in digits only, such as 8"
_LISTS: Final = "whole numbers such as 1,2,4 and ranges such as 1:8, 2:16:2 or 1:512:x2"
_LONGEST_LIST: Final = 100_000
_WHOLE = re.compile(r"[0-9]{1,15}")
_MARKED: Final = re.compile(r"[0-9]{1,3}([,_ ])[0-9]{3}(?:\1[0-9]{3})*")
"""A whole number with marks between its thousands."""
_RANGE = re.compile(r"([^:]+):([^:]+)(?::(x?)([^:]+))?")


def parse_count(text: str, *, where: str = "") -> int:
    """Return a whole number of at least 1, written in digits only.

    Raises InputError for anything else: `0`, `-1`, `2.5`, `1,024`, `8k`.
    """
    text = text.strip()
    if _WHOLE.fullmatch(text) and int(text) > 0:
        return int(text)
    do = ""
    plain = re.sub(r"[,_ ]", "", text)
    if _MARKED.fullmatch(text):
        do = f"write {plain} for one number"
    elif plain != text and _WHOLE.fullmatch(plain):
        do = f"one number is asked for, such as {re.split('[,_ ]+', text.strip(',_ '))[0]}"
    elif re.fullmatch(r"[0-9]{1,9} *[kK]", text):
        thousands = int(text[:-1])
        do = f"write {thousands * 1000} or {thousands * 1024}: {text} is read both ways"
    what = f"{quoted(text)} is not a whole number of 1 or more" if text else "the number is missing: the text is empty"
    raise InputError(what, where=where, allowed=_COUNTS, do=do)


def parse_int_list(text: str, *, where: str = "") -> tuple[int, ...]:
    """Return the whole numbers of a comma-separated list, in the order written.

    An item is a number, or a range: `1:8` has both ends and step 1, `2:16:2` has step 2, `1:512:x2` doubles. A range
    ends with its last value that is not above its end.

    Raises InputError for an empty item, a number below 1, a backward or endless range, or a number given twice.
    """
    values: list[int] = []
    for item in text.split(","):
        if not item.strip():
            what = f"the list {quoted(text)} has an empty item" if text.strip() else "the list is empty"
            raise InputError(what, where=where, allowed=_LISTS, do="write a number on both sides of each comma")
        values.extend(_expand(item.strip(), where))
    seen: set[int] = set()
    for value in values:
        if value in seen:
            raise InputError(f"the list {quoted(text)} has {value} twice", where=where, do=f"write {value} once")
        seen.add(value)
    return tuple(values)


def _expand(item: str, where: str) -> range | list[int]:
    if ":" not in item:
        return [parse_count(item, where=where)]
    item = re.sub(r"\s*:\s*", ":", item)
    found = _RANGE.fullmatch(item)
    if not found:
        raise InputError(f"{quoted(item)} is not a range", where=where, allowed=_LISTS)
    first, last = parse_count(found[1], where=where), parse_count(found[2], where=where)
    by = parse_count(found[4], where=where) if found[4] else 1
    if last < first:
        raise InputError(f"the range {item} runs backwards", where=where, allowed=_LISTS, do=f"write {last}:{first}")
    if not found[3]:
        if (last - first) // by >= _LONGEST_LIST:
            do = f"double instead: {first}:{last}:x2"
            raise InputError(f"the range {item} has over {_LONGEST_LIST} values", where=where, allowed=_LISTS, do=do)
        return range(first, last + 1, by)
    if by == 1:
        raise InputError(f"the range {item} never grows", where=where, allowed=_LISTS, do=f"write {first}:{last}:x2")
    values = [first]
    while values[-1] * by <= last:
        values.append(values[-1] * by)
    return values
