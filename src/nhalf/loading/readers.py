"""Readers: what a flag, a key of a file, a cell or a keyword says, as a value that is possible, or one refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf import units
from nhalf.errors import InputError, did_you_mean
from nhalf.loading import request_checks as checks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nhalf.breakdown import Quantity


LEAST_RATE, MOST_RATE = 1e-6, 1e9
"""Requests per second that anybody sends."""


def text(value: object, where: str) -> str:
    """Return a text that is not empty; a path will do."""
    return checks.text(str(value) if hasattr(value, "__fspath__") else value, where)


def link(value: object, where: str) -> str:
    """Return the text of a link, which is looked up where it is used."""
    return checks.text(value, where, allowed="LATENCY,BANDWIDTH (5us,50GB/s), or a name")


def names(value: object, where: str) -> tuple[str, ...]:
    """Return the names in a list, or in a text with commas."""
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, tuple | list) or not listed or not all(isinstance(each, str) for each in listed):
        raise InputError(f"{value!r} is not possible", where=where, allowed="a list of texts")
    found = tuple(name.strip() for name in listed)
    if not all(found):
        do = "write a name on both sides of each comma"
        raise InputError(f"the list {value!r} has an empty item", where=where, do=do)
    return found


def count(value: object, where: str) -> Quantity:
    """Return a whole number of 1 or more, or an array of them."""
    return units.parse_count(value, where=where) if isinstance(value, str) else checks.count(value, where)


def counts(value: object, where: str) -> tuple[Quantity, ...]:
    """Return the whole numbers of a list, of a text such as `1,2,4` or `1:512:x2`, or one number."""
    if isinstance(value, str):
        return units.parse_int_list(value, where=where)
    if isinstance(value, tuple | list):
        return units.parse_int_list(",".join(map(str, value)), where=where)
    return (count(value, where),)


def few(most: int) -> Callable[[object, str], int]:
    """Return a reader of whole numbers from 1 to a most."""

    def read(value: object, where: str) -> int:
        found = units.parse_count(str(value), where=where)
        if found > most:
            raise InputError(f"{found} is more than anybody uses", where=where, allowed=f"1 to {most:,}")
        return found

    return read


def share(value: object, where: str) -> float:
    """Return a share of more than 0 and at most 1; a percentage will do."""
    found = units.parse(str(value), "ratio", where=where)
    if not 0 < found <= 1:
        raise InputError(f"{value} is no share", where=where, allowed="more than 0, at most 1 (or 100 %)")
    return found


def ratio(most: float, *, of: str) -> Callable[[object, str], float]:
    """Return a reader of ratios from 1 to a most; `of` says of what."""

    def read(value: object, where: str) -> float:
        found = units.parse(str(value), "ratio", where=where)
        if not 1 <= found <= most:
            raise InputError(f"{value} is no ratio of {of}", where=where, allowed=f"1 (even) to {most:g}")
        return found

    return read


def rate(value: object, where: str) -> float:
    """Return a rate of requests [1/s]."""
    found = units.parse(str(value).removesuffix("/s"), "ratio", where=where)
    if not LEAST_RATE <= found <= MOST_RATE:
        raise InputError(f"{value} is no rate of requests", where=where, allowed="requests per second, such as 2.5")
    return found


def one_of(*words: str) -> Callable[[object, str], str]:
    """Return a reader of one of some words."""

    def read(value: object, where: str) -> str:
        word = str(value).lower()
        if word not in words:
            what = f"{value!r} is not one of the choices"
            raise InputError(what, where=where, allowed=", ".join(words), do=did_you_mean(word, words))
        return word

    return read


def switch(value: object, where: str) -> bool:
    """Return whether a switch is on."""
    if not isinstance(value, bool):
        raise InputError(f"{value!r} is neither true nor false", where=where, allowed="true, false")
    return value


def changes(value: object, where: str) -> dict[str, str]:
    """Return the changes of inputs by path: of texts `path=value`, or of a mapping."""
    if not isinstance(value, tuple | list):
        return checks.changes(value, where)
    found: dict[str, str] = {}
    for given in value:
        path, equals, changed = str(given).partition("=")
        if not equals:
            allowed = "path=value, such as stack.step_time_s=1ms"
            raise InputError(f"{given!r} has no '='", where=where, allowed=allowed)
        if path.strip() in found:
            raise InputError(f"{path.strip()} is set twice", where=where, do="set it once")
        found[path.strip()] = changed.strip()
    return found


def texts(value: object, where: str) -> tuple[str, ...]:
    """Return the texts of a list, which are read where they are used; one text will do."""
    return tuple(checks.text(each, where) for each in (value if isinstance(value, tuple | list) else (value,)))


def not_empty(values: Mapping[str, object]) -> None:
    """Refuse texts that are empty, by the flag of each.

    Raises
    ------
    InputError
        One is.
    """
    for flag, value in values.items():
        if isinstance(value, str) and not value.strip():
            raise InputError("the value is empty", where=flag, do="name one, or leave it out")
