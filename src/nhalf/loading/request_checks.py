"""Checks of a request's values before anything is looked up: their types, their ranges, and how many rows they make."""

from __future__ import annotations

import math
from operator import index
from typing import TYPE_CHECKING, Any, Final

from nhalf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.breakdown import Quantity

MOST_ROWS: Final = 512
"""More rows than this are a table to sweep, not a page to read."""
MOST_COUNT: Final = 10**12
"""No batch, prompt or degree is larger."""
_SHOWN: Final = 60


def text(value: object, where: str, *, allowed: str = "a text") -> str:
    """Return a text that is not empty.

    Raises
    ------
    InputError
        It is empty, or no text.
    """
    if not isinstance(value, str):
        raise InputError(f"{_short(value)} is no text", where=where, allowed=allowed)
    if not value.strip():
        raise InputError("the text is empty", where=where, allowed=allowed, do="name one, or leave it out")
    return value


def whole(value: object, where: str) -> int:
    """Return a whole number of 1 or more, of any type that is one (NumPy's too); a truth value is none.

    Raises
    ------
    InputError
        It is something else.
    """
    allowed = "a whole number of 1 or more"
    try:
        found = index(value)  # type: ignore[arg-type]
    except TypeError as error:
        raise InputError(f"{_short(value)} is no whole number", where=where, allowed=allowed) from error
    if isinstance(value, bool):
        raise InputError(f"{value} is no whole number", where=where, allowed=allowed)
    if not 1 <= found <= MOST_COUNT:
        raise InputError(
            f"{_short(value)} is not possible", where=where, allowed=f"a whole number from 1 to {MOST_COUNT:,}"
        )
    return found


def count(value: object, where: str) -> Quantity:
    """Return a whole number of 1 or more, or an array of them as floats.

    Raises
    ------
    InputError
        It is something else.
    """
    if not getattr(value, "ndim", 0):
        return whole(value, where)
    import numpy as np

    allowed = f"whole numbers from 1 to {MOST_COUNT:,}"
    try:
        found = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{_short(value)} holds no numbers", where=where, allowed=allowed) from error
    if not (found.size and np.all((found >= 1) & (found <= MOST_COUNT) & (found == np.floor(found)))):
        raise InputError(f"{_short(value)} is not possible", where=where, allowed=allowed)
    return found


def number(value: Quantity) -> Quantity:
    """Return a count as a float; an array stays one."""
    return value if getattr(value, "ndim", 0) else float(value)


def counts(values: object, where: str) -> tuple[Quantity, ...]:
    """Return a list of counts, which is not empty.

    Raises
    ------
    InputError
        It is none.
    """
    return tuple(count(value, where) for value in _listed(values, where))


def wholes(values: object, where: str) -> tuple[int, ...]:
    """Return a list of whole numbers of 1 or more, which is not empty.

    Raises
    ------
    InputError
        It is none.
    """
    return tuple(whole(value, where) for value in _listed(values, where))


def _listed(values: object, where: str) -> tuple[object, ...]:
    """Return the values of a list, which is not empty."""
    if not isinstance(values, tuple | list) or not values:
        raise InputError(f"{_short(values)} is no list", where=where, allowed="whole numbers of 1 or more")
    return tuple(values)


def changes(values: object, where: str) -> dict[str, str]:
    """Return the changes of inputs: texts by path; a plain number is one of an input without a unit.

    Raises
    ------
    InputError
        They are no mapping, or a path or a value is of another type.
    """
    allowed = "a mapping such as {'stack.step_time_s': '1ms'}"
    if not hasattr(values, "items"):
        raise InputError(f"{_short(values)} is no mapping", where=where, allowed=allowed)
    found = {}
    for path, value in values.items():
        if not isinstance(path, str) or isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InputError(f"{_short(path)}: {_short(value)} is no text", where=where, allowed=allowed)
        found[path] = str(value)
    return found


def rows(lists: Mapping[str, tuple[Any, ...]]) -> None:
    """Refuse more rows than a page can show; `lists` are the values of each flag.

    Raises
    ------
    InputError
        The lists make more than `MOST_ROWS`.
    """
    made = math.prod(len(values) for values in lists.values())
    if made > MOST_ROWS:
        longest = max(lists, key=lambda flag: len(lists[flag]))
        raise InputError(
            f"the lists make {made:,} rows",
            where=f"--{longest.replace('_', '-')}",
            allowed=f"up to {MOST_ROWS} in one answer",
            do="shorten the lists (1:512:x2 doubles), or use nhalf sweep, which takes millions",
        )


def _short(value: object) -> str:
    """Return a value as Python shows it, cut where it is long."""
    shown = " ".join(repr(value).split())
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
